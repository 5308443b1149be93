# SPDX-License-Identifier: Apache-2.0
"""Hosted zones of Route 53: found by name, made once, removed with what is ours."""
import pytest

import route53sim
from route53lib import apply, once, sample, sim, status_of  # noqa: F401 (a fixture)


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
    config = {"Type": "TCP", "Port": "1", "RequestInterval": "30", "FailureThreshold": "3"}
    theirs = {"reference": "theirs", "config": config, "version": 1}
    sim.checks["ffffffff-0000-4000-8000-000000000000"] = theirs
    assert len(sim.checks) == 7
    once(sim, "delete_zone")
    assert list(sim.checks.values()) == [theirs] and not sim.zones
