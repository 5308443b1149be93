# SPDX-License-Identifier: Apache-2.0
"""Faults that were reported of other servers: weights and priorities."""
import itertools
import json

import pytest

import reportlib
import sluicelib
from reportlib import BT, NOWHERE, SE, US, all_from, domain, health, shares
from sluicelib import rdata

CANARY = {"old": 90, "new": 10}
ADDRESSES = {"old": "192.0.2.90", "new": "192.0.2.10", "spare": "192.0.2.99"}
LEVELS = {f"{region}{level}{which}": f"192.0.2.{100 + 20 * r + 2 * level + w}"
          for r, region in enumerate(("g", "e", "u")) for level in (1, 2, 3) for w, which in enumerate("ab")}


def levels(region):
    return [{f"{region}{level}a": 1, f"{region}{level}b": 1} for level in (1, 2, 3)]


def weighted(weights):
    return domain({f"e{i}": f"192.0.2.{i + 1}" for i in range(len(weights))},
                  {"global": {f"e{i}": weight for i, weight in enumerate(weights)}})


EVEN_OR_NOT = {"four": (15, 15, 35, 35), "three": (1, 1, 1), "seven": (1,) * 7, "rare": (1, 1000),
               "widest": (1, 65535)}
DOMAINS = {name: weighted(weights) for name, weights in EVEN_OR_NOT.items()}
DOMAINS.update({
    "zero": domain({"a": "192.0.2.1", "b": "192.0.2.2", "c": "192.0.2.3"}, {"global": {"a": 100, "b": 0, "c": 0}}),
    "allzero": domain({"a": "192.0.2.1", "b": "192.0.2.2"}, {"global": {"a": 0, "b": 0}}),
    "canary": domain(ADDRESSES, {"global": [CANARY, {"spare": 1}], "se": CANARY, "89.160.20.128/25": CANARY}),
    "_wildcard.star": domain(ADDRESSES, {"global": CANARY}),
    "levels": domain(LEVELS, {"global": levels("g"), "eu": levels("e"), "us": levels("u")}),
    "pair": domain({"p1": "192.0.2.1", "p2": "192.0.2.2"}, {"global": [{"p1": 1}, {"p2": 1}]}),
})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports-weights")
    with reportlib.serve(folder, DOMAINS, geo=reportlib.make_mmdb(folder),
                         records="alias: {CNAME: canary.example.com.}\n") as running:
        yield running


def test_b04_zero_weights_and_health(server):
    name, a, b, c = "zero.example.com.", "192.0.2.1", "192.0.2.2", "192.0.2.3"
    all_from(server, name, {a}, count=1000)
    health(server, name, a="down")
    shares(server, name, {b: 0.5, c: 0.5}, count=2000)
    health(server, name, b="down")
    all_from(server, name, {c}, count=1000)
    health(server, name, c="down")
    all_from(server, name, {a}, count=1000)  # as if all were up
    health(server, name, a="up")
    all_from(server, name, {a}, count=1000)
    health(server, name, a="auto", b="auto", c="auto")


def test_b04_only_zero_weights_never_give_an_empty_answer(server):
    name = "allzero.example.com."
    shares(server, name, {"192.0.2.1": 0.5, "192.0.2.2": 0.5}, count=2000)
    health(server, name, a="down", b="down")
    shares(server, name, {"192.0.2.1": 0.5, "192.0.2.2": 0.5}, count=2000)
    health(server, name, a="auto", b="auto")


def test_b40_weight_zero_stays_zero(server):
    """In what is served, in what explain says and in the zone's master file."""
    all_from(server, "zero.example.com.", {"192.0.2.1"}, count=1000)
    done = server.sluice("explain", "zero.example.com.", "--client", NOWHERE, "--json")
    answers = json.loads(done.stdout)["answers"]
    assert [(a["endpoint"], a["probability"]) for a in answers if a["probability"] > 0] == [("a", 1.0)]
    zonefile = next((server.data / "current" / "zones").glob("example.com.*zone"))
    lines = [line.split() for line in zonefile.read_text(encoding="utf-8").splitlines() if line.startswith("zero")]
    assert [line[-1] for line in lines] == ["192.0.2.1"]


