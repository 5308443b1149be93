# SPDX-License-Identifier: Apache-2.0
"""The simulators answer as the providers' own documents say, for records made by hand.

Route 53: "Choosing a routing policy", "How Amazon Route 53 chooses records when health checking is
configured" and "Values specific for weighted records" of its developer guide.  NS1: the reference of
its filters.
"""
import fractions

import pytest

import ns1sim
import route53sim

HALF = fractions.Fraction(1, 2)
NOWHERE = (None, None, None)


# ---- Route 53 ---------------------------------------------------------------------------------------


@pytest.fixture
def sim():
    out = route53sim.Route53()
    for name, disabled, inverted in (("up", "true", "false"), ("down", "true", "true"), ("probed", "false", "false"),
                                     ("opposite", "false", "true")):
        out.checks[name] = {"config": {"Disabled": disabled, "Inverted": inverted}, "reference": name, "version": 1}
    yield out
    out.close()


def put(sim, name, identifier, policy, value=None, alias=None, evaluate=False, check=None):
    """A record set of type A: `policy` is XML; an address, or the name of an alias target."""
    target = (f"<TTL>30</TTL><ResourceRecords><ResourceRecord><Value>{value}</Value></ResourceRecord></ResourceRecords>"
              if value else f"<AliasTarget><HostedZoneId>{sim.id}</HostedZoneId><DNSName>{alias}</DNSName>"
              f"<EvaluateTargetHealth>{'true' if evaluate else 'false'}</EvaluateTargetHealth></AliasTarget>")
    health = f"<HealthCheckId>{check}</HealthCheckId>" if check else ""
    sim.put_xml(f"<S><Name>{name}</Name><Type>A</Type><SetIdentifier>{identifier}</SetIdentifier>{policy}{target}{health}</S>")


def weighted(sim, name, *items):
    """items: (weight, health check or None); the addresses count from 192.0.2.1."""
    for i, (weight, check) in enumerate(items, 1):
        put(sim, name, f"w{i}", f"<Weight>{weight}</Weight>", f"192.0.2.{i}", check=check)


def answered(sim, name="x.e.test.", place=NOWHERE):
    """Last number of the address -> chance."""
    return {int(values[0].rpartition(".")[2]): p for values, p in sim.answer(name, "A", place).items()}


@pytest.mark.parametrize("items, want", [
    ([(3, None), (1, None)], {1: fractions.Fraction(3, 4), 2: fractions.Fraction(1, 4)}),
    ([(3, None), (0, None)], {1: 1}),
    ([(0, None), (0, None)], {1: HALF, 2: HALF}),                # all 0: equal probability
    ([(3, "down"), (1, "up")], {2: 1}),
    ([(3, "down"), (0, "up"), (0, "up")], {2: HALF, 3: HALF}),   # zero ones once all others are unhealthy
    ([(3, "down"), (1, "up"), (0, "up")], {2: 1}),
    ([(3, "down"), (1, "down"), (0, "down")], {1: fractions.Fraction(3, 4), 2: fractions.Fraction(1, 4)}),  # none: all
    ([(0, "down"), (0, "up")], {2: 1}),
    ([(0, "down"), (0, "down")], {1: HALF, 2: HALF}),
    ([(1, None), (1, "down")], {1: 1})])                         # without a check: healthy
def test_route53_weights(sim, items, want):
    weighted(sim, "x.e.test.", *items)
    assert answered(sim) == want


@pytest.mark.parametrize("primary, secondary, want", [
    ("up", "up", 1), ("down", "up", 2), ("up", "down", 1), ("down", "down", 1), ("down", None, 2), (None, "up", 1)])
def test_route53_failover(sim, primary, secondary, want):
    """With both unhealthy it answers with the primary."""
    put(sim, "x.e.test.", "a", "<Failover>PRIMARY</Failover>", "192.0.2.1", check=primary)
    put(sim, "x.e.test.", "b", "<Failover>SECONDARY</Failover>", "192.0.2.2", check=secondary)
    assert answered(sim) == {want: 1}


@pytest.mark.parametrize("first, evaluate, want", [
    ([(1, "up"), (1, "down")], True, {1: 1}),        # one healthy record is enough for an alias
    ([(1, "down"), (1, "down")], True, {9: 1}),
    ([(1, "down"), (0, "up")], True, {2: 1}),
    ([(1, "down"), (1, "down")], False, {1: HALF, 2: HALF})])  # without evaluation it always counts as healthy
def test_route53_aliases(sim, first, evaluate, want):
    weighted(sim, "p.e.test.", *first)
    put(sim, "x.e.test.", "a", "<Failover>PRIMARY</Failover>", alias="p.e.test.", evaluate=evaluate)
    put(sim, "x.e.test.", "b", "<Failover>SECONDARY</Failover>", "192.0.2.9", check="up")
    assert answered(sim) == want


PLACES = {1: "<CountryCode>US</CountryCode><SubdivisionCode>NY</SubdivisionCode>", 2: "<CountryCode>US</CountryCode>",
          3: "<ContinentCode>NA</ContinentCode>", 4: "<CountryCode>*</CountryCode>"}


@pytest.mark.parametrize("place, want", [
    (("NA", "US", "NY"), 1), (("NA", "US", "CA"), 2), (("NA", "CA", "NY"), 3), (("EU", "FR", None), 4), (NOWHERE, 4)])
def test_route53_places(sim, place, want):
    for number, xml in PLACES.items():
        put(sim, "x.e.test.", f"g{number}", f"<GeoLocation>{xml}</GeoLocation>", f"192.0.2.{number}")
    assert answered(sim, place=place) == {want: 1}


