# SPDX-License-Identifier: Apache-2.0
"""The sync entries of bug-reports.md, B35, B37, B67, B80 and B82, at every kind of provider that they fit.

The reports speak of mock providers; here they are real PowerDNS, Knot and BIND, and the simulators of Route 53
and NS1, all behind the proxies of faultlib.py.  B35 at every request and with every fault is in
test_sync_fault_index.py; here each change stands alone.
"""
import pytest

import faultkinds
import faultlib
import faultworld

ALL = list(faultkinds.KINDS)
STEERING = ["powerdns", "route53", "ns1"]
PAGED = ["route53", "ns1"]
ONE = "ttl: 30\nendpoints: {one: 192.0.2.1, two: 192.0.2.2, spare: 192.0.2.3}\nregions:\n  global: [{one: 3, two: 1}, {spare: 1}]\n  fr: {two: 1}\n"
PLAIN = "cdn: {A: [192.0.2.70]}\n"
OTHER = {"other": "ttl: 30\nendpoints: {one: 192.0.2.1}\nregions: {global: {one: 1}}\n"}  # so that none is the last


@pytest.fixture
def make(tmp_path):
    worlds = []

    def one(kind, **options):
        worlds.append(faultworld.World(kind, tmp_path, **options))
        return worlds[-1]
    yield one
    for world in worlds:
        world.close()


class Watch:
    """Notes the writes after which a name has no address, nor a CNAME."""

    def __init__(self, world, *names):
        self.world, self.names, self.holes = world, names, []
        world.faults.watch = self.look

    def look(self, request):
        view = self.world.kind.view
        self.holes += [(n, request) for n in self.names if not any(view(n, t) for t in ("A", "AAAA", "CNAME"))]


# ---- B35 ------------------------------------------------------------------------------------------

STATIC = 'www: {A: [192.0.2.80], AAAA: ["2001:db8::80"]}\n'
CHANGES = {  # records and domain
    "an address": (STATIC.replace("2.80", "2.81"), ONE.replace("192.0.2.1,", "192.0.2.9,")),
    "A to CNAME": ("www: {CNAME: x.example.net.}\n", ONE),
    "one weight": (STATIC, ONE.replace("one: 3", "one: 2")),
    "the regions": (STATIC, ONE.replace("  fr: {two: 1}\n", "  de: {two: 1}\n  fr: {one: 1}\n")),
}


@pytest.mark.parametrize("kind", ALL)
def test_B35_delete_before_create_leaves_no_hole(make, kind):
    """Each change, with 429, 500 and silence at each writing request in turn, seen after every write.  The same
    command then converges.  Where a type must change and two records cannot be changed at once (NS1): the name
    comes back before the run ends, without a new run."""
    world = make(kind)
    watch = Watch(world, "www.e.test.", "cdn.e.test.")
    modes = ["SERVFAIL", "close", "cut"] if kind in ("knot", "bind") else ["500", "429", "cut"]
    world.write(STATIC, {"cdn": ONE, **OTHER})
    world.apply()
    start = world.kind.dump()
    for number, (change, (records, domain)) in enumerate(CHANGES.items()):
        world.write(records, {"cdn": domain, **OTHER})
        watch.holes.clear()
        world.apply("--allow-large")
        writes = [i for i, r in enumerate(world.faults.requests) if r.write]
        allowed = 1 if change == "A to CNAME" and world.kind.gap else 0
        if not writes:  # nothing of it can be seen there: no regions, no weights
            assert kind in ("knot", "bind")
            continue
        assert len(watch.holes) == allowed, (change, watch.holes)
        assert world.run("plan")["items"] == []
        end = world.kind.dump()
        for at in writes[:6]:
            world.kind.restore(start)
            watch.holes.clear()
            done = world.sluice("apply", "--yes", "--allow-ns-change", "--allow-large", "--json",
                                fault=faultlib.at(at, modes[(at + number) % len(modes)]))
            assert world.kind.view("www.e.test.", "A") or world.kind.view("www.e.test.", "CNAME")
            if done.returncode:
                world.apply("--allow-large")
            assert world.kind.dump() == end
            assert len(watch.holes) <= 4 * allowed, (change, at, watch.holes)
        world.kind.restore(start)


