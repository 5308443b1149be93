# SPDX-License-Identifier: Apache-2.0
"""The 400 worked decisions of tests/vectors/steering.json, answered by a real PowerDNS.

Every case is asked; shares are measured for some of them.  False alarms: as in test_vectors.py, a
case fails where the chi-square approximation gives a chance below 1e-9, with as many draws; all
together fail less than once in a million runs.
"""
import ipaddress
import json

import pytest

import pdnslib
import sluicelib
import stats
from test_vectors import CASES, OTHERS, SEVERAL, addresses, defaults_yaml

ZONE = "vec.example."
DRAWS = 2000
MEASURED = SEVERAL[::6]
FALSE_ALARM = 1e-9
# What the fidelity report says of its location data: no second subdivision, no registered country.
PLACED_OTHERWISE = [ipaddress.ip_network("100.68.0.0/16"), ipaddress.ip_network("100.69.0.0/16")]


def document(case, steer):
    """The domain of a case with its facts, as provider_once takes it."""
    def status(endpoint):
        down = 2 if endpoint in case["down"] else 0
        return {"manual": 2 if endpoint in case["disabled"] else 0, "health4": down, "health6": down}
    return {"steer": steer, "pushed": True, "status": [status(e["name"]) for e in steer["endpoints"]]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("vectors")
    config = sluicelib.write_tree(root / "config", sluicelib.config_files(
        {f"c{c['id']}": c["domain"] for c in CASES}, zone="vec.example", defaults=defaults_yaml()))
    data = sluicelib.build(config, root / "data")
    lines = (data / "current/domains.json").read_text(encoding="utf-8")
    steers = {d["domain"]: d["steer"] for d in map(json.loads, lines.splitlines()[1:])}
    domains = [document(c, steers[f"c{c['id']}.{ZONE}"]) for c in CASES]
    pdns = pdnslib.Pdns(root / "pdns")
    try:
        pdns.make_zone(ZONE)
        out = pdnslib.once(pdns, "read", "compile", "apply", "decompile", domains=domains, zone=ZONE)
        # One request for all of them, and what was read back is what was wanted.
        assert out["changes"] == out["done"] == len(out["wanted"])
        pdns.out = out
        pdns.steers = steers
        yield pdns
    finally:
        pdns.close()


def test_read_back(server):
    wanted = {o["key"]: o["body"] for o in server.out["wanted"]}
    seen = {o["key"]: o["body"] for o in server.out["seen"] if o["domain"]}
    assert seen == wanted
    assert {o["owner"] for o in server.out["seen"] if o["domain"]} == {"sluice"}


def test_decompiled(server):
    for case in CASES:
        name = f"c{case['id']}.{ZONE}"
        got = server.out["documents"][name]
        want = server.steers[name]
        for endpoint in want["endpoints"]:
            endpoint["enabled"] = endpoint["enabled"] and endpoint["name"] not in case["disabled"]
        down = got.pop("down")
        assert got == want
        assert set().union(*down.values()) <= set(case["down"])


def is_placed_otherwise(case):
    return any(ipaddress.ip_address(case["client"]) in net for net in PLACED_OTHERWISE)


def check(server, case, draws):
    rdtype = case["type"]
    name = f"c{case['id']}.{ZONE}"
    if case["expect"].get("nodata"):
        reply = server.ask(name, rdtype, ecs=case["client"])
        assert sluicelib.rcode(reply) == "NOERROR" and not reply.answer, case["id"]
        return 1.0
    named = {" ".join(a): n for n, a in addresses(case).items() if a}
    counts = {named[a]: n for a, n in server.draws(name, draws, rdtype, ecs=case["client"]).items()}
    assert set(counts) <= set(case["expect"]["answers"]), (case["id"], counts, case["expect"])
    return stats.shares_p(counts, case["expect"]["answers"], draws)


@pytest.mark.parametrize("group", range(4))
def test_shares(group, server):
    wrong = []
    for case in MEASURED[group::4]:
        if is_placed_otherwise(case):
            continue
        chance = check(server, case, DRAWS)
        if chance < FALSE_ALARM:
            wrong.append((case["id"], chance))
    assert not wrong


def test_answers(server):
    """What may be answered: the chance that right shares look wrong is that of the bound above."""
    for case in OTHERS + SEVERAL:
        if not is_placed_otherwise(case):
            assert check(server, case, 10) > FALSE_ALARM, case["id"]


def test_placed_otherwise_is_told(server):
    """Where its location data decides otherwise, the report has said so."""
    told = [c for c in CASES if is_placed_otherwise(c)]
    assert told
    for case in told:
        geo = server.out["fidelity"][f"c{case['id']}.{ZONE}"]["geo"]
        atoms = {a.split(":")[0] for r in server.steers[f"c{case['id']}.{ZONE}"]["regions"] for a in r["atoms"]}
        places = atoms & {"continent", "country", "subdivision"}
        assert geo["grade"] == ("approx" if places else "exact")
        assert not places or "registered country" in geo["why"]
