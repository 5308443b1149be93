# SPDX-License-Identifier: Apache-2.0
"""`sluice sync import`: there and back for each kind of provider, and what cannot be imported."""
import json
import os

import pytest

import importlab
import sluicelib
import toollib

ZONE = importlab.ZONE
SIMPLE = {"ttl": 3600, "soa": {"mname": "ns1.e.test.", "rname": "hostmaster.e.test."}, "ns": ["ns1.e.test.", "ns2.example.net."],
          "providers": ["dns-a"], "records": {"ns1": {"A": ["192.0.2.53"]}, "www": {"A": ["192.0.2.80"], "TXT": ["a ; b"]}}}
CDN = {"ttl": 30, "endpoints": {"one": "192.0.2.1", "two": "192.0.2.2", "spare": "192.0.2.3"},
       "regions": {"global": [{"one": 3, "two": 1}, {"spare": 1}], "eu": {"two": 1}}}


@pytest.fixture
def make(tmp_path):
    worlds = []

    def one(kind, **more):
        worlds.append(importlab.World(tmp_path, kind, **more))
        return worlds[-1]
    yield one
    for world in worlds:
        world.close()


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def missed(out):
    return {(u["name"], u["type"]): u["why"] for u in out["unmodelled"]}


# ---- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", importlab.KINDS)
def test_there_and_back(make, tmp_path, kind, seed):
    """What was applied is imported as the same model, and nothing is planned for it."""
    world = make(kind)
    zone, domains, zonefile, regions = importlab.configuration(seed, world.target)
    world.write(zone, domains, zonefile, regions=regions)
    world.apply()
    out = world.imports()
    assert out["unmodelled"] == [] and out["errors"] == [], out
    assert out["domains"] == len(domains)
    sluicelib.sluice("check", world.new)
    assert world.plan(config=world.new) == []
    old_records, old = importlab.built(world.config, tmp_path / "data-old")
    new_records, new = importlab.built(world.new, tmp_path / "data-new")
    assert old_records == new_records and len(old_records) > 20
    assert {n: importlab.canonical(d) for n, d in old.items()} == {n: importlab.canonical(d) for n, d in new.items()}
    for name in old:
        for client in importlab.CLIENTS[:2]:
            name = name.replace("*", "x")
            assert importlab.explain(world.config, name, client) == importlab.explain(world.new, name, client)
