# SPDX-License-Identifier: Apache-2.0
"""Alerts of the real checker: listeners die and come back, receivers too, and the checker itself."""
import contextlib
import json
import random
import textwrap

import pytest

import healthlib
import sluicelib
from alertslib import Webhook
from healthlib import Endpoint, Healthd, wait_answers

NAME = "cdn.example.com"
FAILOVER = f"sluice|failover|{NAME}|global|A"


@pytest.fixture
def port():
    reserved = sluicelib.Port()
    yield reserved.number
    reserved.close()


@pytest.fixture
def hook():
    web = Webhook("127.0.0.9")
    yield web
    web.close()


class Site:
    """A configuration of example.com with alerts, its build, and the checker with a settings file."""

    def __init__(self, tmp_path, make_config, routes, domains, secrets="", window="100ms", quiet="10m"):
        self.tmp_path = tmp_path
        config = make_config(domains, defaults=f"default_zone: example.com\nalerts: {json.dumps(routes)}\n")
        self.data = sluicelib.build(config, tmp_path / "data")
        self.settings = tmp_path / "sluice.yaml"
        self.settings.write_text(textwrap.dedent(f"""\
            healthd: {{spool: {tmp_path}/spool, webhook-allow: [127.0.0.9], alert-window: {window}, alert-quiet: {quiet}}}
            secrets: {{{secrets}}}
            """), encoding="utf-8")

    def healthd(self, **options):
        return Healthd(self.data, "-c", self.settings, **options)

    @contextlib.contextmanager
    def killed(self):
        """The checker, ended by SIGKILL."""
        healthd = self.healthd()
        try:
            yield healthd
        finally:
            healthd.kill()


def steered(port, *endpoints, alerts):
    return healthlib.levels(port, *endpoints) + f"alerts: {{{alerts}}}\n"


def short(events):
    return [(e["action"], e["kind"]) for e in events]


