# SPDX-License-Identifier: Apache-2.0
"""Route 53 when requests fail, replies are wrong, or the program is killed."""
import signal
import subprocess
import threading

import pytest

import sluicelib
from route53lib import ZONE, ask, once, sim, world  # noqa: F401 (fixtures)

REQUESTS = 12  # of an apply from a plain name to a steered one


@pytest.mark.parametrize("body", [
    "", "<", "<html/>", '<!DOCTYPE a [<!ENTITY b "c">]><ListHealthChecksResponse>&b;</ListHealthChecksResponse>',
    "<ListHealthChecksResponse/>", "<ListHealthChecksResponse>" + "<a>" * 5000, "\0" * 50,
    "<ListHealthChecksResponse><HealthChecks><HealthCheck/></HealthChecks><IsTruncated>false</IsTruncated>"
    "</ListHealthChecksResponse>",
    "<ListHealthChecksResponse><HealthChecks/><IsTruncated>true</IsTruncated></ListHealthChecksResponse>",
], ids=["nothing", "cut", "html", "entity", "empty", "deep", "zeros", "no-id", "no-marker"])
def test_hostile_replies(sim, body):
    sim.list_checks = lambda query: body.encode()
    out = once(sim, "read", status=1)
    assert out["error"]["failure"] == "garbage" and "dns-x" in out["error"]["text"]


def start_from_plain(world, holes):
    """A plain name is there; the configuration wants a steered one."""
    world.sim.put("theirs.e.test.", "A", ["192.0.2.66"])
    world.write(None, ZONE + "  cdn: {A: [192.0.2.70]}\n")
    world.apply()
    world.sim.watch = lambda s: holes.append(s.answer("cdn.e.test.", "A", ("EU", "FR", None)))
    world.write()
    world.sim.requests.clear()


@pytest.mark.parametrize("index", range(REQUESTS))
@pytest.mark.parametrize("fault", ["kill", "lost", "truncated", 500])
def test_b35_faults_at_every_request(world, fault, index):
    """B35: whatever fails, no name is ever empty, others' records stay, and the next run converges."""
    sim, holes = world.sim, []
    start_from_plain(world, holes)
    sim.fault = lambda i, method, path: fault if i == index else None
    world.run("apply", "--yes", status=None)
    assert len(sim.requests) > index
    sim.fault = lambda i, method, path: None
    world.apply()
    assert holes and all(holes)
    assert ask(sim, ("EU", "FR", None)) == {"192.0.2.2": 1}
    assert ask(sim, name="theirs.e.test.") == {"192.0.2.66": 1}
    assert world.run("plan")["items"] == []
    assert len(sim.checks) == 3  # none is left over


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("index", range(REQUESTS))
def test_b35_killed_at_every_request(world, index, done):
    """B35: the same when the program itself is killed, before or after the API has done its part."""
    sim, holes, started = world.sim, [], threading.Event()
    start_from_plain(world, holes)

    def end(i, method, path):
        if i != index:
            return None
        started.wait(sluicelib.DEADLINE)
        process.kill()
        process.wait(sluicelib.DEADLINE)
        return "lost" if done else "kill"

    sim.fault = end
    with subprocess.Popen([sluicelib.program("sluice"), "sync", "apply", "--yes", *map(str, world.options())],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=sluicelib.environment()) as process:
        started.set()
        assert process.wait(sluicelib.DEADLINE) == -signal.SIGKILL
    sim.fault = lambda i, method, path: None
    world.apply()
    assert holes and all(holes)
    assert ask(sim, ("EU", "FR", None)) == {"192.0.2.2": 1}
    assert ask(sim, name="theirs.e.test.") == {"192.0.2.66": 1}
    assert world.run("plan")["items"] == [] and len(sim.checks) == 3


def test_no_more_requests_than_needed(world):
    holes = []
    start_from_plain(world, holes)
    world.apply()
    assert len(world.sim.requests) == REQUESTS and len(holes) == 1


@pytest.mark.parametrize("fault", ["Throttling", "PriorRequestNotComplete", 429])
def test_throttling_is_waited_for(world, fault):
    """Throttling comes with status 400: told by its code."""
    sim = world.sim
    posts = []

    def once_each(index, method, path):
        if method != "POST" or path in posts:
            return None
        posts.append(path)
        return fault

    sim.fault = once_each
    assert world.apply()["providers"][0]["state"] == "applied"
    assert len(posts) == 2