@pytest.mark.parametrize("weight", ["", "null", "~", '""'])
def test_b40_empty_weight_is_refused(tmp_path, weight):
    text = f"endpoints: {{a: 192.0.2.1, b: 192.0.2.2}}\nregions:\n  global:\n    a: 1\n    b: {weight}\n"
    files = sluicelib.config_files({"www": text})
    done = sluicelib.sluice("check", sluicelib.write_tree(tmp_path / "config", files), status=1)
    assert "domain.yaml:5:" in done.stderr and "weight of `b`" in done.stderr


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_b62_only_one_level_from_every_vantage_point(server, transport):
    name = "levels.example.com."
    clients = {SE: "e", US: "u", BT: "g", NOWHERE: "g"}
    now = {}
    for up in itertools.product((True, False), repeat=3):
        wanted = {f"{r}{level}{w}": "auto" if up[level - 1] else "down"
                  for r in "geu" for level in (1, 2, 3) for w in "ab"}
        health(server, name, **{e: s for e, s in wanted.items() if now.get(e, "auto") != s})
        now = wanted
        best = next((level for level in (1, 2, 3) if up[level - 1]), 1)  # all down counts as all up
        for client, region in clients.items():
            right = {LEVELS[f"{region}{best}{w}"] for w in "ab"}
            if transport == "udp":
                all_from(server, name, right, count=100, ecs=client)
                continue
            for _ in range(5):
                answer = rdata(server.ask(name, ecs=client, tcp=True))
                assert len(answer) == 1 and set(answer) <= right
    health(server, name, **{e: "auto" for e, s in now.items() if s != "auto"})


def test_b62_a_level_counts_when_one_of_it_is_up(server):
    name = "levels.example.com."
    health(server, name, e1a="down", e2a="down")
    all_from(server, name, {LEVELS["e1b"]}, count=200, ecs=SE)
    all_from(server, name, {LEVELS["u1a"], LEVELS["u1b"]}, count=200, ecs=US)
    health(server, name, e1a="auto", e2a="auto")


@pytest.mark.parametrize("name", EVEN_OR_NOT)
def test_b65_every_draw_gives_one_address(server, name):
    weights = EVEN_OR_NOT[name]
    expected = {f"192.0.2.{i + 1}": weight / sum(weights) for i, weight in enumerate(weights)}
    shares(server, f"{name}.example.com.", expected, count=50000)


def test_b65_a_small_weight_is_drawn_sometimes(server):
    """1 of 1001: none in 50 000 draws would be less likely than 1e-21."""
    assert reportlib.drawn(server, "rare.example.com.", 50000)["192.0.2.1"] > 0
    done = server.sluice("explain", "widest.example.com.", "--client", NOWHERE, "--json")
    chances = {a["endpoint"]: a["probability"] for a in json.loads(done.stdout)["answers"]}
    assert chances["e0"] == pytest.approx(1 / 65536, rel=1e-9)


PLACES = {
    "global": ("canary.example.com.", NOWHERE), "country": ("canary.example.com.", SE),
    "subnet": ("canary.example.com.", "89.160.20.200"), "wildcard": ("any.star.example.com.", None),
    "alias": ("alias.example.com.", SE),
}


@pytest.mark.parametrize("place", PLACES)
def test_b102_weights_hold_wherever_the_region_was_found(server, place):
    name, client = PLACES[place]
    shares(server, name, {"192.0.2.90": 0.9, "192.0.2.10": 0.1}, ecs=client)


def test_b102_weights_hold_when_all_are_unhealthy(server):
    name = "canary.example.com."
    health(server, name, old="down", new="down", spare="down")
    shares(server, name, {"192.0.2.90": 0.9, "192.0.2.10": 0.1}, ecs=NOWHERE)
    shares(server, name, {"192.0.2.90": 0.9, "192.0.2.10": 0.1}, ecs=SE)
    health(server, name, old="auto", new="auto", spare="auto")


def test_b108_failback_is_sharp_and_all_down_is_constant(server):
    name, p1, p2 = "pair.example.com.", {"192.0.2.1"}, {"192.0.2.2"}
    for _ in range(3):
        all_from(server, name, p1, count=300)
        health(server, name, p1="down")
        all_from(server, name, p2, count=300)
        health(server, name, p1="up")
    health(server, name, p2="down", p1="down")
    for _ in range(5):
        all_from(server, name, p1, count=300)
    health(server, name, p2="auto")
    all_from(server, name, p2, count=300)
    health(server, name, p1="auto")
    all_from(server, name, p1, count=300)