# ---- B37 ------------------------------------------------------------------------------------------

RICH = """\
ttl: 30
endpoints: {one: 192.0.2.1, two: 192.0.2.2, spare: 192.0.2.3, far: 192.0.2.4}
regions:
  as: {far: 1}
  de-by: {spare: 1}
  global:
    - {one: 3, two: 1}
    - {spare: 1}
health: {type: tcp, port: 80}
"""
# kind, options -> layers that are lost there
LOST = [("knot", {}, {"geo", "priority", "weight"}), ("bind", {}, {"geo", "priority", "weight"}),
        ("powerdns", {"settings": "enable-lua-records=no"}, {"geo", "status", "priority", "weight"}),
        ("powerdns", {"settings": "launch=gsqlite3"}, {"geo"}),
        ("route53", {}, {"geo"}), ("ns1", {}, {"geo"})]


@pytest.mark.parametrize("kind, options, lost", LOST)
def test_B37_what_a_provider_cannot_express_is_told_and_refused(make, kind, options, lost):
    """Three regions, priorities, weights and checks; a continent that is another one at NS1, a subdivision that
    neither it nor Route 53 knows, and providers without steering.  `allow_loss` in domain.yaml is our
    --allow-degrade; the degraded form is level 1 of global.  (A limit of pools and "no AAAA" have no like here.)"""
    world = make(kind, **options)
    world.write(STATIC, {"cdn": RICH}, loss=False)
    plan = world.run("plan", "--allow-ns-change", status=3)
    domain = plan["providers"][0]["domains"]["cdn.e.test."]
    told = {layer for layer, f in domain["fidelity"].items() if f["grade"] == "lost"}
    assert told == lost and all(domain["fidelity"][layer]["why"] for layer in told)
    assert "would be lost" in domain["refused"]
    text = world.sluice("plan", "--allow-ns-change").stdout
    assert all(f"{layer}: lost (" in text for layer in lost) and "refused: " in text
    out = world.apply(status=3)
    assert {i["name"] for i in out["items"] if i["held"]} <= {"cdn.e.test.", "_sluice.cdn.e.test."} | {
        i["name"] for i in out["items"] if i["domain"] == "cdn.e.test."}
    assert not world.kind.view("cdn.e.test.", "A") and world.kind.view("www.e.test.", "A") == {"192.0.2.80"}
    world.write(STATIC, {"cdn": RICH}, loss=True)
    world.apply()
    view = world.kind.view("cdn.e.test.", "A")
    assert view and view <= {"192.0.2.1", "192.0.2.2"}, view  # never the spare one, nor that of another region
    assert view == {"192.0.2.1", "192.0.2.2"} or kind == "powerdns"
    assert world.run("plan")["items"] == []
    if kind == "ns1":  # Asia by its countries, never as ASIAPAC
        regions = world.kind.sim.zones["e.test"]["cdn.e.test", "A"]["regions"]
        countries = {c for r in regions.values() for c in r["meta"].get("country", [])}
        assert {"JP", "IN"} <= countries and not {"AU", "NZ"} & countries
        assert not any("ASIAPAC" in r["meta"].get("georegion", []) for r in regions.values())


# ---- B67 ------------------------------------------------------------------------------------------

WEIGHTS = {"1000 to 1": ("{one: 1000, two: 1}", {"one": 1000 / 1001, "two": 1 / 1001}),
           "0 to 10": ("{one: 0, two: 10}", {"two": 1.0}),
           "all 0": ("{one: 0, two: 0}", {"one": 0.5, "two": 0.5}),
           "single 7": ("{two: 7}", {"two": 1.0})}
ADDRESSES = {"one": "192.0.2.1", "two": "192.0.2.2"}


