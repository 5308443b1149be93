# SPDX-License-Identifier: Apache-2.0
"""A webhook that records, and alerts with facts from the test."""
import http.server
import json
import socket
import threading
import time

import sluicelib

EVENTS = ["endpoint", "failover", "all-down", "recovered"]


class Webhook:
    """Records what is posted; answers with the next of `replies`, then with `default`.

    A reply: a status, or (status, headers, body), or "drop" (closes at once), "hang" (never answers).
    """

    def __init__(self, address="127.0.0.1", replies=(), default=200, context=None, port=0):
        self.requests = []  # (path, headers, document), also of those that were not answered well
        self.replies = list(replies)
        self.default = default
        self._news = threading.Condition()
        self._over = threading.Event()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                hook._handle(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer((address, port), Handler, bind_and_activate=False)
        self.server.daemon_threads = True
        self.server.request_queue_size = 64
        self.server.server_bind()
        self.server.server_activate()
        if context:  # of TLS
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.address, self.port = self.server.server_address[:2]
        self.url = f"{'https' if context else 'http'}://{address}:{self.port}/hook"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def _handle(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        with self._news:
            reply = self.replies.pop(0) if self.replies else self.default
            self.requests.append((request.path, dict(request.headers), json.loads(body)))
            good = isinstance(reply, int) and 200 <= reply < 300
            self.requests[-1] += (good,)
            self._news.notify_all()
        if reply == "hang":
            self._over.wait()
        if reply in ("hang", "drop"):
            request.close_connection = True
            request.connection.close()
            return
        status, headers, text = reply if isinstance(reply, tuple) else (reply, {}, "ok")
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text.encode())

    def set(self, replies=(), default=None):
        with self._news:
            self.replies = list(replies)
            if default is not None:
                self.default = default

    def wait(self, count, timeout=sluicelib.DEADLINE):
        """Waits until `count` requests were recorded; returns their documents."""
        end = time.monotonic() + timeout
        with self._news:
            while len(self.requests) < count:
                left = end - time.monotonic()
                assert left > 0, f"{len(self.requests)} requests, not {count}: {self.requests}"
                self._news.wait(left)
            return [r[2] for r in self.requests]

    def wait_for(self, condition, timeout=sluicelib.DEADLINE):
        """Waits until a document fulfils the condition; returns the first that does."""
        end = time.monotonic() + timeout
        with self._news:
            while True:
                for request in self.requests:
                    if condition(request[2]):
                        return request[2]
                left = end - time.monotonic()
                assert left > 0, f"not among {self.requests}"
                self._news.wait(left)

    def documents(self):
        with self._news:
            return [r[2] for r in self.requests]

    def accepted(self):
        """Documents that were answered with success."""
        with self._news:
            return [r[2] for r in self.requests if r[3]]

    def clear(self):
        with self._news:
            self.requests.clear()

    def close(self):
        self._over.set()
        self.server.shutdown()
        self.server.server_close()


def domain(name="cdn.example.com.", endpoints=None, levels=None, to=("hook",), on=EVENTS, page=True, team="edge"):
    endpoints = endpoints or {"p1": ["192.0.2.1"], "p2": ["192.0.2.2"]}
    levels = levels or [[[e, 1]] for e in endpoints]
    return {"owner": name, "ttl": 30, "answers": 1, "draw_per": "query", "types": ["A"],
            "endpoints": [{"name": n, "enabled": True, "addresses": a} for n, a in endpoints.items()],
            "regions": [{"name": "global", "atoms": ["global"], "levels": levels}],
            "team": team, "alerts": {"on": list(on), "page": page, "to": list(to)}}


class Alerts(sluicelib.Process):
    """alerts_drive: alerts on a loop of their own, with facts from the test."""

    def __init__(self, spool=None, secrets=None, allow=("127.0.0.0/8",), group_ms=50, quiet_ms=2000, wait=True,
                 prefix=()):
        options = {"group_ms": group_ms, "quiet_ms": quiet_ms, "allow": list(allow), "secrets": secrets or {}}
        if spool:
            options["spool"] = str(spool)
        self._in, theirs = socket.socketpair()
        program = sluicelib.BUILD / "tests/alerts/alerts_drive"
        assert program.is_file(), f"{program} is missing"
        self._stdin = theirs
        super().__init__(*prefix, program, json.dumps(options), stdin=theirs)
        theirs.close()
        if wait:
            self.wait_log(r"\bready\b")

    def do(self, what, **arguments):
        self._in.sendall(json.dumps({"do": what, **arguments}).encode() + b"\n")

    def configure(self, routes, *domains):
        self.do("configure", routes=routes, domains=list(domains))

    def health(self, endpoint, state, domain=0, why="connect refused", quiet=False):
        self.do("health", endpoint=endpoint, state=state, domain=domain, why=why, quiet=quiet)

    def all_at_once(self, endpoint, state, count, why="connect refused"):
        """The same of an endpoint of so many domains: in one piece, so that no time passes between them."""
        lines = [{"do": "health", "endpoint": endpoint, "state": state, "domain": i, "why": why} for i in range(count)]
        self._in.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def ask(self, what):
        mark = self.mark()
        self.do(what)
        return json.loads(self.wait_log(r"^(\{.*|[0-9]+)$", since=mark).group(0))

    def wait_empty(self):
        """Waits until no message is on its way."""
        while self.ask("json")["waiting"]:
            time.sleep(0.01)

    def end(self):
        """The end of its input: it must end well."""
        self._in.close()
        assert self.wait() == 0, self.log

    def kill(self):
        super().kill()
        self._in.close()
