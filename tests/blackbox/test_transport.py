# SPDX-License-Identifier: Apache-2.0
"""UDP and TCP: truncation, odd packets, silence, the address that replies."""
import os
import random
import socket
import struct
import subprocess
import sys

import dns.flags
import dns.message
import dns.rcode
import pytest

import sluicelib
from sluicelib import rcode, rdata

BIG = [f"{i:03d} " + "x" * 200 for i in range(15)]  # about 3 200 octets of TXT
HUGE = [f"{i:03d} " + "y" * 240 for i in range(240)]  # about 61 000


def yaml_list(texts):
    return "[" + ", ".join(f'"{t}"' for t in texts) + "]"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("transport")
    files = sluicelib.config_files(
        {"cdn": "ttl: 20\nendpoints: {one: 192.0.2.9}\nregions: {global: {one: 1}}\n"},
        records=f"www: {{A: [192.0.2.80]}}\nbig: {{TXT: {yaml_list(BIG)}}}\nhuge: {{TXT: {yaml_list(HUGE)}}}\n")
    data = sluicelib.build(sluicelib.write_tree(root / "config", files), root / "data")
    with sluicelib.Server(data, addresses=("127.0.0.1", "::1", "127.0.0.2")) as running:
        yield running


@pytest.mark.parametrize("options, limit", [
    ({"edns": False}, 512), ({"payload": 512}, 512), ({"payload": 1232}, 1232), ({"payload": 4096}, 1232),
    ({"payload": 100}, 512),  # less than 512 counts as 512 (RFC 6891 section 6.2.3)
])
def test_truncation_then_tcp(server, options, limit):
    wire = sluicelib.make_query("big.example.com.", "TXT", **options).to_wire()
    raw = sluicelib.exchange(server.address, server.port, wire)
    reply = dns.message.from_wire(raw, ignore_trailing=False)
    assert reply.flags & dns.flags.TC and len(raw) <= limit
    assert (reply.edns >= 0) == (options.get("edns", True))
    whole = server.ask("big.example.com.", "TXT", tcp=True, **options)
    assert not whole.flags & dns.flags.TC
    assert rdata(whole) == sorted(f'"{t}"' for t in BIG)


def test_huge_over_tcp(server):
    assert len(rdata(server.ask("huge.example.com.", "TXT", tcp=True))) == len(HUGE)


def test_many_questions_on_one_connection(server):
    count = 200
    with socket.create_connection((server.address, server.port), sluicelib.DEADLINE) as sock:
        out = b""
        for i in range(count):
            query = sluicelib.make_query("www.example.com." if i % 2 else "big.example.com.", "TXT" if i % 3 else "A")
            query.id = i
            wire = query.to_wire()
            out += struct.pack("!H", len(wire)) + wire
        sock.sendall(out)
        seen = set()
        for _ in range(count):
            (length,) = struct.unpack("!H", sluicelib.receive(sock, 2))
            seen.add(struct.unpack("!H", sluicelib.receive(sock, length)[:2])[0])
    assert seen == set(range(count))


def test_tcp_octet_by_octet(server):
    wire = sluicelib.make_query("www.example.com.", "A").to_wire()
    with socket.create_connection((server.address, server.port), sluicelib.DEADLINE) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in struct.pack("!H", len(wire)) + wire:
            sock.send(bytes([octet]))
        (length,) = struct.unpack("!H", sluicelib.receive(sock, 2))
        assert rdata(dns.message.from_wire(sluicelib.receive(sock, length))) == ["192.0.2.80"]


@pytest.mark.parametrize("garbage", [
    b"\x00\x00", b"\x00\x05abcde", b"\xff\xff" + b"z" * 100, b"\x00\x0c" + b"\0" * 12, b"GET / HTTP/1.1\r\n\r\n",
], ids=lambda g: g[:8].hex())
def test_tcp_garbage_then_others_go_on(server, garbage):
    with socket.create_connection((server.address, server.port), sluicelib.DEADLINE) as sock:
        sock.sendall(garbage)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):  # the server answers or not, but it closes
            pass
    assert rdata(server.ask("www.example.com.", "A", tcp=True)) == ["192.0.2.80"]


def test_tcp_connections_that_go_away(server):
    wire = sluicelib.make_query("huge.example.com.", "TXT").to_wire()
    for _ in range(50):
        sock = socket.create_connection((server.address, server.port), sluicelib.DEADLINE)
        sock.sendall((struct.pack("!H", len(wire)) + wire) * 3)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()  # a reset, with answers under way
    assert rdata(server.ask("www.example.com.", "A", tcp=True)) == ["192.0.2.80"]


# ---- odd packets ---------------------------------------------------------------------------------


def header(flags=0, qd=1, an=0, ns=0, ar=0, number=0x1234):
    return struct.pack("!6H", number, flags, qd, an, ns, ar)


WWW = b"\x03www\x07example\x03com\x00\x00\x01\x00\x01"


def silent(server, packet):
    """True if `packet` gets no reply: the reply to a good question sent after it comes first."""
    good = header(number=0x7777) + WWW
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(sluicelib.DEADLINE)
        sock.connect((server.address, server.port))
        sock.send(packet)
        sock.send(good)
        return sock.recv(65535)[:2] == b"\x77\x77"


