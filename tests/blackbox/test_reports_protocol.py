# SPDX-License-Identifier: Apache-2.0
"""Faults that were reported of other servers: the protocol, hostile packets, volume."""
import os
import random
import socket
import struct

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import pytest

import reportlib
import serverlib
import sluicelib
from reportlib import SE, US, domain, health
from serverlib import connect, is_answered, message, read_message
from sluicelib import rcode, rdata
from test_transport import mangle

SOA = "example.com. 60 SOA ns1.example.net. hostmaster.example.net. 1 7200 900 1209600 60"
DOMAINS = {
    "www": domain({"one": "127.0.0.11", "two": "127.0.0.12"}, {"global": {"one": 1, "two": 1}}),
    "geo": domain({"rest": "192.0.2.1", "sweden": "192.0.2.2"}, {"global": {"rest": 1}, "se": {"sweden": 1}}),
    "host": domain({"x": "x.other.test.", "y": "y.other.test."}, {"global": {"x": 1}, "se": {"y": 1}}),
    "nottl": domain({"one": "192.0.2.3"}, {"global": {"one": 1}}, more="ttl: 0\n"),
}
RECORDS = """\
static: {A: [192.0.2.80]}
c1: {CNAME: c2.example.com.}
c2: {CNAME: missing.example.com.}
alias: {CNAME: geo.example.com.}
tohost: {CNAME: host.example.com.}
a: {CNAME: b.example.com.}
b: {CNAME: a.example.com.}
"*.l": {CNAME: l2.l.example.com.}
x.ent: {A: [192.0.2.81]}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports-protocol")
    with reportlib.serve(folder, DOMAINS, geo=reportlib.make_mmdb(folder), records=RECORDS,
                         addresses=("127.0.0.1", "::1")) as running:
        yield running


def is_nodata(reply):
    assert rcode(reply) == "NOERROR" and reply.flags & dns.flags.AA and not reply.answer, reply
    assert sluicelib.records(reply, "authority") == [SOA]


# ---- B01, B56: types that are not there ------------------------------------------------------------


@pytest.mark.parametrize("rdtype", ["AAAA", "TXT", "MX", "HTTPS", "TYPE65280"])
def test_b01_aaaa_at_ipv4_only_name(server, rdtype):
    name, both = "www.example.com.", ["127.0.0.11", "127.0.0.12"]
    is_nodata(server.ask(name, rdtype))
    assert rdata(server.ask(name, "A"))[0] in both
    health(server, name, one="down", two="down")
    is_nodata(server.ask(name, rdtype))
    assert rdata(server.ask(name, "A"))[0] in both
    health(server, name, one="auto", two="auto")


@pytest.mark.parametrize("rdtype", ["CAA", "TYPE65280", "TYPE65535"])
def test_b56_unknown_types_are_as_any_other_that_is_not_there(server, rdtype):
    for name in ("example.com.", "www.example.com.", "ent.example.com.", "static.example.com."):
        is_nodata(server.ask(name, rdtype))
    reply = server.ask("host.example.com.", rdtype)
    assert rcode(reply) == "NOERROR" and rdata(reply) == ["x.other.test."]
    reply = server.ask("missing.example.com.", rdtype)
    assert rcode(reply) == "NXDOMAIN" and sluicelib.records(reply, "authority") == [SOA]


@pytest.mark.parametrize("rdtype", ["AXFR", "IXFR"])
@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_b56_transfers_are_refused(server, rdtype, tcp):
    wire = sluicelib.make_query("example.com.", rdtype).to_wire()
    exchange = sluicelib.exchange_tcp if tcp else sluicelib.exchange
    raw = exchange(server.address, server.port, wire)
    assert raw[:2] == wire[:2] and raw[6:10] == b"\0\0\0\0", "neither answers nor authority"
    allowed = ("REFUSED",) if tcp else ("REFUSED", "NOTIMP", "NOTAUTH")
    assert dns.rcode.to_text(raw[3] & 15) in allowed


@pytest.mark.parametrize("opcode", [1, 2, 3, 6, 15])
@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_b56_unknown_opcodes_are_not_implemented(server, opcode, tcp):
    wire = bytearray(sluicelib.make_query("example.com.", "SOA").to_wire())
    wire[2] |= opcode << 3
    raw = (sluicelib.exchange_tcp if tcp else sluicelib.exchange)(server.address, server.port, bytes(wire))
    assert raw[:2] == wire[:2] and raw[3] & 15 == dns.rcode.NOTIMP and raw[2] >> 3 & 15 == opcode


# ---- B09: EDNS -------------------------------------------------------------------------------------


def opt(owner=b"\0", version=0, flags=0, rdata_=b""):
    return owner + struct.pack("!HHBBHH", 41, 1232, 0, version, flags, len(rdata_)) + rdata_


def with_opts(*opts):
    query = bytearray(sluicelib.make_query("static.example.com.", "A", edns=False).to_wire())
    query[11] = len(opts)
    return bytes(query) + b"".join(opts)


def edns_of(raw):
    reply = dns.message.from_wire(raw)
    assert reply.edns == 0, "an OPT of version 0"
    return reply


@pytest.mark.parametrize("data", [b"", struct.pack("!HH", 100, 0)], ids=["plain", "option"])
def test_b09_unknown_version_is_badvers_with_the_question(server, data):
    reply = edns_of(sluicelib.exchange(server.address, server.port, with_opts(opt(version=1, rdata_=data))))
    assert rcode(reply) == "BADVERS" and len(reply.question) == 1 and not reply.answer and not reply.options


@pytest.mark.parametrize("data", [struct.pack("!HH", 100, 2) + b"\xaa\xbb", struct.pack("!HH", 65001, 0),
                                  struct.pack("!HH", 3, 0), struct.pack("!HH", 10, 8) + b"\1" * 8],
                         ids=["option 100", "option 65001", "NSID", "cookie"])
def test_b09_options_are_not_echoed(server, data):
    reply = edns_of(sluicelib.exchange(server.address, server.port, with_opts(opt(rdata_=data))))
    assert rcode(reply) == "NOERROR" and rdata(reply) == ["192.0.2.80"]
    assert not [o for o in reply.options if o.otype in (100, 65001)]
    assert all(len(o.data) > 8 for o in reply.options if o.otype == 10 and hasattr(o, "data"))


@pytest.mark.parametrize("flags, copied", [(0x40, 0), (0x8000, 0x8000), (0xffff, 0x8000)])
def test_b09_only_the_do_flag_is_copied(server, flags, copied):
    reply = edns_of(sluicelib.exchange(server.address, server.port, with_opts(opt(flags=flags))))
    assert rdata(reply) == ["192.0.2.80"] and reply.ednsflags & 0xffff == copied


def test_b09_two_opts_are_a_format_error(server):
    assert sluicelib.exchange(server.address, server.port, with_opts(opt(), opt()))[3] & 15 == dns.rcode.FORMERR


def test_b09_owner_of_the_opt_is_the_root(server):
    raw = sluicelib.exchange(server.address, server.port, with_opts(opt(owner=b"\1x\0")))
    assert raw[3] & 15 == dns.rcode.FORMERR


def test_b09_no_opt_without_opt(server):
    for name in ("static.example.com.", "missing.example.com.", "other.test."):
        assert server.ask(name, edns=False).edns == -1


# ---- B11: aliases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("client, target", [(US, "x.other.test."), (SE, "y.other.test.")])
def test_b11_steered_alias_to_elsewhere_is_noerror(server, client, target):
    reply = server.ask("host.example.com.", ecs=client)
    assert rcode(reply) == "NOERROR" and rdata(reply) == [target] and not reply.authority
    through = server.ask("tohost.example.com.", ecs=client)
    assert rcode(through) == "NOERROR" and rdata(through) == sorted(["host.example.com.", target])


def test_b11_chain_to_nothing_is_nxdomain(server):
    reply = server.ask("c1.example.com.")
    assert rcode(reply) == "NXDOMAIN" and rdata(reply) == ["c2.example.com.", "missing.example.com."]
    assert sluicelib.records(reply, "authority") == [SOA]


def test_b11_alias_itself_is_asked_for(server):
    reply = server.ask("c1.example.com.", "CNAME")
    assert rcode(reply) == "NOERROR" and rdata(reply) == ["c2.example.com."] and not reply.authority


def test_b11_alias_of_a_steered_name(server):
    for client, answer in ((SE, "192.0.2.2"), (US, "192.0.2.1")):
        assert rdata(server.ask("alias.example.com.", ecs=client)) == sorted(["geo.example.com.", answer])
    reply = server.ask("alias.example.com.", "AAAA", ecs=SE)
    assert rcode(reply) == "NOERROR" and rdata(reply) == ["geo.example.com."]
    assert sluicelib.records(reply, "authority") == [SOA]


@pytest.mark.parametrize("name, most", [("a.example.com.", 2), ("q.l.example.com.", 2), ("l2.l.example.com.", 1)])
def test_b11_loops_end_without_repetition(server, name, most):
    reply = server.ask(name)
    found = sluicelib.records(reply)
    assert rcode(reply) == "NOERROR" and 0 < len(found) <= most and len(set(found)) == len(found)


# ---- B42: TCP --------------------------------------------------------------------------------------


def test_b42_three_queries_on_one_connection(server):
    with connect(server) as sock:
        for number in range(3):
            sock.sendall(message("static.example.com.", number=number))
            assert rdata(dns.message.from_wire(read_message(sock))) == ["192.0.2.80"]


def test_b42_ten_queries_in_one_write(server):
    with connect(server) as sock:
        sock.sendall(b"".join(message("static.example.com.", number=i) for i in range(10)))
        assert {read_message(sock)[:2] for _ in range(10)} == {struct.pack("!H", i) for i in range(10)}


def test_b42_one_octet_a_write_then_half_closed(server):
    with connect(server) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in message("static.example.com."):
            sock.send(bytes([octet]))
        sock.shutdown(socket.SHUT_WR)
        assert rdata(dns.message.from_wire(read_message(sock))) == ["192.0.2.80"]
        assert sock.recv(1) == b""


def test_b42_idle_connections_hinder_nobody(server):
    serverlib.raise_own_limit(2048)
    idle = [connect(server) for _ in range(1000)]
    try:
        assert rdata(server.ask("static.example.com.", tcp=True)) == ["192.0.2.80"]
        assert rdata(server.ask("static.example.com.")) == ["192.0.2.80"]
    finally:
        for sock in idle:
            sock.close()


@pytest.mark.parametrize("start", [b"\0\0", b"\xff\xff", b"\xff\xff" + b"x" * 1000], ids=["length 0", "65535", "part"])
def test_b42_a_message_that_never_comes_ends_the_connection(server, start):
    rss = resident(server)
    with connect(server) as sock:
        sock.sendall(start)
        assert sock.recv(1) == b""  # within the idle timeout, which is far below the test's deadline
    assert resident(server) - rss < 16 << 20
    assert rdata(server.ask("static.example.com.", tcp=True)) == ["192.0.2.80"]


def resident(server):
    with open(f"/proc/{server.proc.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- B44: addresses --------------------------------------------------------------------------------


def test_b44_reply_leaves_from_the_address_that_was_asked(tmp_path):
    files = sluicelib.config_files(records="www: {A: [192.0.2.80]}\n")
    data = sluicelib.build(sluicelib.write_tree(tmp_path / "config", files), tmp_path / "data")
    assert reportlib.in_own_network("reply_address", data) == ["127.0.0.2", "127.0.0.3", "::1", "2001:db8::1"]


# ---- B52: malformed packets ------------------------------------------------------------------------


def header(flags=0, qd=1, an=0, ns=0, ar=0):
    return struct.pack("!6H", 0x1234, flags, qd, an, ns, ar)


QUESTION = dns.name.from_text("static.example.com.").to_wire() + b"\0\1\0\1"
LONG = b"".join(b"\x3f" + b"a" * 63 for _ in range(4)) + b"\0" + b"\0\1\0\1"
FORMAT_ERRORS = {
    "no question": header(qd=0),
    "two questions": header(qd=2) + QUESTION * 2,
    "65535 questions": header(qd=65535) + QUESTION,
    "pointer to itself": header() + b"\xc0\x0c\0\1\0\1",
    "pointer past the end": header() + b"\xc0\xff\0\1\0\1",
    "pointer behind labels": header() + b"\6static\xc0\x0c\0\1\0\1",
    "label 0x40": header() + b"\x40abc\0\0\1\0\1",
    "label 0x80": header() + b"\x80abc\0\0\1\0\1",
    "long name": header() + LONG,
    "question cut": header() + QUESTION[:-2],
    "name cut": header() + QUESTION[:9],
    "no answer where one is announced": header(an=1) + QUESTION,
    "no record where one is announced": header(ar=1) + QUESTION,
    "65535 records": header(ar=65535) + QUESTION,
    "octets behind the end": header() + QUESTION + b"xyz",
}


@pytest.mark.parametrize("kind", FORMAT_ERRORS)
@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_b52_malformed_queries_are_format_errors(server, kind, tcp):
    packet = FORMAT_ERRORS[kind]
    raw = (sluicelib.exchange_tcp if tcp else sluicelib.exchange)(server.address, server.port, packet)
    assert raw[:2] == packet[:2] and raw[2] & 0x80 and raw[3] & 15 == dns.rcode.FORMERR
    assert raw[6:12] == b"\0" * 6 and len(raw) <= len(packet)
    assert rdata(server.ask("static.example.com.", tcp=tcp)) == ["192.0.2.80"]


@pytest.mark.parametrize("packet", [header()[:n] for n in range(12)] + [header(0x8000) + QUESTION,
                                                                        header(0x8183) + QUESTION],
                         ids=[f"{n} octets" for n in range(12)] + ["response", "error response"])
def test_b52_short_packets_and_responses_are_dropped(server, packet):
    good = b"\x77\x77" + header()[2:] + QUESTION
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(sluicelib.DEADLINE)
        sock.connect((server.address, server.port))
        sock.send(packet)
        sock.send(good)
        assert sock.recv(4096)[:2] == b"\x77\x77"


def test_b52_source_port_zero(tmp_path):
    files = sluicelib.config_files(records="www: {A: [192.0.2.80]}\n")
    data = sluicelib.build(sluicelib.write_tree(tmp_path / "config", files), tmp_path / "data")
    assert reportlib.in_own_network("port_zero", data) == ["1600 answered, 0 errors"]


def test_b52_mutated_packets(server):
    """50 000 of them, in bunches; after each the server answers.  (tests/fuzz does millions.)"""
    rng = random.Random(52)
    good = [sluicelib.make_query(n, t, **o).to_wire() for n, t, o in (
        ("static.example.com.", "A", {}), ("geo.example.com.", "A", {"ecs": SE}), ("alias.example.com.", "A", {}),
        ("missing.example.com.", "A", {"edns": False}), ("host.example.com.", "AAAA", {"do": True}))]
    probe = b"\x77\x77" + header()[2:] + QUESTION
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((server.address, server.port))
        sock.settimeout(sluicelib.DEADLINE)
        for _ in range(1000):
            for _ in range(50):
                sock.send(mangle(rng, rng.choice(good)))
            sock.send(probe)
            while True:
                raw = sock.recv(65535)
                if raw[:2] == b"\x77\x77" and raw[12:].startswith(QUESTION) and raw[7] == 1:
                    break
                assert len(raw) <= 1232


@pytest.mark.parametrize("qclass", ["CH", "HS", "ANY", "NONE"])
def test_b52_other_classes_tell_nothing(server, qclass):
    for name, rdtype in (("static.example.com.", "A"), ("example.com.", "ANY"), ("version.bind.", "TXT")):
        reply = server.ask(name, rdtype, qclass=qclass)
        assert rcode(reply) == "REFUSED" and not reply.answer and not reply.authority


# ---- B100: TTLs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, rdtype", [("missing.example.com.", "A"), ("static.example.com.", "MX"),
                                          ("www.example.com.", "AAAA"), ("c1.example.com.", "A")])
def test_b100_negative_ttl_is_the_smaller(server, name, rdtype):
    """SOA TTL 3600, MINIMUM 60 (RFC 2308 section 3)."""
    assert sluicelib.records(server.ask(name, rdtype), "authority") == [SOA]


def test_b100_positive_ttls_are_as_written(server):
    assert [r.ttl for r in server.ask("example.com.", "SOA").answer] == [3600]
    assert [r.ttl for r in server.ask("www.example.com.").answer] == [30]
    assert [r.ttl for r in server.ask("nottl.example.com.").answer] == [0]


@pytest.mark.parametrize("text, said", [
    ("ttl: 2147483648\nendpoints: {a: 192.0.2.1}\nregions: {global: {a: 1}}\n", "2147483647"),
    ("endpoints: {a: {addresses: [192.0.2.1], ttl: 5}}\nregions: {global: {a: 1}}\n", "unknown key `ttl`"),
])
def test_b100_impossible_ttls_are_refused(tmp_path, text, said):
    files = sluicelib.config_files({"www": text})
    done = sluicelib.sluice("check", sluicelib.write_tree(tmp_path / "config", files), status=1)
    assert said in done.stderr


# ---- B106: outside ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["other.test.", ".", "com.", "example.net.", "xexample.com.", "www.example.org."])
@pytest.mark.parametrize("rd", [False, True], ids=["iterative", "RD"])
def test_b106_names_outside_are_refused(server, name, rd):
    for rdtype in ("A", "NS", "SOA", "ANY", "DS"):
        reply = server.ask(name, rdtype, rd=rd)
        assert rcode(reply) == "REFUSED"
        assert not reply.flags & (dns.flags.AA | dns.flags.RA) and bool(reply.flags & dns.flags.RD) == rd
        assert not (reply.answer or reply.authority or reply.additional)


def test_b106_own_zone_is_never_refused(server):
    """10 000 questions from 50 ports, so that every worker has its part."""
    wire = message("static.example.com.")[2:]
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(50)]
    try:
        for sock in socks:
            sock.settimeout(sluicelib.DEADLINE)
            sock.connect((server.address, server.port))
        for _ in range(200):
            for sock in socks:
                sock.send(wire)
            for sock in socks:
                raw = sock.recv(4096)
                assert raw[3] & 15 == 0 and raw[2] & 4 and raw[7] == 1
    finally:
        for sock in socks:
            sock.close()


# ---- B117: volume ----------------------------------------------------------------------------------


def test_b117_attacks_fill_neither_log_nor_counters(server):
    """Bad packets, random names and connections that break leave no line each, and no name anywhere."""
    lines, before = server.mark(), sluicelib.control(server.control, "status")
    rng = random.Random(117)
    probe = b"\x77\x77" + header()[2:] + QUESTION
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((server.address, server.port))
        sock.settimeout(sluicelib.DEADLINE)
        for _ in range(400):
            for _ in range(25):
                sock.send(rng.randbytes(rng.randrange(60)))
                label = rng.randbytes(6).hex()
                sock.send(message(f"{label}.example.com.")[2:])
            sock.send(probe)
            while sock.recv(65535)[:2] != b"\x77\x77":
                pass
    for _ in range(200):
        sock = connect(server)
        sock.sendall(b"\0\1x")
        sock.close()
    assert is_answered(connect(server))
    assert server.mark() - lines < 20, server.log
    after = sluicelib.control(server.control, "status")
    assert set(after["counters"]) == set(before["counters"])
