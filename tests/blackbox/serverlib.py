# SPDX-License-Identifier: Apache-2.0
"""What the tests of the server's sockets share."""
import os
import pathlib
import resource
import socket
import struct
import time

import sluicelib

DOMAIN = "ttl: 20\nendpoints: {one: 192.0.2.1, two: 192.0.2.2}\nregions: {global: {one: 1, two: 0}}\n"
RECORDS = "www: {A: [192.0.2.80]}\nbig: {TXT: [" + ", ".join(f'"{i:03d} {"y" * 240}"' for i in range(240)) + "]}\n"


def message(name="www.example.com.", rdtype="A", number=None):
    """A query as it is on a TCP connection, its length in front."""
    query = sluicelib.make_query(name, rdtype)
    if number is not None:
        query.id = number
    wire = query.to_wire()
    return struct.pack("!H", len(wire)) + wire


def connect(server, **options):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    for option, value in options.items():
        sock.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
    sock.settimeout(sluicelib.DEADLINE)
    sock.connect((server.address, server.port))
    return sock


def read_message(sock):
    """The next response, b"" at the end of the connection."""
    head = sluicelib.receive(sock, 2)
    return sluicelib.receive(sock, struct.unpack("!H", head)[0]) if len(head) == 2 else b""


def is_answered(sock):
    """Asks once on a connection; False if the server has closed it."""
    try:
        sock.sendall(message())
        return len(read_message(sock)) > 12
    except (ConnectionError, BrokenPipeError):
        return False


def counters(server):
    return sluicelib.control(server.control, "status")["counters"]


def wait_for(condition, what, timeout=sluicelib.DEADLINE):
    """Waits until condition() is true."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        time.sleep(0.01)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def raise_own_limit(count):
    """Lets this process open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
