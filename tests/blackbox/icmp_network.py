# SPDX-License-Identifier: Apache-2.0
"""Run in a network namespace of its own by test_probe_icmp.py: networks behind a TUN device, whose
hosts answer pings in all ways.  Argument: the rights of the prober.  Prints results as JSON."""
import fcntl
import json
import os
import pathlib
import socket
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import probelib  # noqa: E402
from wildcard_address import IFF_UP, SIOCSIFADDR, SIOCSIFFLAGS, loopback_up  # noqa: E402

TUNSETIFF, IFF_TUN, IFF_NO_PI, SIOCSIFNETMASK = 0x400454CA, 1, 0x1000, 0x891C
V4, V6, ROUTER = "192.0.2.%d", "2001:db8:9::%d", 254
SILENT_MS, PATIENT_MS = 400, 3000


def tun():
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
    index = socket.if_nametoindex("tun0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        def address(request, text):
            fcntl.ioctl(sock, request, struct.pack("16sH2x4s8x", b"tun0", socket.AF_INET, socket.inet_aton(text)))
        address(SIOCSIFADDR, V4 % 1)
        address(SIOCSIFNETMASK, "255.255.255.0")
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH14x", b"tun0", IFF_UP))
    pathlib.Path("/proc/sys/net/ipv6/conf/tun0/accept_dad").write_text("0", encoding="ascii")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFADDR, socket.inet_pton(socket.AF_INET6, V6 % 1) + struct.pack("Ii", 64, index))
    return fd


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data)) if len(data) % 2 == 0 else checksum(data + b"\0") ^ 0xffff
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


class Packet:
    """An echo request as it was seen."""

    def __init__(self, wire):
        self.wire, self.v6 = wire, wire[0] >> 4 == 6
        self.good = False
        if self.v6:
            self.source, self.target, self.icmp = wire[8:24], wire[24:40], wire[40:]
            self.good = wire[6] == socket.IPPROTO_ICMPV6 and self.icmp[0] == 128
        else:
            size = (wire[0] & 15) * 4
            self.source, self.target, self.icmp = wire[12:16], wire[16:20], wire[size:]
            self.good = wire[9] == socket.IPPROTO_ICMP and self.icmp[0] == 8
        last = socket.inet_ntop(socket.AF_INET6, self.target).rpartition(":")[2] if self.v6 else str(self.target[-1])
        self.host = int(last) if last.isdecimal() else -1

    def near(self, host):
        return socket.inet_pton(socket.AF_INET6, V6 % host) if self.v6 else socket.inet_aton(V4 % host)

    def to_us(self, icmp, source=None):
        """A packet back with this ICMP message, whose checksum is put in."""
        source = source or self.target
        bare = icmp[:2] + b"\0\0" + icmp[4:]
        if self.v6:
            pseudo = source + self.source + struct.pack("!II", len(bare), socket.IPPROTO_ICMPV6)
            bare = bare[:2] + struct.pack("!H", checksum(pseudo + bare)) + bare[4:]
            return struct.pack("!IHBB", 6 << 28, len(bare), socket.IPPROTO_ICMPV6, 64) + source + self.source + bare
        bare = bare[:2] + struct.pack("!H", checksum(bare)) + bare[4:]
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(bare), 1, 0, 64, socket.IPPROTO_ICMP, 0)
        head += source + self.source
        return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + bare

    def reply(self, id_add=0, sequence_add=0, data=None, source=None):
        number, sequence = struct.unpack("!HH", self.icmp[4:8])
        head = struct.pack("!BBHHH", 129 if self.v6 else 0, 0, 0, (number + id_add) & 0xffff,
                           (sequence + sequence_add) & 0xffff)
        return self.to_us(head + (self.icmp[8:] if data is None else data), source)

    def error(self, v4, v6, quoted=None, sequence_add=0):
        """A router's error, quoting the request whole or with so many octets of ICMP."""
        kind, code = v6 if self.v6 else v4
        start = len(self.wire) - len(self.icmp)
        icmp = self.icmp[:6] + struct.pack("!H", (struct.unpack("!H", self.icmp[6:8])[0] + sequence_add) & 0xffff)
        icmp += self.icmp[8:]
        wire = self.wire[:start] + icmp[:quoted]
        return self.to_us(struct.pack("!BBHI", kind, code, 0, 0) + wire, self.near(ROUTER))


