# SPDX-License-Identifier: Apache-2.0
"""Faults at any request between `sluice` and its providers.

`Faults` counts the requests of all proxies that share it, in the order in which they arrive, decides what
happens to each, and calls `watch(request)` after each write that the provider has done, before `sluice`
hears of it.  `HttpProxy` stands before an HTTP API, `DnsProxy` before a name server (transfers and updates
over TCP; UDP is passed on).  What stands behind them is in faultkinds.py, and a configuration for it in
faultworld.py.

    faults = faultlib.Faults()
    proxy = faultlib.HttpProxy(pdns.url, faults)          # its .url stands in defaults.yaml
    done = faults.run("sync", "apply", ..., fault=faultlib.at(3, "lost"))
    assert done.killed or done.returncode in (0, 1, 3)

What can happen to a request:
  before        `sluice` is killed (SIGKILL), the provider never hears of it
  after         the provider has done it, then `sluice` is killed
  close, reset  the connection ends (FIN, RST), the provider never hears of it
  lost          the provider has done it, the connection ends without a reply
  silent        the provider never hears of it, no reply ever comes
  cut           half of the reply, then the end of the connection
  short         half of the reply, as if it were whole (HTTP: its length agrees)
  garbage       a reply of something else, with status 200
  denied, 429, 429-1, 500, 503   an error (429-1: "Retry-After: 1"; 429: 0); the provider never hears of it
  SERVFAIL, REFUSED              the same of a name server
"""
import http.client
import http.server
import json
import socket
import struct
import subprocess
import threading
import urllib.parse

import sluicelib

HOST = "127.0.0.1"
STATUSES = {"denied": 403, "429": 429, "429-1": 429, "500": 500, "503": 503}
RCODES = {"SERVFAIL": 2, "REFUSED": 5}
UPDATE = 5
HOTEL = b"<html>Welcome to the hotel's network</html>"


def at(index, mode):
    """This fault at the request with this index (from 0)."""
    return lambda i, request: mode if i == index else None


def since(index, mode):
    """This fault at that request and all that follow."""
    return lambda i, request: mode if i >= index else None


class Request:
    def __init__(self, method, path, write):
        self.method, self.path, self.write = method, path, write
        self.mode = None

    def __repr__(self):
        return f"{self.method} {self.path}" + (f" ({self.mode})" if self.mode else "")


class Done:
    def __init__(self, process, stdout, stderr):
        self.returncode, self.stdout, self.stderr = process.returncode, stdout, stderr
        self.killed = process.returncode == -9

    @property
    def json(self):
        return json.loads(self.stdout)


