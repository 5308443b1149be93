# SPDX-License-Identifier: Apache-2.0
"""Where threads meet: readers on UDP and TCP while builds, facts and location data are replaced.

Runs with any build; with ThreadSanitizer (meson -Db_sanitize=thread) it finds races, as each program's
output is searched for its reports."""
import itertools
import os
import shutil
import signal
import socket
import struct
import threading

import dns.message
import pytest

import secondaries
import sluicelib
from sluicelib import rdata

DOMAIN = """\
ttl: 20
endpoints: {rest: 192.0.2.1, canada: 192.0.2.2, quebec: 192.0.2.3, spare: 192.0.2.4}
regions:
  global:
    - {rest: 3, canada: 1}
    - {spare: 1}
  ca: {canada: 1}
  ca-qc: {quebec: 1}
"""
HOSTS = "ttl: 20\nendpoints: {x: www.example.com., y: cdn.example.com.}\nregions: {global: {x: 1, y: 1}}\n"
MANY = "ttl: 20\nanswers: 2\nendpoints: {a: 192.0.2.5, b: 192.0.2.6, c: 192.0.2.7}\nregions: {global: {a: 1, b: 1, c: 2}}\n"
DOMAINS = {"cdn": DOMAIN, "hosts": HOSTS, "many": MANY}
CLIENTS = ("198.51.100.7/32", "198.51.100.200/32", "203.0.113.5/32", None)
QUESTIONS = [("www.example.com.", "A"), ("cdn.example.com.", "A"), ("hosts.example.com.", "A"),
             ("many.example.com.", "A"), ("nowhere.example.com.", "A"), ("cdn.example.com.", "TXT"),
             ("alias.example.com.", "A"), ("big.example.com.", "TXT")]


def records(number):
    texts = ", ".join(f'"{i} {"x" * 200}"' for i in range(20))
    return (f"www: {{A: [192.0.2.{100 + number % 100}]}}\nalias: {{CNAME: cdn.example.com.}}\n"
            f"big: {{TXT: [{texts}]}}\n")


class Load:
    """Threads that ask all questions without a pause, over UDP and over TCP; each must be answered
    with NOERROR or NXDOMAIN, and an offered type with data."""

    def __init__(self, server, udp=2, tcp=2):
        self.server = server
        self.halt = threading.Event()
        self.problems, self.count, self.asked = [], itertools.count(1), 0
        self.wires = [(name, rdtype, sluicelib.make_query(name, rdtype, ecs=ecs).to_wire())
                      for name, rdtype in QUESTIONS for ecs in CLIENTS]
        jobs = [self.over_udp] * udp + [self.over_tcp] * tcp
        self.threads = [threading.Thread(target=self.guard, args=(job,)) for job in jobs]
        for thread in self.threads:
            thread.start()

    def guard(self, job):
        try:
            while not self.halt.is_set():
                job()
        except Exception as problem:  # pylint: disable=broad-except
            self.problems.append(repr(problem))

    def check(self, name, rdtype, raw):
        self.asked = next(self.count)
        reply = dns.message.from_wire(raw)
        assert reply.rcode() == (3 if name.startswith("nowhere") else 0), (name, raw)
        if rdtype == "A" and reply.rcode() == 0:
            assert rdata(reply, "A"), (name, raw)

    def over_udp(self):
        for name, rdtype, wire in self.wires:
            self.check(name, rdtype, sluicelib.exchange(self.server.address, self.server.port, wire))

    def over_tcp(self):
        """All questions in one write on a new connection."""
        with socket.create_connection((self.server.address, self.server.port), sluicelib.DEADLINE) as sock:
            sock.sendall(b"".join(struct.pack("!H", len(w)) + w for _, _, w in self.wires))
            for name, rdtype, _ in self.wires:
                (length,) = struct.unpack("!H", sluicelib.receive(sock, 2))
                self.check(name, rdtype, sluicelib.receive(sock, length))

    def stop(self):
        """After all questions were asked at least once, however soon the rest was done."""
        try:
            sluicelib.wait_for(lambda: self.problems or self.asked > len(self.wires), "all questions")
        finally:
            self.halt.set()
            for thread in self.threads:
                thread.join()
        assert not self.problems, self.problems


