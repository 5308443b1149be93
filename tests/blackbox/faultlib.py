# SPDX-License-Identifier: Apache-2.0
"""Faults at any request between `sluice` and its providers.

`Faults` counts the requests of all proxies that share it, in the order in which they arrive, decides what
happens to each, and calls `watch(request)` after each write that the provider has done, before `sluice`
hears of it.  `HttpProxy` stands before an HTTP API, `DnsProxy` before a name server (transfers and updates
over TCP; UDP is passed on).  A `Kind` is a provider behind such a proxy: what it holds (dump, restore) and
what its users see (view).

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
import copy
import http.client
import http.server
import json
import pathlib
import socket
import struct
import subprocess
import threading
import urllib.parse

import ns1sim
import pdnslib
import route53sim
import secondaries
import sluicelib
import test_sync_rfc2136

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


# ---- kinds of providers ---------------------------------------------------------------------------

ZONE = "e.test."


class Kind:
    """A provider with zone e.test., behind a proxy.

    dump(): {(name, type): something comparable} of all that it holds, but for the SOA; restore(dump) brings it
    back.  view(name, type): what users get, as a set.  `settings`: what stands in defaults.yaml; `secret`."""
    gap = False     # a change of type may leave a name empty for a moment
    steers = True

    def put(self, name, rdtype, values):
        """Makes a record by hand."""
        raise NotImplementedError

    def close(self):
        self.proxy.close()


class PowerDns(Kind):
    def __init__(self, folder, faults, settings=""):
        self.pdns = pdnslib.Pdns(folder / "pdns", settings="cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\n" + settings)
        self.pdns.make_zone()
        self.proxy = HttpProxy(self.pdns.url, faults)
        self.secret = pdnslib.KEY
        self.settings = f"type: powerdns, url: \"{self.proxy.url}\", health: pushed"

    def put(self, name, rdtype, values):
        self.pdns.put(name, rdtype, values)

    def dump(self):
        out = {}
        for rrset in self.pdns.api("GET", f"/zones/{ZONE}")[1]["rrsets"]:
            if rrset["type"] != "SOA" and (rrset["records"] or rrset["comments"]):
                comments = [{"content": c["content"], "account": c["account"]} for c in rrset["comments"]]
                out[rrset["name"], rrset["type"]] = json.dumps(
                    {"ttl": rrset.get("ttl"), "records": sorted(rrset["records"], key=json.dumps), "comments": comments}, sort_keys=True)
        return out

    def restore(self, dump):
        now = self.dump()
        changes = [{"name": n, "type": t, "changetype": "DELETE"} for n, t in now if (n, t) not in dump]
        changes += [{"name": n, "type": t, "changetype": "REPLACE", **json.loads(body)}
                    for (n, t), body in dump.items() if now.get((n, t)) != body]
        if changes:
            status, text = self.pdns.api("PATCH", f"/zones/{ZONE}", {"rrsets": changes})
            assert status == 204, text
        assert self.dump() == dump

    def view(self, name, rdtype):
        return set(sluicelib.rdata(self.pdns.ask(name, rdtype), rdtype))

    def close(self):
        super().close()
        self.pdns.close()


class Ns1(Kind):
    gap = True

    def __init__(self, folder, faults, **options):
        self.sim = ns1sim.Simulator(**options)
        self.sim.make_zone()
        self.proxy = HttpProxy(self.sim.url, faults)
        self.secret = ns1sim.KEY
        self.settings = f"type: ns1, url: \"{self.proxy.url}\""

    def put(self, name, rdtype, values):
        self.sim.put(name.rstrip("."), rdtype, [v.split() if rdtype == "MX" else [v.strip('"')] for v in values])

    def dump(self):
        """IDs of feeds, which are others each time, are told by their labels."""
        with self.sim.lock:
            labels = {i: f["config"]["label"] for feeds in self.sim.feeds.values() for i, f in feeds.items()}

            def text(record):
                record = copy.deepcopy(record)
                for answer in record["answers"]:
                    up = answer.get("meta", {}).get("up")
                    if isinstance(up, dict):
                        up["feed"] = labels[up["feed"]]
                return json.dumps(record, sort_keys=True)
            out = {(f"{n}.", t): text(r) for (n, t), r in self.sim.zones["e.test"].items()}
            feeds = [sorted((f["config"]["label"], f["data"].get("up")) for f in feeds.values()) for feeds in self.sim.feeds.values()]
            out["feeds", ""] = Dump(json.dumps(sorted(feeds)), copy.deepcopy(
                (self.sim.zones["e.test"], self.sim.sources, self.sim.feeds)))
            return out

    def restore(self, dump):
        with self.sim.lock:
            self.sim.zones["e.test"], self.sim.sources, self.sim.feeds = copy.deepcopy(dump["feeds", ""].state)

    def view(self, name, rdtype):
        record = self.sim.zones["e.test"].get((name.rstrip("."), rdtype))
        if not record:
            return set()
        if not record.get("filters"):
            return {" ".join(map(str, a["answer"])) for a in record["answers"]}
        return set(ns1sim.shares(record, ns1sim.Client("198.51.100.1", "FR", "EU"), self.sim.feed_values()))

    def close(self):
        super().close()
        self.sim.close()


class Route53(Kind):
    def __init__(self, folder, faults, **options):
        self.sim = route53sim.Route53(pending=1, **options)
        self.proxy = HttpProxy(self.sim.url, faults)
        self.secret = route53sim.CREDENTIALS
        self.settings = f"type: route53, url: \"{self.proxy.url}\", health: pushed"

    def put(self, name, rdtype, values):
        self.sim.put(name, rdtype, values)

    def check_text(self, number):
        return json.dumps(self.sim.checks[number]["config"], sort_keys=True) if number else None

    def dump(self):
        with self.sim.lock:
            out = {}
            for (name, rdtype, identifier), item in self.sim.sets.items():
                if rdtype != "SOA":
                    body = {**vars(item), "values": sorted(item.values), "health": self.check_text(item.health)}
                    out[name, f"{rdtype}/{identifier}"] = json.dumps(body, sort_keys=True)
            checks = sorted(self.check_text(number) for number in self.sim.checks)
            out["checks", ""] = Dump(json.dumps(checks), copy.deepcopy(
                (self.sim.sets, self.sim.checks, self.sim.references)))
            return out

    def restore(self, dump):
        with self.sim.lock:
            self.sim.sets, self.sim.checks, self.sim.references = copy.deepcopy(dump["checks", ""].state)
            self.sim.changes.clear()

    def view(self, name, rdtype):
        return {" ".join(v) for v in self.sim.answer(name, rdtype, ("EU", "FR", None))}

    def close(self):
        super().close()
        self.sim.close()


class Dump(str):
    """A text, and what is needed to come back to it."""
    def __new__(cls, text, state):
        out = super().__new__(cls, text)
        out.state = state
        return out


class NameServer(Kind):
    steers = False

    def __init__(self, folder, faults):
        self.server = self.target(folder / self.target.__name__)
        self.proxy = DnsProxy(self.server.port, faults)
        key = test_sync_rfc2136.KEY
        self.secret = f"{key.algorithm}:{key.name}:{key.secret}"
        self.settings = f"type: rfc2136, address: {HOST}@{self.proxy.port}"

    def put(self, name, rdtype, values):
        self.server.update(lambda m: m.replace(name, 30, rdtype, *values))

    def dump(self):
        out = {}
        for line in secondaries.transfer(self.server.port, "e.test", key=test_sync_rfc2136.TransferKey()):
            name, ttl, rdtype, data = line.split(" ", 3)
            if rdtype != "SOA":
                out.setdefault((name, rdtype), []).append((int(ttl), data))
        return out

    def restore(self, dump):
        now = self.dump()

        def change(message):
            for name, rdtype in set(now) | set(dump):
                if now.get((name, rdtype)) != dump.get((name, rdtype)):
                    assert (name, rdtype) != (ZONE, "NS")
                    message.delete(name, rdtype)
            for key in set(dump):
                if now.get(key) != dump[key]:
                    for ttl, data in dump[key]:
                        message.add(key[0], ttl, key[1], data)
        if now != dump:
            self.server.update(change)
        assert self.dump() == dump

    def view(self, name, rdtype):
        return set(sluicelib.rdata(sluicelib.ask(HOST, self.server.port, name, rdtype), rdtype))

    def close(self):
        super().close()
        self.server.close()


class Knot(NameServer):
    target = test_sync_rfc2136.Knot


class Bind(NameServer):
    target = test_sync_rfc2136.Bind


KINDS = {"powerdns": PowerDns, "route53": Route53, "ns1": Ns1, "knot": Knot, "bind": Bind}


# ---- a configuration with one provider of any kind -------------------------------------------------

HEAD = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns1.e.test., ns2.e.test.]
providers: [dns-a]
records:
  ns1: {A: [192.0.2.53]}
  ns2: {A: [192.0.2.54]}
"""
LOSS = "providers: {dns-a: {allow_loss: [geo, status, priority, weight]}}\n"


