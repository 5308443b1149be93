# SPDX-License-Identifier: Apache-2.0
"""sluiced as a secondary of other servers."""
import json
import os
import pathlib
import shutil
import socket
import struct
import threading
import time

import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rdatatype
import pytest

import primaries
import serverlib
import sluicelib
from primaries import HOST, ZONE, Key, zone_text
from secondarylib import NS, A, Script, answer, framed, notify, primary, secondary, soa  # noqa: F401


def same_zone(mine, port):
    """Asks both servers the same; all answers must be the same."""
    names = [(ZONE, "SOA"), (ZONE, "NS"), (ZONE, "MX"), (f"ns.{ZONE}", "A"), (f"a.wild.{ZONE}", "TXT"),
             (f"alias.{ZONE}", "A"), (f"x.sub.{ZONE}", "A"), (f"none.{ZONE}", "A"), (f"wild.{ZONE}", "A")]
    for name, rdtype in names:
        ours, theirs = mine.ask(name, rdtype), sluicelib.ask(HOST, port, name, rdtype)
        assert ours.rcode() == theirs.rcode(), name
        assert sluicelib.records(ours) == sluicelib.records(theirs), name
        if not ours.answer:
            assert sluicelib.records(ours, "authority") == sluicelib.records(theirs, "authority"), name


# ---- real servers --------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [None, "hmac-sha256", "hmac-sha512"])
@pytest.mark.parametrize("kind", sorted(primaries.ALL))
def test_transfer_then_change_with_notify(secondary, primary, kind, algorithm):
    key = Key(algorithm=algorithm, seed=b"s" * 64) if algorithm else None
    mine = secondary(key)
    assert sluicelib.rcode(mine.ask(ZONE, "SOA")) == "SERVFAIL"  # nothing there yet
    other = primary(kind, mine, zone_text(1, "one IN A 192.0.2.1"), key)
    other.wait_serial(1)
    mine.wait_serial(1)
    same_zone(mine, other.port)
    assert sluicelib.rdata(mine.ask(f"one.{ZONE}")) == ["192.0.2.1"]
    assert mine.status()["state"] == "current"

    other.change(zone_text(2, "two IN A 192.0.2.2"))
    other.wait_serial(2)
    mine.wait_serial(2)
    same_zone(mine, other.port)
    assert sluicelib.rdata(mine.ask(f"two.{ZONE}")) == ["192.0.2.2"]
    assert sluicelib.rcode(mine.ask(f"one.{ZONE}")) == "NXDOMAIN"
    assert mine.counter("notifies") >= 1
    how = "changes" if other.offers_ixfr else "whole zone"
    mine.server.wait_log(rf"secondary {ZONE}: serial 2 from .*\({how}")
    assert mine.counter("ixfr") == (1 if other.offers_ixfr else 0)


