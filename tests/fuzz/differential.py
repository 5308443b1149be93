#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sends the same broken and whole queries to sluiced and to NSD, which serve the same zones, and
compares what comes back: a reply or silence, RCODE, AA and TC, the answer and authority sections.

A run is fully determined by its seed and its number of packets.  Differences that are meant stand
in KNOWN, each with its reason; any other ends the run with exit status 1 and is printed with the
packet, so that `--packet HEX` can show it alone.
"""
import argparse
import collections
import pathlib
import random
import shutil
import socket
import struct
import sys
import tempfile
import time

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.wire

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "blackbox"))
import sluicelib  # noqa: E402
from differential_maker import ZONES, Maker  # noqa: E402

DEFAULT_SEED = 20240607
DEFAULT_COUNT = 12000
BATCH = 64  # packets under way
AGAIN = 100  # error responses that NSD left out that are asked for again

# ---- the two servers -----------------------------------------------------------------------------

NSD_CONF = """\
server:
  server-count: 1
  ip-address: 127.0.0.1@{port}
  username: ""
  chroot: ""
  zonesdir: "{dir}"
  database: ""
  pidfile: "{dir}/nsd.pid"
  xfrdfile: "{dir}/xfrd.state"
  zonelistfile: "{dir}/zone.list"
  xfrdir: "{dir}"
  logfile: "{dir}/nsd.log"
  ipv4-edns-size: 1232
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
  answer-cookie: no
  hide-version: yes
  hide-identity: yes
  minimal-responses: yes
  refuse-any: no
remote-control:
  control-enable: no
"""


def write_zones(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for zone, text in ZONES.items():
        (folder / f"{zone}.zone").write_text(text, encoding="ascii")
    return {zone: folder / f"{zone}.zone" for zone in ZONES}


class Nsd(sluicelib.Process):
    """NSD in the foreground, with these zones."""

    def __init__(self, folder, zones):
        self.reserved = sluicelib.Port()
        self.address, self.port = "127.0.0.1", self.reserved.number
        config = NSD_CONF.format(port=self.port, dir=folder)
        for zone, path in zones.items():
            config += f'zone:\n  name: "{zone}"\n  zonefile: "{path}"\n'
        (folder / "nsd.conf").write_text(config, encoding="ascii")
        binary = shutil.which("nsd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
        assert binary, "nsd is not installed (scripts/deps test)"
        super().__init__(binary, "-d", "-c", folder / "nsd.conf")
        self.wait_ready()

    def wait_ready(self):
        wire = sluicelib.make_query("www.example.com.").to_wire()
        end = time.monotonic() + sluicelib.DEADLINE
        while True:
            try:
                if sluicelib.exchange(self.address, self.port, wire, timeout=0.2)[3] & 15 == 0:
                    return
            except OSError:
                pass
            assert self.alive() and time.monotonic() < end, "nsd does not start:\n" + self.log

    def end(self):
        self.kill()
        self.reserved.close()


def start_sluiced(folder, zones):
    (folder / "list").write_text("".join(f"{z} {p}\n" for z, p in zones.items()), encoding="ascii")
    sluicelib.sluice("build", "--zone-list", folder / "list", "--out", folder / "data")
    return sluicelib.Server(folder / "data", threads=1)


class Peer:
    """One server as the fuzzer sees it."""

    def __init__(self, server):
        self.server = server
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sock.settimeout(sluicelib.DEADLINE)
        self.sock.connect((server.address, server.port))
        self.rounds = 0

    def ask_udp(self, packets):
        """[reply or None].  Behind the packets come two good questions, the second only after the
        reply to the first: NSD answers in bunches, not quite in order, but one bunch after the
        other.  What has no reply by then gets none."""
        for packet in packets:
            self.sock.send(packet)
        replies = [None] * len(packets)
        by_id = {p[:2]: i for i, p in enumerate(packets) if len(p) >= 2}
        for _ in range(2):
            self.rounds += 1
            last = struct.pack("!H", 0x8000 | self.rounds & 0x7FFF) + GOOD
            self.sock.send(last)
            while (raw := self.sock.recv(65535))[:2] != last[:2]:
                index = by_id[raw[:2]]
                assert replies[index] is None, f"two replies to one packet: {packets[index].hex()}"
                replies[index] = raw
        return replies

    def ask_tcp(self, packet):
        """The reply, or None if the connection is closed without."""
        with socket.create_connection((self.server.address, self.server.port), 20.0) as sock:
            try:
                sock.sendall(struct.pack("!H", len(packet)) + packet)
                sock.shutdown(socket.SHUT_WR)
                head = sluicelib.receive(sock, 2)
                return sluicelib.receive(sock, struct.unpack("!H", head)[0]) if len(head) == 2 else None
            except (ConnectionError, OSError) as problem:
                if isinstance(problem, TimeoutError):
                    raise
                return None


BAD = b"\x7e\x57" + struct.pack("!5H", 0, 0, 0, 0, 0)  # no question: FORMERR
GOOD = struct.pack("!5H", 0, 1, 0, 0, 0) + dns.name.from_text("www.example.com.").to_wire() + b"\0\x01\0\x01"


# ---- replies -------------------------------------------------------------------------------------

Reply = collections.namedtuple("Reply", "rcode aa tc opcode question answer authority glue opt flags")


def question_of(packet):
    """(name, type, class, octets) of a packet's first question, or None."""
    try:
        parser = dns.wire.Parser(packet, 12)
        name = parser.get_name()
        rdtype, rdclass = parser.get_struct("!HH")
        return name, rdtype, rdclass, packet[12:parser.current]
    except dns.exception.DNSException:
        return None


