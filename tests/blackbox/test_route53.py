# SPDX-License-Identifier: Apache-2.0
"""Route 53, against a simulator that enforces its rules (route53sim.py): objects, answers, faults."""
import fractions
import json
import random
import signal
import subprocess
import threading

import pytest

import pdnslib
import route53sim
import sluicelib

PLACES = [("EU", "FR", None), ("EU", "DE", None), ("NA", "US", "CA"), ("NA", "US", "NY"), ("NA", "CA", "QC"),
          ("AS", "JP", None), (None, None, None)]
ATOMS = ["continent:eu", "continent:na", "country:fr", "country:us", "country:ca", "subdivision:us-ca", "continent:as"]
LOST = ["subdivision:ca-qc", "net:192.0.2.0/24", "asn:64500"]


@pytest.fixture
def sim():
    out = route53sim.Route53()
    yield out
    out.close()


def once(sim, *steps, **more):
    settings = {"type": "route53", "url": sim.url, "secret": "key"}
    return pdnslib.once(sim, *steps, settings=settings, key=more.pop("key", route53sim.CREDENTIALS), **more)


def apply(sim, *domains, **more):
    return once(sim, "read", "compile", "apply", "decompile", domains=domains, **more)


def sample(**more):
    return pdnslib.domain(
        {"eu": (["continent:eu", "country:ca"], [{"one": 3, "two": 1}, {"spare": 1}]),
         "global": (["global"], [{"two": 5}, {"one": 0, "spare": 7}])},
        {"one": ["192.0.2.1", "2001:db8::1"], "two": ["192.0.2.2", "192.0.2.22", "2001:db8::2"],
         "spare": ["192.0.2.3", "2001:db8::3"]}, **more)


def ask(sim, place=(None, None, None), rdtype="A", name="cdn.e.test."):
    return {" ".join(v): float(p) for v, p in sim.answer(name, rdtype, place).items()}


# ---- objects and answers --------------------------------------------------------------------------


def test_four_layers(sim):
    out = apply(sim, sample())
    assert out["done"] == out["changes"] > 0
    assert ask(sim, ("EU", "FR", None)) == {"192.0.2.1": .75, "192.0.2.2 192.0.2.22": .25}
    assert ask(sim, ("NA", "CA", None), "AAAA") == {"2001:db8::1": .75, "2001:db8::2": .25}
    assert ask(sim, ("NA", "US", "NY")) == {"192.0.2.2 192.0.2.22": 1}
    names = {s.name for s in sim.sets.values()}
    assert "_st-eu-f1.cdn.e.test." in names and "_st-global-p2.cdn.e.test." in names
    assert all(s.alias["EvaluateTargetHealth"] == "false" for s in sim.of("cdn.e.test.", "A"))
    again = apply(sim, sample())
    assert again["changes"] == 0
    regions = {r["name"]: r for r in again["documents"]["cdn.e.test."]["regions"]}
    assert sorted(regions["eu"]["atoms"]) == ["continent:eu", "country:ca"]
    assert regions["eu"]["levels"] == [[["one", 3], ["two", 1]], [["spare", 1]]]


def status_of(manual=0, down=False):
    health = 2 if down else 1
    return {"manual": manual, "health4": health, "health6": health}


def test_pushed_health_flips_checks(sim):
    """A change of health updates checks, and no record."""
    up = [status_of(), status_of(), status_of()]
    apply(sim, sample(status=up))
    assert len(sim.checks) == 6 and all(s.health for s in sim.of("_st-eu-p1.cdn.e.test.", "A"))
    before = dict(sim.sets)
    down = [status_of(down=True), status_of(), status_of()]
    out = apply(sim, sample(status=down))
    assert out["changes"] == 2 and sim.sets == before
    assert ask(sim, ("EU", "FR", None)) == {"192.0.2.2 192.0.2.22": 1}
    assert out["documents"]["cdn.e.test."]["down"] == {"A": ["one"], "AAAA": ["one"]}
    apply(sim, sample(status=[status_of(down=True)] * 3))  # all down: as if all were up
    assert ask(sim, ("EU", "FR", None)) == {"192.0.2.1": .75, "192.0.2.2 192.0.2.22": .25}
    assert apply(sim, sample(status=[status_of(down=True)] * 3))["changes"] == 0


def test_checks_come_before_records_and_go_after(sim):
    """Complaint 28; the simulator refuses both other orders."""
    sim.pending = 3
    apply(sim, sample(status=[status_of()] * 3))
    out = apply(sim)  # the domain is gone
    assert "error" not in out and not sim.checks
    assert {s.type for s in sim.sets.values()} == {"NS", "SOA"}
    apply(sim, sample(status=[status_of()] * 3))  # with references that were never used
    assert len(sim.checks) == 6


