# SPDX-License-Identifier: Apache-2.0
"""`sluice sync` with NS1, as tests/blackbox/ns1sim.py has it."""
import json
import threading

import pytest

import faultworld
import ns1sim
import sluicelib
from ns1lib import DOMAIN, ZONE, Watched, World

HOST = "ttl: 30\nendpoints: {one: x.example.net.}\nregions: {global: {one: 1}}\n"


@pytest.fixture
def make(tmp_path):
    worlds = []

    def one(**options):
        worlds.append(World(tmp_path, **options))
        return worlds[-1]
    yield one
    for world in worlds:
        world.sim.close()


@pytest.fixture
def world(make):
    return make()


def test_from_nothing_and_then_nothing(world):
    """Complaints 33 and 40: the second plan is empty, in whatever order lists come, and writes nothing."""
    world.sync("plan", status=3)  # the NS RRset needs a consent
    assert not world.writes()  # complaint 15
    out = world.apply()
    target = out["providers"][0]
    assert target["state"] == "applied" and target["seen"] == target["asked"] > 5, out
    assert ns1sim.shares(world.record(), ns1sim.Client("198.51.100.1")) == {"192.0.2.1": 0.75, "192.0.2.2": 0.25}
    assert ns1sim.shares(world.record(), ns1sim.Client("192.0.2.200", "JP", "AS")) == {"192.0.2.2": 1.0}
    assert ns1sim.shares(world.record(), ns1sim.Client("198.51.100.1", "CA", "NA", "QC")) == {"192.0.2.3": 1.0}
    assert ns1sim.shares(world.record(), ns1sim.Client("198.51.100.1", "CY", "EU")) == {"192.0.2.1": 0.5, "192.0.2.3": 0.5}
    count = len(world.writes())
    for seed in range(4):
        world.sim.random.seed(seed)
        assert world.sync("plan")["items"] == []
    assert world.apply()["providers"][0]["asked"] == 0
    assert world.sync("drift")["items"] == []
    assert len(world.writes()) == count


def test_new_default_keys_are_no_difference(world):
    """Complaint 26."""
    world.apply()
    for step in world.record()["filters"]:
        step["config"]["sticky_by"] = "none"
    assert world.sync("drift")["items"] == []


def test_edits_by_hand_are_drift(world):
    """Complaints 25, 34 and 41: weights, the order of filters, a filter more, keys that we do not model."""
    world.apply()

    def edit_weight(record):
        record["answers"][0]["meta"]["weight"] = 77

    def edit_order(record):
        record["filters"][-4], record["filters"][-5] = record["filters"][-5], record["filters"][-4]

    def edit_off(record):
        record["filters"][0]["disabled"] = True
        record["awkward"] = False

    def edit_meta(record):
        record["answers"][0]["meta"]["loadAvg"] = 0.5

    def edit_answers(record):
        record["answers"] = [{"answer": ["192.0.2.99"]}]
        record["filters"], record["regions"] = [], {}
    world.sim.awkward = False
    for edit in (edit_weight, edit_order, edit_off, edit_meta, edit_answers):
        edit(world.record())
        out = world.sync("drift", status=3)
        assert [i["key"] for i in out["items"]] == ["cdn.e.test./A"], edit.__name__
        world.apply()
        assert world.sync("drift")["items"] == [], edit.__name__


def test_steering_is_removed_whole(world):
    """Complaint 34: nothing of the chain is left when the name becomes plain."""
    world.write(zone=ZONE, other=HOST)
    world.apply()
    world.write(None, ZONE + "  cdn: {A: [192.0.2.9]}\n", other=HOST)
    world.apply()
    assert (world.record()["filters"], world.record()["regions"]) == ([], {})
    assert world.record()["answers"] == [{"answer": ["192.0.2.9"]}]
    assert world.sync("plan")["items"] == []