@pytest.mark.parametrize("kind", ["powerdns", "route53", "ns1", "knot"])
def test_B67_weight_ranges_differ_between_providers(make, kind):
    """Ranges: 0-255 (Route 53), 1 and up (NS1), 0-65535 (PowerDNS), none (RFC 2136).  The ratio is kept as far as
    possible and what is off is told; non-zero never becomes 0; 0 is not answered, unless all are 0."""
    world = make(kind)
    world.write(STATIC, {f"w{i}": f"ttl: 30\nendpoints: {{one: 192.0.2.1, two: 192.0.2.2}}\nregions: {{global: {w}}}\n"
                         for i, (w, _) in enumerate(WEIGHTS.values())})
    plan = world.run("plan", "--allow-ns-change")
    assert not [i for i in plan["items"] if i["held"]]
    world.apply()
    there = world.run("plan")
    assert there["items"] == []
    for i, (_, want) in enumerate(WEIGHTS.values()):
        domain = there["providers"][0]["domains"][f"w{i}.e.test."]
        weight = domain["fidelity"]["weight"]
        assert world.kind.view(f"w{i}.e.test.", "A") <= {ADDRESSES[e] for e in want}
        if kind == "knot":  # all addresses with a weight, at once
            assert world.kind.view(f"w{i}.e.test.", "A") == {ADDRESSES[e] for e in want}
            assert weight["grade"] == ("lost" if i == 0 else "exact")
            continue
        error = weight.get("error", 0)
        assert (weight["grade"] == "approximate") == (error > 0) == (kind == "route53" and i == 0), weight
        shares = {e: s for e, s in domain["before"]["global"].items() if s}
        assert shares.keys() == want.keys()
        assert all(abs(shares[e] - want[e]) <= 1e-9 + (0.01 if kind == "route53" and i == 0 else 0) for e in want)
    if kind == "route53":
        assert sorted(s.weight for s in world.kind.sim.of("_st-global-p1.w0.e.test.", "A")) == [1, 255]
    if kind == "ns1":
        answers = [a for (n, t), r in world.kind.sim.zones["e.test"].items() if n[0] == "w" and t == "A" and r["filters"] for a in r["answers"]]
        assert answers and all(a["meta"]["weight"] > 0 for a in answers)


# ---- B80 ------------------------------------------------------------------------------------------


def second_page(kind, request):
    return "after=" in request.path if kind == "ns1" else "/rrset?" in request.path and "name=" in request.path


def pages_of(world, kind):
    return [r.path for r in world.faults.requests if second_page(kind, r)]


@pytest.fixture
def paged(make, request):
    world = make(request.param, page=100)
    records = "".join(f"n{i}: {{A: [10.0.{i // 250}.{i % 250}]}}\n" for i in range(125))  # and as many marks
    world.write(records, {"cdn": ONE})
    world.apply()
    records += "extra: {A: [192.0.2.99]}\n"
    world.write(records, {"cdn": ONE}, folder="changed", more=", timeout: 1s")
    world.write(records, {"cdn": ONE}, folder="patient")
    world.name = request.param
    return world


@pytest.mark.parametrize("paged", PAGED, indirect=True)
def test_B80_all_pages_are_read_or_none_is_used(paged):
    """250 record sets in pages of 100.  (PowerDNS gives a zone in one reply, and transfers come in messages of
    which the last must be signed: both are cut in test_sync_fault_index.py.)"""
    world, kind = paged, paged.name
    assert world.run("plan")["items"] == [] and len(pages_of(world, kind)) >= 2
    dump = world.kind.dump()
    # The second page fails once: it is asked for again.
    failed = []

    def once(_, request):
        if second_page(kind, request) and not failed:
            failed.append(request)
            return "500"
        return None
    assert world.run("plan", fault=once)["items"] == [] and failed
    # It fails always, or is cut: nothing is planned, nothing is written.
    for mode in ("500", "denied", "short", "garbage"):
        out = world.apply(config="changed", status=1, fault=lambda _, r, m=mode: m if second_page(kind, r) else None)
        assert out["items"] == [] and "dns-a" in out["errors"][0]["error"]
        assert not world.faults.writes and world.kind.dump() == dump


@pytest.mark.parametrize("paged", PAGED, indirect=True)
def test_B80_pages_that_lead_in_a_circle(paged):
    world = paged
    sim = world.kind.sim
    dump = world.kind.dump()
    if world.name == "ns1":
        act = sim.act

        def circle(method, path, body, headers):
            reply = act(method, path, body, headers)
            if "Link" in headers:
                headers["Link"] = f'<{world.kind.proxy.url}/zones/e.test?after=100>; rel="next"'
            return reply
        sim.act = circle
    else:
        whole = sim.list_sets
        sim.list_sets = lambda query, *more: whole({k: v for k, v in query.items() if k == "maxitems"}, *more)
    out = world.apply(config="patient", status=1)
    assert out["errors"][0]["failure"] in ("garbage", "conflict") and not world.faults.writes
    assert world.kind.dump() == dump


