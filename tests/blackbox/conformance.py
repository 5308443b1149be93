# SPDX-License-Identifier: Apache-2.0
"""Serving the zones of tests/conformance and comparing with the peers' recorded answers."""
import json
import re
import socket
import struct

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rdataclass
import dns.rdatatype

import sluicelib

FOLDER = sluicelib.REPO / "tests/conformance"
# Types whose rdata consists of names: their case does not matter.
NAMES_INSIDE = {"NS", "CNAME", "SOA", "PTR", "MX", "SRV", "DNAME", "AFSDB", "RP", "KX", "NAPTR"}


def load(stem):
    """-> (cases, peer names, {case id: recorded})"""
    cases = json.loads((FOLDER / f"{stem}.json").read_text(encoding="utf-8"))["cases"]
    recorded = json.loads((FOLDER / f"{stem}.peers.json").read_text(encoding="utf-8"))
    return cases, recorded["peers"], recorded["cases"]


def allowed():
    """{(case, name, type)} of the differences that are meant."""
    out = set()
    for line in (FOLDER / "allowed.txt").read_text(encoding="utf-8").splitlines():
        words, _, why = line.partition("#")
        if words.split():
            assert why.strip(), f"allowed.txt: no reason given: {line}"
            out.add(tuple(words.split()[:3]))
    return out


class Placed:
    """A case placed on a server: a suffix keeps zones of the same name apart."""

    def __init__(self, case, suffix):
        self.case = case
        self.suffix = suffix
        self.origin = self.absolute(case["origin"])
        self.text = case["zone"].replace(".~", "." + suffix)
        self.path = None

    def absolute(self, name):
        return f"{name}.{self.suffix}" if name else (self.suffix or ".")

    def questions(self):
        """(text as recorded, name, type)"""
        for text in self.case["q"]:
            name, rdtype = text.rsplit(" ", 1)
            yield text, self.absolute(name), rdtype

    def write(self, folder):
        self.path = folder / (re.sub(r"[^a-z0-9.-]", "_", self.origin.lower()) + "zone")
        self.path.write_text(self.text.replace("@DIR@", str(folder)), encoding="utf-8", newline="")
        for name, text in self.case.get("include", {}).items():
            (folder / name).write_text(text.replace(".~", "." + self.suffix), encoding="utf-8")


def build(placed, root):
    """Builds all zones that the build accepts; returns ({case id: messages} of the refused, data)."""
    folder = root / "zones"
    folder.mkdir(parents=True)
    for one in placed:
        one.write(folder)
    refused = {}
    left = list(placed)
    while True:
        (root / "list").write_text("".join(f"{p.origin} {p.path}\n" for p in left), encoding="utf-8")
        if not left:
            return refused, None
        done = sluicelib.sluice("build", "--zone-list", root / "list", "--out", root / "data", status=None)
        if done.returncode == 0:
            return refused, root / "data"
        bad = [p for p in left if str(p.path) in done.stderr
               or any(f"{folder}/{i}" in done.stderr for i in p.case.get("include", {}))]
        assert bad, f"the build failed without naming a zone's file:\n{done.stderr}"
        for one in bad:
            refused[one.case["id"]] = [line for line in done.stderr.splitlines() if str(one.path) in line]
            left.remove(one)


def ask_all(server, questions, window=32):
    """Asks (name, type) over UDP, truncated ones again over TCP; returns messages in order."""
    wires = [sluicelib.make_query(dns.name.from_text(n), t).to_wire()[2:] for n, t in questions]
    replies = [None] * len(wires)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((server.address, server.port))
        sock.settimeout(1.0)
        waiting, following, misses = set(), 0, 0
        while waiting or following < len(wires):
            while following < len(wires) and len(waiting) < window:
                sock.send(struct.pack("!H", following & 0xFFFF) + wires[following])
                waiting.add(following)
                following += 1
            try:
                wire = sock.recv(65535)
            except TimeoutError:
                misses += 1
                assert misses < 30, f"no reply to {[questions[i] for i in sorted(waiting)][:5]}"
                for i in waiting:
                    sock.send(struct.pack("!H", i & 0xFFFF) + wires[i])
                continue
            found = [i for i in waiting if i & 0xFFFF == struct.unpack("!H", wire[:2])[0]]
            for i in found:
                waiting.remove(i)
                replies[i] = wire
    for i, wire in enumerate(replies):
        if wire[2] & 0x02:
            replies[i] = sluicelib.exchange_tcp(server.address, server.port, wire[:2] + wires[i])
    return replies


def lines(section, suffix):
    out = []
    for rrset in section:
        if rrset.rdtype == dns.rdatatype.OPT:
            continue
        assert rrset.rdclass == dns.rdataclass.IN
        rdtype = dns.rdatatype.to_text(rrset.rdtype)
        for rdata in rrset:
            text = rdata.to_text()
            if rdtype in NAMES_INSIDE:
                text = text.lower()
            line = f"{rrset.name.to_text().lower()} {rrset.ttl} {rdtype} {text}"
            out.append(line.replace("." + suffix, ".") if suffix else line)
    return out


def view(wire, placed, name, rdtype):
    """What is compared of a reply: (rcode, flags, answer, authority, additional)."""
    message = dns.message.from_wire(wire, ignore_trailing=False, one_rr_per_rrset=True)
    question = message.question[0]
    assert len(message.question) == 1
    assert question.name.to_text() == dns.name.from_text(name).to_text(), "the question came back changed"
    assert question.rdtype == dns.rdatatype.from_text(rdtype)
    assert message.opcode() == dns.opcode.QUERY and message.flags & dns.flags.QR
    assert not message.flags & (dns.flags.RA | dns.flags.RD | 0x40)
    parts = [lines(s, placed.suffix) for s in (message.answer, message.authority, message.additional)]
    for part in parts:
        assert len(set(part)) == len(part), f"a record stands twice in a section: {part}"
    answer, authority, additional = parts
    authoritative = bool(message.flags & dns.flags.AA)
    if answer and message.rcode() == 0 and authoritative:
        apex = (placed.case["origin"] + ".").lower() if placed.case["origin"] else "."
        authority = [a for a in authority if (a.split(" ")[0], a.split(" ")[2]) != (apex, "NS")]
    if answer or not any(a.split(" ")[2] == "NS" for a in authority):
        additional = []
    flags = ("a" if authoritative else "") + ("t" if message.flags & dns.flags.TC else "")
    return (sluicelib.rcode(message), flags, frozenset(answer), frozenset(authority), frozenset(additional))


def peer_views(recorded, peers, number):
    """{what a peer answered: [peers]} for the question of this number."""
    records = recorded["rr"]
    out = {}
    for mask, rcode, flags, *sections in recorded["q"][number]:
        one = (rcode, flags, *(frozenset(records[i] for i in s) for s in sections))
        out[one] = [p for bit, p in enumerate(peers) if mask >> bit & 1]
    return out
