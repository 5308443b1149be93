# SPDX-License-Identifier: Apache-2.0
"""The 400 worked decisions of tests/vectors/steering.json: through `sluice explain`, and on the wire.

False alarms: a case fails where the chi-square approximation gives a chance below 1e-9.  Counted
exactly, from the binomial distributions, that is at most 1.4e-7 for a case (one with a cell of 10
expected), and 4e-7 for all 135 together: less than one in a million for a run.
"""
import collections
import ipaddress
import json
import re

import dns.message
import pytest

import sluicelib
import statelib
import stats

CASES = json.loads((sluicelib.REPO / "tests/vectors/steering.json").read_text(encoding="utf-8"))
SEVERAL = [c for c in CASES if len(c["expect"].get("answers", ())) > 1]
OTHERS = [c for c in CASES if len(c["expect"].get("answers", ())) <= 1]
DRAWS = 2000
FALSE_ALARM = 1e-9
GROUPS = 6


def defaults_yaml():
    """All cases' named regions: the same name means the same atoms in each of them."""
    regions = {}
    for case in CASES:
        for name, atoms in case["regions"].items():
            assert regions.setdefault(name, atoms) == atoms, f"region {name} differs between cases"
    lines = ["default_zone: vec.example", "regions:"]
    lines += [f"  {name}: {json.dumps(atoms)}" for name, atoms in regions.items()]
    return "\n".join(lines) + "\n"


def addresses(case):
    """Endpoint -> sorted addresses of the case's type, or its host name, from the text of domain.yaml."""
    block = re.search(r"^endpoints:\n((?:  .*\n)+)", case["domain"], re.M).group(1)
    out = {}
    for name, value in re.findall(r"^  (\S+): (.*)$", block, re.M):
        if value.endswith(".example.net."):
            out[name] = [value]
            continue
        found = [ipaddress.ip_address(a) for a in re.findall(r"[0-9a-f:.]{3,}", value)]
        wanted = 4 if case["type"] == "A" else 6
        out[name] = sorted({str(a) for a in found if a.version == wanted})
    return out


def has_only_global(case):
    block = re.search(r"^regions:\n((?:  .*\n)+)", case["domain"], re.M).group(1)
    return re.findall(r"^  (\S.*?):(?: |$)", block, re.M) == ["global"]


def test_the_set_is_whole():
    assert sorted(c["id"] for c in CASES) == list(range(400))
    assert len(SEVERAL) == 135
    assert len(OTHERS) == 265


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c["id"]))
def test_explain(case, tmp_path, city_mmdb):
    domain = f"c{case['id']}"
    config = sluicelib.write_tree(tmp_path / "config", sluicelib.config_files(
        {domain: case["domain"]}, zone="vec.example", defaults=defaults_yaml()))
    options = []
    for flag, names in (("--down", case["down"]), ("--disabled", case["disabled"])):
        if names:
            options += [flag, ",".join(names)]
    done = sluicelib.sluice("explain", domain, "--client", case["client"], "--type", case["type"],
                            "--config", config, "--geo", city_mmdb, "--json", *options)
    got = json.loads(done.stdout)
    want = case["expect"]
    assert got["domain"] == f"{domain}.vec.example."
    assert got["client"] == case["client"]
    assert got["type"] == case["type"]
    assert got["region"] == want["region"]
    assert got["nodata"] is want.get("nodata", False)
    if want.get("nodata"):
        assert (got["level"], got["fallback"], got["answers"]) == (None, False, [])
    else:
        assert got["level"] == want["level"]
        assert got["fallback"] is want["fallback"]
        shares = {a["endpoint"]: a["probability"] for a in got["answers"]}
        assert len(shares) == len(got["answers"])
        assert shares == pytest.approx(want["answers"], rel=1e-12, abs=0)
        known = addresses(case)
        for answer in got["answers"]:
            assert sorted(answer["rdata"]) == known[answer["endpoint"]]
    assert set(got["location"]) == {"continent", "country", "subdivisions", "asn"}
    if has_only_global(case) or want.get("nodata"):
        assert got["scope"] == 0
    else:
        assert 1 <= got["scope"] <= (128 if ":" in case["client"] else 32)


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory):
    """One zone with a domain for each case."""
    root = tmp_path_factory.mktemp("vectors")
    config = sluicelib.write_tree(root / "config", sluicelib.config_files(
        {f"c{c['id']}": c["domain"] for c in CASES}, zone="vec.example", defaults=defaults_yaml()))
    return sluicelib.build(config, root / "data")