def test_native_checks(sim):
    health = {"one": {"type": "https", "path": "/up?a&b", "host": "www.example.net", "port": 8443, "interval": 10000, "fall": 2},
              "two": {"type": "tcp", "port": 22, "interval": 60000, "fall": 99}, "spare": {"type": "exec", "check": "x"}}
    out = apply(sim, sample(pushed=False, health=health))
    assert out["fidelity"]["cdn.e.test."]["status"]["grade"] == "lost"
    configs = [c["config"] for c in sim.checks.values()]
    https = next(c for c in configs if c["Type"] == "HTTPS" and c["IPAddress"] == "192.0.2.1")
    assert https == {"IPAddress": "192.0.2.1", "Port": "8443", "Type": "HTTPS", "ResourcePath": "/up?a&b",
                     "FullyQualifiedDomainName": "www.example.net", "RequestInterval": "10", "FailureThreshold": "2",
                     "Inverted": "false", "Disabled": "false", "EnableSNI": "true"}
    assert {c["FailureThreshold"] for c in configs if c["Type"] == "TCP"} == {"10"}
    assert apply(sim, sample(pushed=False, health=health))["changes"] == 0


WEB = {"type": "http", "path": "/", "port": 80, "interval": 30000, "fall": 3, "expect": {"status": [[200, 299]]}}


def own(sim, check, endpoints=("one", "two", "spare"), domain=sample):
    """The grade of `status`, why, and the configurations of the checks that are there."""
    out = apply(sim, domain(pushed=False, health={e: check for e in endpoints}))
    status = out["fidelity"]["cdn.e.test."]["status"]
    return status["grade"], status.get("why", ""), [c["config"] for c in sim.checks.values()]


def test_a_check_of_a_body(sim):
    """What is looked for is looked for there too, and read back."""
    check = dict(WEB, type="https", expect={"status": [[200, 204]], "body": "all <is> well"})
    grade, why, configs = own(sim, check)
    assert grade == "approx" and "first address" in why
    assert {(c["Type"], c["SearchString"]) for c in configs} == {("HTTPS_STR_MATCH", "all <is> well")}
    out = once(sim, "read", "compile", "apply", "decompile", domains=[sample(pushed=False, health={"one": check, "two": check, "spare": check})])
    assert out["changes"] == 0
    assert out["documents"]["cdn.e.test."]["health"]["one"]["expect"] == {"body": "all <is> well"}


@pytest.mark.parametrize("change, word", [
    ({"type": "tcp", "send": "x"}, "says"), ({"type": "tcp", "expect": {"data": "x"}}, "says"), ({"type": "dns"}, "tcp"),
    ({"method": "POST"}, "GET"), ({"headers": {"X-Key": "1"}}, "headers"), ({"expect": {"status": [[200, 299], [401, 401]]}}, "399"),
    ({"expect": {"status": [[200, 299]], "body": "x" * 256}}, "255"),
])
def test_checks_that_it_cannot_do(sim, change, word):
    grade, why, configs = own(sim, dict(WEB, **change))
    assert grade == "lost" and word in why and "health: pushed" in why and not configs


@pytest.mark.parametrize("host, grade", [("www.example.net", "lost"), ("A.example.net", "approx"), (None, "approx")])
def test_a_host_is_checked_where_it_is(sim, host, grade):
    """A check without an address has one name: it must not be turned to another host."""
    def hosts(**more):
        return pdnslib.domain({"global": (["global"], [{"a": 1, "b": 1}])}, {"a": "a.example.net.", "b": ("b.example.net.", False)}, **more)
    found, why, configs = own(sim, dict(WEB, **{"host": host} if host else {}), ("a", "b"), hosts)
    assert found == grade and ("another name" in why) == (grade == "lost")
    assert {c["FullyQualifiedDomainName"].lower() for c in configs} == (set() if grade == "lost" else {"a.example.net"})


def test_host_names_and_wildcards(sim):
    hosts = pdnslib.domain({"global": (["global"], [{"a": 1}, {"b": 1}])}, {"a": "a.example.net.", "b": "b.example.net."}, name="*.w")
    apply(sim, hosts)
    assert ask(sim, rdtype="CNAME", name="*.w.e.test.") == {"a.example.net.": 1}
    assert ("_st-global-p1._any.w.e.test.", "CNAME", "sluice a") in sim.sets
    out = apply(sim, hosts)
    assert out["changes"] == 0 and out["documents"]["*.w.e.test."]["types"] == ["CNAME"]