@pytest.fixture
def server(make_config, start, tmp_path, city_mmdb):
    """A server with three workers, location data of its own, and `.rebuild(number)`."""
    mmdb = tmp_path / "geo.mmdb"
    shutil.copy(city_mmdb, mmdb)
    config = make_config(DOMAINS, records=records(0))
    running = start(config, geo=mmdb, threads=3)

    def rebuild(number):
        make_config(DOMAINS, records=records(number))
        sluicelib.build(config, running.data)

    running.rebuild = rebuild
    running.mmdb = mmdb
    return running


def change_facts(server, rounds):
    for i in range(rounds):
        state = ("down", "up", "auto")[i % 3]
        for endpoint in ("rest", "canada", "quebec"):
            server.sluice("health", "override", "cdn.example.com.", endpoint, state)
        server.sluice("endpoints", "disable" if i % 2 == 0 else "enable", "many.example.com.", "c")


def test_reload_under_load(server):
    load = Load(server)
    try:
        for number in range(1, 13):
            server.rebuild(number)
            server.reload()
            assert rdata(server.ask("www.example.com.")) == [f"192.0.2.{100 + number}"]
    finally:
        load.stop()


def test_location_data_under_load(server, city_mmdb):
    flat = os.path.join(os.path.dirname(city_mmdb), "test-flat.mmdb")
    load = Load(server)
    try:
        for number in range(8):
            new = server.mmdb.with_suffix(".new")
            shutil.copy(flat if number % 2 == 0 else city_mmdb, new)
            os.replace(new, server.mmdb)
            server.reload()
    finally:
        load.stop()


def test_facts_under_load(server):
    load = Load(server)
    try:
        change_facts(server, 9)
    finally:
        load.stop()


def test_everything_at_once(server):
    """Reloads, signals, facts and questions to the control socket side by side, then the end amid them."""
    load = Load(server)
    problems = []

    def beside(job):
        def guard():
            try:
                job()
            except Exception as problem:  # pylint: disable=broad-except
                problems.append(repr(problem))
        thread = threading.Thread(target=guard)
        thread.start()
        return thread

    def look():
        for _ in range(10):
            sluicelib.control(server.control, "status")
            server.sluice("explain", "cdn.example.com.", "--client", "198.51.100.7", "--json")

    def reloads():
        for number in range(1, 7):
            server.rebuild(number)
            server.signal(signal.SIGHUP)
            server.reload()

    try:
        threads = [beside(look), beside(reloads), beside(lambda: change_facts(server, 4))]
        for thread in threads:
            thread.join()
    finally:
        load.stop()
    assert not problems, problems


def test_transfers_during_reloads(make_config, start):
    """Whole zones, old or new, while the build under them is replaced."""
    zone_yaml = sluicelib.ZONE + "transfer: {allow: [127.0.0.1]}\n"
    server = start(make_config(DOMAINS, records=records(0), zone_yaml=zone_yaml), threads=3)
    halt, problems, whole = threading.Event(), [], []

    def transfer():
        try:
            while not halt.is_set():
                found = secondaries.transfer(server.port)
                (serial,) = [int(r.split()[5]) for r in found if " SOA " in r]
                assert f"www.example.com. 3600 A 192.0.2.{99 + serial}" in found, found
                whole.append(serial)
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(repr(problem))

    threads = [threading.Thread(target=transfer) for _ in range(3)]
    for thread in threads:
        thread.start()
    load = Load(server, udp=1, tcp=1)
    try:
        for number in range(1, 9):
            sluicelib.build(make_config(DOMAINS, records=records(number), zone_yaml=zone_yaml), server.data)
            server.reload()
        sluicelib.wait_for(lambda: problems or len(whole) > 3, "transfers")
    finally:
        halt.set()
        load.stop()
        for thread in threads:
            thread.join()
    assert not problems, problems


def test_end_under_load(server):
    load = Load(server)
    server.signal(signal.SIGHUP)
    try:
        assert rdata(server.ask("www.example.com.", tcp=True))
    finally:
        load.halt.set()
        server.signal(signal.SIGTERM)
        for thread in load.threads:
            thread.join()
    assert server.wait() == 0
