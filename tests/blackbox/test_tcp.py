# SPDX-License-Identifier: Apache-2.0
"""DNS over TCP (RFC 7766): limits that keep one client from hindering the others.  Pipelining, half
closed clients, slow readers and few descriptors are in test_server_io.py."""
import resource
import socket
import struct
import threading

import dns.edns
import dns.message
import pytest

import serverlib
import sluicelib
from serverlib import connect, counters, is_answered, message, read_message, wait_for
from sluicelib import rdata

CROWD = 10000
SOURCES = [f"127.0.0.{host}" for host in range(2, 12)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("tcp")
    files = sluicelib.config_files({"cdn": serverlib.DOMAIN}, records=serverlib.RECORDS)
    return sluicelib.build(sluicelib.write_tree(root / "config", files), root / "data")


def connect_from(server, source):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.settimeout(sluicelib.DEADLINE)
    sock.bind((source, 0))
    sock.connect((server.address, server.port))
    return sock


def test_ten_thousand_idle_connections(data, start):
    """They hinder neither UDP nor new connections, and cost no CPU time."""
    serverlib.raise_own_limit(CROWD + 1000)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= CROWD + 100, "this test needs more open files"
    server = start(data, "--tcp-connections", str(CROWD + 1000), "--tcp-idle", "600")
    crowd = []
    try:
        for i in range(CROWD):
            crowd.append(connect_from(server, SOURCES[i % len(SOURCES)]))
        wait_for(lambda: counters(server)["tcp_open"] == CROWD, "all accepted")
        wire = sluicelib.make_query("www.example.com.").to_wire()
        replies = sluicelib.flood(server.address, server.port, wire, 20000)
        assert sum(replies.values()) == 20000 and len(replies) == 1
        assert rdata(server.ask("www.example.com.", tcp=True)) == ["192.0.2.80"]
        before = serverlib.cpu_seconds(server.proc.pid)
        threading.Event().wait(1.0)
        assert serverlib.cpu_seconds(server.proc.pid) - before < 0.5
        assert all(is_answered(sock) for sock in crowd[::500])
        assert counters(server)["tcp_evicted"] == 0
    finally:
        for sock in crowd:
            sock.close()
    wait_for(lambda: counters(server)["tcp_open"] == 0, "all connections closed")


def test_one_client_cannot_take_all_places(data, start):
    """A client that opens more and more loses its own connections, not those of others."""
    server = start(data, "--tcp-connections", "40", "--tcp-idle", "600")
    others = [connect_from(server, source) for source in SOURCES]
    greedy = []
    try:
        assert all(is_answered(sock) for sock in others)
        for _ in range(100):
            greedy.append(connect_from(server, "127.0.0.1"))
        assert is_answered(greedy[-1])
        assert all(is_answered(sock) for sock in others)
        assert greedy[0].recv(1) == b""
        assert counters(server)["tcp_open"] <= 21 + len(others)
    finally:
        for sock in others + greedy:
            sock.close()


def all_is_read(server):
    """True once the server has read all that has arrived for it."""
    port = f":{server.port:04X}"
    with open("/proc/net/tcp", encoding="ascii") as table:
        fields = [line.split() for line in table]
    return all(f[4].endswith(":00000000") for f in fields if f[1].endswith(port) and f[3] == "01")


def test_parts_of_messages_do_not_shut_others_out(data, start):
    """Who fills the memory for unfinished messages loses them as soon as others need some."""
    held, part = 64 << 20, 60000
    serverlib.raise_own_limit(held // part + 200)
    server = start(data, "--tcp-idle", "600")
    greedy = []
    try:
        for left in range(held, 0, -part):
            greedy.append(connect(server))
            greedy[-1].sendall((b"\xff\xff" + bytes(part))[:min(left, part)])
        wait_for(lambda: all_is_read(server), "all parts are held")
        with connect(server) as sock:
            sock.sendall(message() + message()[:5])
            assert read_message(sock)
            sock.sendall(message()[5:])
            assert read_message(sock)
        assert greedy[0].recv(1) == b""
        assert counters(server)["tcp_evicted"] == 1
    finally:
        for sock in greedy:
            sock.close()


def test_idle_time_is_a_setting(data, start):
    server = start(data, "--tcp-idle", "1")
    with connect(server) as idle, connect(server) as partial:
        partial.sendall(message()[:5])
        assert idle.recv(1) == b"" and partial.recv(1) == b""
    wait_for(lambda: counters(server)["tcp_timed_out"] == 2, "both are counted")


@pytest.mark.parametrize("options, expected", [((), 100), (("--tcp-idle", "3600"), 36000)])
def test_keepalive_tells_the_idle_time(data, start, options, expected):
    """RFC 7828 section 3.3: in units of 100 ms, over TCP and only if asked."""
    server = start(data, *options)
    asked = [dns.edns.GenericOption(11, b"")]
    reply = server.ask("www.example.com.", tcp=True, options=asked)
    assert [o.to_wire() for o in reply.options if o.otype == 11] == [struct.pack("!H", expected)]
    reply = server.ask("www.example.com.", tcp=True)
    assert not [o for o in reply.options if o.otype == 11]
    reply = server.ask("www.example.com.", options=asked)
    assert not [o for o in reply.options if o.otype == 11]


def test_reader_that_never_reads_is_closed(data, start):
    server = start(data, "--tcp-idle", "1")
    with connect(server, SO_RCVBUF=4096) as sock:
        sock.sendall(message("big.example.com.", "TXT") * 200)
        wait_for(lambda: counters(server)["tcp_timed_out"] == 1, "closed")
    assert server.ask("www.example.com.", tcp=True)


def test_half_closed_with_a_part_of_a_message(data, start):
    server = start(data)
    with connect(server) as sock:
        sock.sendall(message(number=1) + message(number=2)[:-3])
        sock.shutdown(socket.SHUT_WR)
        assert read_message(sock)[:2] == b"\0\1"
        assert sock.recv(1) == b""


def test_half_closed_slow_reader_gets_all_answers(data, start):
    """The answers are more than any buffer holds, so they go out long after the client's end."""
    server = start(data)
    count = 300  # 18 MB
    with connect(server, SO_RCVBUF=4096) as sock:
        sock.sendall(message("big.example.com.", "TXT", number=6) * count)
        sock.shutdown(socket.SHUT_WR)
        for _ in range(count):
            assert read_message(sock)[:2] == b"\0\6"
        assert sock.recv(1) == b""


def test_answers_of_different_kinds_on_one_connection(data, start):
    """Errors, drops and answers side by side, each with its own ID."""
    server = start(data)
    update = bytearray(message(number=2))
    update[4] |= 0x28
    answer = bytearray(message(number=3))
    answer[4] |= 0x80  # a response: no answer is given to it
    with connect(server) as sock:
        sock.sendall(message(number=1) + bytes(update) + bytes(answer) + message("cdn.example.com.", number=4)
                     + message("example.com.", "AXFR", number=5) + message("nowhere.example.org.", number=6))
        replies = [read_message(sock) for _ in range(5)]
    assert [struct.unpack("!H", raw[:2])[0] for raw in replies] == [1, 2, 4, 5, 6]
    assert [raw[3] & 15 for raw in replies] == [0, 5, 0, 5, 5]
