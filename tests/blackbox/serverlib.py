# SPDX-License-Identifier: Apache-2.0
"""What the tests of the server's sockets share."""
import os
import pathlib
import resource
import socket
import struct

import sluicelib
from sluicelib import read_message, wait_for

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


def is_answered(sock):
    """Asks once on a connection; False if the server has closed it."""
    try:
        sock.sendall(message())
        return len(read_message(sock)) > 12
    except (ConnectionError, BrokenPipeError):
        return False


def counters(server):
    return sluicelib.control(server.control, "status")["counters"]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def small_quarantine(monkeypatch):
    """With AddressSanitizer too, what is freed counts as free, in servers that are started after this."""
    options = os.environ.get("ASAN_OPTIONS", "detect_leaks=1:exitcode=99")
    monkeypatch.setenv("ASAN_OPTIONS", f"{options}:quarantine_size_mb=1")


def raise_own_limit(count):
    """Lets this process open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