HOST, PROHIBITED, EXCEEDED = ((3, 1), (1, 3)), ((3, 13), (1, 1)), ((11, 0), (3, 0))

HOSTS = {  # last part of the address -> (name, what comes back for the request and its number)
    10: ("good", lambda p, n: [p.reply()]),
    11: ("wrong id", lambda p, n: [p.reply(id_add=1)]),
    12: ("wrong sequence", lambda p, n: [p.reply(sequence_add=1000)]),
    13: ("wrong token", lambda p, n: [p.reply(data=bytes(len(p.icmp) - 8))]),
    14: ("other address", lambda p, n: [p.reply(source=p.near(10))]),
    15: ("silence", lambda p, n: []),
    16: ("host unreachable", lambda p, n: [p.error(*HOST)]),
    17: ("prohibited", lambda p, n: [p.error(*PROHIBITED)]),
    18: ("time exceeded", lambda p, n: [p.error(*EXCEEDED)]),
    19: ("short error", lambda p, n: [p.error(*HOST, quoted=8)]),
    20: ("error of another", lambda p, n: [p.error(*HOST, sequence_add=1000)]),
    21: ("second answered", lambda p, n: [p.reply()] if n == 2 else []),
    22: ("short, long, good", lambda p, n: [p.reply(data=b""), p.reply(data=p.icmp[8:] + b"xx"), p.reply()]),
    23: ("wrong, then good", lambda p, n: [p.reply(data=bytes(16)), p.reply(id_add=1), p.reply(), p.reply()]),
    24: ("neither", lambda p, n: [p.error((3, 14), (1, 99))]),
}
PATIENT = {10, 16, 17, 18, 19, 21, 22, 23, 24}


def serve(fd, counts):
    while True:
        packet = Packet(os.read(fd, 65536))
        if not packet.good or packet.host not in HOSTS:
            continue
        key = packet.v6, packet.host
        counts[key] = counts.get(key, 0) + 1
        for wire in HOSTS[packet.host][1](packet, counts[key]):
            os.write(fd, wire)


def main():
    loopback_up()
    rights = sys.argv[1]
    if rights == "unprivileged":
        pathlib.Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 0", encoding="ascii")
    prefix = [] if rights == "raw" else ["setpriv", "--bounding-set", "-net_raw"]
    counts = {}
    threading.Thread(target=serve, args=(tun(), counts), daemon=True).start()
    names = {pattern % host: name for host, (name, _) in HOSTS.items() for pattern in (V4, V6)}
    patient = [pattern % host for host in HOSTS if host in PATIENT for pattern in (V4, V6)]
    results = probelib.probes(probelib.settings("icmp", timeout=PATIENT_MS), patient, prefix=prefix)
    results += probelib.probes(probelib.settings("icmp", timeout=SILENT_MS), sorted(set(names) - set(patient)),
                               prefix=prefix)
    seen = {f"{names[r['target']]} {6 if ':' in r['target'] else 4}": [r["ok"], r["reason"], r["own_fault"]]
            for r in results}
    check = probelib.settings("icmp", timeout=PATIENT_MS)
    for target in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "203.0.113.1", "2001:db8:7777::1"):
        result = probelib.probe(check, target, prefix=prefix)
        seen[target] = [result["ok"], result["reason"], result["own_fault"]]
    many = probelib.probes(check, ["127.0.0.1", "::1"] * 200, "--rounds", "5", prefix=prefix)
    seen["many"] = [all(r["ok"] for r in many), len(many)]
    seen["cancelled"] = [probelib.probes(check, [V4 % 15, V6 % 15], way, "100", prefix=prefix)
                         for way in ("--cancel", "--quit")]
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
