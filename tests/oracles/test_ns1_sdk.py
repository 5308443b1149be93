# SPDX-License-Identifier: Apache-2.0
"""Our NS1 client and simulator against NS1's own SDK for JavaScript (scripts/test-oracles).

The same changes go through both into one recorder: same method, path and body.  What the simulator
says is understood by the SDK as by us.
"""
import json
import os
import pathlib
import subprocess
import sys
import urllib.parse

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "blackbox"))

import ns1sim  # noqa: E402
import pdnslib  # noqa: E402

MODULES = os.environ["SLUICE_ORACLE_DIR"]  # without it these tests cannot run: an error, no skip
STATIC = [{"name": "*.e.test.", "type": "TXT", "ttl": 60, "values": ['"a ; b"']},
          {"name": "e.test.", "type": "MX", "ttl": 60, "values": ["10 mail.example.net."]}]


@pytest.fixture
def sim():
    out = ns1sim.Simulator()
    out.make_zone()
    yield out
    out.close()


def sdk(sim, *commands):
    done = subprocess.run(["node", HERE / "ns1.js", MODULES, sim.url, ns1sim.KEY], input=json.dumps(commands), text=True,
                          capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sample(down=(), **more):
    endpoints = {"one": ["192.0.2.1", "2001:db8::1"], "two": ["192.0.2.2", "2001:db8::2"], "spare": (["192.0.2.3", "2001:db8::3"], False)}
    regions = {"global": (["global"], [{"one": 3, "two": 1}, {"spare": 1}]),
               "eu": (["continent:eu", "net:192.0.2.128/25", "asn:64500"], [{"two": 1, "spare": 0}])}
    status = [{"manual": 0, "health4": 2 if e in down else 1, "health6": 1} for e in endpoints]
    health = {e: {"type": "tcp", "port": 80} for e in endpoints}
    return pdnslib.domain(regions, endpoints, status=status, health=health, **more)


def once(sim, *steps, **more):
    settings = {"type": "ns1", "url": sim.url, "secret": "key"}
    return pdnslib.once(sim.url, *steps, settings=settings, key=ns1sim.KEY, **more)


def command_of(method, path, body):
    """The SDK's command for one of our requests."""
    parts = [urllib.parse.unquote(p) for p in path.split("/")[2:]]
    attributes = json.loads(body) if body else {}
    act = {"PUT": "create", "POST": "update", "DELETE": "destroy"}[method]
    if parts[0] == "feed":
        return {"of": "DataSource", "do": "feed", "with": {"id": parts[1]}, "values": attributes}
    if parts[:2] == ["data", "sources"]:
        return {"of": "DataSource", "do": act, "with": {**attributes, **({"id": parts[2]} if parts[2:] else {})}}
    if parts[:2] == ["data", "feeds"]:
        return {"of": "DataFeed", "do": act, "with": {**attributes, "data_source_id": parts[2], **({"id": parts[3]} if parts[3:] else {})}}
    if method == "DELETE":
        attributes = dict(zip(("zone", "domain", "type"), parts[1:]))
    return {"of": "Record", "do": act, "with": attributes}


def canonical(request):
    method, path, body = request
    return method, urllib.parse.unquote(path), json.loads(body) if body else None


def test_the_same_requests(sim):
    """Made, changed, pushed and removed: records of all shapes, the data source and its feeds."""
    steps = [([sample()], STATIC), ([sample(ttl=31)], STATIC), ([sample(down=["one"], ttl=31)], STATIC), ([], [])]
    kinds = set()
    for domains, records in steps:
        before = len(sim.bodies)
        once(sim, "read", "compile", "apply", domains=domains, static=records)
        ours = [r for r in sim.bodies[before:] if r[0] != "GET"]
        assert ours
        before = len(sim.bodies)
        sim.faults = {before + i: "403" for i in range(100)}  # recorded, not done again
        sdk(sim, *[command_of(*r) for r in ours])
        sim.faults = {}
        theirs = sim.bodies[before:]
        assert [canonical(r) for r in theirs] == [canonical(r) for r in ours]
        kinds |= {(r[0], r[1].split("/")[2]) for r in ours}
    assert kinds == {(m, k) for m, k in [("PUT", "zones"), ("POST", "zones"), ("DELETE", "zones"), ("PUT", "data"), ("DELETE", "data"),
                                         ("POST", "feed")]}


def test_what_the_sdk_makes_is_read_and_the_other_way(sim):
    """A record of the SDK's is in sync for us; what we read, the SDK reads."""
    out = once(sim, "read", "compile", "apply", domains=[sample()])
    (source,) = sim.sources
    records = dict(sim.zones["e.test"])
    sim.zones["e.test"] = {}
    replies = sdk(sim, *[{"of": "Record", "do": "create", "with": r} for r in records.values()])
    assert not [r for r in replies if isinstance(r, str)]
    assert once(sim, "read", "compile", "apply", domains=[sample()])["changes"] == 0
    zone, sources, feeds = sdk(sim, {"of": "Zone", "do": "find", "with": "e.test"}, {"of": "DataSource", "do": "find"},
                               {"of": "DataFeed", "do": "find", "with": source})
    assert {(r["domain"], r["type"]) for r in zone["records"]} == set(records)
    assert [s["id"] for s in sources] == [source]
    assert len(feeds) == len([o for o in out["wanted"] if o["type"] == "FEED"]) == 4
