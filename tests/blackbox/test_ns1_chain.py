# SPDX-License-Identifier: Apache-2.0
"""What the filter chains that are made for NS1 answer: the worked decisions, and random models.

The evaluator of tests/blackbox/ns1sim.py gives exact chances, so nothing here is left to luck.
"""
import ipaddress
import json
import random

import pytest

import ns1sim
import pdnslib
import sluicelib
from test_vectors import CASES, addresses, defaults_yaml

ZONE = "vec.example."
LOCATIONS = json.loads((sluicelib.REPO / "tests/geo/locations.json").read_text(encoding="utf-8"))


def once(*steps, url="http://127.0.0.1:1/v1", **more):
    settings = {"type": "ns1", "url": url, "secret": "key"}
    return pdnslib.once(url, *steps, settings=settings, key=ns1sim.KEY, **more)


def wire(body):
    """The record of a canonical body, as the evaluator takes it."""
    answers = [{"answer": [a["rdata"]], "region": a["region"],
                "meta": {k: v for k, v in a.items() if k not in ("rdata", "region")}} for a in body["answers"]]
    return {"answers": answers, "regions": {n: {"meta": m} for n, m in body["regions"].items()},
            "filters": [{"filter": f["filter"], "config": {k: v for k, v in f.items() if k != "filter"}}
                        for f in body["filters"]]}


def explained(config, domain, client, rtype, geo, *options):
    done = sluicelib.sluice("explain", domain, "--client", client, "--type", rtype, "--config", config,
                            "--geo", geo, "--json", *options)
    return json.loads(done.stdout)


def build(root, domains, defaults):
    config = sluicelib.write_tree(root / "config", sluicelib.config_files(
        domains, zone="vec.example", defaults=defaults))
    data = sluicelib.build(config, root / "data")
    lines = (data / "current/domains.json").read_text(encoding="utf-8")
    return config, {d["domain"]: d["steer"] for d in map(json.loads, lines.splitlines()[1:])}


def document(case, steer, checked=False):
    """With checks, health goes by feeds."""
    def status(endpoint):
        down = 2 if endpoint in case["down"] else 0
        return {"manual": 2 if endpoint in case["disabled"] else 0, "health4": down, "health6": down}
    health = {"health": {e["name"]: {"type": "tcp", "port": 80} for e in steer["endpoints"]}} if checked else {}
    return {"steer": steer, "pushed": True, "status": [status(e["name"]) for e in steer["endpoints"]], **health}


def feed_values(out):
    """KEY -> what the feed says, of what is wanted."""
    return {o["key"].split("/")[1]: o["body"]["up"] for o in out["wanted"] if o["type"] == "FEED"}


# ---- who asks -------------------------------------------------------------------------------------


def client_at(address):
    """The client as NS1's location data would place it, if it knows what the test database knows.

    Registered countries and second subdivisions are in no data of NS1's.
    """
    address = ipaddress.ip_address(address)
    address = getattr(address, "ipv4_mapped", None) or address
    best = None
    for item in LOCATIONS:
        net = ipaddress.ip_network(item["net"])
        if net.version == address.version and address in net and (not best or net.prefixlen > best[0].prefixlen):
            best = (net, item)
    item = best[1] if best else {}
    return ns1sim.Client(str(address), item.get("country"), item.get("continent"), item.get("subdivision"))


def loses_its_place(client, steer):
    """Where the fidelity report has said that this client may be treated otherwise."""
    atoms = [a for r in steer["regions"] for a in r["atoms"]]
    place = next((i for i in LOCATIONS if client.address in ipaddress.ip_network(i["net"])), {})
    foreign = any(a.startswith("subdivision:") and a[12:14] not in ("us", "ca") for a in atoms)
    expanded = any(a in ("continent:as", "continent:oc", "continent:na", "continent:an") for a in atoms)
    return ("registered_country" in place or (foreign and "subdivision" in place) or
            (expanded and "country" not in place and "continent" in place))


# ---- chances --------------------------------------------------------------------------------------


def per_address(expected, named):
    """Chances of endpoints -> of addresses: one of an endpoint's several is drawn at a time."""
    out = {}
    for endpoint, chance in expected.items():
        for value in named[endpoint]:
            out[value] = out.get(value, 0.0) + chance / len(named[endpoint])
    return out


def single(got):
    out = {}
    for values, chance in got.items():
        for value in values.split():
            out[value] = out.get(value, 0.0) + chance
    return out


def assert_same(got, want, what):
    assert set(got) == set(want), (what, got, want)
    for key, chance in want.items():
        assert abs(got[key] - chance) < 1e-6, (what, got, want)


# ---- the worked decisions -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def steers(tmp_path_factory):
    return build(tmp_path_factory.mktemp("ns1-vectors"), {f"c{c['id']}": c["domain"] for c in CASES},
                 defaults_yaml())[1]


@pytest.mark.parametrize("checked", [False, True])
def test_worked_decisions(steers, checked):
    domains = [document(c, steers[f"c{c['id']}.{ZONE}"], checked) for c in CASES]
    out = once("compile", zone=ZONE, domains=domains)
    bodies = {o["key"]: o["body"] for o in out["wanted"]}
    feeds = feed_values(out)
    assert bool(feeds) == checked
    count = 0
    for case in CASES:
        name = f"c{case['id']}.{ZONE}"
        expect = case["expect"]
        body = bodies.get(f"{name}/{case['type']}") or bodies.get(f"{name}/CNAME")
        if expect.get("nodata"):
            assert body is None, case["id"]
            continue
        client = client_at(case["client"])
        if loses_its_place(client, steers[name]):
            place = next(i for i in LOCATIONS if client.address in ipaddress.ip_network(i["net"]))
            assert out["fidelity"][name]["geo"]["grade"] != "exact" or "registered_country" in place
            continue
        got = single(ns1sim.shares(wire(body), client, feeds))
        assert_same(got, per_address(expect["answers"], addresses(case)), case["id"])
        count += 1
    assert count > 280


