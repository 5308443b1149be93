# SPDX-License-Identifier: Apache-2.0
"""sluice-syncd with four kinds of provider at once: PowerDNS and Knot as they are, NS1 and Route 53 as simulators."""
import json
import os
import signal
import urllib.parse

import pytest

import ns1sim
import pdnslib
import route53sim
import serverlib
import sluicelib
import statelib
import syncdlib
import test_sync_rfc2136

NAME = "cdn.e.test."
KEY = test_sync_rfc2136.KEY
DOMAIN = syncdlib.DOMAIN + """\
health: {type: tcp, port: 80, interval: 30s}
providers:
  dns-n: {allow_loss: [status, weight]}
  dns-k: {allow_loss: [geo, status, priority, weight]}
"""
ALL = {"one", "two"}


def port_of(url):
    return urllib.parse.urlsplit(url).port


class World(syncdlib.Machine):
    """Each provider behind a gate that can be shut."""

    def __init__(self, folder):
        self.pdns = pdnslib.Pdns(folder / "pdns")
        self.pdns.make_zone()
        self.knot = test_sync_rfc2136.Knot(folder / "knot")
        self.ns1 = ns1sim.Simulator()
        self.ns1.make_zone()
        self.aws = route53sim.Route53("e.test.")
        self.gates = {name: syncdlib.Gate(port) for name, port in (
            ("dns-a", port_of(self.pdns.url)), ("dns-k", self.knot.port), ("dns-n", port_of(self.ns1.url)),
            ("dns-r", port_of(self.aws.url)))}
        secrets = {"dns-a": pdnslib.KEY, "dns-k": f"{KEY.algorithm}:{KEY.name}:{KEY.secret}", "dns-n": ns1sim.KEY,
                   "dns-r": route53sim.CREDENTIALS}
        for name, text in secrets.items():
            (folder / f"key-{name}").write_text(text, encoding="ascii")
            (folder / f"key-{name}").chmod(0o600)
        providers = {
            "dns-a": {"type": "powerdns", "url": self.url("dns-a", self.pdns.url)},
            "dns-k": {"type": "rfc2136", "address": f"127.0.0.1@{self.gates['dns-k'].port}"},
            "dns-n": {"type": "ns1", "url": self.url("dns-n", self.ns1.url)},
            "dns-r": {"type": "route53", "url": self.url("dns-r", self.aws.url)}}
        super().__init__(folder, {name: json.dumps({**settings, "secret": name, "health": "pushed", "timeout": "2s"})
                                  for name, settings in providers.items()}, DOMAIN,
                         ", ".join(f"{name}: {{file: {folder}/key-{name}}}" for name in secrets))

    def url(self, name, url):
        parts = urllib.parse.urlsplit(url)
        return parts._replace(netloc=f"127.0.0.1:{self.gates[name].port}").geturl()

    def close(self):
        super().close()
        for gate in self.gates.values():
            gate.close()
        self.pdns.close()
        self.knot.close()
        self.ns1.close()
        self.aws.close()
        for log in (self.syncd.log if self.syncd else "",):
            assert ns1sim.KEY not in log and route53sim.SECRET not in log and pdnslib.KEY not in log

    def answers(self):
        """Provider -> the endpoints that it answers with, as it stands."""
        names = {"192.0.2.1": "one", "192.0.2.2": "two", "192.0.2.3": "spare"}
        texts = {
            "dns-a": set(self.pdns.draws(NAME, 40)) if self.pdns.rrset(NAME, "LUA") else set(),
            "dns-k": set(self.knot.ask(NAME)),
            "dns-n": self.answers_of_ns1(),
            "dns-r": {" ".join(v) for v in self.aws.answer(NAME, "A", ("EU", "FR", None))}}
        return {name: {names[text] for text in found} for name, found in texts.items()}

    def answers_of_ns1(self):
        with self.ns1.lock:  # record and feeds of one moment
            record = self.ns1.zones["e.test"].get(("cdn.e.test", "A"))
            return set(ns1sim.shares(record, ns1sim.Client(), self.ns1.feed_values())) if record else set()

    def wait_answers(self, wanted, but=()):
        def reached():
            found = self.answers()
            return all(found[name] == wanted for name in found if name not in but)
        serverlib.wait_for(reached, lambda: f"{wanted} at all providers but {but}: {self.answers()}", 2 * sluicelib.DEADLINE)

    def begin(self):
        self.start()
        self.wait_level()
        self.wait_answers(ALL)


@pytest.fixture
def world(tmp_path):
    out = World(tmp_path)
    yield out
    out.close()


def test_a_set_reaches_all_and_so_does_its_end(world):
    world.begin()

    def arrives(seconds):
        world.sluice("endpoints", "set", "cdn", "only[two]", "--for", f"{seconds}s")
        return all(found == {"two"} for found in world.answers().values())
    assert any(arrives(seconds) for seconds in (2, 15, 50))  # on a slow machine it may be over before it is looked at
    world.wait_answers(ALL)


def test_health_reaches_all(world):
    world.begin()
    statelib.commit(world.server.control, [statelib.health("one", 2, 4, domain=NAME)])
    world.wait_answers({"two"})
    statelib.commit(world.server.control, [statelib.health("one", 1, 4, domain=NAME)])
    world.wait_answers(ALL)


def test_providers_that_were_down_are_brought_level(world):
    """One after the other, while the rest goes on."""
    world.begin()
    wanted = [{"two"}, {"one"}, {"two"}, {"one"}]
    for name, endpoints in zip(sorted(world.gates), wanted):
        world.gates[name].shut()
        only = next(iter(endpoints))
        done = world.sluice("endpoints", "set", "cdn", f"only[{only}]", status=3)
        assert f"{name} is behind" in done.stderr, done.stderr
        world.wait_answers(endpoints, but=[name])
        assert not world.is_level(name)
        world.gates[name].open()
        world.wait_answers(endpoints)
        world.wait_level()


def test_killed_in_the_middle(world):
    """All providers cut off, kill -9, and the next one goes on where that ended."""
    world.begin()
    for gate in world.gates.values():
        gate.shut()
    statelib.commit(world.server.control, [statelib.weight("one", 0, domain=NAME)])
    serverlib.wait_for(lambda: all(p["behind"] == 1 for p in world.status().values()), "a job for each")
    world.syncd.signal(signal.SIGKILL)
    world.syncd.wait()
    for name in world.gates:
        assert NAME in json.loads((world.folder / f"queues/{name}.json").read_text(encoding="utf-8"))["jobs"]
    for gate in world.gates.values():
        gate.open()
    world.start()
    world.wait_answers({"two"})
    world.wait_level()
    assert not [name for name in os.listdir(world.folder / "queues") if "damaged" in name]