def set_facts(server, case):
    """What the case says of endpoints: by the command line for some cases, else by the socket."""
    name = f"c{case['id']}.vec.example."
    if case["id"] % 16 == 0:
        for endpoint in case["down"]:
            server.sluice("health", "override", name, endpoint, "down")
        if case["disabled"]:
            server.sluice("endpoints", "disable", name, *case["disabled"])
        return
    changes = [statelib.health(endpoint, 2, family, domain=name) for endpoint in case["down"] for family in (4, 6)]
    changes += [statelib.status(endpoint, 2, domain=name) for endpoint in case["disabled"]]
    if changes:
        reply = statelib.commit(server.control, changes)
        assert reply["ok"], reply


def drawn(server, case, draws):
    """Asks a case's question; returns Counter of endpoint (None: no data), and the scopes seen."""
    endpoint_of = {tuple(a): n for n, a in addresses(case).items() if a}
    query = sluicelib.make_query(f"c{case['id']}.vec.example.", case["type"], ecs=case["client"])
    counts, scopes = collections.Counter(), set()
    for rest, count in sluicelib.flood(server.address, server.port, query.to_wire(), draws).items():
        reply = dns.message.from_wire(b"\0\0" + rest, ignore_trailing=False)
        assert sluicelib.rcode(reply) == "NOERROR"
        found = tuple(sorted(sluicelib.rdata(reply)))
        endpoint = endpoint_of[found] if found else None
        if endpoint is None:
            assert sluicelib.rdata(reply, "SOA", "authority")
        counts[endpoint] += count
        address, source, scope = sluicelib.ecs_of(reply)
        full = 128 if ":" in case["client"] else 32
        assert ipaddress.ip_address(address) == ipaddress.ip_address(case["client"])
        assert source == full
        scopes.add(scope)
    return counts, scopes


@pytest.mark.parametrize("group", range(GROUPS))
def test_shares_on_the_wire(group, all_cases, city_mmdb, start, tmp_path):
    server = start(all_cases, geo=city_mmdb, control=str(tmp_path / "control"))
    wrong = []
    for case in SEVERAL[group::GROUPS]:
        set_facts(server, case)
        counts, scopes = drawn(server, case, DRAWS)
        chance = stats.shares_p(counts, case["expect"]["answers"], DRAWS)
        if chance < FALSE_ALARM:
            wrong.append((case["id"], dict(counts), case["expect"]["answers"], chance))
        assert len(scopes) == 1 and (0 in scopes) == has_only_global(case), (case["id"], scopes)
    assert not wrong


@pytest.mark.parametrize("group", range(GROUPS))
def test_single_answers_on_the_wire(group, all_cases, city_mmdb, start, tmp_path):
    server = start(all_cases, geo=city_mmdb, control=str(tmp_path / "control"))
    for case in OTHERS[group::GROUPS]:
        set_facts(server, case)
        counts, scopes = drawn(server, case, 20)
        if case["expect"].get("nodata"):
            assert counts == {None: 20} and scopes == {0}, case["id"]
        else:
            assert counts == {next(iter(case["expect"]["answers"])): 20}, case["id"]
            assert len(scopes) == 1 and (0 in scopes) == has_only_global(case), (case["id"], scopes)