@pytest.mark.parametrize("kind", sorted(primaries.ALL))
def test_a_zone_of_many_signed_messages(secondary, primary, kind):
    key = Key()
    mine = secondary(key)
    count = 8000
    other = primary(kind, mine, zone_text(1, *(f"r{i} IN TXT \"{i} {'x' * 180}\"" for i in range(count))),
                    key)
    other.wait_serial(1)
    mine.wait_serial(1)
    for number in (0, 1, count // 2, count - 1):
        assert sluicelib.rdata(mine.ask(f"r{number}.{ZONE}", "TXT")) == [f"\"{number} {'x' * 180}\""]
    assert mine.counter("octets") > 190 * count  # so it took more than twenty messages


def test_the_zone_can_be_transferred_on(secondary, primary):
    mine = secondary(below=f"transfer: {{allow: [{HOST}]}}\n")
    other = primary("bind", mine, zone_text(1, "one IN A 192.0.2.1"))
    mine.wait_serial(1)

    def transfer(port):
        stream = dns.query.xfr(HOST, ZONE, port=port, relativize=False, lifetime=sluicelib.DEADLINE)
        return sorted(f"{rrset.name} {rrset.ttl} {rr.to_text()}" for message in stream
                      for rrset in message.answer for rr in rrset)
    assert transfer(mine.server.port) == transfer(other.port)
    other.change(zone_text(2, "two IN A 192.0.2.2"))
    mine.wait_serial(2)
    assert transfer(mine.server.port) == transfer(other.port)


@pytest.mark.parametrize("kind", sorted(primaries.ALL))
def test_a_wrong_secret_transfers_nothing(secondary, primary, kind):
    mine = secondary(Key(seed=b"a" * 32))
    other = primary(kind, mine, zone_text(1), Key(seed=b"b" * 32))
    other.wait_serial(1)
    serverlib.wait_for(lambda: "signature" in (mine.status()["error"] or ""),
                       f"an error about the signature: {mine.server.log}")
    assert mine.status()["state"] == "empty"
    assert mine.status()["serial"] is None
    assert sluicelib.rcode(mine.ask(ZONE, "SOA")) == "SERVFAIL"


def test_a_restart_without_the_primary(secondary, primary):
    mine = secondary()
    other = primary("nsd", mine, zone_text(7, "one IN A 192.0.2.1"))
    mine.wait_serial(7)
    other.kill()
    mine.server.stop()
    mine.run()
    assert mine.serial() == 7
    assert sluicelib.rdata(mine.ask(f"one.{ZONE}")) == ["192.0.2.1"]
    serverlib.wait_for(lambda: mine.status()["state"] == "stale", "the failure to refresh")
    status = mine.status()
    assert "refused" in status["error"] and status["serial"] == 7
    assert status["refreshed"] <= time.time() < status["next_refresh"] < status["expires"]


def test_a_damaged_image_is_set_aside_and_fetched_anew(secondary, primary):
    mine = secondary()
    other = primary("nsd", mine, zone_text(7))
    mine.wait_serial(7)
    mine.server.stop()
    image = bytearray(mine.image().read_bytes())
    image[len(image) // 2] ^= 0xff
    mine.image().write_bytes(image)
    mine.run()
    mine.server.wait_log("set aside and fetched anew")
    mine.wait_serial(7)
    other.kill()
    mine.server.stop()
    mine.image().write_bytes(b"no image at all")
    mine.run()
    assert sluicelib.rcode(mine.ask(ZONE, "SOA")) == "SERVFAIL"
    assert mine.image().with_name("example.net.image.damaged").exists()
    assert sluicelib.rcode(mine.ask("example.com", "SOA")) == "NOERROR"  # the others are served


# ---- primaries that misbehave --------------------------------------------------------------------


def endless(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS)))
    number = 0
    while True:
        sock.sendall(framed(answer(wire, *[(f"x{number + i}.{ZONE}", 1, "A", "192.0.2.1")
                                           for i in range(100)])))
        number += 100


def same_record_for_ever(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS)))
    while True:
        sock.sendall(framed(answer(wire, A)) * 50)


def cut_in_a_message(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS, A, soa(2)))[:-5])


def cut_between_messages(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS, A)))


def reset(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS)))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def other_zone(wire, sock):
    query = dns.message.from_wire(wire)
    query.question[0].name = dns.name.from_text("example.org.")
    reply = answer(query.to_wire(), soa(2, "example.org."), soa(2, "example.org."))
    sock.sendall(framed(reply))


def outside(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS, ("www.example.org.", 1, "A", "192.0.2.66"), soa(2))))


def other_soa(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS, A, soa(3))))


def behind_the_end(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS, A, soa(2), A)))


def no_records(wire, sock):
    while True:
        sock.sendall(framed(answer(wire)))


def refused(wire, sock):
    sock.sendall(framed(answer(wire, rcode=5)))


def noise(_, sock):
    sock.sendall(framed(os.urandom(300)) * 20)


def other_id(wire, sock):
    sock.sendall(framed(bytes([wire[0] ^ 1]) + answer(wire, soa(2), NS, A, soa(2))[1:]))


def no_ns(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), A, soa(2))))


def cname_and_more(wire, sock):
    both = [(f"c.{ZONE}", 1, "CNAME", ZONE), (f"c.{ZONE}", 1, "A", "192.0.2.1")]
    sock.sendall(framed(answer(wire, soa(2), NS, *both, soa(2))))


BROKEN = [endless, same_record_for_ever, cut_in_a_message, cut_between_messages, reset, other_zone,
          outside, other_soa, behind_the_end, no_records, refused, noise, other_id, no_ns, cname_and_more]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda f: f.__name__)
def test_a_broken_transfer_leaves_the_old_zone(secondary, broken):
    mine = secondary(extra=", max-records: 5000, max-octets: 2000000")
    script = Script(mine)
    try:
        mine.wait_serial(1)
        files = {p.name: p.read_bytes() for p in mine.image().parent.iterdir()}
        script.send, script.serial = broken, 2
        assert notify(mine.server) == "NOERROR"
        serverlib.wait_for(lambda: mine.status()["error"] and not mine.status()["busy"],
                           f"a failed transfer: {mine.server.log}")
        assert script.asked[:2] == ["AXFR", "IXFR"]
        assert mine.serial() == 1
        assert mine.status()["serial"] == 1 and mine.status()["state"] == "stale"
        assert {p.name: p.read_bytes() for p in mine.image().parent.iterdir()} == files
        # And it goes on with the next good one.
        script.serial, script.send = 3, None
        assert notify(mine.server, serial=3) == "NOERROR"
        mine.wait_serial(3)
        assert mine.status()["error"] is None
    finally:
        script.close()