def read_section(parser, count):
    out = []
    for _ in range(count):
        name = parser.get_name()
        rdtype, rdclass, ttl, length = parser.get_struct("!HHIH")
        with parser.restrict_to(length):
            if rdtype == dns.rdatatype.OPT:
                parser.get_bytes(length)
                out.append((".", ttl, "OPT", str(rdclass)))
                continue
            data = dns.rdata.from_wire_parser(rdclass, rdtype, parser)
        text = data.to_text()
        if dns.rdatatype.to_text(rdtype) in ("NS", "CNAME", "SOA", "MX", "PTR", "DNAME", "SRV"):
            text = text.lower()
        out.append((name.to_text().lower(), ttl, dns.rdatatype.to_text(rdtype), text))
    return out


def read_reply(raw, packet):
    """What is compared of a reply; checks what must hold for any."""
    if raw is None:
        return None
    assert len(raw) >= 12 and raw[:2] == packet[:2] and raw[2] & 0x80, f"not a reply: {raw.hex()}"
    _, flags, qd, an, ns, ar = struct.unpack("!6H", raw[:12])
    parser = dns.wire.Parser(raw, 12)
    question = b""
    if qd:
        assert qd == 1, f"{qd} questions in a reply"
        parser.get_name()
        parser.get_struct("!HH")
        question = raw[12:parser.current]
    sections = [read_section(parser, n) for n in (an, ns, ar)]
    assert parser.remaining() == 0, f"octets behind the reply: {raw.hex()}"
    opts = [r for r in sections[2] if r[2] == "OPT"]
    rcode = flags & 15 | (opts[0][1] >> 24 << 4 if opts else 0)
    answer, authority, additional = map(frozenset, sections)
    referral = any(r[2] == "NS" for r in authority)
    glue = frozenset(r for r in additional if r[2] != "OPT") if referral else frozenset()
    return Reply(rcode, bool(flags & 0x400), bool(flags & 0x200), flags >> 11 & 15, question,
                 answer, authority, glue, len(opts), flags)


def strip_apex_ns(reply):
    """An apex NS set beside an answer is optional (RFC 1034 section 4.3.2 does not ask for it)."""
    if reply is None or not reply.answer or not reply.aa:
        return reply
    apexes = {z + "." for z in ZONES}
    return reply._replace(authority=frozenset(
        r for r in reply.authority if not (r[2] == "NS" and r[0] in apexes)))


def compared(reply):
    if reply is None:
        return None
    return reply.rcode, reply.aa, reply.tc, reply.answer, reply.authority, reply.glue if reply.authority else ()


# ---- differences that are meant ------------------------------------------------------------------

NOERROR, FORMERR, NXDOMAIN, NOTIMP, REFUSED, NOTAUTH, BADVERS = 0, 1, 3, 4, 5, 9, 16