class Faults:
    def __init__(self):
        self.requests = []
        self.watch = lambda request: None
        self._fault = lambda index, request: None
        self._lock = threading.Lock()
        self._process, self._started = None, threading.Event()

    def run(self, *args, fault=None, deadline=sluicelib.DEADLINE):
        """`sluice ARGS` with this fault; the requests are counted from 0 again."""
        with self._lock:
            self.requests = []
            self._fault = fault or (lambda index, request: None)
        self._started.clear()
        with subprocess.Popen([sluicelib.program("sluice"), *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=sluicelib.environment()) as self._process:
            self._started.set()
            try:
                stdout, stderr = self._process.communicate(timeout=deadline)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise
        with self._lock:
            self._fault = lambda index, request: None
        assert not sluicelib.SANITIZER.search(stderr), stderr
        return Done(self._process, stdout, stderr)

    @property
    def writes(self):
        """All requests that were to change something, forwarded or not."""
        with self._lock:
            return [r for r in self.requests if r.write]

    # -- for proxies --

    def arrive(self, method, path, write):
        request = Request(method, path, write)
        with self._lock:
            request.mode = self._fault(len(self.requests), request)
            self.requests.append(request)
        return request

    def forwarded(self, request):
        if request.write:
            self.watch(request)

    def kill(self):
        self._started.wait(sluicelib.DEADLINE)
        self._process.kill()
        self._process.wait(sluicelib.DEADLINE)


def wait_for_end(connection):
    """Until the other side gives up."""
    connection.settimeout(sluicelib.DEADLINE)
    try:
        while connection.recv(4096):
            pass
    except OSError:
        pass


def reset_on_close(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# ---- HTTP -----------------------------------------------------------------------------------------


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def shutdown_request(self, request):
        try:
            abrupt = struct.unpack("ii", request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))[0]
        except OSError:
            abrupt = False
        if abrupt:
            self.close_request(request)  # without a FIN first
        else:
            super().shutdown_request(request)

    def handle_error(self, request, client_address):
        pass  # a killed client


class HttpProxy:
    def __init__(self, target, faults):
        parts = urllib.parse.urlsplit(target)
        self.target, self.faults = f"{parts.scheme}://{parts.netloc}", faults
        self.address = parts.hostname, parts.port
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

            def serve(self):
                proxy.serve(self)

            do_GET = do_PATCH = do_POST = do_PUT = do_DELETE = serve

        self.server = _Server((HOST, 0), Handler)
        self.origin = f"http://{HOST}:{self.server.server_address[1]}"
        self.url = self.origin + parts.path
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(sluicelib.DEADLINE)

    def serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        request = self.faults.arrive(handler.command, handler.path, handler.command not in ("GET", "HEAD"))
        mode = request.mode
        if mode == "before":
            self.faults.kill()
        elif mode == "reset":
            reset_on_close(handler.connection)
        elif mode == "silent":
            wait_for_end(handler.connection)
        elif mode in STATUSES:
            pause = {"429": "0", "429-1": "1"}.get(mode)
            self.reply(handler, STATUSES[mode], b'{"message": "injected"}', {"Retry-After": pause} if pause else {})
            return
        elif mode == "garbage":
            self.reply(handler, 200, HOTEL, {})
            return
        if mode in ("before", "close", "reset", "silent"):
            handler.close_connection = True
            return
        self.forward(handler, request, body)

    def forward(self, handler, request, body):
        upstream = http.client.HTTPConnection(*self.address, timeout=sluicelib.DEADLINE)
        upstream.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
        for name, value in handler.headers.items():
            if name.lower() not in ("connection", "expect"):
                upstream.putheader(name, value)
        upstream.endheaders(body or None)
        reply = upstream.getresponse()
        data = reply.read()
        upstream.close()
        self.faults.forwarded(request)
        if request.mode == "after":
            self.faults.kill()
        if request.mode in ("after", "lost"):
            handler.close_connection = True
            return
        headers = {n: v.replace(self.target, self.origin) for n, v in reply.getheaders()
                   if n.lower() not in ("content-length", "connection", "date", "server", "transfer-encoding")}
        self.reply(handler, reply.status, data, headers, request.mode)

    @staticmethod
    def reply(handler, status, data, headers, mode=None):
        if mode in ("cut", "short") and not data:
            handler.wfile.write(b"HTTP/1.1 2")
            handler.close_connection = True
            return
        length = len(data)
        if mode in ("cut", "short"):
            data = data[:length // 2]
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if status != 204:
            handler.send_header("Content-Length", str(len(data) if mode == "short" else length))
        if mode == "cut":
            handler.send_header("Connection", "close")
            handler.close_connection = True
        handler.end_headers()
        handler.wfile.write(data)


# ---- DNS ------------------------------------------------------------------------------------------


def read_message(sock):
    """One message over TCP with its length, or b""."""
    head = sluicelib.receive(sock, 2)
    if len(head) < 2:
        return b""
    body = sluicelib.receive(sock, struct.unpack("!H", head)[0])
    return head + body


class DnsProxy:
    def __init__(self, port, faults):
        self.target, self.faults = (HOST, port), faults
        self.reserved = sluicelib.Port()
        self.port = self.reserved.number
        self.listener = socket.create_server((HOST, self.port))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind((HOST, self.port))
        self.open = True
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self.accept, self.relay)]
        for thread in self.threads:
            thread.start()

    def close(self):
        self.open = False
        self.listener.shutdown(socket.SHUT_RDWR)
        self._wake()
        for thread in self.threads:
            thread.join(sluicelib.DEADLINE)
        self.listener.close()
        self.datagrams.close()
        self.reserved.close()

    def _wake(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", (HOST, self.port))

    def relay(self):
        while True:
            wire, client = self.datagrams.recvfrom(65535)
            if not self.open:
                return
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as upstream:
                upstream.settimeout(5)
                upstream.connect(self.target)
                try:
                    upstream.send(wire)
                    self.datagrams.sendto(upstream.recv(65535), client)
                except OSError:
                    pass

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            client.settimeout(sluicelib.DEADLINE)
            try:
                while message := read_message(client):
                    if not self.answer(client, message):
                        return
            except OSError:
                pass  # a killed client

    def answer(self, client, message):
        """False: the connection ends."""
        opcode = message[4] >> 3 & 15
        request = self.faults.arrive("UPDATE" if opcode == UPDATE else "AXFR", "", opcode == UPDATE)
        mode = request.mode
        if mode == "before":
            self.faults.kill()
        elif mode == "reset":
            reset_on_close(client)
        elif mode == "silent":
            wait_for_end(client)
        elif mode in RCODES:
            reply = message[2:4] + bytes([0x80 | opcode << 3, RCODES[mode]]) + bytes(8)
            client.sendall(struct.pack("!H", len(reply)) + reply)
            return True
        elif mode == "garbage":
            client.sendall(struct.pack("!H", len(HOTEL)) + HOTEL)
            return True
        if mode in ("before", "close", "reset", "silent"):
            return False
        with socket.create_connection(self.target, sluicelib.DEADLINE) as upstream:
            upstream.sendall(message)
            reply = read_message(upstream)
            self.faults.forwarded(request)
            if mode == "after":
                self.faults.kill()
            if mode in ("after", "lost"):
                return False
            if mode == "cut":
                client.sendall(reply[:len(reply) // 2])
                return False
            if mode == "short":
                half = reply[2:2 + (len(reply) - 2) // 2]
                client.sendall(struct.pack("!H", len(half)) + half)
                return False
            client.sendall(reply)
            if not request.write:
                self.rest(client, upstream)
        return request.write

    @staticmethod
    def rest(client, upstream):
        """The other messages of a transfer: until either side ends it."""
        both = {client: upstream, upstream: client}

        def pump(source):
            try:
                while part := source.recv(65536):
                    both[source].sendall(part)
            except OSError:
                pass
            try:
                both[source].shutdown(socket.SHUT_WR)
            except OSError:
                pass
        thread = threading.Thread(target=pump, args=(client,), daemon=True)
        thread.start()
        pump(upstream)
        thread.join(sluicelib.DEADLINE)