def test_B113_failover_and_failback(tmp_path, make_config, start, port, hook):
    """What is told is what DNS serves then."""
    site = Site(tmp_path, make_config, {"hook": {"format": "json", "url": hook.url}},
                {"cdn": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12", alerts="page: true, to: [hook]")})
    server = start(site.data, "--health", f"{site.data}.feed")
    with Endpoint("127.0.0.11", port) as p1, Endpoint("127.0.0.12", port) as p2, site.healthd() as healthd:
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
        p1.stop()
        event = hook.wait_for(lambda e: e["kind"] == "failover")
        assert (event["action"], event["key"], event["from"], event["to"]) == ("trigger", FAILOVER, 1, 2)
        assert event["serves"] == ["p2"] and event["reasons"] == [{"endpoint": "p1", "why": "connect refused"}]
        wait_answers(server, NAME, ["127.0.0.12"])
        down = hook.wait_for(lambda e: e["kind"] == "endpoint")
        assert (down["endpoint"], down["severity"]) == ("p1", "warning")
        hook.clear()
        p1.start()
        event = hook.wait_for(lambda e: e["kind"] == "failover")
        assert (event["action"], event["key"]) == ("resolve", FAILOVER)
        assert event["summary"].startswith(f"{NAME}: region global is back on level 1 (A); now serving p1")
        hook.wait_for(lambda e: e["kind"] == "endpoint")
        hook.clear()
        p2.stop()  # while p1 serves
        event = hook.wait_for(lambda e: e["kind"] == "endpoint")
        assert (event["endpoint"], event["severity"]) == ("p2", "info") and "not in use" in event["summary"]
        p1.stop()
        event = hook.wait_for(lambda e: e["kind"] == "all-down")
        assert event["severity"] == "critical" and event["serves"] == ["p1"]
        wait_answers(server, NAME, ["127.0.0.11"])
        assert "failover" not in {e["kind"] for e in hook.documents()}


def test_B113_by_hand_is_told_as_such(tmp_path, make_config, start, port, hook):
    """The server's overrides reach the checker; nobody is paged."""
    site = Site(tmp_path, make_config,
                {"hook": {"format": "json", "url": hook.url}, "pager": {"format": "pagerduty", "url": hook.url + "/pager",
                                                                       "secret": "pd"}},
                {"cdn": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12", alerts="page: true, to: [hook, pager]")},
                secrets="pd: {env: SLUICE_TEST_PD}")
    server = start(site.data, "--health", f"{site.data}.feed")
    with Endpoint("127.0.0.11", port), Endpoint("127.0.0.12", port), \
            site.healthd(env={"SLUICE_TEST_PD": "XYZZY"}) as healthd:
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
        for command in (["endpoints", "disable", NAME, "p1"], ["health", "override", NAME, "p1", "down"]):
            server.sluice(*command)
            (event,) = hook.wait(1)
            assert (event["action"], event["kind"], event["cause"]) == ("trigger", "failover", "manual")
            assert event["severity"] == "info" and event["page"] is False and event["serves"] == ["p2"]
            assert event["reasons"][0]["why"] == ("disabled by hand" if command[0] == "endpoints" else "forced down by hand")
            undo = ["endpoints", "enable", NAME, "p1"] if command[0] == "endpoints" else \
                ["health", "override", NAME, "p1", "auto"]
            if command[0] == "health":  # the second time within a short while: it flaps
                assert event["flapping"] is True
                break
            server.sluice(*undo)
            assert short(hook.wait(2)) == [("trigger", "failover"), ("resolve", "failover")]
            hook.clear()
        assert {r[0] for r in hook.requests} == {"/hook"}
        assert "XYZZY" not in healthd.log


def test_B33_restart_between_down_and_up(tmp_path, make_config, port, hook):
    """PagerDuty's resolve has the key of its trigger, and nothing is told twice."""
    site = Site(tmp_path, make_config, {"pager": {"format": "pagerduty", "url": hook.url, "secret": "pd"}},
                {"cdn": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12",
                                alerts="on: [failover, recovered], page: true, to: [pager]")},
                secrets=f"pd: {{file: {tmp_path}/pd}}")
    (tmp_path / "pd").touch(mode=0o600)
    (tmp_path / "pd").write_text("XYZZY\n", encoding="ascii")
    with Endpoint("127.0.0.11", port) as p1, Endpoint("127.0.0.12", port):
        with site.killed() as healthd:
            healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
            p1.stop()
            (event,) = hook.wait(1)
            assert (event["event_action"], event["dedup_key"]) == ("trigger", FAILOVER)
            healthlib.wait_for(lambda: healthd.status()["alerts"]["waiting"] == 0)
        with site.healthd() as healthd:  # nothing changed meanwhile
            healthd.wait_states(**{"127.0.0.11": "down", "127.0.0.12": "up"})
        p1.start()
        with site.healthd() as healthd:
            events = hook.wait(2)
            assert [e["event_action"] for e in events] == ["trigger", "resolve"]
            assert {e["dedup_key"] for e in events} == {FAILOVER}
            assert {e["routing_key"] for e in events} == {"XYZZY"}
            assert "XYZZY" not in healthd.log


@pytest.mark.parametrize("default", ["hang", 500, (429, {"Retry-After": "3600"}, "")], ids=["hang", "500", "429"])
def test_bad_receivers_do_not_delay_probes(tmp_path, make_config, start, port, hook, default):
    """The checker goes on and the server is told, whatever the receiver does."""
    hook.set(default=default)
    site = Site(tmp_path, make_config, {"hook": {"format": "json", "url": hook.url}},
                {"cdn": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12", alerts="to: [hook]")})
    server = start(site.data, "--health", f"{site.data}.feed")
    with Endpoint("127.0.0.11", port) as p1, Endpoint("127.0.0.12", port), site.healthd() as healthd:
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
        p1.stop()
        hook.wait(1)
        wait_answers(server, NAME, ["127.0.0.12"])
        p1.start()
        wait_answers(server, NAME, ["127.0.0.11"])
        assert healthd.status()["alerts"]["waiting"] >= 1
        if default != "hang":
            healthlib.wait_for(lambda: healthd.status()["alerts"]["failed"])
            (failed,) = healthd.status()["alerts"]["failed"]
            assert failed["error"] == ("status 500" if default == 500 else "status 429")


def test_dead_receiver_comes_back(tmp_path, make_config, port):
    """What could not be sent is sent later, also by another run of the checker, and once."""
    reserved = sluicelib.Port("127.0.0.9")
    number = reserved.number
    site = Site(tmp_path, make_config, {"hook": {"format": "json", "url": f"http://127.0.0.9:{number}/"}},
                {"cdn": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12", alerts="on: [failover], to: [hook]")})
    with Endpoint("127.0.0.11", port) as p1, Endpoint("127.0.0.12", port):
        with site.killed() as healthd:
            healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
            p1.stop()
            healthd.wait_log(r"alerts: route hook: .*connect")
        web = Webhook("127.0.0.9", port=number)
        try:
            with site.healthd():
                (event,) = web.wait(1)
                assert event["key"] == FAILOVER and event["action"] == "trigger"
        finally:
            web.close()
            reserved.close()


def test_B83_flapping_endpoint(tmp_path, make_config, port, hook):
    """However often it changes: four messages, and the last two say that it flaps."""
    site = Site(tmp_path, make_config, {"hook": {"format": "json", "url": hook.url}},
                {"cdn": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12",
                                alerts="on: [endpoint, recovered], to: [hook]")}, window="20ms", quiet="10s")
    with Endpoint("127.0.0.11", port) as p1, Endpoint("127.0.0.12", port), site.healthd() as healthd:
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
        for turn in range(3):
            p1.stop()
            healthd.wait_states(**{"127.0.0.11": "down"})
            if turn == 0:
                hook.wait(1)
            p1.start()
            healthd.wait_states(**{"127.0.0.11": "up"})
            if turn == 0:
                hook.wait(2)
        assert short(hook.wait(4)) == [("trigger", "endpoint"), ("resolve", "endpoint")] * 2
        assert [e["flapping"] for e in hook.documents()] == [False, False, True, True]


def test_B83_isolated_checker(tmp_path, make_config, port, hook):
    """All checks fail together: one alert about the checker, and none about what it checks."""
    addresses = [f"127.0.0.{n}" for n in range(11, 23)]
    names = [f"e{i}: {address}" for i, address in enumerate(addresses)]
    site = Site(tmp_path, make_config, {"hook": {"format": "json", "url": hook.url}},
                {"cdn": steered(port, *names, alerts="page: true, to: [hook]")}, window="4s")
    endpoints = [Endpoint(address, port) for address in addresses]
    with site.healthd() as healthd:
        healthd.wait_states(**dict.fromkeys(addresses, "up"))
        for endpoint in endpoints:
            endpoint.stop()
        (event,) = hook.wait(1)
        assert (event["action"], event["kind"], event["severity"]) == ("trigger", "isolated", "error")
        for endpoint in endpoints:
            endpoint.start()
        assert short(hook.wait(2)) == [("trigger", "isolated"), ("resolve", "isolated")]
        healthd.wait_states(**dict.fromkeys(addresses, "up"))
        healthlib.wait_for(lambda: healthd.status()["alerts"]["waiting"] == 0)
    assert len(hook.documents()) == 2
    for endpoint in endpoints:
        endpoint.stop()


def test_chaos_kill_at_random(tmp_path, make_config, port, hook):
    """Killed again and again while an endpoint comes and goes: beginnings and ends alternate, and what comes twice
    has the same id."""
    site = Site(tmp_path, make_config, {"hook": {"format": "json", "url": hook.url}},
                {"cdn": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12",
                                alerts="on: [failover, recovered], page: true, to: [hook]")}, window="20ms", quiet="50ms")
    moments = random.Random(5)
    with Endpoint("127.0.0.11", port, running=False) as p1, Endpoint("127.0.0.12", port):
        for turn in range(8):
            with site.killed() as healthd:
                if moments.random() < 0.5:
                    healthd.wait_states(**{"127.0.0.11": ["down", "up"][turn % 2]})
                if moments.random() < 0.5:
                    known = {e["id"] for e in hook.documents()}
                    healthlib.wait_for(lambda known=known: healthd.status()["alerts"]["waiting"] == 0)
                    assert known <= {e["id"] for e in hook.documents()}
                (p1.stop if turn % 2 else p1.start)()
                if moments.random() < 0.3:
                    healthd.wait_states(**{"127.0.0.11": ["up", "down"][turn % 2]})
        with site.healthd() as healthd:
            p1.stop()
            hook.wait_for(lambda e: e["action"] == "trigger")
            healthd.wait_states(**{"127.0.0.11": "down"})
            p1.start()
            healthd.wait_states(**{"127.0.0.11": "up"})
            healthlib.wait_for(lambda: hook.documents() and hook.documents()[-1]["action"] == "resolve")
            healthlib.wait_for(lambda: healthd.status()["alerts"]["open"] == [])
            healthlib.wait_for(lambda: healthd.status()["alerts"]["waiting"] == 0)
    events = list({e["id"]: e for e in hook.documents()}.values())
    assert {e["key"] for e in events} == {FAILOVER}
    assert [e["action"] for e in events] == ["trigger", "resolve"] * (len(events) // 2)


def test_B83_burst_of_a_site(tmp_path, make_config, port, hook):
    """200 endpoints on one address fail together: one message for each kind."""
    with Endpoint("127.0.0.11", port) as site_a, Endpoint("127.0.0.12", port):
        domains = {f"d{i:03d}": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12",
                                        alerts="on: [endpoint, recovered], to: [hook]") for i in range(200)}
        site = Site(tmp_path, make_config, {"hook": {"format": "json", "url": hook.url}}, domains, window="500ms")
        with site.healthd() as healthd:
            healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
            site_a.stop()
            (event,) = hook.wait(1)
            assert event["count"] == 200 and event["summary"].startswith("200 endpoints down: ")
            site_a.start()
            second = hook.wait(2)[1]
            assert (second["action"], second["key"]) == ("resolve", event["key"])


def test_configuration_changes(tmp_path, make_config, port, hook):
    """An incident of what was removed is resolved; a new build keeps the others."""
    alerts = "on: [endpoint, recovered], to: [hook]"
    domains = {"cdn": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12", alerts=alerts),
               "api": steered(port, "p1: 127.0.0.11", "p2: 127.0.0.12", alerts=alerts)}
    site = Site(tmp_path, make_config, {"hook": {"format": "json", "url": hook.url}}, domains)
    with Endpoint("127.0.0.11", port) as p1, Endpoint("127.0.0.12", port), site.healthd() as healthd:
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
        p1.stop()
        hook.wait(2)
        healthlib.wait_for(lambda: healthd.status()["alerts"]["waiting"] == 0)
        hook.clear()
        del domains["api"]
        config = make_config(domains, name="second",
                             defaults=f'default_zone: example.com\nalerts: {{hook: {{format: json, url: "{hook.url}"}}}}\n')
        sluicelib.build(config, site.data)
        (event,) = hook.wait(1)
        assert event["key"] == "sluice|endpoint|api.example.com|p1" and event["action"] == "resolve"
        assert "removed from the configuration" in event["summary"]
        assert len(healthd.status()["alerts"]["open"]) == 2  # endpoint and failover of cdn
        p1.start()
        assert hook.wait(2)[1]["key"] == "sluice|endpoint|cdn.example.com|p1"


@pytest.mark.parametrize("settings, reason", [
    ("secrets: {pd: {value: XYZZY}}", "secret pd needs one of"),
    ("healthd: {webhook-allow: [everything]}", "a network for webhooks must be like"),
    ("healthd: {alert-window: soon}", "is not a time"),
    ("healthd: {alert-windw: 1s}", "did you mean `alert-window`"),
])
def test_bad_settings(tmp_path, make_config, port, settings, reason):
    site = Site(tmp_path, make_config, {}, {"cdn": healthlib.levels(port, "p1: 127.0.0.11")})
    site.settings.write_text(settings + "\n", encoding="utf-8")
    healthd = site.healthd(wait=False)
    assert healthd.wait() == 1
    assert reason in healthd.log and "XYZZY" not in healthd.log