def test_changes_that_do_not_fit_lead_to_the_whole_zone(secondary):
    mine = secondary()
    script = Script(mine)

    def send(wire, sock):
        if script.asked[-1] == "IXFR":
            gone = (f"gone.{ZONE}", 1, "A", "192.0.2.1")
            sock.sendall(framed(answer(wire, soa(2), soa(1), gone, soa(2), soa(2))))
        else:
            sock.sendall(framed(answer(wire, *script.zone((f"new.{ZONE}", 1, "A", "192.0.2.9")))))
    try:
        mine.wait_serial(1)
        script.send, script.serial = send, 2
        notify(mine.server)
        mine.wait_serial(2)
        assert script.asked == ["AXFR", "IXFR", "AXFR"]
        assert sluicelib.rdata(mine.ask(f"new.{ZONE}")) == ["192.0.2.9"]
        assert mine.counter("ixfr") == 0
    finally:
        script.close()


class Dribbling:
    """A primary of any zone, whose transfers never come to an end."""

    def __init__(self, address):
        self.stop, self.open = threading.Event(), 0
        self.reserved = sluicelib.Port(address)
        self.port = self.reserved.number
        self.tcp = socket.create_server((address, self.port), backlog=256)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, self.port))
        self.threads = []
        for work in (self.answer_soa, self.accept):
            self.spawn(work)

    def spawn(self, work, *arguments):
        def run():
            try:
                work(*arguments)
            except OSError:
                pass  # closed
        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    @staticmethod
    def head(wire):
        name = dns.message.from_wire(wire).question[0].name.to_text()
        return answer(wire, (name, 300, "SOA", soa(2)[3]))

    def answer_soa(self):
        while not self.stop.is_set():
            wire, client = self.udp.recvfrom(65535)
            if wire:  # else shut down
                self.udp.sendto(self.head(wire), client)

    def accept(self):
        while not self.stop.is_set():
            sock, _ = self.tcp.accept()
            self.spawn(self.dribble, sock)

    def dribble(self, sock):
        with sock:
            length = sluicelib.receive(sock, 2)
            wire = sluicelib.receive(sock, int.from_bytes(length, "big"))
            name = dns.message.from_wire(wire).question[0].name.to_text()
            sock.sendall(framed(self.head(wire)))
            self.open += 1
            while not self.stop.wait(1.0):
                sock.sendall(framed(answer(wire, (f"x.{name}", 1, "A", "192.0.2.1"))))

    def close(self):
        self.stop.set()
        for sock in (self.tcp, self.udp):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(sluicelib.DEADLINE)
        self.tcp.close()
        self.udp.close()
        self.reserved.close()


def prompt(wire, sock=None):
    """What a primary of any zone answers: its SOA, and to a transfer all of it."""
    name = dns.message.from_wire(wire).question[0].name.to_text()
    head = name, 300, "SOA", soa(1)[3]
    if sock is None:
        return answer(wire, head)
    sock.sendall(framed(answer(wire, head, (name, 300, "NS", f"ns.{ZONE}"), head)))
    return None


def test_a_slow_primary_holds_up_only_its_own_zones(secondary):
    """Primaries are told apart by one of 1024 hashes of their addresses: of four that are prompt, one may well
    share that of the slow one, but hardly ever three."""
    slow = Dribbling("127.0.0.3")
    zones = "".join(f"  - {{zone: z{i}.example, primaries: [\"127.0.0.3@{slow.port}\"]}}\n" for i in range(100))
    hosts = [f"127.0.0.{number}" for number in range(4, 8)]
    zones += "".join(f"  - {{zone: prompt{i}.example, primaries: [\"{host}@{slow.port}\"]}}\n"
                     for i, host in enumerate(hosts))
    mine = secondary(below=zones)
    serverlib.wait_for(lambda: slow.open >= 16, "as many transfers as it may have")
    others = [primaries.Scripted(slow.port, prompt, prompt, host) for host in hosts]

    def current():
        listed = sluicelib.control(mine.server.control, "status")["secondary"]
        return [zone["zone"] for zone in listed if zone["zone"].startswith("prompt") and zone["state"] == "current"]
    try:
        serverlib.wait_for(lambda: len(current()) >= 2, lambda: f"zones of prompt primaries, but only {current()}")
        assert slow.open == 16
    finally:
        for other in others:
            other.close()
        slow.close()


