# SPDX-License-Identifier: Apache-2.0
"""Route 53, against a simulator that enforces its rules: what domains become there, and what it answers."""
import fractions
import random

import pytest

import pdnslib
from route53lib import ATOMS, apply, ask, once, sample, sim  # noqa: F401 (a fixture)

PLACES = [("EU", "FR", None), ("EU", "DE", None), ("NA", "US", "CA"), ("NA", "US", "NY"), ("NA", "CA", "QC"),
          ("AS", "JP", None), (None, None, None)]
LOST = ["subdivision:ca-qc", "net:192.0.2.0/24", "asn:64500"]


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


def test_host_names_and_wildcards(sim):
    hosts = pdnslib.domain({"global": (["global"], [{"a": 1}, {"b": 1}])},
                            {"a": "a.example.net.", "b": "b.example.net."}, name="*.w")
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
