# SPDX-License-Identifier: Apache-2.0
"""`sluice sync` with Route 53: plans, drift, what others made, credentials, and which requests it takes."""
import json

import route53sim
import sluicelib
from route53lib import DOMAIN, ZONE, ask, meanwhile, once, sim, world  # noqa: F401 (fixtures)


def test_from_nothing_to_answers_and_then_nothing(world):
    sim = world.sim
    assert world.run("plan")["items"] and not sim.writes  # a plan writes nothing
    target = world.apply()["providers"][0]
    assert target["state"] == "applied" and target["seen"] == target["asked"] > 5
    assert ask(sim) == {"192.0.2.1": .75, "192.0.2.2": .25}
    assert ask(sim, ("EU", "FR", None)) == {"192.0.2.2": 1}
    assert ask(sim, rdtype="AAAA", name="www.e.test.") == {"2001:db8::80": 1}
    # Markers stand beside public names only: helper names and checks carry theirs.
    markers = {s.name for s in sim.sets.values() if s.name.startswith("_sluice.")}
    assert markers == {"_sluice.cdn.e.test.", "_sluice.www.e.test."}
    writes = len(sim.writes)
    assert world.run("plan")["items"] == [] and world.run("drift")["items"] == []
    assert world.apply()["providers"][0]["asked"] == 0 and len(sim.writes) == writes


def test_drift_after_an_edit_by_hand(world):
    sim = world.sim
    world.apply()
    sim.of("_st-global-p1.cdn.e.test.", "A")[0].weight = 9
    next(iter(sim.checks.values()))["config"]["Inverted"] = "true"
    sim.of("www.e.test.", "A")[0].values = ["192.0.2.99"]
    out = world.run("drift", status=3)
    assert len(out["items"]) == 3 and {i["op"] for i in out["items"]} == {"update"}
    shares = out["providers"][0]["domains"]["cdn.e.test."]
    assert shares["before"]["global"] != shares["after"]["global"] == {"one": .75, "two": .25}
    world.apply()
    assert world.run("drift")["items"] == []


def test_parts_of_a_domain_count_as_one(world):
    """The limit is for record sets that people see: new weights of a name are one change of many."""
    records = "".join(f"  s{i}: {{A: [192.0.2.80]}}\n" for i in range(8))
    world.write(zone=ZONE + records)
    world.apply()
    world.write(DOMAIN.replace("one: 3, two: 1", "one: 4, two: 2").replace("{spare: 1}", "{spare: 2}")
                .replace("fr: {two: 1}", "fr: {two: 2}"), ZONE + records)
    out = world.apply()
    assert out["providers"][0]["asked"] == 4 and not [i for i in out["items"] if i["held"]]
    world.write(zone=ZONE + records.replace("192.0.2.80", "192.0.2.81"))
    assert [i for i in world.run("plan", status=3)["items"] if i["held"]]


def test_foreign_records_stay(world):
    """Complaints 3, 20, 25: what others made is kept and told, also what is beyond the model."""
    sim = world.sim
    sim.put("theirs.e.test.", "A", ["192.0.2.66"])
    sim.put_xml("<S><Name>lat.e.test.</Name><Type>A</Type><SetIdentifier>x</SetIdentifier><Region>eu-west-1</Region><TTL>60</TTL>"
                "<ResourceRecords><ResourceRecord><Value>192.0.2.67</Value></ResourceRecord></ResourceRecords></S>")
    sim.put_xml("<S><Name>w.e.test.</Name><Type>A</Type><SetIdentifier>blue green</SetIdentifier><Weight>5</Weight><TTL>60</TTL>"
                "<ResourceRecords><ResourceRecord><Value>192.0.2.68</Value></ResourceRecord></ResourceRecords></S>")
    foreign = [s for s in sim.sets.values() if s.name.split(".")[0] in ("theirs", "lat", "w")]
    out = world.apply()
    kept = {k["key"] for k in out["providers"][0]["kept"]}
    assert {"theirs.e.test./A", "lat.e.test./A/x", "w.e.test./A/blue green"} <= kept
    assert all(sim.sets[s.key] == s for s in foreign)