class Packet:
    """What a packet says, as far as it can be read."""

    def __init__(self, octets):
        self.octets = octets
        _, self.flags, self.qd, *self.counts = struct.unpack("!6H", octets[:12])
        self.opcode = self.flags >> 11 & 15
        self.question = question_of(octets)
        self.rdtype = self.question[1] if self.question else None
        self.rdclass = self.question[2] if self.question else None
        self.sections, self.whole = [[], [], []], False
        if self.question and self.qd == 1:
            self.read_records()
        self.records = [r for s in self.sections for r in s]
        self.opts = [r for r in self.sections[2] if r[1] == dns.rdatatype.OPT]

    def read_records(self):
        parser = dns.wire.Parser(self.octets, 12 + len(self.question[3]))
        try:
            for section, count in zip(self.sections, self.counts):
                for _ in range(count):
                    owner = parser.get_name()
                    rdtype, rdclass, ttl, length = parser.get_struct("!HHIH")
                    section.append((owner, rdtype, rdclass, ttl, parser.get_bytes(length)))
            self.whole = parser.remaining() == 0
        except dns.exception.DNSException:
            pass

    def option_lengths(self):
        """[(code, length)] of the first OPT's options; None at the end if they overrun it."""
        out, data = [], self.opts[0][4] if self.opts else b""
        while data:
            if len(data) < 4 or int.from_bytes(data[2:4], "big") > len(data) - 4:
                return out + [None]
            code, length = struct.unpack("!HH", data[:4])
            out.append((code, length))
            data = data[4 + length:]
        return out


# (name, reason, test(packet, ours, theirs, tcp))
KNOWN = []


def known(reason):
    def add(test):
        KNOWN.append((test.__name__, reason, test))
        return test
    return add


@known("An RCODE in a query says nothing (RFC 1035 section 4.1.1: it is 'set as part of responses')")
def rcode_in_query(p, ours, theirs, _tcp):
    return p.flags & 15 and ours and theirs and theirs.rcode == FORMERR


@known("TC in a query says nothing (RFC 1035 section 4.1.1: it tells that 'this message was truncated')")
def tc_in_query(p, ours, theirs, _tcp):
    return p.flags & 0x200 and ours and theirs and theirs.rcode == FORMERR


@known("AXFR over UDP is not defined (RFC 5936 section 4.2): REFUSED, or NOTAUTH where no such zone is, as over"
       " TCP (section 2.2.1); NSD says NOTIMP")
def transfer(p, ours, theirs, _tcp):
    return p.rdtype in (251, 252) and ours and ours.rcode in (REFUSED, NOTAUTH) and theirs and (
        theirs.rcode in (NOTIMP, NOTAUTH, REFUSED, FORMERR))


@known("An option that overruns its OPT cannot be read (RFC 6891 section 6.1.2, RFC 1035 section 4.1.1:"
       " FORMERR); NSD answers as if it were not there")
def broken_option(p, ours, _theirs, _tcp):
    return ours and ours.rcode == FORMERR and None in p.option_lengths()


@known("Records cut short, or octets behind the last record, cannot be read (RFC 1035 section 4.1.1:"
       " FORMERR); NSD looks only for an OPT")
def broken_records(p, ours, theirs, _tcp):
    return p.opcode == 0 and not p.whole and ours and ours.rcode == FORMERR and theirs


@known("A COOKIE of another length than 8 or 16 to 40 is FORMERR (RFC 7873 section 5.2.2); this NSD ignores"
       " cookies, since one that answers them sends broken OPTs for two")
def broken_cookie(p, ours, _theirs, _tcp):
    first = [length for code, length in filter(None, p.option_lengths()) if code == 10][:1]
    return first and first[0] != 8 and not 16 <= first[0] <= 40 and ours and ours.rcode == FORMERR


@known("A record beside the OPT in the additional section says nothing about the question, as an"
       " unknown option (RFC 6891 section 6.1.2) does not; NSD calls it FORMERR")
def other_records(p, ours, theirs, _tcp):
    beside = p.counts[2] > len(p.opts)
    return beside and ours and ours.rcode != FORMERR and theirs and theirs.rcode == FORMERR


@known("NOTIFY and UPDATE that nobody allowed are REFUSED (RFC 2136 section 3.3), a NOTIFY for a zone that we do"
       " not follow is NOTAUTH (RFC 1996 section 3.10 leaves the choice), one that is malformed FORMERR")