class World:
    """Configuration, settings, and one provider `dns-a` of a kind."""

    def __init__(self, kind, folder, **options):
        self.folder = pathlib.Path(folder)
        self.faults = Faults()
        self.kind = KINDS[kind](self.folder, self.faults, **options)
        (self.folder / "secret").write_text(self.kind.secret, encoding="ascii")
        (self.folder / "secret").chmod(0o600)
        (self.folder / "sluice.yaml").write_text(f"secrets: {{dns-a: {{file: {self.folder}/secret}}}}\n", encoding="ascii")

    def write(self, records, domains, folder="config", more="", loss=None, head=HEAD, defaults=""):
        """records: YAML lines below `records:`; domains: {name: text of domain.yaml}; more: settings of the
        provider.  loss: domains allow every loss (None: where the provider cannot steer)."""
        loss = not self.kind.steers if loss is None else loss
        root = self.folder / folder
        for old in root.glob("e.test/*/domain.yaml"):
            old.unlink()
        sluicelib.write_tree(root, {
            "defaults.yaml": f"default_zone: e.test\nproviders:\n  dns-a: {{{self.kind.settings}, secret: dns-a{more}}}\n" + defaults,
            "e.test/zone.yaml": head + "".join(f"  {line}\n" for line in records.splitlines()),
            **{f"e.test/{name}/domain.yaml": text + (LOSS if loss else "")
               for name, text in domains.items()}})
        return root

    def sluice(self, command, *options, config="config", **more):
        done = self.faults.run("sync", command, "--config", self.folder / config, "--settings",
                               self.folder / "sluice.yaml", "--socket", self.folder / "no-server", *options, **more)
        assert self.kind.secret not in done.stdout + done.stderr
        return done

    def run(self, command, *options, status=0, **more):
        """With --json; returns the document."""
        done = self.sluice(command, *options, "--json", **more)
        if status is not None:
            assert done.returncode == status, (done.stdout, done.stderr)
        return done.json

    def apply(self, *options, status=0, **more):
        return self.run("apply", "--yes", "--allow-ns-change", *options, status=status, **more)

    def close(self):
        self.kind.close()
