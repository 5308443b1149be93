# SPDX-License-Identifier: Apache-2.0
"""Random models at every provider: the distribution of answers is the model's, or the declared loss.

Each test makes a zone of a few models (crossmodels.py), brings our server, a real PowerDNS, Knot and
BIND and the simulators of Route 53 and NS1 level with `sluice sync` (crossworld.py), and asks all of
them from every place of the location data: as configured, then after changes at run time.  Simulators
tell exact chances; servers are sampled.  What is right says crosslib.py.

The same models each time: SLUICE_MODELS=500 takes more of them, SLUICE_MODELS=120-121 those with
these numbers.  Every second group of numbers is taken once more for providers that check by themselves.
A failure prints the domain.yaml, which can be made smaller by hand.  What was compared is told with -rP.

False alarms: a share is wrong only if TRIES samples in a row are each less likely than UNLIKELY.
With cells of five expected and more the chi-square approximation is not ten times too strict, so
that one share fails by chance less than once in (10 * UNLIKELY) ** -TRIES = 1e15 times; 500 models
have less than 1e5 shares.  What may not be answered at all is no matter of chance.
"""
import os
import re

import pytest

import crosslib
import crossmodels
import crossworld
import reportlib
from test_vectors import CASES

PHASES = 3


def numbers(which=os.environ.get("SLUICE_MODELS", "0-15")):
    """The groups of models: lists of numbers."""
    first, _, last = which.rpartition("-")
    first, last = (int(first), int(last)) if first else (0, int(last) - 1)
    size = 4 if last - first < 20 else 10
    return [list(range(i, min(i + size, last + 1))) for i in range(first, last + 1, size)]


# ---- the reference ----------------------------------------------------------------------------------


def model_of(case):
    """A worked decision as a model; its domain.yaml is of a simple form."""
    def block(name):
        return re.findall(r"^  (.*)$", re.search(rf"^{name}:\n((?:  .*\n)+)", case["domain"], re.M).group(1), re.M)

    def level(text):
        return {k.strip('"'): int(w) for k, w in re.findall(r"([^\s{,]+): (\d+)", text)}
    endpoints, regions, region = {}, {}, None
    for name, value in (line.split(": ", 1) for line in block("endpoints")):
        found = re.findall(r"[0-9a-f]*[:.][0-9a-f:.]+", value)
        endpoints[name.strip('"')] = value if value.endswith(".example.net.") else found
    for line in block("regions"):
        head = re.match(r'("[^"]*"|[^\s"]+?):(?: (.*))?$', line)
        if line.startswith("  - "):
            regions[region].append(level(line))
        else:
            region = head.group(1).strip('"')
            regions[region] = [level(head.group(2))] if head.group(2) else []
    types = re.search(r"^types: \[(.*)\]$", case["domain"], re.M)
    return crosslib.Model(f"c{case['id']}", endpoints, regions, named=case["regions"],
                          types=types.group(1).split(", ") if types else None)


def test_the_reference_decides_as_worked():
    """All 400 worked decisions, by the evaluator that everything below relies on."""
    for case in CASES:
        model = model_of(case)
        facts = crosslib.Facts(manual={e: False for e in case["disabled"]},
                               down={(e, family) for e in case["down"] for family in (4, 6)})
        expect = case["expect"]
        region = crosslib.fence(model, crosslib.place(case["client"]))
        assert region == expect["region"], case["id"]
        rtype = "CNAME" if model.offered() == ["CNAME"] else case["type"]
        if expect.get("nodata"):
            assert rtype not in model.offered(), case["id"]
            continue
        decision = crosslib.decide(model, facts, region, rtype)
        assert (decision.level, decision.rule != "up") == (expect["level"], expect["fallback"]), case["id"]
        chances = crosslib.draws(decision.weights, 1)
        assert {min(k): float(p) for k, p in chances.items()} == pytest.approx(expect["answers"], rel=1e-12), case["id"]


def test_every_class_appears():
    """All layers with their fallbacks, kinds of endpoints and places are among the models of a plain run."""
    seen = set()
    for number in range(16):
        model, phases = crossmodels.make(number, PHASES)
        for facts in phases:
            seen |= crossmodels.classes(model, facts)
    assert not crossmodels.NEEDED - seen
    seen = set()
    for number in (n for group in numbers("0-15")[::2] for n in group):
        model, phases = crossmodels.make(number, PHASES, crossmodels.OwnMaker)
        for facts in phases:
            seen |= crossmodels.own_classes(model, facts)
    assert not crossmodels.NEEDED_OWN - seen


# ---- the property -----------------------------------------------------------------------------------


def group_of(numbers, maker=crossmodels.Maker):
    """Models and their phases; only one can be at the apex."""
    made = [crossmodels.make(number, PHASES, maker) for number in numbers]
    apex = [model for model, _ in made if model.name == "@"]
    for model in apex[1:]:
        model.name = f"other{numbers[[m for m, _ in made].index(model)]}"
    return made


def check(folder, made, own=False):
    world = crossworld.World(folder, [model for model, _ in made], own)
    try:
        crossworld.check_group(world, made)
    finally:
        world.close()
    world.server.check_sanitizers()


@pytest.mark.parametrize("group", numbers(), ids=lambda g: f"{g[0]}-{g[-1]}")
def test_random_models_are_answered_alike(group, tmp_path):
    check(tmp_path, group_of(group))


@pytest.mark.parametrize("group", numbers()[::2], ids=lambda g: f"{g[0]}-{g[-1]}")
def test_providers_that_check_by_themselves(group, tmp_path):
    """Others of these numbers, with endpoints that are really up or down (cross_network.py)."""
    print(*reportlib.in_own_network(f"{group[0]}-{group[-1]}", tmp_path, "cross_network.py", timeout=1200), sep="\n")