def test_texts_are_escaped_both_ways(sim):
    """Names with octal escapes; values as written."""
    static = [{"name": "t.e.test.", "type": "TXT", "ttl": 60, "values": ['"a ; <b> & \\"c\\" \\200\\195"']},
              {"name": "*.e.test.", "type": "A", "ttl": 60, "values": ["192.0.2.9"]},
              {"name": "a\\@b.e.test.", "type": "A", "ttl": 60, "values": ["192.0.2.9"]}]
    out = once(sim, "read", "compile", "apply", static=static)
    assert out["done"] == 3
    assert sim.sets[("t.e.test.", "TXT", None)].values == ['"a ; <b> & \\"c\\" \\310\\303"']
    assert once(sim, "read", "compile", "apply", static=static)["changes"] == 0


# ---- fidelity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("atom", LOST)
def test_places_that_it_does_not_know_are_lost(sim, atom):
    model = pdnslib.domain({"x": ([atom, "country:fr"], [{"a": 1}]), "global": (["global"], [{"b": 1}])},
                           {"a": ["192.0.2.1"], "b": ["192.0.2.2"]})
    out = apply(sim, model)
    assert out["fidelity"]["cdn.e.test."]["geo"]["grade"] == "lost"
    assert ask(sim, ("EU", "FR", None)) == {"192.0.2.1": 1} and ask(sim) == {"192.0.2.2": 1}


def test_b67_weights_beyond_the_range(sim):
    """B67: scaled by largest remainder, none becomes 0, and the error is told."""
    weights = {"a": 1, "b": 999, "c": 65535, "d": 0}
    model = pdnslib.domain({"global": (["global"], [weights])},
                           {e: [f"192.0.2.{i + 1}"] for i, e in enumerate(weights)})
    out = apply(sim, model)
    got = {s.identifier.split()[1]: s.weight for s in sim.of("_st-global-p1.cdn.e.test.", "A")}
    assert got["a"] == 1 and got["c"] in (254, 255) and got["d"] == 0 and got["b"] == 4
    fidelity = out["fidelity"]["cdn.e.test."]["weight"]
    assert fidelity["grade"] == "approx" and "255" in fidelity["why"]
    small = pdnslib.domain({"global": (["global"], [{"a": 1, "b": 254}])}, {"a": ["192.0.2.1"], "b": ["192.0.2.2"]})
    out = apply(sim, small)
    assert out["fidelity"]["cdn.e.test."]["weight"]["grade"] == "exact"
    assert ask(sim) == {"192.0.2.1": 1 / 255, "192.0.2.2": 254 / 255}


def test_several_endpoints_in_an_answer_are_lost(sim):
    out = apply(sim, sample(answers=2))
    assert out["fidelity"]["cdn.e.test."]["weight"]["grade"] == "lost"


# ---- random models --------------------------------------------------------------------------------


def random_model(rng, name):
    names = [f"e{i}" for i in range(rng.randint(1, 5))]
    endpoints = {e: ([f"192.0.2.{i + 1}"], rng.random() < .85) for i, e in enumerate(names)}
    free = rng.sample(ATOMS, len(ATOMS))

    def levels():
        out = []
        for _ in range(rng.randint(1, 3)):
            chosen = rng.sample(names, rng.randint(1, len(names)))
            out.append({e: rng.choice([0, 0, 1, 2, 7, 100, 255]) for e in chosen})
        return out

    regions = {"global": (["global"], levels())}
    for i in range(rng.randint(0, 3)):
        regions[f"r{i}"] = ([free.pop() for _ in range(rng.randint(1, 2))], levels())
    status = [{"manual": rng.choice([0, 0, 0, 0, 1, 2]), "health4": rng.choice([0, 1, 1, 2]), "health6": 0} for _ in names]
    return pdnslib.domain(regions, endpoints, name=name, status=status)


def region_for(model, place):
    continent, country, state = ((x or "").lower() for x in place)
    for atom in (f"subdivision:{country}-{state}", f"country:{country}", f"continent:{continent}", "global"):
        for region in model["steer"]["regions"]:
            if atom in region["atoms"]:
                return region
    raise AssertionError


def expected(model, place):
    """The four layers as spec/steering.md has them."""
    endpoints = {e["name"]: (e, s) for e, s in zip(model["steer"]["endpoints"], model["status"])}
    levels = region_for(model, place)["levels"]
    disabled = {n: s["manual"] == 2 or s["manual"] == 0 and not e["enabled"] for n, (e, s) in endpoints.items()}
    sick = {n: s["health4"] == 2 for n, (e, s) in endpoints.items()}
    entries = [(i, name, weight) for i, level in enumerate(levels) for name, weight in level]
    drawable = [e for e in entries if not disabled[e[1]] and (e[2] > 0 or e[0] == len(levels) - 1)]
    left = ([e for e in drawable if not sick[e[1]]] or drawable or [e for e in entries if not disabled[e[1]]] or entries)
    best = [e for e in left if e[0] == min(x[0] for x in left)]
    total = sum(e[2] for e in best)
    return {tuple(endpoints[n][0]["addresses"]): fractions.Fraction(w, total) if total else fractions.Fraction(1, len(best))
            for _, n, w in best if w or not total}


