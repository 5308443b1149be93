# SPDX-License-Identifier: Apache-2.0
"""Probes of type dns against servers that answer in all ways (report B74)."""
import socket
import struct

import dns.flags
import dns.rcode
import pytest

import sluicelib
from fakedns import FakeDNS, SILENCE, reply
from probelib import probe, probes, settings
from sluicelib import wait_for

A = "www.example.com. 30 IN A 192.0.2.1"
OTHER_A = "www.example.com. 30 IN A 192.0.2.2"


def check(server, *, address="127.0.0.1", timeout=5000, **more):
    return probe(settings("dns", timeout=timeout, port=server.port, **more), address)


def verdict(udp, tcp=None, **more):
    with FakeDNS(udp, tcp) as server:
        result = check(server, **more)
    assert not result["own_fault"]
    return result["ok"], result["reason"]


def always(*records, **options):
    return lambda query, _: [reply(query, *records, **options)]


@pytest.mark.parametrize("rcode", ["NXDOMAIN", "SERVFAIL", "REFUSED", "FORMERR", "NOTIMP"])
def test_B74_another_rcode(rcode):
    assert verdict(always(rcode=dns.rcode.from_text(rcode))) == (False, f"rcode {rcode}, expected NOERROR")


def test_B74_an_answer():
    assert verdict(always(A)) == (True, "rcode NOERROR, 1 of type A")


def test_B74_no_answer():
    assert verdict(always()) == (False, "no answer of type A")


def test_B74_wrong_id_is_ignored():
    def wrong(query, _):
        wire = reply(query, A)
        return [struct.pack("!H", (query.id + 1) & 0xffff) + wire[2:]]
    assert verdict(wrong, timeout=300) == (False, "timeout in waiting for the answer")


def test_B74_wrong_question_is_ignored():
    def wrong(query, _):
        wire = reply(query, A)
        return [wire.replace(b"\3www", b"\3wwx"), wire.replace(b"\0\1\0\1", b"\0\x1c\0\1", 1), wire[:11],
                bytes([wire[0], wire[1], wire[2] & 0x7f]) + wire[3:]]
    assert verdict(wrong, timeout=300) == (False, "timeout in waiting for the answer")


def test_B74_another_port_is_ignored():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        result = verdict(lambda query, _: [lambda peer: other.sendto(reply(query, A), peer)], timeout=300)
    assert result == (False, "timeout in waiting for the answer")


def test_B74_another_address_is_ignored():
    with FakeDNS() as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.2", server.port))
        server.answer["udp"] = lambda query, _: [lambda peer: other.sendto(reply(query, A), peer)]
        assert check(server, timeout=300)["reason"] == "timeout in waiting for the answer"


def test_B74_bad_then_good():
    def both(query, _):
        wire = reply(query, A)
        return [struct.pack("!H", query.id ^ 1) + wire[2:], wire]
    assert verdict(both) == (True, "rcode NOERROR, 1 of type A")


def test_B74_nothing_comes():
    with FakeDNS(lambda *_: SILENCE) as server:
        result = check(server, timeout=3000)
        assert result["reason"] == "timeout in waiting for the answer"
        wait_for(lambda: len(server.queries) >= 2, "the second query is read")
        assert len(server.queries) == 2  # repeated once
        (_, first), (_, second) = server.queries
        assert first.to_wire() == second.to_wire()


def test_B74_the_first_query_is_lost():
    assert verdict(lambda query, number: [reply(query, A)] if number == 2 else SILENCE, timeout=3000)[0]


def test_B74_truncated_goes_over_tcp():
    many = [f"www.example.com. 30 IN A 192.0.2.{i}" for i in range(1, 200)]
    with FakeDNS(always(flags=dns.flags.TC), always(*many)) as server:
        result = check(server)
        assert result["ok"] and result["reason"] == "rcode NOERROR, 199 of type A"
        assert [p for p, _ in server.queries] == ["udp", "tcp"]
        assert all(result["phases"][phase] is not None for phase in ("connect", "send", "first"))


def test_truncated_and_no_tcp():
    assert verdict(always(flags=dns.flags.TC)) == (False, "the answer is truncated, and over TCP: connect refused")


@pytest.mark.parametrize("octets", [b"", b"\0", b"\0\x40abc"])
def test_tcp_closed_early(octets):
    def cut(*_):
        return [lambda connection: connection.sendall(octets)]
    assert verdict(always(flags=dns.flags.TC), cut) == (False, "closed by the peer before the answer over TCP came")


def test_tcp_reset():
    def reset(*_):
        return [lambda c: c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))]
    assert verdict(always(flags=dns.flags.TC), reset) == (
        False, "connection reset before the answer over TCP came")


def test_tcp_with_other_messages_first():
    def several(query, _):
        good = reply(query, A)
        return [struct.pack("!H", query.id ^ 1) + good[2:], b"", b"x" * 65535, good]
    assert verdict(always(flags=dns.flags.TC), several) == (True, "rcode NOERROR, 1 of type A")


def test_tcp_never_answers():
    with FakeDNS(always(flags=dns.flags.TC), lambda *_: [lambda c: c.recv(1)]) as server:
        assert check(server, timeout=2000)["reason"] == "timeout in waiting for the answer over TCP"


def test_flood_of_other_answers():
    with FakeDNS() as server:
        def flood(query, _):
            wire = struct.pack("!H", query.id ^ 1) + reply(query, A)[2:]
            while server.flooding:
                server.udp.sendto(wire, server.peer)
        server.flooding = True
        server.answer["udp"] = lambda query, n: [lambda peer: (setattr(server, "peer", peer), flood(query, n))]
        try:
            assert check(server)["reason"] == "flooded with answers to other questions"
        finally:
            server.flooding = False


