# SPDX-License-Identifier: Apache-2.0
"""Batches of Route 53: what goes together, within 1 000 records and 32 000 characters."""
import pdnslib
from route53lib import ATOMS, CONSENTS, DOMAIN, ZONE, apply, once, sim, world  # noqa: F401 (fixtures)


def test_b82_transitions_are_one_batch(world):
    """B82: plain to steered, steered to plain, A to CNAME: one batch, and never empty."""
    sim = world.sim
    holes = []
    plain = ZONE + "  cdn: {A: [192.0.2.70]}\n"
    cname = DOMAIN
    for address, host in ("192.0.2.1", "a"), ("192.0.2.2", "b"), ("192.0.2.3", "c"):
        cname = cname.replace(address, f"{host}.example.net.")
    world.write(None, plain)
    world.apply()
    sim.watch = lambda s: holes.append(sorted(t for t in ("A", "CNAME") if s.answer("cdn.e.test.", t, ("EU", "FR", None))))
    for step in (dict(), dict(domain=cname), dict(domain=None, zone=plain), dict(domain=cname), dict(),
                 dict(domain=None, zone=plain)):
        world.write(**step)
        before = len(sim.writes)
        out = world.apply(*CONSENTS)
        assert out["providers"][0]["state"] == "applied", out
        batches = [body for _, path, body in sim.writes[before:] if path.endswith("/rrset")]
        assert len([b for b in batches if b"<Name>cdn.e.test.</Name>" in b]) == 1
        assert world.run("plan")["items"] == []
    kinds = [h for i, h in enumerate(holes) if i == 0 or holes[i - 1] != h]
    assert kinds == [["A"], ["CNAME"], ["A"], ["CNAME"], ["A"]]


def test_c11_large_zones_are_cut_into_batches(sim):
    """Complaints 10, 11: 1 000 records and 32 000 characters, an UPSERT counts twice."""
    static = [{"name": f"r{i}.e.test.", "type": "TXT", "ttl": 60, "values": ['"' + "x" * 100 + '"']} for i in range(700)]
    out = once(sim, "read", "compile", "apply", static=static)
    assert out["done"] == 700 and len(sim.changes) == 3
    for item in static:
        item["ttl"] = 61
    assert once(sim, "read", "compile", "apply", static=static)["done"] == 700
    assert len(sim.changes) == 3 + 5


def test_upsert_counts_twice(sim):
    static = [{"name": f"r{i}.e.test.", "type": "A", "ttl": 60, "values": ["192.0.2.1"]} for i in range(501)]
    once(sim, "read", "compile", "apply", static=static)
    assert len(sim.changes) == 1
    once(sim, "read", "compile", "apply", static=[dict(s, ttl=61) for s in static])
    assert len(sim.changes) == 3


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
