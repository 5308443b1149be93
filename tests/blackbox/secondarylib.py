# SPDX-License-Identifier: Apache-2.0
"""sluiced as a secondary, and a primary that does as it is told: what the tests of transfers in share."""
import struct

import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

import primaries
import serverlib
import sluicelib
from primaries import HOST, ZONE


ALIAS = f"alias: {{CNAME: ns.{ZONE}}}"  # from a zone of the build into the secondary zone


class Secondary:
    """A sluiced that has the zone from a primary, which need not run yet."""

    def __init__(self, start, make_config, folder, key=None, extra="", below="", others=()):
        self.reserved = sluicelib.Port(HOST)
        self.primary_port = self.reserved.number
        self.state = folder / "state"
        self.config = folder / "sluice.yaml"
        self.key, self.start_server = key, start
        self.data = sluicelib.build(make_config(zone="example.com", records=ALIAS), folder / "data")
        tsig = f", tsig: {key.name}" if key else ""
        listed = ", ".join(f'"{HOST}@{port}"' for port in (self.primary_port, *others))
        self.config.write_text(f"{key.yaml() if key else ''}secondary:\n"
                               f"  - {{zone: {ZONE}, primaries: [{listed}]{tsig}"
                               f"{extra}}}\n{below}", encoding="utf-8")
        self.server = None
        self.run()

    def run(self):
        self.server = self.start_server(self.data, "-c", self.config, "--state", self.state)
        return self.server

    def ask(self, name, rdtype="A", **options):
        return self.server.ask(name, rdtype, **options)

    def status(self):
        return sluicelib.control(self.server.control, "status")["secondary"][0]

    def counter(self, name):
        return serverlib.counters(self.server)[f"secondary_{name}"]

    def serial(self):
        reply = self.ask(ZONE, "SOA")
        return reply.answer[0][0].serial if reply.answer else None

    def wait_serial(self, serial):
        serverlib.wait_for(lambda: self.serial() == serial,
                           lambda: f"serial {serial}; the log is:\n{self.server.log}")

    def wait_status(self, **wanted):
        def is_so():
            zones = sluicelib.control(self.server.control, "status")["secondary"]
            mine = next(zone for zone in zones if zone["zone"] == ZONE)
            return all(mine[key] == value for key, value in wanted.items())
        serverlib.wait_for(is_so, str(wanted))

    def image(self):
        return self.state / "secondary" / "example.net.image"


@pytest.fixture
def secondary(start, make_config, tmp_path):
    made = []

    def make(key=None, **options):
        made.append(Secondary(start, make_config, tmp_path, key, **options))
        return made[-1]

    yield make
    for one in made:
        one.reserved.close()


@pytest.fixture
def primary(tmp_path):
    made = []

    def make(kind, beside, text, key=None):
        one = primaries.ALL[kind](tmp_path / kind, beside.primary_port, text,
                                  (HOST, beside.server.port), key)
        made.append(one)
        one.start()
        return one

    yield make
    for one in made:
        one.kill()


def soa(serial, zone=ZONE, refresh=3600, retry=600, expire=86400):
    return (zone, 300, "SOA", f"ns.{zone} host.{zone} {serial} {refresh} {retry} {expire} 60")


NS = (ZONE, 300, "NS", f"ns.{ZONE}")
A = (f"ns.{ZONE}", 300, "A", "192.0.2.53")


def answer(wire, *rrs, rcode=0):
    """A response to the query with these records, as wire."""
    reply = dns.message.make_response(dns.message.from_wire(wire))
    reply.flags |= dns.flags.AA
    reply.set_rcode(rcode)
    for owner, ttl, rdtype, text in rrs:
        rrset = dns.rrset.from_text(owner, ttl, "IN", rdtype, text)
        reply.answer.append(rrset)
    return reply.to_wire(max_size=65535)


def framed(wire):
    return struct.pack("!H", len(wire)) + wire


def notify(server, zone=ZONE, source=HOST, tcp=False, serial=None):
    """Sends a NOTIFY; returns the RCODE of the response."""
    message = dns.message.make_query(zone, "SOA")
    message.flags = dns.flags.AA
    message.set_opcode(dns.opcode.NOTIFY)
    if serial is not None:
        message.answer.append(dns.rrset.from_text(zone, 0, "IN", "SOA", soa(serial)[3]))
    ask = dns.query.tcp if tcp else dns.query.udp
    reply = ask(message, HOST, sluicelib.DEADLINE, server.port, source=source)
    assert reply.opcode() == dns.opcode.NOTIFY and reply.question == message.question
    return dns.rcode.to_text(reply.rcode())


class Script:
    """A primary with a serial, and a function that carries out the transfer.  It is asked at once, so what it
    is to send first must be given here."""

    def __init__(self, mine, serial=1, send=None, **soa_options):
        self.serial, self.send, self.soa_options = serial, send, soa_options
        self.asked = []
        self.primary = primaries.Scripted(mine.primary_port, self.answer_soa, self.transfer)

    def zone(self, *more):
        head = soa(self.serial, **self.soa_options)
        return (head, NS, A, *more, head)

    def answer_soa(self, wire):
        return answer(wire, soa(self.serial, **self.soa_options))

    def transfer(self, wire, sock):
        rdtype = dns.message.from_wire(wire).question[0].rdtype
        self.asked.append(dns.rdatatype.to_text(rdtype))
        if self.send is not None:
            self.send(wire, sock)
        else:
            sock.sendall(framed(answer(wire, *self.zone())))

    def close(self):
        self.primary.close()