def not_allowed(p, ours, theirs, _tcp):
    mine = (REFUSED, NOTAUTH, FORMERR) if p.opcode == 4 else (REFUSED,)
    return p.opcode in (4, 5) and ours and ours.rcode in mine and theirs and (
        theirs.rcode in (FORMERR, NXDOMAIN, NOTIMP, REFUSED, NOTAUTH))


@known("A response has flags of its own (RFC 1035 section 4.1.1); NSD sends AA and TC of the query back in errors")
def copied_flags(p, ours, theirs, _tcp):
    return p.flags & 0x600 and ours and theirs and not theirs.answer and ours == theirs._replace(
        aa=False, tc=False, flags=ours.flags) and ours.rcode in (FORMERR, NOTIMP, REFUSED, BADVERS)


@known("QCLASS ANY has no authoritative answer (RFC 1034 section 3.7.1) and is refused")
def class_any(p, ours, theirs, _tcp):
    return p.rdclass == 255 and ours and ours.rcode == REFUSED and theirs and theirs.rcode != FORMERR


@known("QTYPE ANY gets one RRset (RFC 8482 section 4.1), which one is free, and an alias is that; NSD follows"
       " a DNAME and chooses otherwise")
def any_type(p, ours, theirs, _tcp):
    kinds = {(r[0], r[2]) for r in ours.answer} if ours else set()
    aliases = {kind for _, kind in kinds} == {"DNAME", "CNAME"}
    return p.rdtype == 255 and theirs and ours.rcode == NOERROR and ours.aa and theirs.aa and (
        len(kinds) == 1 and theirs.answer or aliases and ours.answer <= theirs.answer)


@known("Over TCP NSD closes on less than a header and the shortest question; RFC 1035 section 4.1.1: FORMERR")
def short_over_tcp(p, ours, theirs, tcp):
    return tcp and theirs is None and len(p.octets) < 17 and ours.rcode == FORMERR


def explain(packet, ours, theirs, tcp):
    """The name of the known difference, or None."""
    read = Packet(packet)
    for name, _, test in KNOWN:
        if test(read, ours, theirs, tcp):
            return name
    return None


# ---- the run -------------------------------------------------------------------------------------


def show(reply):
    if reply is None:
        return "silence"
    return (f"rcode {reply.rcode} opcode {reply.opcode} aa {reply.aa:d} tc {reply.tc:d} opt {reply.opt} "
            f"question {len(reply.question)} octets\n"
            + "".join(f"      answer    {r}\n" for r in sorted(reply.answer))
            + "".join(f"      authority {r}\n" for r in sorted(reply.authority))
            + "".join(f"      glue      {r}\n" for r in sorted(reply.glue)))


def describe(packet, ours, theirs, tcp):
    question = question_of(packet)
    asked = (f"{question[0]} {dns.rdatatype.to_text(question[1])} class {question[2]}"
             if question else "no whole question")
    return (f"{'TCP' if tcp else 'UDP'} {packet.hex()}\n  {asked}, header {packet[2:12].hex()}\n"
            f"  ours:   {show(ours)}\n  theirs: {show(theirs)}")


