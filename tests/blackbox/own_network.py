# SPDX-License-Identifier: Apache-2.0
"""Run in a network namespace of its own (reportlib.in_own_network): what needs all addresses, raw
sockets or port 53.  Arguments: the scenario, the data directory.  Prints what was seen."""
import pathlib
import socket
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sluicelib  # noqa: E402
from wildcard_address import loopback_up  # noqa: E402


def both_families(server):
    """Who is seen behind a socket of each family."""
    for address in ("127.0.0.1", "::1"):
        reply = server.ask("here.example.com.", "A", address=address)
        print(address, *sluicelib.rdata(reply))


def reply_address(server):
    """A connected socket takes replies from the address that it asked, and from no other."""
    wire = sluicelib.make_query("www.example.com.", "A").to_wire()
    for address in ("127.0.0.2", "127.0.0.3", "::1", "2001:db8::1"):
        for _ in range(20):
            assert sluicelib.exchange(address, server.port, wire)[:2] == wire[:2]
        print(address)


def port_zero(server):
    """Packets from port 0 cannot be answered, and hinder nobody, not even in the same batch."""
    wire = sluicelib.make_query("www.example.com.", "A").to_wire()
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
    with raw, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(sluicelib.DEADLINE)
        sock.connect(("127.0.0.1", server.port))
        bad = struct.pack("!4H", 0, server.port, 8 + len(wire), 0) + wire  # no checksum, which is allowed
        for number in range(200):
            for _ in range(8):
                raw.sendto(bad, ("127.0.0.1", 0))
                sock.send(struct.pack("!H", number) + wire[2:])
                raw.sendto(bad, ("127.0.0.1", 0))
            for _ in range(8):
                assert sock.recv(4096)[:2] == struct.pack("!H", number)
    counters = sluicelib.control(server.control, "status")["counters"]
    print(counters["queries"], "answered,", counters["send_errors"], "errors")


SCENARIOS = {f.__name__: f for f in (both_families, reply_address, port_zero)}


def main():
    loopback_up()
    with tempfile.TemporaryDirectory() as folder:
        with sluicelib.Server(sys.argv[2], control=f"{folder}/control", addresses=("0.0.0.0", "::")) as server:
            SCENARIOS[sys.argv[1]](server)


if __name__ == "__main__":
    main()