def test_a_record_that_comes_meanwhile(world):
    """CREATE, not UPSERT, of what was not there: another writer's record is not run over."""
    sim = world.sim
    meanwhile(sim, lambda method, path: method == "POST" and path.endswith("/rrset"),
              lambda: sim.put("www.e.test.", "A", ["192.0.2.66"]))
    out = world.apply(status=3)
    assert out["errors"][0]["failure"] == "conflict" and "is there already" in out["errors"][0]["error"]
    assert ask(sim, name="www.e.test.") == {"192.0.2.66": 1}
    sim.fault = lambda index, method, path: None
    assert [i["key"] for i in world.apply(status=3)["items"] if i["held"]] == ["www.e.test./A"]


# ---- credentials -----------------------------------------------------------------------------------


def test_wrong_credentials(world):
    world.secret("AKIDEXAMPLE:wrong")
    out = world.run("plan", status=1)
    assert out["errors"][0]["failure"] == "denied" and "secret" in out["errors"][0]["error"]
    world.secret("no-colon")
    assert "KEY_ID:SECRET_KEY" in world.run("plan", status=1)["errors"][0]["error"]


TOKEN = "FwoGZXIvYXdzEBYaDH//+/abc" + "x" * 900 + "=="


def test_session_tokens(world):
    """Temporary credentials: the token is sent and signed; one that is over says what to do."""
    world.sim.token = TOKEN
    assert world.run("plan", status=1)["errors"][0]["failure"] == "denied"
    world.secret(f"{route53sim.CREDENTIALS}:{TOKEN}")
    assert world.apply()["providers"][0]["state"] == "applied"
    world.sim.expired = True
    error = world.run("plan", status=1)["errors"][0]
    assert error["failure"] == "denied" and "expired" in error["error"] and "SESSION_TOKEN" in error["error"]
    assert TOKEN not in json.dumps(error)
    for wrong in (":", "a:", "a::t", "a:b:", "a:b:c:d", "a b:c"):
        world.secret(wrong)
        assert "KEY_ID:SECRET_KEY:SESSION_TOKEN" in world.run("plan", status=1)["errors"][0]["error"]


# ---- requests -------------------------------------------------------------------------------------


def paths(sim):
    return [p.partition("?")[0].removeprefix(route53sim.BASE) for _, p, _ in sim.requests]


def test_lists_serve_all_zones(world):
    """A plan of many zones: one list of zones and one of health checks for all, and the records of each."""
    sim = world.sim
    zones = [f"z{i}.test" for i in range(10)]
    files = {f"{z}/zone.yaml": ZONE for z in zones}
    sluicelib.write_tree(world.folder / "config", files)
    for zone in zones:
        sim.make_zone(zone + ".")
    sim.make_zone("a.test.")
    sim.make_zone("zz.test.")
    world.apply("--allow-ns-change")
    sim.requests.clear()
    assert world.run("plan")["items"] == []
    ours = [z for z in sim.zones.values() if z.name not in ("a.test.", "zz.test.")]
    assert sorted(paths(sim)) == sorted(["/hostedzonesbyname", "/healthcheck"] + [f"/hostedzone/{z.id}/rrset" for z in ours])


def test_paging_takes_what_it_needs(sim):
    """300 record sets and 100 health checks a page."""
    sim.page = 1000
    for i in range(301):
        sim.put(f"r{i}.e.test.", "A", ["192.0.2.66"])
    for i in range(101):
        sim.checks[f"{i:08x}-0000-4000-8000-000000000000"] = {
            "reference": f"x{i}", "config": {"Type": "TCP", "Port": "1"}, "version": 1}
    once(sim, "read")
    assert paths(sim) == ["/hostedzonesbyname"] + ["/healthcheck"] * 2 + [f"/hostedzone/{sim.id}/rrset"] * 2


def test_b80_paging(world):
    """B80: small pages are read whole; a page that does not say whether it is the last is none."""
    sim = world.sim
    sim.page = 3
    for i in range(10):
        sim.put(f"f{i}.e.test.", "A", ["192.0.2.66"])
    world.apply()
    assert world.run("plan")["items"] == []
    whole = sim.list_sets
    sim.list_sets = lambda query, zone: whole(query, zone).replace("<IsTruncated>true</IsTruncated>", "")
    writes = len(sim.writes)
    out = world.apply(status=1)
    assert "whether that is all" in out["errors"][0]["error"] and len(sim.writes) == writes
    sim.list_sets = lambda query, zone: whole({}, zone)  # the same page for ever
    out = world.apply(status=1)
    assert "comes twice" in out["errors"][0]["error"]