@pytest.mark.parametrize("checked", [False, True])
def test_read_back_and_decompiled(steers, checked):
    """Complaints 1 and 33: what was written is what is read, in whatever order it comes."""
    cases = CASES[::10]
    simulator = ns1sim.Simulator()
    simulator.make_zone("vec.example")
    try:
        out = once("read", "compile", "apply", "decompile", url=simulator.url, zone=ZONE,
                   domains=[document(c, steers[f"c{c['id']}.{ZONE}"], checked) for c in cases])
    finally:
        simulator.close()
    wanted = {o["key"]: o["body"] for o in out["wanted"]}
    assert {o["key"]: o["body"] for o in out["seen"] if o["type"] != "SOA"} == wanted
    assert out["changes"] == out["done"] == len(wanted)
    told = 0
    for case in cases:
        name = f"c{case['id']}.{ZONE}"
        if out["fidelity"][name]["geo"]["grade"] != "lost":
            assert_same_domain(out["documents"][name], steers[name], case)
            down = out["documents"][name]["down"].values()
            assert {n for names in down for n in names} <= set(case["down"])
            told += any(down)
    assert told


def assert_same_domain(got, want, case):
    """Equal but for the order of endpoints, regions and entries, and endpoints that no region has."""
    assert isinstance(got, dict), (case["id"], got)
    used = {e[0] for r in want["regions"] for level in r["levels"] for e in level}

    named = {e["name"]: e for e in want["endpoints"]}

    def canonical(steer):
        return (steer["owner"], steer["ttl"], steer["answers"], steer["draw_per"], sorted(steer["types"]),
                sorted((e["name"], e["enabled"] and e["name"] not in case["disabled"], e.get("host"),
                        tuple(sorted(a for a in e.get("addresses", []) if (":" in a) == ("AAAA" in steer["types"]) or
                                     len(steer["types"]) > 1)))
                       for e in steer["endpoints"] if e["name"] in used and is_offered(e, want)),
                sorted((r["name"], sorted(r["atoms"]),
                        [sorted(tuple(e) for e in level if is_offered(named[e[0]], want)) for level in r["levels"]])
                       for r in steer["regions"]))
    assert canonical(got) == canonical(want), case["id"]


def is_offered(endpoint, steer):
    families = {"AAAA" if ":" in a else "A" for a in endpoint.get("addresses", [])} | (
        {"CNAME"} if endpoint.get("host") else set())
    return bool(families & set(steer["types"]))


# ---- random models --------------------------------------------------------------------------------

PLACES = ["eu", "af", "sa", "as", "na", "oc", "ca", "us", "ca-qc", "us-ny", "us-ca", "de", "br", "country:na",
          "203.0.113.0/24", "203.0.113.64/26", "192.0.2.0/25", "2001:db8:100::/40"]
CLIENTS = ["198.51.100.1", "198.51.100.200", "192.0.2.5", "192.0.2.70", "192.0.2.200", "203.0.113.1", "203.0.113.40",
           "203.0.113.70", "203.0.113.100", "203.0.113.130", "203.0.113.170", "203.0.113.200", "203.0.113.230",
           "127.0.0.1"]


def random_model(rng):
    """The text of a domain.yaml, and what is down."""
    names = [f"e{i}" for i in range(rng.randint(1, 6))]
    endpoints = {n: f"10.0.0.{i + 1}" for i, n in enumerate(names)}
    regions = {"global": None}
    for place in rng.sample(PLACES, rng.randint(0, 6)):
        regions[place] = None
    for region in regions:
        regions[region] = [{n: rng.choice([0, 0, 1, 3, 10, 1000, 65535]) for n in rng.sample(names, rng.randint(1, len(names)))}
                           for _ in range(rng.randint(1, 3))]
    down = [n for n in names if rng.random() < 0.35]
    disabled = [n for n in names if rng.random() < 0.15]
    text = json.dumps({"ttl": 30, "endpoints": endpoints, "regions": regions})
    return text, down, disabled


def test_random_models(tmp_path, city_mmdb):
    """Random models, compiled and evaluated: the distribution is that of `sluice explain`."""
    rng = random.Random(20261130)
    models = {f"m{i}": random_model(rng) for i in range(40)}
    config, steers = build(tmp_path, {n: text for n, (text, _, _) in models.items()}, "default_zone: vec.example\n")
    domains = [document({"down": down, "disabled": disabled}, steers[f"{n}.{ZONE}"], len(down) % 2 == 0)
               for n, (_, down, disabled) in models.items()]
    out = once("compile", zone=ZONE, domains=domains)
    bodies = {o["name"]: o["body"] for o in out["wanted"] if o["type"] == "A"}
    feeds = feed_values(out)
    for name, (text, down, disabled) in models.items():
        client = rng.choice(CLIENTS)
        options = [o for flag, names in (("--down", down), ("--disabled", disabled)) if names
                   for o in (flag, ",".join(names))]
        want = explained(config, name, client, "A", city_mmdb, *options)
        shares = {a["endpoint"]: a["probability"] for a in want["answers"]}
        named = {e: [a] for e, a in json.loads(text)["endpoints"].items()}
        got = single(ns1sim.shares(wire(bodies[f"{name}.{ZONE}"]), client_at(client), feeds))
        assert_same(got, per_address(shares, named), (name, client, text, down, disabled))
