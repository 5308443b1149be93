# SPDX-License-Identifier: Apache-2.0
"""Endpoints that are host names: resolved by a DNS server of the test's, then probed (report B114)."""
import re
import socket

import dns.flags
import dns.rcode
import dns.rdatatype
import pytest

import sluicelib
from fakedns import FakeDNS, SILENCE, reply
from probelib import probe, probes, settings


class Listener:
    """TCP listeners on one port of several addresses; says who was connected to."""

    def __init__(self, *addresses):
        self.sockets = {}
        self.free = sluicelib.Port(addresses[0])
        self.port = self.free.number
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.create_server((address, self.port), family=family, backlog=1000)
            sock.setblocking(False)
            self.sockets[address] = sock

    def connected(self):
        seen = []
        for address, sock in self.sockets.items():
            try:
                while True:
                    sock.accept()[0].close()
                    seen.append(address)
            except BlockingIOError:
                pass
        return seen

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for sock in self.sockets.values():
            sock.close()
        self.free.close()


def zone(a=(), aaaa=(), **options):
    """Answers with these addresses."""
    def answer(query, _):
        question = query.question[0]
        chosen = a if question.rdtype == dns.rdatatype.A else aaaa
        kind = dns.rdatatype.to_text(question.rdtype)
        return [reply(query, *[f"{question.name} 0 IN {kind} {address}" for address in chosen], **options)]
    return answer


def resolved(udp, port=1, host="web.example.com", tcp=None, timeout=5000):
    with FakeDNS(udp, tcp) as server:
        result = probe(settings("tcp", port=port, timeout=timeout), host, "--resolver", f"127.0.0.1@{server.port}")
    assert not result["own_fault"]
    return result["ok"], result["reason"]


# ---- what the resolver says ----------------------------------------------------------------------


@pytest.mark.parametrize("rcode,reason", [
    ("NXDOMAIN", "no such name"),
    ("REFUSED", "resolver refused"),
    ("SERVFAIL", "resolver failed (SERVFAIL)"),
    ("NOTIMP", "resolver failed (NOTIMP)"),
])
def test_resolver_says_no(rcode, reason):
    assert resolved(zone(rcode=dns.rcode.from_text(rcode))) == (False, reason)


def test_no_address():
    assert resolved(zone()) == (False, "the name has no address")


def test_resolver_is_silent():
    assert resolved(lambda *_: SILENCE, timeout=500) == (False, "resolver timed out")


def test_resolver_is_not_there():
    reserved = sluicelib.Port()
    result = probe(settings("tcp", port=1), "web.example.com", "--resolver", f"127.0.0.1@{reserved.number}")
    reserved.close()
    assert (result["ok"], result["reason"], result["own_fault"]) == (False, "resolver unreachable", True)


@pytest.mark.parametrize("address", ["0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255"])
def test_B114_addresses_where_no_endpoint_is(address):
    assert resolved(zone(a=[address])) == (False, "the name has no usable address")


@pytest.mark.parametrize("address", ["::", "fe80::1", "ff02::1", "::ffff:169.254.169.254"])
def test_B114_ipv6_addresses_where_no_endpoint_is(address):
    assert resolved(zone(aaaa=[address])) == (False, "the name has no usable address")


def test_truncated_goes_over_tcp():
    with Listener("127.0.0.21") as listener:
        answer = zone(a=["127.0.0.21"])
        assert resolved(zone(flags=dns.flags.TC), listener.port, tcp=answer) == (True, "connected")


# ---- what is then probed -------------------------------------------------------------------------


def test_B114_resolved_once_per_probe_and_anew_for_the_next():
    """TTL 0 and another address each time: a probe goes to the address that it was told."""
    with Listener("127.0.0.11", "127.0.0.12") as listener:
        asked = []

        def changing(query, _):
            if query.question[0].rdtype == dns.rdatatype.A:
                asked.append(query)
            return zone(a=[["127.0.0.11"], ["127.0.0.12"]][(len(asked) - 1) % 2])(query, 0)
        with FakeDNS(changing) as server:
            resolver = f"127.0.0.1@{server.port}"
            check = settings("tcp", port=listener.port, timeout=30000)  # patience, so that no question is repeated
            assert probe(check, "web.example.com", "--resolver", resolver)["ok"]
            assert (len(asked), listener.connected()) == (1, ["127.0.0.11"])
            assert probe(check, "web.example.com", "--resolver", resolver)["ok"]
            assert (len(asked), listener.connected()) == (2, ["127.0.0.12"])


def test_one_address_after_another():
    with Listener("127.0.0.13") as listener:
        assert resolved(zone(a=["127.0.0.14", "127.0.0.13"]), listener.port) == (True, "connected")


def test_no_address_is_good():
    with Listener("127.0.0.13") as listener:
        ok, reason = resolved(zone(a=["127.0.0.14", "127.0.0.15"]), listener.port)
    assert not ok and re.fullmatch(r"none of 2 addresses; 127\.0\.0\.1[45]: connect refused", reason)


