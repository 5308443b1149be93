# SPDX-License-Identifier: Apache-2.0
"""The zones and the packets of the differential fuzzer."""
import random
import struct

import dns.name

ZONES = {
    "example.com": """\
$TTL 3600
@ SOA ns1 hostmaster 1 7200 900 1209600 60
@ NS ns1
@ NS ns2.example.net.
@ MX 10 mail
@ TXT "v=spf1 -all"
ns1 A 192.0.2.53
ns1 AAAA 2001:db8::53
mail A 192.0.2.25
www A 192.0.2.80
www A 192.0.2.81
www AAAA 2001:db8::80
www HTTPS 1 . alpn="h2"
alias CNAME www
alias2 CNAME alias
nowhere CNAME missing
nodata CNAME mail
away CNAME www.example.org.
other CNAME www.other.test.
intocut CNAME deep.sub
loop1 CNAME loop2
loop2 CNAME loop1
self CNAME self
starred CNAME any.wild
throughd CNAME a.tree
c1 CNAME c2
c2 CNAME c3
c3 CNAME c4
c4 CNAME c5
c5 CNAME c6
c6 CNAME www
a.b.ent A 192.0.2.91
*.wild A 192.0.2.90
*.wild TXT "star"
x.wild MX 5 mail
deep.y.wild A 192.0.2.92
*.cwild CNAME www
*.lost CNAME missing
*.aim CNAME any.wild
sub NS ns.sub
sub NS ns.example.net.
ns.sub A 192.0.2.54
ns.sub AAAA 2001:db8::54
signed NS ns1
signed DS 12345 13 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF
bare NS ns.elsewhere.test.
tree DNAME target
tree TXT "the owner itself"
a.target A 192.0.2.93
b.target CNAME www
*.w.target A 192.0.2.94
gone DNAME missing
out DNAME other.test.
into DNAME example.org.
ring DNAME ring2
ring2 DNAME ring
unknown TYPE65280 \\# 4 01020304
unknown TYPE731 \\# 0
big TXT "%(a)s" "%(b)s" "%(c)s"
big TXT "%(b)s" "%(c)s" "%(a)s"
big TXT "%(c)s" "%(a)s" "%(b)s"
under_score TXT "x"
_sip._tcp SRV 10 20 5060 mail
ptr PTR www
caa CAA 0 issue "ca.example.net"
naptr NAPTR 100 50 "s" "z3950+N2L" "" _z3950._tcp
loc LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m
""" % {"a": "x" * 200, "b": "y" * 200, "c": "z" * 200},
    "example.org": """\
$TTL 300
@ SOA ns1.example.com. hostmaster.example.com. 7 7200 900 1209600 600
@ NS ns1.example.com.
@ A 192.0.2.1
www A 192.0.2.70
back CNAME www.example.com.
round CNAME away.example.com.
child NS ns1.child
ns1.child A 192.0.2.55
* TXT "everything"
""",
    # A child that is served beside its parent.
    "child.example.org": """\
$TTL 300
@ SOA ns1 hostmaster 3 7200 900 1209600 60
@ NS ns1
ns1 A 192.0.2.55
www A 192.0.2.71
""",
}

TYPES = [1, 1, 1, 28, 28, 2, 5, 6, 12, 15, 16, 33, 35, 39, 43, 46, 47, 48, 64, 65, 99, 250, 255,
         252, 251, 253, 254, 257, 0, 41, 128, 731, 65280, 65535]


def names():
    """Every name of the zones, the names between, and names that are not there."""
    out = set()
    for zone, text in ZONES.items():
        origin = dns.name.from_text(zone)
        for line in text.splitlines()[1:]:
            name = dns.name.from_text(line.split()[0], origin)
            while name.is_subdomain(origin):
                out.add(name)
                name = name.parent()
    out |= {dns.name.from_text(n) for n in (
        ".", "com.", "org.", "test.", "other.test.", "example.net.", "xample.com.", "anexample.com.")}
    for name in sorted(out):
        for label in (b"a", b"missing", b"*", b"x.y", b"\x00", b"a" * 63):
            try:
                out.add(dns.name.Name((label,) + name.labels))
            except dns.name.NameTooLong:
                pass
    for name in ("a.b.tree.example.com.", "q.w.e.r.wild.example.com.", "a.x.wild.example.com.",
                 "z.z.sub.example.com.", "q.deep.y.wild.example.com.", "x.into.example.com.",
                 "www.into.example.com.", "a.child.into.example.com.", "a.ring.example.com."):
        out.add(dns.name.from_text(name))
    for owner in ("tree", "wild", "example"):  # a DNAME cannot make these longer, a wildcard can
        labels = [b"l" * 60] * 3 + [b"m" * 40]
        while labels:
            name = dns.name.Name(labels + [owner.encode(), b"example", b"com", b""]) if len(labels) < 4 else None
            if name:
                out.add(name)
            labels.pop()
    return sorted(out)


