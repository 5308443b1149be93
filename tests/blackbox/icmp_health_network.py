# SPDX-License-Identifier: Apache-2.0
"""Run in a network namespace of its own by test_health_kinds.py: the checker pings an endpoint whose
network comes and goes.  Prints what it says of it."""
import fcntl
import pathlib
import socket
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import healthlib  # noqa: E402
import sluicelib  # noqa: E402
from checkers_network import add_address  # noqa: E402
from wildcard_address import SIOCSIFFLAGS, loopback_up  # noqa: E402

ENDPOINT = "192.0.2.10"


def down(number):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", f"lo:{number}".encode(), 0))


def main():
    loopback_up()
    add_address(ENDPOINT, 1)
    domain = (f"ttl: 0\nendpoints: {{a: {ENDPOINT}}}\nregions: {{global: {{a: 1}}}}\n"
              f"health: {{type: icmp, {healthlib.QUICK}}}\n")
    with tempfile.TemporaryDirectory() as folder:
        config = sluicelib.write_tree(f"{folder}/config", sluicelib.config_files({"cdn": domain}))
        data = sluicelib.build(config, f"{folder}/data")
        with healthlib.Healthd(data) as healthd:
            for state, change in (("up", None), ("down", down), ("up", lambda n: add_address(ENDPOINT, n))):
                if change:
                    change(1)
                healthd.wait_states(**{ENDPOINT: state})
                print(f"{state}: {healthd.checks()[ENDPOINT]['why']}")


if __name__ == "__main__":
    main()