class Run:
    """Compares and counts."""

    def __init__(self, ours, theirs):
        self.peers = Peer(ours), Peer(theirs)
        self.count = collections.Counter()
        self.unknown = []
        self.again = []  # (packet, our reply, TCP)

    def judge(self, packet, raw, tcp):
        self.count["packets"] += 1
        if raw[0] == raw[1]:
            self.count["same octets"] += 1
        elif raw[1] is None:
            self.again.append((packet, raw[0], tcp))
        else:
            self.compare(packet, raw, tcp)

    def compare(self, packet, raw, tcp):
        try:
            ours, theirs = (strip_apex_ns(read_reply(r, packet)) for r in raw)
        except (AssertionError, dns.exception.DNSException, ValueError) as problem:
            self.unknown.append(f"{packet.hex()}\n  {problem!r}\n  ours {raw[0] and raw[0].hex()}\n"
                                f"  theirs {raw[1] and raw[1].hex()}")
            return
        if ours and ours.question and not packet[12:].startswith(ours.question):
            self.unknown.append(f"the question came back changed: {packet.hex()} {raw[0].hex()}")
        if compared(ours) == compared(theirs):
            self.count["same"] += 1
            return
        if ours and ours.tc and not tcp and theirs and not ours.answer:
            # Which names are compressed decides what fits; over TCP all does.
            self.count["truncated, compared over TCP"] += 1
            self.compare(packet, (self.peers[0].ask_tcp(packet), self.patient(packet, True)), True)
            return
        why = explain(packet, ours, theirs, tcp) if len(packet) >= 12 else None
        self.count[why or "UNKNOWN"] += 1
        if not why:
            self.unknown.append(describe(packet, ours, theirs, tcp))

    def udp(self, packets):
        for packet, *raw in zip(packets, *(p.ask_udp(packets) for p in self.peers)):
            self.judge(packet, raw, False)

    def tcp(self, packet):
        self.judge(packet, [p.ask_tcp(packet) for p in self.peers], True)

    def ask_again(self, rng):
        """NSD sends only so many error responses a second.  What it left out is asked again while
        it does send them: all that is no error here, and of the others a part (this takes time)."""
        errors = [a for a in self.again if a[1][3] & 15 in (FORMERR, NOTIMP)]
        chosen = [a for a in self.again if a[1][3] & 15 not in (FORMERR, NOTIMP)]
        chosen += rng.sample(errors, min(AGAIN, len(errors)))
        self.count.update({"errors that NSD left out": len(self.again) - len(chosen)} if len(chosen) < len(self.again) else {})
        self.again = []
        for packet, ours, tcp in chosen:
            self.compare(packet, (ours, self.patient(packet, tcp)), tcp)

    def patient(self, packet, tcp):
        """NSD's reply; None only if it replies to other bad packets but, three times, not to this."""
        peer = self.peers[1]
        end = time.monotonic() + sluicelib.DEADLINE
        silent = 0
        while silent < 3:
            raw, probe = peer.ask_tcp(packet) if tcp else peer.ask_udp([packet])[0], peer.ask_udp([BAD])[0]
            if raw is not None:
                return raw
            silent += probe is not None
            assert time.monotonic() < end, "nsd sends no errors any more"
        return None

    def fuzz_these(self, bodies):
        """Compares packets that are given without their IDs."""
        for start in range(0, len(bodies), BATCH):
            self.udp([struct.pack("!H", i) + body for i, body in enumerate(bodies[start:start + BATCH])])
        self.ask_again(random.Random(0))

    def fuzz(self, seed, count, limit=20):
        maker = Maker(seed)
        for start in range(0, count, BATCH):
            packets = [maker.packet(start + i & 0x7FFF) for i in range(min(BATCH, count - start))]
            self.udp(packets)
            self.tcp(packets[0])
            if len(self.unknown) >= limit:
                break
        self.ask_again(maker.rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT, help="number of packets of one seed")
    parser.add_argument("--seconds", type=float, help="go on with further seeds for so long")
    parser.add_argument("--limit", type=int, default=20, help="stop after so many unknown differences")
    parser.add_argument("--packet", help="compare this packet alone (hexadecimal)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-differential-") as name:
        folder = pathlib.Path(name)
        zones = write_zones(folder / "zones")
        theirs = Nsd(folder, zones)
        try:
            with start_sluiced(folder, zones) as ours:
                run = Run(ours, theirs)
                if options.packet:
                    packet = bytes.fromhex(options.packet)
                    for tcp, raw in ((False, [p.ask_udp([packet])[0] for p in run.peers]),
                                     (True, [p.ask_tcp(packet) for p in run.peers])):
                        print(describe(packet, *(read_reply(r, packet) for r in raw), tcp))
                    return 0
                begin, seed = time.monotonic(), options.seed
                while True:
                    run.fuzz(seed, options.count, options.limit)
                    if run.unknown or not options.seconds or time.monotonic() - begin > options.seconds:
                        break
                    seed += 1
                for what, number in run.count.most_common():
                    print(f"{number:8d}  {what}")
                print(f"seeds {options.seed} to {seed}, {time.monotonic() - begin:.1f} s")
                print("\n".join(run.unknown))
                return 1 if run.unknown else 0
        finally:
            theirs.end()


if __name__ == "__main__":
    sys.exit(main())