def test_random_models_are_answered_alike(sim):
    """The evaluator's rules are AWS's; the distribution is exactly the model's."""
    rng = random.Random(53)
    for _ in range(3):  # each time all domains change
        models = [random_model(rng, f"m{i}") for i in range(60)]
        apply(sim, *models)
        for i, model in enumerate(models):
            for place in PLACES:
                assert sim.answer(f"m{i}.e.test.", "A", place) == expected(model, place), (i, place, model)
    assert apply(sim, *models)["changes"] == 0


# ---- sync -----------------------------------------------------------------------------------------

ZONE = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns-1.awsdns-01.org., ns-2.awsdns-02.com.]
providers: [dns-a]
records:
  www: {A: [192.0.2.80], AAAA: ["2001:db8::80"], TXT: ["a ; b"]}
"""
DOMAIN = """\
ttl: 30
endpoints: {one: 192.0.2.1, two: 192.0.2.2, spare: 192.0.2.3}
health: {type: tcp, port: 80}
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  fr: {two: 1}
"""


class World:
    """A configuration and a simulator."""

    def __init__(self, folder, sim):
        self.folder, self.sim = folder, sim
        sim.sets[("e.test.", "NS", None)].ttl = 3600
        self.secret(route53sim.CREDENTIALS)
        (folder / "sluice.yaml").write_text(f"secrets: {{dns-a: {{file: {folder}/key}}}}\n", encoding="ascii")
        self.write()

    def secret(self, text):
        (self.folder / "key").write_text(text, encoding="ascii")
        (self.folder / "key").chmod(0o600)

    def write(self, domain=DOMAIN, zone=ZONE):
        (self.folder / "config/e.test/cdn/domain.yaml").unlink(missing_ok=True)
        sluicelib.write_tree(self.folder / "config", {
            "defaults.yaml": "default_zone: e.test\nproviders:\n"
                             f"  dns-a: {{type: route53, url: \"{self.sim.url}\", secret: dns-a, health: pushed}}\n",
            "e.test/zone.yaml": zone, **({"e.test/cdn/domain.yaml": domain} if domain else {})})

    def options(self):
        return ["--config", self.folder / "config", "--settings", self.folder / "sluice.yaml",
                "--socket", self.folder / "no-server"]

    def run(self, command, *options, status=0):
        done = sluicelib.sluice("sync", command, *self.options(), *options, "--json", status=status)
        assert route53sim.SECRET not in done.stdout + done.stderr
        return json.loads(done.stdout)

    def apply(self, *options, status=0):
        return self.run("apply", "--yes", *options, status=status)


@pytest.fixture
def world(tmp_path, sim):
    return World(tmp_path, sim)


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
    world.write(DOMAIN.replace("one: 3, two: 1", "one: 4, two: 2").replace("{spare: 1}", "{spare: 2}").replace("fr: {two: 1}", "fr: {two: 2}"),
                ZONE + records)
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


CONSENTS = ["--allow-last", "--allow-large"]


def test_b82_transitions_are_one_batch(world):
    """B82: plain to steered, steered to plain, A to CNAME: one batch, and never empty."""
    sim = world.sim
    holes = []
    plain = ZONE + "  cdn: {A: [192.0.2.70]}\n"
    cname = DOMAIN.replace("192.0.2.1", "a.example.net.").replace("192.0.2.2", "b.example.net.").replace("192.0.2.3", "c.example.net.")
    world.write(None, plain)
    world.apply()
    sim.watch = lambda s: holes.append(sorted(t for t in ("A", "CNAME") if s.answer("cdn.e.test.", t, ("EU", "FR", None))))
    for step in (dict(), dict(domain=cname), dict(domain=None, zone=plain), dict(domain=cname), dict(), dict(domain=None, zone=plain)):
        world.write(**step)
        before = len(sim.writes)
        out = world.apply(*CONSENTS)
        assert out["providers"][0]["state"] == "applied", out
        batches = [body for _, path, body in sim.writes[before:] if path.endswith("/rrset")]
        assert len([b for b in batches if b"<Name>cdn.e.test.</Name>" in b]) == 1
        assert world.run("plan")["items"] == []
    kinds = [h for i, h in enumerate(holes) if i == 0 or holes[i - 1] != h]
    assert kinds == [["A"], ["CNAME"], ["A"], ["CNAME"], ["A"]]


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


def test_c11_large_zones_are_cut_into_batches(sim):
    """Complaints 10, 11: 1 000 records and 32 000 characters, an UPSERT counts twice."""
    static = [{"name": f"r{i}.e.test.", "type": "TXT", "ttl": 60, "values": ['"' + "x" * 100 + '"']} for i in range(700)]
    out = once(sim, "read", "compile", "apply", static=static)
    assert out["done"] == 700 and len(sim.changes) == 3
    for item in static:
        item["ttl"] = 61
    assert once(sim, "read", "compile", "apply", static=static)["done"] == 700
    assert len(sim.changes) == 3 + 5


def crowd(count=100, regions=6, ttl=30, weight=1, first=1, **more):
    """One name with many endpoints in many regions: two records for each, A and AAAA."""
    endpoints = {f"e{i}": [f"10.0.0.{i + first}", f"2001:db8::{i + first:x}"] for i in range(count)}
    places = [[a] for a in ATOMS[:regions - 1]] + [["global"]]
    levels = [{e: weight for e in endpoints}]
    return pdnslib.domain({p[0].replace(":", "-"): (p, levels) for p in places}, endpoints, ttl=ttl, **more)


def test_c10_a_name_that_is_too_large_for_a_batch_is_parted(sim):
    """Never empty, groups as a whole, and the public name in one batch."""
    seen = []

    def watch(sim):
        seen.append([len(sim.answer("cdn.e.test.", t, ("EU", "FR", None))) for t in ("A", "AAAA")])
        for name in {s.name for s in sim.sets.values() if s.weight is not None}:
            assert len({s.ttl for s in sim.of(name, "A")}) == 1

    sim.watch = watch
    out = apply(sim, crowd())
    assert out["done"] == out["changes"] and len(sim.changes) == 3  # 1 200 records, then the name itself
    assert seen == [[0, 0], [0, 0], [100, 100]]
    assert apply(sim, crowd())["changes"] == 0
    for other in (crowd(ttl=60), crowd(weight=2), crowd(ttl=60, first=101)):
        seen.clear()
        before = len(sim.changes)
        assert "error" not in apply(sim, other)
        assert len(sim.changes) - before == len(seen) == 3 and all(all(s) for s in seen)
        assert apply(sim, other)["changes"] == 0
    seen.clear()
    small = crowd(2, regions=1)
    assert "error" not in apply(sim, small)  # four weighted groups of each type and their places go
    assert all(all(s) for s in seen) and apply(sim, small)["changes"] == 0


def test_c10_what_cannot_be_parted_is_refused(sim):
    """A group, or a change to and from CNAME, that is over the limits: nothing of it is done."""
    many = {f"e{i}": [f"10.{i}.0.{k}" for k in range(1, 13)] for i in range(100)}
    out = apply(sim, pdnslib.domain({"global": (["global"], [{e: 1 for e in many}])}, many), status=1)
    assert out["error"]["failure"] == "refused" and "cdn.e.test." in out["error"]["text"] and not sim.changes
    hosts = {f"e{i}": f"h{i}.example.net." for i in range(100)}
    regions = {p[0].replace(":", "-"): (p, [{e: 1 for e in hosts}]) for p in [[a] for a in ATOMS[:6]] + [["global"]]}
    apply(sim, crowd(regions=7))
    before = len(sim.changes)
    out = apply(sim, pdnslib.domain(regions, hosts), status=1)
    assert out["error"]["failure"] == "refused" and len(sim.changes) == before


def test_batches_do_not_wait_for_one_another(sim):
    """INSYNC takes a minute there: each batch is asked for once all are sent, and only then."""
    static = [{"name": f"r{i}.e.test.", "type": "A", "ttl": 60, "values": ["192.0.2.1"]} for i in range(2500)]
    assert once(sim, "read", "compile", "apply", static=static)["done"] == 2500
    steps = [(m, p.split("/")[2]) for m, p, _ in sim.requests if "/change" in p or m == "POST"]
    assert steps == [("POST", "hostedzone")] * 3 + [("GET", "change")] * 3


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


# ---- zones ----------------------------------------------------------------------------------------


def test_zones_that_are_not_there(sim):
    for zone in ("other.test.", "a.e.test.", "test."):
        out = once(sim, "read", zone=zone, status=1)
        assert out["error"]["failure"] == "gone" and zone in out["error"]["text"]
    assert once(sim, "servers")["servers"] == route53sim.SERVERS


def test_zones_are_made_and_removed(sim):
    out = once(sim, "create_zone", "read", "servers", zone="new.test.")
    assert out["servers"] == route53sim.SERVERS and {o["type"] for o in out["read"]} == {"NS", "SOA"}
    assert once(sim, "create_zone", zone="new.test.", status=1)["error"]["failure"] == "conflict"
    zone = next(z for z in sim.zones.values() if z.name == "new.test.")
    sim.put("www.new.test.", "A", ["192.0.2.1"], zone=zone)
    out = once(sim, "delete_zone", zone="new.test.", status=1)
    assert out["error"]["failure"] == "refused" and "www.new.test. A" in out["error"]["text"]
    del zone.sets[("www.new.test.", "A", None)]
    once(sim, "delete_zone", zone="new.test.")
    assert [z.name for z in sim.zones.values()] == ["e.test."]
    assert once(sim, "delete_zone", zone="new.test.", status=1)["error"]["failure"] == "gone"


@pytest.mark.parametrize("fault", ["lost", 500, "truncated"])
def test_a_zone_is_made_once(sim, fault):
    """The caller reference: a request that is repeated makes no second zone."""
    faults = [fault]
    sim.fault = lambda index, method, path: faults.pop() if method == "POST" and faults else None
    out = once(sim, "create_zone", zone="new.test.", status=1 if fault == "truncated" else 0)
    assert fault != "truncated" or out["error"]["failure"] == "garbage"
    assert len([z for z in sim.zones.values() if z.name == "new.test."]) == 1


def test_several_zones_of_one_name(sim):
    """Private ones do not count; of several public ones none is chosen."""
    sim.make_zone("e.test.", private=True)
    assert "error" not in once(sim, "read")
    other = sim.make_zone("e.test.")
    for page in (100, 1):
        sim.page = page
        out = once(sim, "read", status=1)
        assert out["error"]["failure"] == "refused" and sim.id in out["error"]["text"] and other.id in out["error"]["text"]


def test_a_zone_takes_its_health_checks_along(sim):
    """C28: what a killed run has left goes with the zone; those of others stay."""
    apply(sim, sample(status=[status_of()] * 3))
    apply(sim)
    left = sample(status=[status_of()] * 3)
    sim.fault = lambda index, method, path: "kill" if method == "POST" and path.endswith("/rrset") else None
    apply(sim, left, status=1)
    sim.fault = lambda index, method, path: None
    theirs = {"reference": "theirs", "config": {"Type": "TCP", "Port": "1", "RequestInterval": "30", "FailureThreshold": "3"}, "version": 1}
    sim.checks["ffffffff-0000-4000-8000-000000000000"] = theirs
    assert len(sim.checks) == 7
    once(sim, "delete_zone")
    assert list(sim.checks.values()) == [theirs] and not sim.zones



@pytest.mark.parametrize("body", [
    "", "<", "<html/>", '<!DOCTYPE a [<!ENTITY b "c">]><ListHealthChecksResponse>&b;</ListHealthChecksResponse>',
    "<ListHealthChecksResponse/>", "<ListHealthChecksResponse>" + "<a>" * 5000, "\0" * 50,
    "<ListHealthChecksResponse><HealthChecks><HealthCheck/></HealthChecks><IsTruncated>false</IsTruncated></ListHealthChecksResponse>",
    "<ListHealthChecksResponse><HealthChecks/><IsTruncated>true</IsTruncated></ListHealthChecksResponse>",
], ids=["nothing", "cut", "html", "entity", "empty", "deep", "zeros", "no-id", "no-marker"])
def test_hostile_replies(sim, body):
    sim.list_checks = lambda query: body.encode()
    out = once(sim, "read", status=1)
    assert out["error"]["failure"] == "garbage" and "dns-x" in out["error"]["text"]


# ---- what only Route 53 does ----------------------------------------------------------------------


def record(name, more="", rdtype="A", ttl=60, values=("192.0.2.1",)):
    inside = "".join(f"<ResourceRecord><Value>{v}</Value></ResourceRecord>" for v in values)
    return (f"<ResourceRecordSet><Name>{name}</Name><Type>{rdtype}</Type>{more}<TTL>{ttl}</TTL><ResourceRecords>{inside}"
            "</ResourceRecords></ResourceRecordSet>")


def alias(name, target, more="", evaluate="false"):
    return (f"<ResourceRecordSet><Name>{name}</Name><Type>A</Type>{more}<AliasTarget><HostedZoneId>Z0EXAMPLE1</HostedZoneId>"
            f"<DNSName>{target}</DNSName><EvaluateTargetHealth>{evaluate}</EvaluateTargetHealth></AliasTarget></ResourceRecordSet>")


def weighted(identifier, weight=1, **more):
    return record("w.e.test.", f"<SetIdentifier>{identifier}</SetIdentifier><Weight>{weight}</Weight>", **more)


def geo(identifier, place, name="g.e.test."):
    return record(name, f"<SetIdentifier>{identifier}</SetIdentifier><GeoLocation>{place}</GeoLocation>")


def failover(identifier, role):
    return alias("f.e.test.", "x.e.test.", f"<SetIdentifier>{identifier}</SetIdentifier><Failover>{role}</Failover>", "true")


@pytest.mark.parametrize("code, sets", [
    ("InvalidChangeBatch", [record(f"r{i}.e.test.") for i in range(1001)]),
    ("InvalidChangeBatch", [record("t.e.test.", rdtype="TXT", values=['"' + f"{i:03}" * 80 + '"' for i in range(140)])]),
    ("InvalidChangeBatch", [alias("a.e.test.", "x.e.test."), record("x.e.test.")]),
    ("InvalidChangeBatch", [record("w.e.test."), weighted("one")]),
    ("InvalidChangeBatch", [weighted("one"), geo("two", "<CountryCode>FR</CountryCode>", "w.e.test.")]),
    ("InvalidChangeBatch", [weighted("one"), weighted("one")]),
    ("InvalidChangeBatch", [weighted("one"), weighted("two", ttl=61)]),
    ("InvalidChangeBatch", [weighted(str(i)) for i in range(101)]),
    ("InvalidChangeBatch", [geo("a", "<CountryCode>FR</CountryCode>"), geo("b", "<CountryCode>FR</CountryCode>")]),
    ("InvalidChangeBatch", [record("x.e.test."), failover("a", "PRIMARY"), failover("b", "PRIMARY")]),
    ("InvalidChangeBatch", [record("c.e.test."), record("c.e.test.", rdtype="CNAME", values=["x.example.net."])]),
    ("InvalidChangeBatch", [record("x.other.test.")]),
    ("InvalidChangeBatch", [record("d.e.test.", values=["192.0.2.1", "192.0.2.1"])]),
    ("InvalidChangeBatch", [record("h.e.test.", values=["192.0.2.1"]).replace("</ResourceRecordSet>", "<HealthCheckId>none</HealthCheckId></ResourceRecordSet>")]),
    ("InvalidInput", [weighted("one", 256)]),
    ("InvalidInput", [weighted("x" * 129)]),
    ("InvalidInput", [record("w.e.test.", "<Weight>1</Weight>")]),
    ("InvalidInput", [record("w.e.test.", "<SetIdentifier>x</SetIdentifier>")]),
    ("InvalidInput", [geo("a", "<CountryCode>CA</CountryCode><SubdivisionCode>QC</SubdivisionCode>")]),
    ("InvalidInput", [record("s.e.test.", rdtype="TYPE65402")]),
    (None, [record("x.e.test."), alias("a.e.test.", "x.e.test."), weighted("one", 0), weighted("two", 255)]),
], ids=lambda x: None)
def test_the_simulator_enforces(sim, code, sets):
    """What the tests above rest upon."""
    before = dict(sim.sets)
    body = "".join(f"<Change><Action>CREATE</Action>{s}</Change>" for s in sets)
    body = (f'<ChangeResourceRecordSetsRequest xmlns="{route53sim.NS}"><ChangeBatch><Changes>{body}</Changes></ChangeBatch>'
            "</ChangeResourceRecordSetsRequest>")
    send = lambda: sim.change(body.encode(), sim.zones[sim.id])
    if code is None:
        send()
        body = body.replace("CREATE", "DELETE")  # the target before its alias
        code = "InvalidChangeBatch" if "<Change><Action>DELETE</Action>" + sets[0] not in body else None
        send()
    else:
        with pytest.raises(route53sim.Error) as error:
            send()
        assert error.value.code == code
    assert sim.sets == before


def test_upsert_counts_twice(sim):
    static = [{"name": f"r{i}.e.test.", "type": "A", "ttl": 60, "values": ["192.0.2.1"]} for i in range(501)]
    once(sim, "read", "compile", "apply", static=static)
    assert len(sim.changes) == 1
    once(sim, "read", "compile", "apply", static=[dict(s, ttl=61) for s in static])
    assert len(sim.changes) == 3


def meanwhile(sim, wanted, do):
    """Somebody else does something just before the first request that fits."""
    left = [do]

    def fault(index, method, path):
        if left and wanted(method, path):
            left.pop()()

    sim.fault = fault


def test_health_checks_have_versions(sim):
    """Two that change one check at a time: the second is told, and does not overwrite."""
    up = [status_of()] * 3
    apply(sim, sample(status=up))
    number = next(iter(sim.checks))
    meanwhile(sim, lambda method, path: path.endswith(number) and method == "POST",
              lambda: sim.checks[number].update(version=9))
    out = apply(sim, sample(status=[status_of(down=True)] * 3), status=1)
    assert out["error"]["failure"] == "conflict" and "HealthCheckVersionMismatch" in out["error"]["text"]
    sim.fault = lambda index, method, path: None
    assert "error" not in apply(sim, sample(status=[status_of(down=True)] * 3))


def test_a_health_check_that_others_use(world):
    """It stays, and the run says so; once it is free, the next run removes it."""
    sim = world.sim
    world.apply()
    number = next(iter(sim.checks))
    sim.put("theirs.e.test.", "A", ["192.0.2.66"])
    sim.sets[("theirs.e.test.", "A", None)].health = number
    world.write(None)
    out = world.apply(*CONSENTS, status=3)
    assert "HealthCheckInUse" in out["errors"][0]["error"] and number in sim.checks
    del sim.sets[("theirs.e.test.", "A", None)]
    world.apply(*CONSENTS)
    assert not sim.checks and world.run("plan")["items"] == []


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


def test_c28_checks_of_a_name_that_went_meanwhile(world):
    """C28: a run that is killed after it has made checks, and the name is gone from the configuration."""
    sim = world.sim
    sim.fault = lambda index, method, path: "kill" if path.endswith("/rrset") and method == "POST" else None
    world.run("apply", "--yes", status=3)
    assert len(sim.checks) == 3
    sim.fault = lambda index, method, path: None
    world.write(None)
    world.apply()
    assert not sim.checks and world.run("plan")["items"] == []


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
    assert sorted(paths(sim)) == sorted(["/hostedzonesbyname", "/healthcheck"] +
                                        [f"/hostedzone/{z.id}/rrset" for z in sim.zones.values() if z.name not in ("a.test.", "zz.test.")])


def test_paging_takes_what_it_needs(sim):
    """300 record sets and 100 health checks a page."""
    sim.page = 1000
    for i in range(301):
        sim.put(f"r{i}.e.test.", "A", ["192.0.2.66"])
    for i in range(101):
        sim.checks[f"{i:08x}-0000-4000-8000-000000000000"] = {"reference": f"x{i}", "config": {"Type": "TCP", "Port": "1"}, "version": 1}
    once(sim, "read")
    assert paths(sim) == ["/hostedzonesbyname"] + ["/healthcheck"] * 2 + [f"/hostedzone/{sim.id}/rrset"] * 2


# ---- faults ---------------------------------------------------------------------------------------


REQUESTS = 12  # of an apply from a plain name to a steered one


def start_from_plain(world, holes):
    """A plain name is there; the configuration wants a steered one."""
    world.sim.put("theirs.e.test.", "A", ["192.0.2.66"])
    world.write(None, ZONE + "  cdn: {A: [192.0.2.70]}\n")
    world.apply()
    world.sim.watch = lambda s: holes.append(s.answer("cdn.e.test.", "A", ("EU", "FR", None)))
    world.write()
    world.sim.requests.clear()


@pytest.mark.parametrize("index", range(REQUESTS))
@pytest.mark.parametrize("fault", ["kill", "lost", "truncated", 500])
def test_b35_faults_at_every_request(world, fault, index):
    """B35: whatever fails, no name is ever empty, others' records stay, and the next run converges."""
    sim, holes = world.sim, []
    start_from_plain(world, holes)
    sim.fault = lambda i, method, path: fault if i == index else None
    world.run("apply", "--yes", status=None)
    assert len(sim.requests) > index
    sim.fault = lambda i, method, path: None
    world.apply()
    assert holes and all(holes)
    assert ask(sim, ("EU", "FR", None)) == {"192.0.2.2": 1}
    assert ask(sim, name="theirs.e.test.") == {"192.0.2.66": 1}
    assert world.run("plan")["items"] == []
    assert len(sim.checks) == 3  # none is left over


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("index", range(REQUESTS))
def test_b35_killed_at_every_request(world, index, done):
    """B35: the same when the program itself is killed, before or after the API has done its part."""
    sim, holes, started = world.sim, [], threading.Event()
    start_from_plain(world, holes)

    def end(i, method, path):
        if i != index:
            return None
        started.wait(sluicelib.DEADLINE)
        process.kill()
        process.wait(sluicelib.DEADLINE)
        return "lost" if done else "kill"

    sim.fault = end
    with subprocess.Popen([sluicelib.program("sluice"), "sync", "apply", "--yes", *map(str, world.options())],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=sluicelib.environment()) as process:
        started.set()
        assert process.wait(sluicelib.DEADLINE) == -signal.SIGKILL
    sim.fault = lambda i, method, path: None
    world.apply()
    assert holes and all(holes)
    assert ask(sim, ("EU", "FR", None)) == {"192.0.2.2": 1}
    assert ask(sim, name="theirs.e.test.") == {"192.0.2.66": 1}
    assert world.run("plan")["items"] == [] and len(sim.checks) == 3


def test_no_more_requests_than_needed(world):
    holes = []
    start_from_plain(world, holes)
    world.apply()
    assert len(world.sim.requests) == REQUESTS and len(holes) == 1


@pytest.mark.parametrize("fault", ["Throttling", "PriorRequestNotComplete", 429])
def test_throttling_is_waited_for(world, fault):
    """Throttling comes with status 400: told by its code."""
    sim = world.sim
    posts = []

    def once_each(index, method, path):
        if method != "POST" or path in posts:
            return None
        posts.append(path)
        return fault

    sim.fault = once_each
    assert world.apply()["providers"][0]["state"] == "applied"
    assert len(posts) == 2
