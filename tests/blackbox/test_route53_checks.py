# SPDX-License-Identifier: Apache-2.0
"""Health at Route 53: checks that are told what is up, and those that it makes itself."""
import pytest

import pdnslib
from route53lib import CONSENTS, apply, ask, meanwhile, sample, sim, status_of, world  # noqa: F401 (fixtures)


# ---- told what is up -------------------------------------------------------------------------------


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


# ---- of its own ------------------------------------------------------------------------------------


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


WEB = {"type": "http", "path": "/", "port": 80, "interval": 30000, "fall": 3, "expect": {"status": [[200, 299]]}}


def own(sim, check, endpoints=("one", "two", "spare"), domain=sample):
    """The grade of `status`, why, and the configurations of the checks that are there."""
    out = apply(sim, domain(pushed=False, health={e: check for e in endpoints}))
    status = out["fidelity"]["cdn.e.test."]["status"]
    return status["grade"], status.get("why", ""), [c["config"] for c in sim.checks.values()]


def test_a_check_of_a_body(sim):
    """What is looked for is looked for there too, and read back."""
    check = dict(WEB, type="https", expect={"status": [[200, 204]], "body": "all <is> well"})
    grade, why, configs = own(sim, check)
    assert grade == "approx" and "first address" in why
    assert {(c["Type"], c["SearchString"]) for c in configs} == {("HTTPS_STR_MATCH", "all <is> well")}
    out = apply(sim, sample(pushed=False, health={"one": check, "two": check, "spare": check}))
    assert out["changes"] == 0
    assert out["documents"]["cdn.e.test."]["health"]["one"]["expect"] == {"body": "all <is> well"}


@pytest.mark.parametrize("change, word", [
    ({"type": "tcp", "send": "x"}, "says"), ({"type": "tcp", "expect": {"data": "x"}}, "says"), ({"type": "dns"}, "tcp"),
    ({"method": "POST"}, "GET"), ({"headers": {"X-Key": "1"}}, "headers"),
    ({"expect": {"status": [[200, 299], [401, 401]]}}, "399"),
    ({"expect": {"status": [[200, 299]], "body": "x" * 256}}, "255"),
])
def test_checks_that_it_cannot_do(sim, change, word):
    grade, why, configs = own(sim, dict(WEB, **change))
    assert grade == "lost" and word in why and "health: pushed" in why and not configs


@pytest.mark.parametrize("host, grade", [("www.example.net", "lost"), ("A.example.net", "approx"), (None, "approx")])
def test_a_host_is_checked_where_it_is(sim, host, grade):
    """A check without an address has one name: it must not be turned to another host."""
    def hosts(**more):
        return pdnslib.domain({"global": (["global"], [{"a": 1, "b": 1}])},
                              {"a": "a.example.net.", "b": ("b.example.net.", False)}, **more)
    found, why, configs = own(sim, dict(WEB, **{"host": host} if host else {}), ("a", "b"), hosts)
    assert found == grade and ("another name" in why) == (grade == "lost")
    assert {c["FullyQualifiedDomainName"].lower() for c in configs} == (set() if grade == "lost" else {"a.example.net"})


# ---- others, and what came between -----------------------------------------------------------------


def test_health_checks_have_versions(sim):
    """Two that change one check at a time: the second is told, and does not overwrite."""
    up = [status_of()] * 3
    apply(sim, sample(status=up))
    number = next(iter(sim.checks))
    meanwhile(sim, lambda method, path: path.endswith(number) and method == "POST",
              lambda: sim.checks[number].update(version=9))
    out = apply(sim, sample(status=[status_of(down=True)] * 3), status=1)
    assert out["error"]["failure"] == "conflict" and "HealthCheckVersionMismatch" in out["error"]["text"]
    sim.fault = lambda index, method, path: None
    assert "error" not in apply(sim, sample(status=[status_of(down=True)] * 3))


def test_a_health_check_that_others_use(world):
    """It stays, and the run says so; once it is free, the next run removes it."""
    sim = world.sim
    world.apply()
    number = next(iter(sim.checks))
    sim.put("theirs.e.test.", "A", ["192.0.2.66"])
    sim.sets[("theirs.e.test.", "A", None)].health = number
    world.write(None)
    out = world.apply(*CONSENTS, status=3)
    assert "HealthCheckInUse" in out["errors"][0]["error"] and number in sim.checks
    del sim.sets[("theirs.e.test.", "A", None)]
    world.apply(*CONSENTS)
    assert not sim.checks and world.run("plan")["items"] == []


def test_c28_checks_of_a_name_that_went_meanwhile(world):
    """C28: a run that is killed after it has made checks, and the name is gone from the configuration."""
    sim = world.sim
    sim.fault = lambda index, method, path: "kill" if path.endswith("/rrset") and method == "POST" else None
    world.run("apply", "--yes", status=3)
    assert len(sim.checks) == 3
    sim.fault = lambda index, method, path: None
    world.write(None)
    world.apply()
    assert not sim.checks and world.run("plan")["items"] == []