def test_foreign_records_stay(world):
    world.sim.put("theirs.e.test", "A", [["192.0.2.66"]])
    world.sim.put("theirs.e.test", "URLFWD", [["/ http://x 301 2"]])
    world.sim.put("geo.e.test", "A", [["192.0.2.67"]], filters=[{"filter": "up", "config": {}}],
                  regions={"x": {"meta": {"georegion": ["ASIAPAC"]}}})
    before = json.dumps(world.sim.zones["e.test"]["geo.e.test", "A"])
    out = world.apply()
    kept = {k["key"] for k in out["providers"][0]["kept"]}
    assert kept == {"theirs.e.test./A", "theirs.e.test./URLFWD", "geo.e.test./A"}
    assert json.dumps(world.sim.zones["e.test"]["geo.e.test", "A"]) == before


# ---- reports --------------------------------------------------------------------------------------

CHANGES = {
    "an address": (DOMAIN.replace("192.0.2.1,", "192.0.2.11,"), ZONE.replace("192.0.2.80", "192.0.2.81")),
    "a host name": (HOST, ZONE),
    "one weight": (DOMAIN.replace("one: 3", "one: 1"), ZONE),
    "the regions": (DOMAIN.replace("  as: {two: 1}\n", "  oc: {spare: 1}\n"), ZONE),
    "static to CNAME": (DOMAIN, ZONE.replace('www: {A: [192.0.2.80], AAAA: ["2001:db8::80"], TXT: ["a ; b", "semi\\"quote"]}',
                                             "www: {CNAME: x.example.net.}")),
}
LEAVING = {"a host name": ["cdn.e.test"], "static to CNAME": ["www.e.test"]}


@pytest.mark.parametrize("change", CHANGES)
def test_b35_stopped_at_each_request(world, change):
    """B35: names that exist are never empty, but where the type must change; a second run converges."""
    watched = Watched(world, CHANGES[change], LEAVING.get(change, ()))
    for index in range(len(watched.requests)):
        watched.fail_at(index, "403", forever=True)