def test_port_closed():
    reserved = sluicelib.Port()
    result = probe(settings("dns", port=reserved.number), "127.0.0.1")
    reserved.close()
    assert (result["ok"], result["reason"]) == (False, "port unreachable")


# ---- what is expected ----------------------------------------------------------------------------


@pytest.mark.parametrize("rcode", ["NXDOMAIN", "REFUSED"])
def test_expected_rcode(rcode):
    expect = {"rcode": rcode}
    assert verdict(always(rcode=dns.rcode.from_text(rcode)), expect=expect) == (True, f"rcode {rcode}")
    assert verdict(always(A), expect=expect) == (False, f"rcode NOERROR, expected {rcode}")


def test_error_without_question():
    """As servers do that cannot read a query."""
    def bare(query, _):
        return [struct.pack("!6H", query.id, 0x8001, 0, 0, 0, 0)]
    assert verdict(bare) == (False, "rcode FORMERR, expected NOERROR")


def test_expected_data():
    two = always(A, OTHER_A)
    assert verdict(two, expect={"data": "192.0.2.2"}) == (True, "expected data of type A came")
    assert verdict(two, expect={"data": "192.0.2.3"}) == (
        False, "data differ: 2 of type A came, and not what is expected")


@pytest.mark.parametrize("rrtype,data,expected", [
    ("AAAA", "2001:db8::1", "2001:0DB8:0:0::1"),
    ("TXT", '"v=spf1 -all" "b"', '"v=spf1 -all" b'),
    ("TXT", '"v=spf1 -all"', "v=spf1 -all"),
    ("TXT", '"v=spf1" " -all"', "v=spf1 -all"),
    ("TXT", '"a" "b"', '"a" "b"'),
    ("TXT", '"a\\\"b"', 'a"b'),
    ("MX", "10 Mail.Example.COM.", "10 mail.example.com."),
    ("CNAME", "Other.example.net.", "other.example.net"),
    ("SRV", "1 2 53 a.example.", "1 2 53 A.example."),
    ("SOA", "a. b. 1 2 3 4 5", "a. b. 1 2 3 4 5"),
])
def test_expected_data_of_types(rrtype, data, expected):
    record = f"www.example.com. 30 IN {rrtype} {data}"
    assert verdict(always(record), rrtype=rrtype, expect={"data": expected})[0]


@pytest.mark.parametrize("data", ["v=spf1", "v=spf1 -al", "v=spf1 -all ", "v=spf1 ?all", '"v=spf1"'])
def test_another_text(data):
    record = 'www.example.com. 30 IN TXT "v=spf1" " -all"'
    assert verdict(always(record), rrtype="TXT", expect={"data": data}) == (
        False, "data differ: 1 of type TXT came, and not what is expected")


def test_expected_data_that_is_none():
    assert verdict(always(A), expect={"data": "not an address"}) == (False, "`expect.data` is not data of type A")


def test_aliases():
    chain = ["www.example.com. 30 IN CNAME a.example.net.", "A.example.net. 30 IN CNAME b.example.net.",
             "b.example.net. 30 IN A 192.0.2.9"]
    assert verdict(always(*chain)) == (True, "rcode NOERROR, 1 of type A")
    assert verdict(always(*reversed(chain)), expect={"data": "192.0.2.9"})[0]
    assert verdict(always(chain[0])) == (False, "no answer of type A, an alias leads nowhere")
    assert verdict(always("other.example.com. 30 IN A 192.0.2.1")) == (False, "no answer of type A")
    assert verdict(always("www.example.com. 30 IN CNAME www.example.com.")) == (
        False, "no answer of type A, an alias leads nowhere")


def test_malformed_answer():
    def cut(query, _):
        return [reply(query, A, OTHER_A)[:-3]]
    assert verdict(cut) == (False, "malformed answer")


# ---- what is asked -------------------------------------------------------------------------------


def test_query():
    with FakeDNS(always(A)) as server:
        results = probes(settings("dns", port=server.port, name="WWW.example.com"), ["127.0.0.1"] * 20)
        assert all(r["ok"] for r in results)
        queries = [query for _, query in server.queries]
    assert {q.question[0].to_text() for q in queries} == {"WWW.example.com. IN A"}
    assert all(q.flags == dns.flags.RD and q.edns == -1 for q in queries)
    assert len({q.id for q in queries}) > 10


def test_ipv6():
    with FakeDNS(always(A), address="::1") as server:
        assert check(server, address="::1")["ok"]


def test_host_name_of_two_families():
    """The first address does not answer, the second does."""
    with FakeDNS(always(A), address="::1") as server:
        assert check(server, address="localhost")["ok"]


def test_cancelled_and_closed_at_any_moment():
    with FakeDNS(lambda *_: SILENCE) as silent, \
            FakeDNS(always(flags=dns.flags.TC), lambda *_: [lambda c: c.recv(1)]) as stuck:
        for server in (silent, stuck):
            for way in ("--cancel", "--quit"):
                assert probes(settings("dns", port=server.port), ["127.0.0.1"], way, "150") == []


def test_many_rounds_leave_nothing():
    with FakeDNS(always(A)) as server:
        results = probes(settings("dns", port=server.port), ["127.0.0.1"] * 4, "--rounds", "50")
    assert len(results) == 200 and all(r["ok"] for r in results)
