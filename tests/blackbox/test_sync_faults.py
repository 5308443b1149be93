# SPDX-License-Identifier: Apache-2.0
"""`sluice sync` when a request fails, at every request and in every way: it tells the truth, and the
next run brings the rest level."""
import http.client
import http.server
import json
import socket
import threading

import pytest

import pdnslib
import sluicelib
import test_sync_powerdns
from test_sync_powerdns import DOMAIN, ZONE


class Proxy:
    """Stands before PowerDNS; request number `at` (from 1) fails in the way of `mode`."""

    def __init__(self, port):
        self.target, self.at, self.mode, self.count = port, 0, None, 0
        self.methods = []
        self.hook = None
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def answer(self):
                proxy.handle(self)

            do_GET = do_PATCH = do_POST = do_PUT = do_DELETE = answer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def fail(self, at, mode):
        self.at, self.mode, self.count, self.methods = at, mode, 0, []

    def handle(self, request):
        self.count += 1
        self.methods.append(request.command)
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        faulty = self.count == self.at
        if faulty and self.mode == "cut before":
            self.cut(request)
        elif faulty and self.mode == "500":
            self.reply(request, 500, b"oops")
        elif faulty and self.mode == "429":
            self.reply(request, 429, b"later", {"Retry-After": "0"})
        elif faulty and self.mode == "403":
            self.reply(request, 403, b"no")
        elif faulty and self.mode == "garbage":
            self.reply(request, 200, b"<html>Welcome to the hotel's network</html>")
        else:
            self.forward(request, body, faulty)

    def forward(self, request, body, faulty):
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=sluicelib.DEADLINE)
        connection.request(request.command, request.path, body,
                           {"X-API-Key": request.headers["X-API-Key"], "Content-Type": "application/json"})
        reply = connection.getresponse()
        data = reply.read()
        connection.close()
        if faulty and self.mode == "cut after":
            self.cut(request)
        elif faulty and self.mode == "half":
            self.reply(request, reply.status, data, cut=len(data) // 2)
        else:
            self.reply(request, reply.status, data)

    @staticmethod
    def reply(request, status, data, headers=None, cut=None):
        request.send_response(status)
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        if status != 204:
            request.send_header("Content-Length", str(len(data)))
        request.send_header("Connection", "close")
        request.end_headers()
        request.wfile.write(data[:cut])
        request.close_connection = True

    @staticmethod
    def cut(request):
        request.connection.shutdown(socket.SHUT_RDWR)
        request.close_connection = True

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(sluicelib.DEADLINE)


@pytest.fixture
def world(tmp_path):
    out = test_sync_powerdns.World(tmp_path)
    out.proxy = Proxy(out.pdns.web.number)
    out.pdns.put("theirs.e.test.", "A", ["192.0.2.66"])
    out.write(url=out.proxy.url)
    out.apply("--allow-ns-change")
    yield out
    out.proxy.close()
    out.pdns.close()


def change(world, turn):
    """Another configuration each time: weights, a record that changes, one that comes and goes, and one
    that changes its type."""
    flip = "CNAME: x.example.net." if turn % 2 else "A: [192.0.2.8]"
    world.write(DOMAIN.replace("one: 3", f"one: {turn + 10}"),
                ZONE.replace("192.0.2.80", f"192.0.2.{100 + turn % 100}") + ("  more: {A: [192.0.2.7]}\n" if turn % 2 else "")
                + f"  flip: {{{flip}}}\n",
                url=world.proxy.url)
    return f"192.0.2.{100 + turn % 100}"


@pytest.mark.parametrize("mode", ["cut before", "cut after", "half", "500", "429", "403", "garbage"])
def test_apply_with_a_fault_at_each_request(world, mode):
    """B35, B82: no name is ever without an answer, and a second run brings all level."""
    change(world, 0)
    world.apply("--allow-large")
    turn, reached = 0, True
    while reached:
        turn += 1
        assert turn < 30
        wanted = change(world, turn)
        world.proxy.fail(turn, mode)
        done = sluicelib.sluice("sync", "apply", *world.options(), "--yes", "--allow-large", "--json", status=None)
        reached = world.proxy.count >= turn
        out = json.loads(done.stdout)
        there = sluicelib.rdata(world.pdns.ask("www.e.test"))
        assert len(there) == 1  # never an empty set
        assert world.pdns.ask("cdn.e.test").answer and world.pdns.ask("flip.e.test").answer
        # What it says is what is there.
        target = out["providers"][0]
        if done.returncode == 0:
            assert target["state"] == "applied" and there == [wanted]
        elif there == [wanted]:
            assert done.returncode == 3 and out["errors"]
        else:
            assert out["errors"] and target["state"] == "failed" and target.get("seen", 0) == 0, out
        # The next one brings it level.
        world.proxy.fail(0, None)
        world.apply("--allow-large")
        assert sluicelib.rdata(world.pdns.ask("www.e.test")) == [wanted]
        assert sluicelib.rdata(world.pdns.ask("theirs.e.test")) == ["192.0.2.66"]
        assert world.sync("plan")["items"] == []
    assert turn > 3


@pytest.mark.parametrize("mode", ["cut before", "half", "403", "garbage"])
def test_a_plan_with_a_fault_writes_nothing(world, mode):
    change(world, 1)
    serial = world.pdns.serial()
    world.proxy.fail(1, mode)
    sluicelib.sluice("sync", "plan", *world.options(), status=None)
    sluicelib.sluice("sync", "drift", *world.options(), status=None)
    assert set(world.proxy.methods) == {"GET"} and world.pdns.serial() == serial


def test_no_more_requests_than_needed(world):
    world.proxy.fail(0, None)
    world.sync("drift")
    assert world.proxy.methods.count("GET") <= 3 and set(world.proxy.methods) == {"GET"}
    change(world, 1)
    world.proxy.fail(0, None)
    world.apply("--allow-large")
    assert world.proxy.methods.count("PATCH") == 1