@pytest.mark.parametrize("fault", ["500", "429", "kill", "lost", "truncated", "short"])
def test_b35_one_fault(world, fault):
    """B35: a fault that passes, at the first, a middle and the last writing request, and at reads."""
    watched = Watched(world, CHANGES["static to CNAME"], LEAVING["static to CNAME"])
    changing = [i for i, m in enumerate(watched.requests) if m != "GET"]
    for index in (0, changing[0], changing[len(changing) // 2], changing[-1], len(watched.requests) - 1):
        watched.fail_at(index, fault)


def test_b35_what_had_to_go_is_restored(world):
    """B35: where a CNAME is refused, the addresses that went for its sake come back."""
    world.apply()
    act = world.sim.act

    def refusing(method, path, body, headers):
        if method == "PUT" and path.endswith("/CNAME"):
            raise ns1sim.Refused(400, "no CNAME today")
        return act(method, path, body, headers)
    world.write(*CHANGES["static to CNAME"])
    world.sim.act = refusing
    before = {k for k in world.sim.zones["e.test"] if k[0] == "www.e.test"}
    out = world.apply("--allow-large", status=None)
    assert "no CNAME today" in json.dumps(out["errors"])
    assert {k for k in world.sim.zones["e.test"] if k[0] == "www.e.test"} == before
    world.sim.act = act
    world.apply("--allow-large")
    assert world.sync("plan")["items"] == []


def test_b37_what_is_lost_is_refused(world):
    """B37: subdivisions that NS1 does not know; continents are lists of countries."""
    world.write(DOMAIN.replace("ca-qc", "de-by"))
    out = world.apply(status=3)
    assert world.record() is None
    domain = out["providers"][0]["domains"]["cdn.e.test."]
    assert domain["fidelity"]["geo"]["grade"] == "lost" and "provinces of Canada" in domain["fidelity"]["geo"]["why"]
    world.write(DOMAIN.replace("ca-qc", "de-by") + "providers: {dns-b: {allow_loss: [geo]}}\n")
    world.apply()
    client = ns1sim.Client("198.51.100.1", "DE", "EU", "BY")
    assert ns1sim.shares(world.record(), client) == {"192.0.2.1": 0.5, "192.0.2.3": 0.5}
    countries = [r["meta"].get("country") for r in world.record()["regions"].values() if r["meta"].get("country")]
    assert len(countries) == 1 and "JP" in countries[0] and "AU" not in countries[0]
    assert "ASIAPAC" not in json.dumps(world.record())
    assert world.sync("plan")["items"] == []


@pytest.mark.parametrize("weights, want", [
    ("{one: 1000, two: 1}", {"192.0.2.1": 1000 / 1001, "192.0.2.2": 1 / 1001}),
    ("{one: 65535, two: 1}", {"192.0.2.1": 65535 / 65536, "192.0.2.2": 1 / 65536}),
    ("{one: 0, two: 10}", {"192.0.2.2": 1.0}),
    ("{one: 0, two: 0}", {"192.0.2.1": 0.5, "192.0.2.2": 0.5}),
    ("{one: 7}", {"192.0.2.1": 1.0})])
def test_b67_weights(world, weights, want):
    """B67: weights as written; 0 is never sent, as what it means there is not said."""
    world.write("ttl: 30\nendpoints: {one: 192.0.2.1, two: 192.0.2.2}\nregions: {global: " + weights + "}\n")
    world.apply()
    assert ns1sim.shares(world.record(), ns1sim.Client()) == pytest.approx(want)
    assert all(a["meta"]["weight"] > 0 for a in world.record()["answers"])
    assert world.sync("plan")["items"] == []


def test_b80_pages(make):
    """B80: 250 records in pages of 100: all are read; a page that fails, or leads nowhere, writes nothing."""
    world = make(page=100)
    names = "".join(f"  n{i}: {{A: [10.0.{i // 250}.{i % 250}]}}\n" for i in range(125))  # and their marks
    world.write(zone=ZONE + names)
    world.apply()
    assert len(world.sim.zones["e.test"]) > 250
    assert world.sync("plan")["items"] == []
    pages = [p for m, p in world.sim.requests if "after=" in p]
    assert pages[-2:] == ["/v1/zones/e.test?after=100", "/v1/zones/e.test?after=200"]
    # The second page fails once.
    world.sim.faults = {len(world.sim.requests) + 1: "500"}
    assert world.sync("plan")["items"] == []
    count = len(world.writes())
    # It fails always.
    act = world.sim.act

    def failing(method, path, body, headers):
        if "after=100" in path:
            raise ns1sim.Refused(400, "no such page")
        return act(method, path, body, headers)
    world.sim.act = failing
    out = world.sync("plan", status=1)
    assert "no such page" in json.dumps(out["errors"])

    # It leads in a circle, or to another host.
    for link in (f'<{world.sim.url}/zones/e.test>; rel="next"', '<http://127.0.0.1:9/v1/zones/e.test?x>; rel="next"',
                 f'<{world.sim.url}.evil.test/zones/e.test>; rel="next"'):
        def circling(method, path, body, headers, link=link):
            reply = act(method, path, body, headers)
            headers["Link"] = link
            return reply
        world.sim.act = circling
        out = world.sync("plan", status=1)
        assert "circle" in json.dumps(out["errors"]) or "another place" in json.dumps(out["errors"])
    assert len(world.writes()) == count


def test_records_are_asked_for_and_written_eight_at_a_time(world):
    """And no request more than paging and records with filters need."""
    barrier = threading.Barrier(8)
    posts = []

    def gate(method, path):
        alone = path.startswith("/v1/zones/e.test/c16.")
        if method == "POST":  # the first one tells the limits
            alone = not posts
            posts.append(path)
        if not alone and method in ("GET", "POST") and path.startswith("/v1/zones/e.test/c"):
            barrier.wait(sluicelib.DEADLINE)  # nobody goes on before eight have come
    domains = {f"c{i}": DOMAIN.replace("{one: 3, two: 1}", "{one: 1}") for i in range(17)}
    world.write(None, **domains)
    world.apply()
    world.sim.gate = gate
    world.write(None, **{n: DOMAIN for n in domains})
    count = len(world.sim.requests)
    world.apply("--allow-large")
    assert len([r for r in world.sim.requests[count:] if r[0] == "POST"]) == 17
    count = len(world.sim.requests)
    assert world.sync("drift")["items"] == []
    since = [p for _, p in world.sim.requests[count:]]
    assert len(since) == 1 + 17 + 1 and "/v1/zones/e.test" in since and "/v1/data/sources" in since


def test_limits_of_the_api(make):
    """Complaint 24: the pace that the headers of each method ask for is kept."""
    world = make(limit={"GET": 40, "PUT": 6, "POST": 6, "DELETE": 6}, period=1)
    world.apply()
    assert world.sync("plan")["items"] == []
    assert world.sim.refused <= 4


def test_wrong_key_and_no_zone(world):
    (world.folder / "key").write_text("another", encoding="ascii")
    out = world.sync("plan", status=1)
    assert "the API key is refused" in json.dumps(out["errors"])
    (world.folder / "key").write_text(ns1sim.KEY, encoding="ascii")
    del world.sim.zones["e.test"]
    out = world.sync("plan", status=1)
    assert "zone not found" in json.dumps(out["errors"])


@pytest.mark.parametrize("reply", [b"", b"{", b"[]", b'{"records": 1}', b'{"records": [1]}', b"<html>",
                                   b'{"records": [{"domain": "x.e.test", "type": "A"}]}',
                                   b'{"records": [{"domain": "other.test", "type": "A", "ttl": 1, "tier": 1, '
                                   b'"short_answers": ["1.2.3.4"]}]}',
                                   b'{"zone": "f.test", "records": []}', b"\xff\xfe"])
def test_replies_that_are_wrong(world, reply):
    world.sim.hooks["/v1/zones/e.test"] = lambda query: reply
    out = world.sync("plan", status=1)
    assert "dns-b" in json.dumps(out["errors"])


@pytest.mark.parametrize("more", [{"answers": 1}, {"answers": [1]}, {"answers": [{"answer": [1, {}]}]}, {"filters": {"a": 1}},
                                  {"filters": [1]}, {"regions": [1]}, {"regions": {"x": 1}}, {"ttl": "x"}, {"link": "y.e.test"},
                                  {"answers": [{"answer": ["192.0.2.1"], "meta": {"up": {"feed": "abc"}}}]},
                                  {"answers": [{"answer": ["192.0.2.1"], "meta": {"rdata": {}, "region": 5}}]}])
def test_records_beyond_the_model(world, more):
    """Complaint 25: one that cannot be understood is drift, and no reason to fail."""
    world.apply()
    world.sim.awkward = False
    record = {**world.record(), **more}
    world.sim.hooks["/v1/zones/e.test/cdn.e.test/A"] = lambda query: record
    out = world.sync("drift", status=3)
    assert [i["key"] for i in out["items"]] == ["cdn.e.test./A"]


def test_what_says_200_and_is_not_the_api_has_done_nothing(tmp_path):
    """A portal answers for the API at the request that writes a mark: the record does not follow without it."""
    world = faultworld.World("ns1", tmp_path)
    try:
        world.write("", {"cdn": HOST})
        world.apply()
        world.write("more: {A: [192.0.2.74]}\n", {"cdn": HOST})
        before = world.kind.dump()
        done = world.sluice("apply", "--yes", fault=lambda i, request: "garbage" if request.write else None)
        assert done.returncode == 1 and "no JSON" in done.stderr
        assert world.kind.dump() == before
        world.apply()
        out = world.run("plan")
        assert out["items"] == [] and out["providers"][0]["unmarked"] == 0
        assert world.kind.view("more.e.test.", "A") == {"192.0.2.74"}
    finally:
        world.close()
