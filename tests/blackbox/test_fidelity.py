# SPDX-License-Identifier: Apache-2.0
"""What a provider cannot do is declared: cases that test_cross_provider.py found to be called exact."""
import pytest

import ns1sim
import pdnslib
import primaries

KEY = primaries.Key("sync-key")
TARGETS = {
    "ns1": ({"type": "ns1", "url": "http://127.0.0.1:1/v1", "secret": "key"}, ns1sim.KEY),
    "rfc2136": ({"type": "rfc2136", "address": "127.0.0.1@1", "secret": "key"},
                f"{KEY.algorithm}:{KEY.name}:{KEY.secret}"),
}
UP = {"manual": 0, "health4": 1, "health6": 1}
DOWN = {"manual": 0, "health4": 2, "health6": 2}
ONE, TWO = ["192.0.2.1"], ["192.0.2.2", "192.0.2.3"]


def compiled(kind, endpoints, level, regions=(), **more):
    """Fidelity and records of a domain with one level in `global`."""
    settings, key = TARGETS[kind]
    every = {"global": (["global"], [level]), **{atom: ([atom], [level]) for atom in regions}}
    out = pdnslib.once("http://127.0.0.1:1", "compile", settings=settings, key=key,
                       domains=[pdnslib.domain(every, endpoints, **more)])
    return out["fidelity"]["cdn.e.test."], [o["body"] for o in out["wanted"]]


@pytest.mark.parametrize("atom", ["country:gb", "continent:eu", "subdivision:us-ny"])
def test_places_are_those_of_ns1(atom):
    """A country that only the registration tells, for example, is another one to NS1."""
    fidelity, _ = compiled("ns1", {"a": ONE}, {"a": 1}, [atom])
    assert fidelity["geo"]["grade"] == "approx" and "its own location data" in fidelity["geo"]["why"]


@pytest.mark.parametrize("atom", ["net:192.0.2.0/24", "asn:64500"])
def test_networks_are_the_same_everywhere(atom):
    fidelity, _ = compiled("ns1", {"a": ONE}, {"a": 1}, [atom])
    assert fidelity["geo"]["grade"] == "exact"


def test_several_answers_of_single_addresses_are_lost():
    """NS1 draws two addresses, and they may be of one endpoint, with which both are lost."""
    fidelity, _ = compiled("ns1", {"a": ONE, "b": TWO}, {"a": 1, "b": 1000}, answers=2)
    assert fidelity["weight"]["grade"] == "lost"
    fidelity, _ = compiled("ns1", {"a": ONE, "b": TWO}, {"a": 1, "b": 1000})
    assert fidelity["weight"]["grade"] == "approx" and fidelity["weight"]["error"] == 0.5
    fidelity, _ = compiled("ns1", {"a": ONE, "b": ["192.0.2.2"]}, {"a": 1, "b": 1000}, answers=2)
    assert fidelity["weight"]["grade"] == "exact"


def test_static_shares_are_those_of_addresses():
    """Equal weights are not equal shares where one endpoint has more addresses than the other."""
    fidelity, records = compiled("rfc2136", {"a": ONE, "b": TWO}, {"a": 7, "b": 7})
    assert records[0]["values"] == ONE + TWO
    assert fidelity["weight"]["grade"] == "approx" and fidelity["weight"]["error"] == pytest.approx(2 / 3 - 1 / 2)
    fidelity, _ = compiled("rfc2136", {"a": ONE, "b": ["192.0.2.2"]}, {"a": 7, "b": 7})
    assert fidelity["weight"]["grade"] == "exact"


def test_static_shares_of_a_shared_address():
    """An address of two endpoints is drawn with either, and is in the answer once."""
    fidelity, records = compiled("rfc2136", {"a": ONE, "b": ONE + TWO}, {"a": 7, "b": 7})
    assert records[0]["values"] == ONE + TWO
    assert fidelity["weight"]["grade"] == "approx"
    assert fidelity["weight"]["error"] == pytest.approx(1 / 2 + 1 / 6 - 1 / 3)


@pytest.mark.parametrize("weight", [0, 7])
def test_static_hosts_lose_their_shares(weight):
    """Also with all weights 0, where each is equally likely."""
    fidelity, records = compiled("rfc2136", {"a": "a.example.net.", "b": "b.example.net."}, {"a": weight, "b": weight})
    assert records[0]["values"] == ["a.example.net."]
    assert fidelity["weight"]["grade"] == "lost"


def test_static_status_counts_without_checks():
    """Forced down by hand, in a domain without `health`."""
    fidelity, records = compiled("rfc2136", {"a": ONE, "b": ["192.0.2.2"]}, {"a": 7, "b": 7}, status=[DOWN, UP])
    assert records[0]["values"] == ["192.0.2.2"]
    assert fidelity["status"]["grade"] == "approx"


def test_static_answers_of_what_is_off():
    """The default answer has all of level 1 where nothing else has a weight, also what is disabled."""
    fidelity, records = compiled("rfc2136", {"a": (ONE, False), "b": ["192.0.2.2"]}, {"a": 7, "b": 0})
    assert records[0]["values"] == ["192.0.2.1", "192.0.2.2"]
    assert fidelity["weight"]["grade"] == "approx" and fidelity["weight"]["error"] == 0.5
