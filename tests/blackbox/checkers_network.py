# SPDX-License-Identifier: Apache-2.0
"""Run in a network namespace of its own by test_checkers.py: serves the example zones on port 53 of the
addresses that they name, and a root zone that delegates them, runs the commands that stand in the
JSON file given, in order, and prints their results as JSON.  Arguments: folder, file of commands."""
import fcntl
import json
import pathlib
import socket
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sluicelib  # noqa: E402
from wildcard_address import SIOCSIFADDR, loopback_up  # noqa: E402

ROOT_SERVER = "127.0.0.53"
SERVERS = {"ns1.tm.example.com": ("192.0.2.53", "2001:db8::53"),
           "ns2.example.net": ("198.51.100.53", "2001:db8:2::53")}
ZONES = ("tm.example.com", "example.org")


def add_address(address, number):
    if ":" in address:
        index = socket.if_nametoindex("lo")
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            fcntl.ioctl(sock, SIOCSIFADDR, socket.inet_pton(socket.AF_INET6, address) + struct.pack("Ii", 128, index))
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFADDR, struct.pack("16sH2x4s8x", f"lo:{number}".encode(), socket.AF_INET,
                                                   socket.inet_aton(address)))


def root_zone():
    lines = ["$TTL 3600", "@ SOA a.root-servers.net. hostmaster.root-servers.net. 1 1800 900 604800 86400",
             "@ NS a.root-servers.net.", f"a.root-servers.net. A {ROOT_SERVER}"]
    for zone in ZONES:
        lines += [f"{zone}. NS {name}." for name in SERVERS]
    for name, addresses in SERVERS.items():
        lines += [f"{name}. {'AAAA' if ':' in a else 'A'} {a}" for a in addresses]
    return "\n".join(lines) + "\n"


def serve(data, addresses):
    listen = [word for address in addresses for word in ("--listen", f"{address}@53")]
    server = sluicelib.Process(sluicelib.program("sluiced"), "--data", data, "--threads", "1", *listen)
    server.wait_log(r"\bready\b")
    return server


def main():
    folder = pathlib.Path(sys.argv[1])
    loopback_up()
    addresses = [a for both in SERVERS.values() for a in both]
    for number, address in enumerate(addresses):
        add_address(address, number)
    (folder / "root.zone").write_text(root_zone(), encoding="ascii")
    (folder / "list").write_text(f". {folder}/root.zone\n", encoding="ascii")
    sluicelib.sluice("build", "--zone-list", folder / "list", "--out", folder / "root")
    sluicelib.build(sluicelib.REPO / "examples", folder / "data")
    servers = [serve(folder / "root", [ROOT_SERVER]), serve(folder / "data", addresses)]
    results = []
    for command in json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
        results.append({"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr})
    for server in servers:
        server.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