def test_at_most_eight_addresses_of_both_families():
    ok, reason = resolved(zone(a=[f"127.0.0.{i}" for i in range(20, 60)], aaaa=["::1"]))
    assert not ok and reason.startswith("none of 8 addresses; ")


def test_one_family_answers_and_the_other_does_not():
    """A server that is silent about AAAA holds up nobody who has IPv4 addresses."""
    with Listener("127.0.0.16") as listener:
        def half(query, _):
            if query.question[0].rdtype == dns.rdatatype.AAAA:
                return SILENCE
            return zone(a=["127.0.0.16"])(query, 0)
        assert resolved(half, listener.port, timeout=20000) == (True, "connected")


def test_aliases_are_followed():
    with Listener("127.0.0.17") as listener:
        def alias(query, _):
            if query.question[0].rdtype != dns.rdatatype.A:
                return [reply(query, "web.example.com. 0 IN CNAME b.example.net.")]
            return [reply(query, "web.example.com. 0 IN CNAME b.example.net.",
                          "b.example.net. 0 IN A 127.0.0.17")]
        assert resolved(alias, listener.port) == (True, "connected")


def test_names_are_absolute():
    """Neither a search list nor the name of this machine's domain is appended."""
    with FakeDNS(zone(rcode=dns.rcode.NXDOMAIN)) as server:
        for host in ("web", "web.example.com", "web.example.com."):
            result = probe(settings("tcp", port=1), host, "--resolver", f"127.0.0.1@{server.port}")
            assert result["reason"] == "no such name"
        asked = {query.question[0].name.to_text() for _, query in server.queries}
    assert asked == {"web.", "web.example.com."}


def test_many_names_at_once():
    """More than have a socket at a time; ids and ports differ."""
    with Listener("127.0.0.18") as listener, FakeDNS(zone(a=["127.0.0.18"])) as server:
        hosts = [f"w{i}.example.com" for i in range(400)]
        results = probes(settings("tcp", port=listener.port, timeout=30000), hosts,
                         "--resolver", f"127.0.0.1@{server.port}")
        assert sorted(r["target"] for r in results if r["ok"]) == sorted(hosts)
        assert len({query.id for _, query in server.queries}) > 700


def test_cancelled_and_closed_while_resolving():
    with FakeDNS(lambda *_: SILENCE) as server:
        for way in ("--cancel", "--quit"):
            hosts = [f"w{i}.example.com" for i in range(300)]
            assert probes(settings("tcp", port=1, timeout=30000), hosts, way, "100",
                          "--resolver", f"127.0.0.1@{server.port}") == []


@pytest.mark.parametrize("resolver", ["nonsense", "127.0.0.1@", "127.0.0.1@0", "127.0.0.1@65536", "@53",
                                      "127.0.0.1@5x"])
def test_resolver_that_is_none(resolver):
    with pytest.raises(AssertionError, match="is not ADDRESS or ADDRESS@PORT"):
        probe(settings("tcp", port=1), "web.example.com", "--resolver", resolver)


# ---- hostile resolvers ---------------------------------------------------------------------------


def garbage(query, wire):
    """Octets of all kinds in place of an answer."""
    head = query.id.to_bytes(2, "big")
    return [b"", b"\0", head, wire[:20], wire[:45], head + b"\x81\x80" + b"\xff" * 500,
            head + wire[2:12] + b"\xc0\x0c" * 200, wire.replace(b"\3web", b"\3wex"), bytes([wire[0] ^ 1]) + wire[1:]]


def test_garbage_then_nothing():
    def answer(query, _):
        return garbage(query, zone(a=["127.0.0.19"])(query, 0)[0])
    ok, reason = resolved(answer, timeout=1500)
    assert not ok and reason.startswith(("resolver ", "no such name", "the name has no"))


def test_an_alias_of_itself():
    def loop(query, _):
        return [reply(query, "web.example.com. 0 IN CNAME web.example.com.")]
    assert resolved(loop) == (False, "the name has no address")


def test_thousands_of_addresses_over_tcp():
    many = [f"127.1.{i // 250}.{i % 250 + 1}" for i in range(2000)]
    ok, reason = resolved(zone(flags=dns.flags.TC), tcp=zone(a=many), timeout=20000)
    assert not ok and reason.startswith("none of 8 addresses; ")


def test_tcp_that_never_ends():
    def drip(connection):
        connection.sendall(b"\xff\xff" + b"x" * 1000)
        while connection.recv(4096):
            pass
    with FakeDNS(zone(flags=dns.flags.TC), lambda *_: [drip]) as server:
        result = probe(settings("tcp", port=1, timeout=1000), "web.example.com",
                       "--resolver", f"127.0.0.1@{server.port}")
    assert (result["ok"], result["reason"]) == (False, "resolver timed out")
