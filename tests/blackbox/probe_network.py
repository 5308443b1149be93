# SPDX-License-Identifier: Apache-2.0
"""Run in a network namespace of its own (reportlib.in_own_network) by test_probe_tcp.py and
test_probe_http.py: what needs the kernel's own settings."""
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from probelib import probe, settings  # noqa: E402
from wildcard_address import loopback_up  # noqa: E402


def one_port(number):
    """The only one that the kernel connects from."""
    pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(f"{number} {number}", encoding="ascii")


def with_itself():
    """The only port to connect from is the one that is probed, and nobody listens there."""
    one_port(40001)
    with socket.socket() as sock:
        sock.connect(("127.0.0.1", 40001))
        assert sock.getsockname() == sock.getpeername()
    for number, kind in ((40002, "tcp"), (40003, "http")):
        one_port(number)
        result = probe(settings(kind, port=number), "127.0.0.1")
        print(kind, result["ok"], result["reason"])


def no_port_left():
    one_port(40001)
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 5000))
        listener.listen()
        client.connect(("127.0.0.1", 5000))
        for kind in ("tcp", "http"):
            result = probe(settings(kind, port=5000), "127.0.0.1")
            print(kind, result["own_fault"], result["reason"])


def unreachable():
    for kind in ("tcp", "http"):
        for address in ("192.0.2.1", "2001:db8:1::1"):
            result = probe(settings(kind, port=80), address)
            print(kind, result["own_fault"], result["reason"])


SCENARIOS = {f.__name__: f for f in (with_itself, no_port_left, unreachable)}

if __name__ == "__main__":
    loopback_up()
    SCENARIOS[sys.argv[1]]()