@pytest.mark.parametrize("packet", [b"", b"\x12", b"\x12\x34\x00", header()[:11],
                                    header(0x8000) + WWW, header(0x8180) + WWW, header(0xffff) + WWW],
                         ids=lambda p: p.hex()[:16] or "empty")
def test_silence(server, packet):
    assert silent(server, packet)


@pytest.mark.parametrize("packet, expected", [
    (header(), "FORMERR"),                                  # no question where one is announced
    (header() + WWW[:-1], "FORMERR"),
    (header(qd=2) + WWW + WWW, "FORMERR"),                  # RFC 9619
    (header(qd=0), "FORMERR"),
    (header() + b"\xc0\x0c\x00\x01\x00\x01", "FORMERR"),    # a pointer to itself as name
    (header() + b"\x40abc\x00\x00\x01\x00\x01", "FORMERR"),
    (header() + b"\x3f" + b"a" * 10, "FORMERR"),
    (header(0x2800) + WWW, "REFUSED"),                      # UPDATE (RFC 2136 section 3.3: forbidden by policy)
    (header(0x1000) + WWW, "NOTIMP"),                       # STATUS
    (header(0x7800) + WWW, "NOTIMP"),                       # opcode 15
    (header(ar=1) + WWW + b"\x00\x00\x29\x04\xd0\x00\x01\x00\x00\x00\x00", "BADVERS"),
    (header(ar=2) + WWW + b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00" * 2, "FORMERR"),  # two OPT
    (header(ar=1) + WWW + b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x05ab", "FORMERR"),    # OPT cut short
], ids=lambda p: p if isinstance(p, str) else p.hex()[4:40])
def test_errors(server, packet, expected):
    raw = sluicelib.exchange(server.address, server.port, packet)
    assert raw[:2] == packet[:2] and raw[2] & 0x80
    # Not read by dnspython, which does not know every opcode.
    flags, _, answers, authorities, additional = struct.unpack("!5H", raw[2:12])
    extended = raw[-6] << 4 if additional else 0  # of the OPT, which stands last and is empty
    assert (flags & 15 | extended) == dns.rcode.from_text(expected)
    assert flags >> 11 & 15 == packet[2] >> 3 & 15, "the opcode is copied"
    assert answers == authorities == 0
    assert len(raw) <= len(packet) + 11  # at most an OPT more


def test_other_classes_are_refused(server):
    for qclass in ("CH", "HS"):
        assert rcode(server.ask("www.example.com.", "A", qclass=qclass)) == "REFUSED"


def test_random_packets(server):
    """Ten thousand broken packets: no crash, no amplification, and good questions still work."""
    rng = random.Random(20240501)
    good = [sluicelib.make_query(n, t, **o).to_wire() for n, t, o in (
        ("www.example.com.", "A", {}), ("big.example.com.", "TXT", {}), ("cdn.example.com.", "A", {"ecs": "192.0.2.0/24"}),
        ("nowhere.example.com.", "A", {"edns": False}))]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((server.address, server.port))
        sock.settimeout(sluicelib.DEADLINE)
        for number in range(200):
            sent = {}
            for _ in range(50):
                packet = mangle(rng, rng.choice(good))
                sock.send(packet)
                sent[packet[:2]] = max(len(packet), sent.get(packet[:2], 0))
            probe = struct.pack("!H", number) + header()[2:] + WWW
            sock.send(probe)
            while True:  # replies to what was sent, up to that of the probe
                raw = sock.recv(65535)
                assert len(raw) >= 12 and raw[2] & 0x80
                if raw[:2] == probe[:2] and raw[12:12 + len(WWW)] == WWW and raw[7] == 1:
                    break
                assert raw[:2] in sent, f"a reply to nothing that was asked: {raw[:40].hex()}"
                assert len(raw) <= max(1232, sent[raw[:2]] + 11)
    assert rdata(server.ask("www.example.com.", "A")) == ["192.0.2.80"]


def mangle(rng, packet):
    packet = bytearray(packet)
    for _ in range(rng.randint(1, 6)):
        kind = rng.randrange(4)
        if kind == 0 and packet:
            packet[rng.randrange(len(packet))] = rng.randrange(256)
        elif kind == 1:
            del packet[rng.randint(0, len(packet)):]
        elif kind == 2:
            packet += rng.randbytes(rng.randint(1, 40))
        elif packet:
            at = rng.randrange(len(packet))
            packet[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(packet)


def test_version_is_not_told_by_default(server):
    for name in ("version.bind.", "id.server."):
        assert rcode(server.ask(name, "TXT", qclass="CH")) == "REFUSED"


# ---- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_each_address_answers(server, address, tcp):
    assert rdata(server.ask("www.example.com.", "A", address=address, tcp=tcp)) == ["192.0.2.80"]


def test_wildcard_address_replies_from_the_one_asked(server):
    """In a network namespace of its own, since the server listens on all addresses there."""
    command = ["unshare", "--net"] + (["--user", "--map-root-user"] if os.getuid() else [])
    command += [sys.executable, str(sluicelib.REPO / "tests/blackbox/wildcard_address.py"), str(server.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * sluicelib.DEADLINE,
                          env=sluicelib.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["127.0.0.1", "127.0.0.9", "127.200.3.4", "::1", "2001:db8::1"]
