# SPDX-License-Identifier: Apache-2.0
"""Run in a network namespace of its own by test_transport.py: a server on all addresses must reply
from the one that was asked.  Prints each address that did.  Argument: the data directory."""
import fcntl
import pathlib
import socket
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sluicelib  # noqa: E402

SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8914, 0x8916, 1


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    index = socket.if_nametoindex("lo")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        address = socket.inet_pton(socket.AF_INET6, "2001:db8::1")
        fcntl.ioctl(sock, SIOCSIFADDR, address + struct.pack("Ii", 128, index))


def main():
    loopback_up()
    with tempfile.TemporaryDirectory() as folder:
        with sluicelib.Server(sys.argv[1], control=f"{folder}/control", addresses=("0.0.0.0", "::")) as server:
            for address in ("127.0.0.1", "127.0.0.9", "127.200.3.4", "::1", "2001:db8::1"):
                wire = sluicelib.make_query("www.example.com.", "A").to_wire()
                # A connected socket takes replies from the address that it asked, and no other.
                for _ in range(20):
                    assert sluicelib.exchange(address, server.port, wire)[:2] == wire[:2]
                assert sluicelib.exchange_tcp(address, server.port, wire)[:2] == wire[:2]
                print(address)


if __name__ == "__main__":
    main()
