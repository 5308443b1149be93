# SPDX-License-Identifier: Apache-2.0
"""End to end with checks of type https and tcp: what a peer does is seen in answers and in reasons."""
import pytest

import sluicelib
from certlib import Authority, issue, server_context
from healthlib import CALM, Healthd, QUICK, wait_answers
from peerlib import Peer, endless, hang, ok, reply


@pytest.fixture(name="both")
def _both(tmp_path, make_config, start):
    running = []

    def run(domain):
        data = sluicelib.build(make_config({"cdn": domain}), tmp_path / "data")
        server = start(data, "--health", f"{data}.feed")
        running.append(Healthd(data))
        return server, running[-1]

    yield run
    for healthd in running:
        healthd.stop()


def domain(health):
    return ("ttl: 0\nendpoints: {a: 127.0.0.21, b: 127.0.0.22}\nregions: {global: [{a: 1}, {b: 1}]}\n"
            f"health: {{{health}, {QUICK}}}\n")


def test_B29_an_expired_certificate_moves_the_answers(both, tmp_path):
    authority = Authority(tmp_path / "ca")
    good = server_context(issue(authority, "cdn.example.com", "DNS:cdn.example.com"))
    expired = server_context(issue(authority, "expired", "DNS:cdn.example.com",
                                   dates=("20200101000000Z", "20210203000000Z")))
    with Peer(reply(ok()), address="127.0.0.21", context=good) as first, \
            Peer(reply(ok()), address="127.0.0.22", port=first.port, context=good):
        server, healthd = both(domain(f"type: https, port: {first.port}, host: cdn.example.com, "
                                      f"ca_file: {authority.cert}"))
        healthd.wait_states(**{"127.0.0.21": "up", "127.0.0.22": "up"})
        wait_answers(server, "cdn.example.com", ["127.0.0.21"])
        first.context = expired
        wait_answers(server, "cdn.example.com", ["127.0.0.22"])
        healthd.wait_why("127.0.0.21", "certificate expired on 2021-02-03")
        first.context = good
        wait_answers(server, "cdn.example.com", ["127.0.0.21"])


@pytest.mark.parametrize("behave, reason", [
    (hang, "timeout in waiting for the response"),
    (reply(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", endless(b"a" * 65536)),
     "status 200, but the expected text is not in the first 64 KiB of the body"),
    (reply(ok(status="302 Found", headers=["Location: http://127.0.0.22/"])), "status 302, expected 200-299"),
    (reply(ok(b"secret hunter2", status="500 hunter2")), "status 500, expected 200-299"),
], ids=["hang", "B72-endless", "B114-redirect", "B114-secret"])
def test_hostile_peers_go_and_are_explained(both, behave, reason):
    with Peer(behave, address="127.0.0.21") as first, Peer(reply(ok()), address="127.0.0.22", port=first.port):
        server, healthd = both(domain(f"type: http, port: {first.port}, expect: {{body: OK}}"))
        wait_answers(server, "cdn.example.com", ["127.0.0.22"])
        healthd.wait_why("127.0.0.21", reason)
        first.released.set()
        first.behave = reply(ok())
        wait_answers(server, "cdn.example.com", ["127.0.0.21"])
        assert "hunter2" not in healthd.log


def test_tcp(both):
    def banner(peer, sock):
        sock.sendall(b"220 ready\r\n")
        hang(peer, sock)
    with Peer(banner, address="127.0.0.21") as first, Peer(banner, address="127.0.0.22", port=first.port):
        server, healthd = both(domain(f"type: tcp, port: {first.port}, expect: {{data: ready}}"))
        wait_answers(server, "cdn.example.com", ["127.0.0.21"])
        first.behave = reply(b"")
        wait_answers(server, "cdn.example.com", ["127.0.0.22"])
        healthd.wait_why("127.0.0.21", "timeout in waiting for the expected text")


def test_health_test_prints_each_phase(both):
    with Peer(reply(ok()), address="127.0.0.21") as first:
        _, healthd = both(domain(f"type: http, port: {first.port}").replace(QUICK, CALM))
        healthd.wait_states(**{"127.0.0.21": "up", "127.0.0.22": "down"})
        text = healthd.sluice("test", "cdn.example.com", status=None).stdout
    assert "connect refused" in text and "status 200" in text
    assert all(word in text for word in ("connect", "first response", "all"))