class RateLimited(Script):
    """A primary that answers every query over UDP with TC."""

    def answer_soa(self, wire):
        reply = dns.message.make_response(dns.message.from_wire(wire))
        reply.flags |= dns.flags.TC
        return reply.to_wire()

    def transfer(self, wire, sock):
        if dns.message.from_wire(wire).question[0].rdtype != dns.rdatatype.SOA:
            super().transfer(wire, sock)
            return
        self.asked.append("SOA")
        sock.sendall(framed(answer(wire, *self.zone()[:1])))


def test_a_truncated_answer_leads_to_tcp(secondary):
    mine = secondary()
    script = RateLimited(mine)
    try:
        mine.wait_serial(1)
        assert script.asked == ["SOA", "AXFR"]
        notify(mine.server)
        serverlib.wait_for(lambda: script.asked == ["SOA", "AXFR", "SOA"], "the next question")
        serverlib.wait_for(lambda: not mine.status()["busy"], "the answer")
        assert mine.status()["error"] is None
    finally:
        script.close()


def test_an_expired_zone_answers_servfail_until_the_primary_is_back(secondary):
    mine = secondary()
    script = Script(mine, refresh=1, retry=1, expire=2)
    mine.wait_serial(1)
    script.close()
    serverlib.wait_for(lambda: sluicelib.rcode(mine.ask(ZONE, "SOA")) == "SERVFAIL", "the expiry")
    assert mine.status()["state"] == "expired"
    codes = [int(option.code) for option in mine.ask(ZONE, "SOA").options
             if int(option.otype) == 15]
    assert codes == [24]  # Invalid Data
    assert not mine.ask(ZONE, "SOA").flags & dns.flags.AA
    script = Script(mine, refresh=1, retry=1, expire=2)
    try:
        mine.wait_serial(1)
        mine.wait_status(state="current")  # for a second or two each time, on a slow machine
    finally:
        script.close()


def test_a_zone_that_expired_while_the_server_was_down(secondary):
    mine = secondary()
    script = Script(mine, refresh=1, retry=1, expire=2)
    mine.wait_serial(1)
    script.close()
    mine.server.stop()
    info = mine.image().with_name("example.net.json")
    content = json.loads(info.read_text())
    content["refreshed"] -= 60
    info.write_text(json.dumps(content))
    mine.run()
    assert sluicelib.rcode(mine.ask(ZONE, "SOA")) == "SERVFAIL"


# ---- NOTIFY --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tcp", [False, True])
def test_who_may_notify(secondary, tcp):
    mine = secondary()
    script = Script(mine)
    try:
        mine.wait_serial(1)
        assert notify(mine.server, tcp=tcp) == "NOERROR"
        assert notify(mine.server, source="127.0.0.2", tcp=tcp) == "REFUSED"
        assert notify(mine.server, zone="example.org.", tcp=tcp) == "NOTAUTH"
        assert notify(mine.server, zone="example.com.", tcp=tcp) == "NOTAUTH"  # we are its primary
        assert notify(mine.server, zone=f"www.{ZONE}", tcp=tcp) == "NOTAUTH"
        serverlib.wait_for(lambda: mine.counter("notifies") == 1, "the one good NOTIFY")
    finally:
        script.close()


def test_notify_without_news_asks_nobody(secondary):
    mine = secondary()
    script = Script(mine)
    try:
        mine.wait_serial(1)
        serverlib.wait_for(lambda: not mine.status()["busy"], "the end of the transfer")
        queries = mine.counter("soa_queries")
        for number in (1, 0, 4294967295):
            assert notify(mine.server, serial=number) == "NOERROR"
        serverlib.wait_for(lambda: mine.counter("notifies") >= 1, "the NOTIFY")
        assert mine.counter("soa_queries") == queries
    finally:
        script.close()


def test_garbage_with_the_opcode_of_notify(secondary):
    mine = secondary()
    for size in (0, 1, 5, 20, 400):
        wire = bytes([1, 2, 0x24, 0, 0, 1, 0, 1, 0, 0, 0, 1]) + os.urandom(size)
        reply = sluicelib.exchange(HOST, mine.server.port, wire)
        assert reply[:2] == wire[:2] and reply[3] & 15 in (1, 5, 9), reply.hex()
    assert sluicelib.rcode(mine.ask("example.com", "SOA")) == "NOERROR"