@pytest.mark.parametrize("paged", PAGED, indirect=True)
def test_B80_a_zone_that_changes_between_pages(paged):
    """A record comes, or goes, before the page that is read next: nothing is changed for that, at worst nothing
    at all is done; the next run is in sync."""
    world, kind = paged, paged.name
    here = world.kind.dump()
    for name, values in (("aaa.e.test.", ["192.0.2.98"]), ("zzz.e.test.", ["192.0.2.98"])):
        moved = []

        def between(_, request, name=name, values=values, moved=moved):
            if second_page(kind, request) and not moved:
                moved.append(request)
                world.kind.put(name, "A", values)
        done = world.sluice("apply", "--yes", "--json", fault=between)
        assert moved and not world.faults.writes and done.returncode in (0, 1), done.stdout
        assert world.run("plan")["items"] == []
    there = world.kind.dump()
    assert {k: there.get(k) for k in here if k[1]} == {k: v for k, v in here.items() if k[1]}


# ---- B82 ------------------------------------------------------------------------------------------

WEIGHTED = "ttl: 30\nendpoints: {one: 192.0.2.1, two: 192.0.2.2}\nregions: {global: {one: 1, two: 1}}\n"
HOSTS = "ttl: 30\nendpoints: {one: a.example.net., two: b.example.net.}\nregions: {global: {one: 1, two: 1}}\n"
NORTH = "regions: {north: [fr, de], south: [it]}\n"
GEO = WEIGHTED.replace("regions: {global: {one: 1, two: 1}}", "regions: {global: {one: 1, two: 1}, north: {two: 1}}")
STEPS = {  # records, domain; in this order
    "plain": (PLAIN, None),
    "plain to weighted": ("", WEIGHTED),
    "weighted to geo": ("", GEO),
    "an endpoint is renamed": ("", GEO.replace("one", "uno")),
    "a region is renamed": ("", GEO.replace("one", "uno").replace("north", "south")),
    "geo to plain": (PLAIN, None),
    "A to CNAME": ("cdn: {CNAME: c.example.net.}\n", None),
    "CNAME to geo": ("", GEO),
    "geo to names of hosts": ("", HOSTS),
    "names of hosts to weighted": ("", WEIGHTED),
    "weighted to CNAME": ("cdn: {CNAME: c.example.net.}\n", None),
    "CNAME to A": (PLAIN, None),
}


@pytest.mark.parametrize("kind", ALL)
def test_B82_changes_of_kind_converge_in_one_run(make, kind):
    """Each step by one run, then nothing is left to do; in one batch, update or PATCH where there is one, and
    never empty but for one request between a CNAME and something else at NS1."""
    world = make(kind)
    watch = Watch(world, "cdn.e.test.")
    world.write("", OTHER, defaults=NORTH)
    world.apply()
    for step, (records, domain) in STEPS.items():
        world.write(records, {**OTHER, **({"cdn": domain} if domain else {})}, defaults=NORTH)
        watch.holes.clear()
        out = world.apply("--allow-large")
        assert out["providers"][0]["state"] == "applied", (step, out)
        batches = [r for r in world.faults.writes if r.method in ("PATCH", "UPDATE") or r.path.endswith("/rrset")]
        # One, and one more that narrows a mark where the types of a name changed (docs/providers.md).
        assert len(batches) <= 2, (step, batches)
        if step != "plain":
            assert len(watch.holes) <= (1 if world.kind.gap and ("CNAME" in step or "hosts" in step) else 0), (step, watch.holes)
        view = world.kind.view("cdn.e.test.", "A") | world.kind.view("cdn.e.test.", "CNAME")
        assert view and all(v.startswith("192.0.2.") or v.rstrip(".").endswith("example.net") for v in view), step
        assert world.run("plan")["items"] == [] and not world.faults.writes, step


def test_the_tests_of_a_report_are_here():
    """B35, B37, B67, B80, B82: by their names."""
    assert {name[5:8] for name in globals() if name.startswith("test_B")} == {"B35", "B37", "B67", "B80", "B82"}