# ---- packets -------------------------------------------------------------------------------------


class Maker:
    """Makes packets from a seed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.names = [n.to_wire() for n in names()]

    def chance(self, part):
        return self.rng.random() < part

    def name(self):
        wire = bytearray(self.rng.choice(self.names))
        if self.chance(0.15):  # the case of letters (0x20)
            wire = bytearray(c ^ 0x20 if chr(c).isalpha() and self.chance(0.5) else c for c in wire)
        if self.chance(0.01):
            wire[self.rng.randrange(len(wire))] = self.rng.randrange(256)
        if self.chance(0.005):
            wire = wire[:-1] + bytes([0xC0, self.rng.choice([0, 2, 12, 13, 255])])
        return bytes(wire)

    def option(self):
        code = self.rng.choice([0, 1, 5, 10, 11, 12, 14, 15, 100, 65001])
        data = self.rng.randbytes(self.rng.choice([0, 1, 2, 8, 16, 24, 40]))
        if code == 11:  # keepalive is for TCP, and then empty in a query
            data = b""
        length = len(data) if self.chance(0.98) else self.rng.randrange(70)
        return struct.pack("!HH", code, length) + data

    def opt(self):
        owner = b"\0" if self.chance(0.97) else self.name()
        size = self.rng.choice([0, 100, 512, 1232, 1232, 1232, 4096, 65535])
        version = 0 if self.chance(0.95) else self.rng.randrange(256)
        high = 0 if self.chance(0.97) else self.rng.randrange(256)
        flags = self.rng.choice([0, 0, 0, 0x8000, 0x4000, 0xFFFF])
        rdata = b"".join(self.option() for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2, 5])))
        length = len(rdata) if self.chance(0.97) else self.rng.randrange(100)
        return owner + struct.pack("!HHBBHH", 41, size, high, version, flags, length) + rdata

    def record(self):
        rdata = self.rng.randbytes(self.rng.choice([0, 4, 16]))
        return self.name() + struct.pack("!HHIH", self.rng.choice(TYPES), 1, 0, len(rdata)) + rdata

    def query(self):
        rng = self.rng
        flags = 0
        if self.chance(0.3):
            flags |= 0x0100
        if self.chance(0.05):
            flags |= 1 << rng.randrange(16)
        if self.chance(0.03):
            flags = flags & ~0x7800 | rng.randrange(16) << 11
        qclass = 1 if self.chance(0.96) else rng.choice([0, 3, 4, 254, 255, 999])
        question = self.name() + struct.pack("!HH", rng.choice(TYPES), qclass)
        counts = [1, 0, 0, 0]
        tail = b""
        if self.chance(0.02):
            counts[0] = rng.choice([0, 2, 3, 65535])
            if counts[0] == 2:
                question += self.name() + struct.pack("!HH", rng.choice(TYPES), 1)
        if self.chance(0.02):
            counts[rng.choice([1, 2, 3])] += 1
            tail += self.record()
        for _ in range(rng.choice([0, 0, 1, 1, 1, 1]) if self.chance(0.985) else 2):
            tail += self.opt()
            counts[3] += 1
        if self.chance(0.015):
            counts[rng.randrange(1, 4)] = rng.choice([0, 1, 2, 255, 65535])
        if self.chance(0.015):
            tail += rng.randbytes(rng.randint(1, 30))
        return struct.pack("!H4H", flags, *counts) + question + tail

    @staticmethod
    def plain(name, rdtype):
        """A well-formed query without an ID."""
        return (struct.pack("!5H", 0, 1, 0, 0, 1) + name + struct.pack("!HH", rdtype, 1)
                + b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0))

    def packet(self, number):
        """A packet with this ID (or a part of it, where the packet is too short for it)."""
        body = bytearray(self.query())
        if self.chance(0.05):  # octets anywhere
            for _ in range(self.rng.choice([1, 1, 2, 4])):
                body[self.rng.randrange(len(body))] = self.rng.randrange(256)
        if self.chance(0.02):
            del body[self.rng.randrange(len(body)):]
        if self.chance(0.01):
            body = bytearray(self.rng.randbytes(self.rng.randrange(300)))
        out = struct.pack("!H", number) + bytes(body)
        return out if self.chance(0.99) else out[:self.rng.randrange(14)]
