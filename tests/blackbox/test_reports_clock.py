# SPDX-License-Identifier: Apache-2.0
"""B94: the wall clock jumps under the checker, the server and the tools."""
import os
import re
import shutil
import time

import pytest

import clocklib
import feedlib
import healthlib
import sluicelib
import statelib
from clocklib import DAY
from healthlib import Endpoint, Healthd, wait_answers, wait_for

INTERVAL = 0.5  # s
CHECK = "interval: 500ms, timeout: 500ms, rise: 2, fall: 4"  # a pause of the machine makes nothing down
ALIVE = [f"127.0.0.{i}" for i in range(21, 31)]
DEAD = "127.0.0.40"
NAME = "cdn.example.com"


@pytest.fixture
def clock(tmp_path, monkeypatch):
    return clocklib.WallClock(tmp_path, monkeypatch)


@pytest.fixture
def port():
    reserved = sluicelib.Port()
    yield reserved.number
    reserved.close()


@pytest.fixture
def endpoints(port):
    running = [Endpoint(address, port) for address in ALIVE]
    yield running
    for endpoint in running:
        endpoint.stop()


def build(make_config, folder, port):
    domains = {"cdn": healthlib.levels(port, f"dead: {DEAD}", f"good: {ALIVE[0]}", f"spare: {ALIVE[1]}", more=CHECK)}
    domains |= {f"d{i}": healthlib.levels(port, f"a: {address}", more=CHECK) for i, address in enumerate(ALIVE[2:])}
    return sluicelib.build(make_config(domains), folder / "data")


def rounds(healthd, count):
    """Waits for so many probes of every check."""
    done = healthd.status()["probes"]["done"] + count * (len(ALIVE) + 1)
    wait_for(lambda: healthd.status()["probes"]["done"] >= done, f"{count} rounds of probes")


@pytest.mark.parametrize("to", [DAY, -DAY, 30 * 365 * DAY, None], ids=["+1 day", "-1 day", "+30 years", "1970"])
def test_b94_a_jump_changes_no_state_and_brings_no_burst(to, clock, tmp_path, make_config, start, port, endpoints):
    data = build(make_config, tmp_path, port)
    server = start(data, "--health", f"{data}.feed")
    with Healthd(data) as healthd:
        healthd.wait_states(**{DEAD: "down"}, **{address: "up" for address in ALIVE})
        wait_answers(server, NAME, [ALIVE[0]])
        feedlib.wait_health(server, connected=True)
        rounds(healthd, 2)
        states, mark, server_mark = healthd.states(), healthd.mark(), server.mark()
        begin = time.monotonic()
        if to is None:
            clock.set_to(0)
        else:
            clock.shift(to)
        rounds(healthd, 3)  # the cadence goes on
        assert healthlib.answers(server, NAME) == {ALIVE[0]}
        clock.shift(0)  # and back
        rounds(healthd, 3)
        end = time.monotonic()
        assert healthd.states() == states and healthlib.answers(server, NAME) == {ALIVE[0]}
        told = "\n".join(healthd.lines[mark:] + server.lines[server_mark:])
        assert ", was " not in told and "lost" not in told, told
        assert not re.search(r"did not run for \d{6}", told), told  # a short pause of the machine itself is none of ours
        health = feedlib.health(server)
        assert health["connected"] and not health.get("stale"), health
        for endpoint in endpoints:  # nothing is made up for; one or two of before may be noticed late
            arrived = [t for t in endpoint.times if begin <= t <= end]
            assert len(arrived) <= (end - begin) / INTERVAL + 4, (endpoint.address, len(arrived), end - begin)


@pytest.mark.parametrize("to", [DAY, -DAY], ids=["+1 day", "-1 day"])
def test_b94_health_ages_by_the_monotonic_clock(to, clock, tmp_path, make_config, start, port, endpoints):
    """Without a checker, the last word holds for `health-stale`, whatever the wall clock does."""
    del endpoints
    data = build(make_config, tmp_path, port)
    with Healthd(data) as healthd:
        healthd.wait_states(**{DEAD: "down"}, **{address: "up" for address in ALIVE})
        server = start(data, "--health", healthd.feed, "--health-stale", "10m")
        brief = start(data, "--health", healthd.feed, "--health-stale", "2s", control=f"{data}.second")
        for one in (server, brief):
            wait_answers(one, NAME, [ALIVE[0]])
    clock.shift(to)
    wait_answers(brief, NAME, [DEAD])  # as if all were healthy; also when the clock went back
    assert healthlib.answers(server, NAME) == {ALIVE[0]}
    assert feedlib.health(server)["age"] < DAY // 2


def timed(server, endpoint, period):
    server.sluice("endpoints", "set", f"{NAME}[global]", f"{endpoint}=7", "--for", period)


def test_b94_overrides_end_by_the_wall_clock(clock, tmp_path, make_config, start):
    """`until 14:00` means the clock on the wall, also after it has been set right."""
    server = start(make_config({"cdn": statelib.DOMAIN}))

    def in_force():
        return {endpoint for _, _, endpoint in statelib.weights(server.control)}

    timed(server, "one", "2h")
    timed(server, "two", "5d")
    clock.shift(-DAY)
    server.sluice("endpoints", "get", NAME)
    assert in_force() == {"one", "two"}
    clock.set_to(100)  # 1970
    assert in_force() == {"one", "two"}
    clock.shift(DAY)
    server.wait_log("weight .*one .*has expired")
    wait_for(lambda: in_force() == {"two"}, "the end of the first")
    clock.shift(0)
    assert in_force() == {"two"}, "what has ended stays so"
    assert [row["command"] for row in statelib.history(server.control)] == ["expire", "set", "set"]


def test_b94_another_time_zone(monkeypatch, tmp_path, make_config, start, port, endpoints):
    """/etc/localtime is replaced under the programs, and after a restart TZ is another one."""
    del endpoints
    zone = tmp_path / "localtime"

    def move(place):
        shutil.copy(f"/usr/share/zoneinfo/{place}", tmp_path / "next")
        os.replace(tmp_path / "next", zone)

    move("Europe/Berlin")
    monkeypatch.setenv("TZ", f":{zone}")
    data = build(make_config, tmp_path, port)
    server = start(data, "--health", f"{data}.feed", "--state", tmp_path / "state")
    with Healthd(data) as healthd:
        healthd.wait_states(**{DEAD: "down"}, **{address: "up" for address in ALIVE})
        wait_answers(server, NAME, [ALIVE[0]])
        timed(server, "dead", "2h")
        until = [o["expires_at"] for o in statelib.domain(server.control, NAME + ".")["overrides"]]
        told = server.sluice("endpoints", "history", NAME).stdout
        states, mark = healthd.states(), healthd.mark()
        move("Pacific/Kiritimati")
        rounds(healthd, 3)
        assert healthd.states() == states and ", was " not in "\n".join(healthd.lines[mark:])
        assert server.sluice("endpoints", "history", NAME).stdout == told
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    server.stop()
    server = start(data, "--health", f"{data}.feed", "--state", tmp_path / "state")
    assert [o["expires_at"] for o in statelib.domain(server.control, NAME + ".")["overrides"]] == until
    assert server.sluice("endpoints", "history", NAME).stdout == told
    with Healthd(data) as healthd:
        assert healthd.states() == states, "known at once"
        wait_answers(server, NAME, [ALIVE[0]])
