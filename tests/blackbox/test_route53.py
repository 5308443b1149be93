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
        before = len(sim.changes)
        out = world.apply(*CONSENTS)
        assert out["providers"][0]["state"] == "applied", out
        assert len(sim.changes) == before + 1
        assert world.run("plan")["items"] == []
    assert holes == [["A"], ["CNAME"], ["A"], ["CNAME"], ["A"], ["A"]]


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


def test_large_zones_are_cut_into_batches(sim):
    """Complaints 10, 11: 1 000 records and 32 000 characters, an UPSERT counts twice."""
    static = [{"name": f"r{i}.e.test.", "type": "TXT", "ttl": 60, "values": ['"' + "x" * 100 + '"']} for i in range(700)]
    out = once(sim, "read", "compile", "apply", static=static)
    assert out["done"] == 700 and len(sim.changes) == 3
    for item in static:
        item["ttl"] = 61
    assert once(sim, "read", "compile", "apply", static=static)["done"] == 700
    assert len(sim.changes) == 3 + 5


def test_wrong_credentials(world):
    world.secret("AKIDEXAMPLE:wrong")
    out = world.run("plan", status=1)
    assert out["errors"][0]["failure"] == "denied" and "secret" in out["errors"][0]["error"]
    world.secret("no-colon")
    assert "KEY_ID:SECRET_KEY" in world.run("plan", status=1)["errors"][0]["error"]


def test_zones_that_are_not_there(sim):
    out = once(sim, "read", zone="other.test.", status=1)
    assert out["error"]["failure"] == "gone" and "other.test." in out["error"]["text"]
    assert once(sim, "servers")["servers"] == ["ns-1.awsdns-01.org.", "ns-2.awsdns-02.com."]


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


# ---- faults ---------------------------------------------------------------------------------------


REQUESTS = 14  # of an apply from a plain name to a steered one


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