# ---- beside the build ----------------------------------------------------------------------------


def test_a_reload_keeps_the_zone_and_a_transfer_keeps_the_build(secondary, make_config):
    mine = secondary()
    script = Script(mine)
    try:
        mine.wait_serial(1)
        serial = mine.ask("example.com", "SOA").answer[0][0].serial
        sluicelib.build(make_config(zone="example.com", records="new: {A: [192.0.2.77]}"), mine.data)
        script.serial = 2
        notify(mine.server)
        mine.wait_serial(2)
        assert mine.ask("example.com", "SOA").answer[0][0].serial == serial  # not asked for yet
        assert mine.server.reload().returncode == 0
        assert mine.ask("example.com", "SOA").answer[0][0].serial == serial + 1
        assert mine.serial() == 2
    finally:
        script.close()


def test_the_builds_own_zone_wins(secondary, make_config):
    mine = secondary()
    script = Script(mine)
    try:
        mine.wait_serial(1)
        shutil.rmtree(mine.data)
        sluicelib.build(make_config(zone="example.net", records="here: {A: [192.0.2.77]}"), mine.data)
        mine.server.reload()
        assert sluicelib.rdata(mine.ask(f"here.{ZONE}")) == ["192.0.2.77"]
        mine.server.wait_log("the build has a zone of this name too")
    finally:
        script.close()


def test_an_alias_of_the_build_leads_into_the_zone(secondary):
    mine = secondary()
    reply = mine.ask("alias.example.com")
    assert sluicelib.rcode(reply) == "NOERROR"  # nothing is known of the target: the alias alone
    assert sluicelib.rdata(reply) == [f"ns.{ZONE}"]
    script = Script(mine)
    try:
        mine.wait_serial(1)
        assert sluicelib.rdata(mine.ask("alias.example.com"), "A") == ["192.0.2.53"]
    finally:
        script.close()


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, message", [
    ("secondary: {zone: example.net}", r"1:12: `secondary`: must be a list"),
    ("secondary: [{primaries: [192.0.2.1]}]", r"`zone` is missing"),
    ("secondary: [{zone: example.net}]", r"`primaries` is missing"),
    ("secondary: [{zone: example.net, primaries: []}]", r"must be a list of 1 to 16 addresses"),
    ("secondary: [{zone: example.net, primaries: [here]}]", r"`here`: "),
    ("secondary: [{zone: example.net, primaries: [0.0.0.0]}]", r"no primary has this address"),
    ("secondary: [{zone: a..b, primaries: [192.0.2.1]}]", r"`a..b` is not a domain name"),
    ("secondary: [{zone: example.net, primarys: [192.0.2.1]}]", r"did you mean `primaries`"),
    ("secondary: [{zone: e.net, primaries: [192.0.2.1]}, {zone: E.net., primaries: [192.0.2.1]}]",
     r"zone e.net. is given twice"),
    ("secondary: [{zone: example.net, primaries: [192.0.2.1], max-records: 0}]",
     r"must be a number from 1 on"),
    ("secondary: [{zone: example.net, primaries: [192.0.2.1], tsig: nokey}]",
     r"there is no key nokey. in `keys:`"),
])
def test_wrong_settings(make_config, tmp_path, text, message):
    data = sluicelib.build(make_config(), tmp_path / "data")
    config = tmp_path / "sluice.yaml"
    config.write_text(text + "\n", encoding="utf-8")
    port = sluicelib.Port(HOST)
    done = sluicelib.run(sluicelib.program("sluiced"), "-c", config, "--data", data, "--listen",
                         f"{HOST}@{port.number}", "--state", tmp_path / "state")
    port.close()
    assert done.returncode == 1
    line, = [line for line in done.stderr.splitlines() if "error" in line or "sluice.yaml" in line]
    assert sluicelib.re.search(message, line), line


def test_secondary_zones_need_a_state_folder(make_config, tmp_path):
    data = sluicelib.build(make_config(), tmp_path / "data")
    config = tmp_path / "sluice.yaml"
    config.write_text("secondary: [{zone: example.net, primaries: [192.0.2.1]}]\n", encoding="utf-8")
    port = sluicelib.Port(HOST)
    done = sluicelib.run(sluicelib.program("sluiced"), "-c", config, "--data", data, "--listen",
                         f"{HOST}@{port.number}")
    port.close()
    assert done.returncode == 1 and "set `state`" in done.stderr