def test_route53_without_a_default(sim):
    """No answer for those who are nowhere else."""
    put(sim, "x.e.test.", "g", f"<GeoLocation>{PLACES[2]}</GeoLocation>", "192.0.2.2")
    assert answered(sim) == {} and answered(sim, place=("NA", "US", None)) == {2: 1}


def test_route53_unhealthy_places(sim):
    """The next larger place; if none is healthy, the smallest."""
    for number, xml in PLACES.items():
        put(sim, "x.e.test.", f"g{number}", f"<GeoLocation>{xml}</GeoLocation>", f"192.0.2.{number}",
            check="down" if number < 3 else "probed")
    assert answered(sim, place=("NA", "US", "NY")) == {3: 1}
    sim.healthy["probed"] = False
    assert answered(sim, place=("NA", "US", "NY")) == {1: 1}


def test_route53_checks(sim):
    """Disabled ones always pass; inverted ones are the opposite of what they are."""
    assert [sim.is_up(c) for c in ("up", "down", "probed", "opposite")] == [True, False, True, False]
    sim.healthy = {c: False for c in sim.checks}
    assert [sim.is_up(c) for c in ("up", "down", "probed", "opposite")] == [True, False, False, True]


# ---- NS1 --------------------------------------------------------------------------------------------

END = [{"filter": "weighted_shuffle"}, {"filter": "select_first_n", "config": {"N": 1}}]


def shares(filters, *answers, client=ns1sim.Client("192.0.2.1", "US", "NA", "NY", 64500), regions=(), feeds=None, end=END):
    """answers: (number, meta, region or None), of equal weight."""
    record = {"filters": [{"filter": f, "config": c} for f, c in filters] + end, "regions": dict(regions),
              "answers": [{"answer": [str(n)], "region": r, "meta": {"weight": 1, **m}} for n, m, r in answers]}
    return {int(k): p for k, p in ns1sim.shares(record, client, feeds).items()}


FENCES = [("netfence_prefix", "remove_no_ip_prefixes", {"ip_prefixes": ["192.0.2.0/24"]}, {"ip_prefixes": ["10.0.0.0/8"]}),
          ("netfence_asn", "remove_no_asn", {"asn": [64500]}, {"asn": [64501]}),
          ("geofence_country", "remove_no_location", {"country": ["US"]}, {"country": ["CA"]}),
          ("geofence_country", "remove_no_location", {"us_state": ["NY"]}, {"us_state": ["CA"]}),
          ("geofence_country", "remove_no_location", {"us_state": ["NY"]}, {"ca_province": ["NY"]}),
          ("geofence_regional", "remove_no_georegion", {"georegion": ["EUROPE"]}, {"georegion": ["AFRICA"]})]


@pytest.mark.parametrize("name, key, inside, outside", FENCES, ids=lambda x: x if isinstance(x, str) else "")
def test_ns1_fences(name, key, inside, outside):
    """Those of another place go; those of none only where told so, and only if one of this place is there."""
    client = ns1sim.Client("192.0.2.1", "FR", "EU") if name == "geofence_regional" else ns1sim.Client(
        "192.0.2.1", "US", "NA", "NY", 64500)
    answers = [(1, inside, None), (2, outside, None), (3, {}, None)]
    assert shares([(name, {key: True})], *answers, client=client) == {1: 1}
    assert shares([(name, {key: False})], *answers, client=client) == {1: .5, 3: .5}
    assert shares([(name, {})], *answers, client=client) == {1: .5, 3: .5}
    assert shares([(name, {key: True})], *answers[1:], client=client) == {3: 1}


def test_ns1_regions():
    """Meta of a region holds for its answers; the first region that is left is taken."""
    regions = {"a": {"meta": {"country": ["CA"]}}, "b": {"meta": {"country": ["US"]}}, "c": {"meta": {}}}
    chain = [("geofence_country", {}), ("select_first_region", {})]
    assert shares(chain, (1, {}, "a"), (2, {}, "b"), (3, {}, "b"), (4, {}, "c"), regions=regions) == {2: .5, 3: .5}


def test_ns1_up():
    """By value, or by what a feed was last told; an answer without it is up."""
    feeds = {"f": False, "g": True}
    answers = [(1, {"up": True}, None), (2, {"up": False}, None), (3, {"up": {"feed": "f"}}, None),
               (4, {"up": {"feed": "g"}}, None), (5, {}, None)]
    assert set(shares([("up", {})], *answers, feeds=feeds)) == {1, 4, 5}


def test_ns1_priority_and_weight():
    answers = [(1, {"priority": 2, "weight": 9}, None), (2, {"priority": 1, "weight": 3}, None),
               (3, {"priority": 1, "weight": 1}, None)]
    assert shares([("priority", {"eliminate": True})], *answers) == {2: .75, 3: .25}


def test_ns1_several():
    end = [{"filter": "weighted_shuffle"}, {"filter": "select_first_n", "config": {"N": 2}}]
    record = {"filters": end, "answers": [{"answer": [a], "meta": {"weight": w}} for a, w in (("1", 2), ("2", 1), ("3", 1))]}
    got = ns1sim.shares(record, ns1sim.Client())
    assert got == pytest.approx({"1 2": 5 / 12, "1 3": 5 / 12, "2 3": 1 / 6})


def test_ns1_order_after_the_shuffle():
    """What goes by order would be random behind it: the simulator does not pretend to know."""
    with pytest.raises(AssertionError):
        shares([("weighted_shuffle", {}), ("select_first_region", {})], (1, {}, None), (2, {}, None))
