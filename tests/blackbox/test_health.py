# SPDX-License-Identifier: Apache-2.0
"""The checker and the server together: what dies leaves the answers, what revives comes back."""
import os
import signal
import time

import pytest

import clocklib
import healthlib
import sluicelib
from fakedns import FakeDNS, reply
from healthlib import Endpoint, Healthd, wait_answers, wait_for


@pytest.fixture
def port():
    reserved = sluicelib.Port()
    yield reserved.number
    reserved.close()


@pytest.fixture
def both(tmp_path, make_config, start):
    """both({"cdn": domain_yaml}, ...): the server and the checker of a configuration."""
    running = []

    def run(domains, *options, **keywords):
        data = sluicelib.build(make_config(domains), tmp_path / "data")
        server = start(data, "--health", f"{data}.feed")
        healthd = Healthd(data, *options, **keywords)
        running.append(healthd)
        return server, healthd

    yield run
    for healthd in running:
        healthd.stop()


def test_a_dead_endpoint_leaves_the_answers_and_comes_back(both, port):
    with Endpoint("127.0.0.11", port) as first, Endpoint("127.0.0.12", port) as second:
        server, healthd = both({"cdn": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12")})
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
        wait_answers(server, "cdn.example.com", ["127.0.0.11"])
        first.stop()
        wait_answers(server, "cdn.example.com", ["127.0.0.12"])
        healthd.wait_why("127.0.0.11", "connect refused")
        second.stop()  # all dead: the answer is as if all were alive
        healthd.wait_states(**{"127.0.0.11": "down", "127.0.0.12": "down"})
        wait_answers(server, "cdn.example.com", ["127.0.0.11"])
        second.start()
        wait_answers(server, "cdn.example.com", ["127.0.0.12"])
        first.start()
        wait_answers(server, "cdn.example.com", ["127.0.0.11"])


def test_a_bad_status_is_down_and_says_so(both, port):
    with Endpoint("127.0.0.11", port, status=503), Endpoint("127.0.0.12", port):
        server, healthd = both({"cdn": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12")})
        wait_answers(server, "cdn.example.com", ["127.0.0.12"])
        healthd.wait_why("127.0.0.11", "status 503, expected 200-299")


def test_one_probe_for_a_target_however_many_domains_use_it(both, port):
    with Endpoint("127.0.0.11", port) as endpoint, Endpoint("127.0.0.12", port):
        domains = {f"d{i}": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12") for i in range(50)}
        server, healthd = both(domains)
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
        status = healthd.status()
        assert (status["checks"], status["subjects"], status["domains"]) == (2, 2, 50)
        assert healthd.checks()["127.0.0.11"]["user_count"] == 50
        endpoint.stop()
        for i in range(50):
            wait_answers(server, f"d{i}.example.com", ["127.0.0.12"])


def test_an_endpoint_of_two_addresses_is_up_while_one_is(both, port):
    with Endpoint("127.0.0.11", port) as one, Endpoint("127.0.0.12", port) as two, Endpoint("127.0.0.13", port):
        server, healthd = both({"cdn": healthlib.levels(port, "a: [127.0.0.11, 127.0.0.12]", "b: 127.0.0.13")})
        both_addresses = ["127.0.0.11", "127.0.0.12"]
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up", "127.0.0.13": "up"})
        one.stop()
        healthd.wait_states(**{"127.0.0.11": "down"})
        assert healthlib.answers(server, "cdn.example.com") == set(both_addresses)
        two.stop()
        wait_answers(server, "cdn.example.com", ["127.0.0.13"])
        one.start()
        wait_answers(server, "cdn.example.com", both_addresses)


def test_b76_only_the_dead_family_is_withdrawn(both, port):
    # the answers of b are checked so rarely that it counts as healthy
    rarely = "{type: icmp, interval: 1h, rise: 100, fall: 100}"
    other = 'ttl: 0\nendpoints: {c: "::1"}\nregions: {global: {c: 1}}\n'
    web = f"{{type: http, port: {port}, path: /, {healthlib.QUICK}}}"
    domain = ('ttl: 0\nendpoints:\n'
              f'  a: {{addresses: [127.0.0.11, "0:0:0:0::1"], health: {web}}}\n'
              f'  b: {{addresses: [127.0.0.12, "2001:db8::12"], health: {rarely}}}\n'
              "regions: {global: [{a: 1}, {b: 1}]}\nhealth: {}\n")
    with Endpoint("127.0.0.11", port), Endpoint("::1", port) as six:
        server, healthd = both({"cdn": domain, "other": other + f"health: {web}\n"})
        assert healthd.checks()["::1"]["user_count"] == 2, "all spellings of an address share a state"
        healthd.wait_states(**{"127.0.0.11": "up", "::1": "up"})
        assert healthlib.answers(server, "cdn.example.com", "AAAA") == {"::1"}
        six.stop()
        wait_answers(server, "cdn.example.com", ["2001:db8::12"], "AAAA")
        assert healthlib.answers(server, "cdn.example.com") == {"127.0.0.11"}


def test_a_host_name_is_judged_as_one(both, port):
    addresses = {"one.example.net.": "127.0.0.11", "two.example.net.": "127.0.0.12"}

    def answer(query, _):
        question = query.question[0]
        known = question.rdtype == 1 and str(question.name) in addresses
        return [reply(query, *([f"{question.name} 0 IN A {addresses[str(question.name)]}"] if known else []))]

    with FakeDNS(answer) as resolver, Endpoint("127.0.0.11", port) as one, Endpoint("127.0.0.12", port):
        server, healthd = both({"cdn": healthlib.levels(port, "a: one.example.net", "b: two.example.net")},
                               "--resolver", f"127.0.0.1@{resolver.port}")
        healthd.wait_states(**{"one.example.net": "up", "two.example.net": "up"})
        wait_answers(server, "cdn.example.com", ["one.example.net."], "CNAME")
        one.stop()
        wait_answers(server, "cdn.example.com", ["two.example.net."], "CNAME")
        addresses["one.example.net."] = "127.0.0.12"  # it has moved, to where somebody listens
        wait_answers(server, "cdn.example.com", ["one.example.net."], "CNAME")


# ---- B06: what is served before the first result ---------------------------------------------------


def test_b06_with_a_saved_state_the_dead_one_is_not_served_even_once(tmp_path, make_config, start, port):
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12")}),
                           tmp_path / "data")
    with Endpoint("127.0.0.12", port):
        with Healthd(data) as healthd:
            healthd.wait_states(**{"127.0.0.11": "down", "127.0.0.12": "up"})
        assert healthlib.saved(healthd.state) == {"127.0.0.11": "down", "127.0.0.12": "up"}
        with Healthd(data) as healthd:
            checks = healthd.checks()
            assert checks["127.0.0.11"]["state"] == "down", "known at once"
            assert checks["127.0.0.11"]["why"] == "connect refused"
            server = start(data, "--health", healthd.feed)
            wait_for(lambda: healthd.status()["feed"]["subscribers"] == 1, "the server subscribes")
            wait_answers(server, "cdn.example.com", ["127.0.0.12"])
            for _ in range(100):
                assert healthlib.answers(server, "cdn.example.com") == {"127.0.0.12"}


def test_b06_cold_start_of_both_with_what_they_knew(tmp_path, make_config, port):
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12")}),
                           tmp_path / "data")
    options = ("--health", f"{data}.feed", "--state", tmp_path / "state")
    with Endpoint("127.0.0.12", port):
        for round_ in range(3):
            with sluicelib.Server(data, *options) as server, Healthd(data, wait=False) as healthd:
                end = time.monotonic() + 1.5
                while time.monotonic() < end:  # from the first moment on
                    reply = server.ask("cdn.example.com")
                    assert reply.rcode() == 0
                    if round_ > 0:
                        assert sluicelib.rdata(reply) == ["127.0.0.12"]
                wait_answers(server, "cdn.example.com", ["127.0.0.12"])
                healthd.wait_log("ready")
                healthd.wait_states(**{"127.0.0.11": "down", "127.0.0.12": "up"})


@pytest.mark.parametrize("content", [b"", b"{\"format\":1,\"che", b"\x00\xff garbage", None])
def test_b06_without_a_state_the_dead_one_goes_with_the_first_verdict(tmp_path, make_config, start, port, content):
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12")}),
                           tmp_path / "data")
    state = tmp_path / "state.json"
    if content is not None:
        state.write_bytes(content)
    server = start(data, "--health", tmp_path / "data.feed")
    assert healthlib.answers(server, "cdn.example.com") == {"127.0.0.11"}
    with Endpoint("127.0.0.12", port), Healthd(data, state=state) as healthd:
        wait_answers(server, "cdn.example.com", ["127.0.0.12"])
        healthd.wait_states(**{"127.0.0.11": "down", "127.0.0.12": "up"})
        if content is not None:
            assert f"{state} is damaged" in healthd.log
            assert (tmp_path / "state.json.damaged").read_bytes() == content
    assert healthlib.saved(state) == {"127.0.0.11": "down", "127.0.0.12": "up"}


def test_the_state_of_changed_checks_stays(tmp_path, make_config, port):
    def config(path):
        return {"cdn": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12", more=f"path: {path}, {healthlib.QUICK}")}

    data = sluicelib.build(make_config(config("/one")), tmp_path / "data")
    with Endpoint("127.0.0.12", port):
        with Healthd(data) as healthd:
            healthd.wait_states(**{"127.0.0.11": "down", "127.0.0.12": "up"})
            mark = healthd.mark()
            sluicelib.build(make_config(config("/two")), data)  # taken by itself
            healthd.wait_log(r"2 checks, 2 of them new, 2 ended", since=mark)
            assert healthd.states() == {"127.0.0.11": "down", "127.0.0.12": "up"}
        sluicelib.build(make_config(config("/three")), data)
        with Healthd(data) as healthd:
            assert healthd.states() == {"127.0.0.11": "down", "127.0.0.12": "up"}


# ---- reload ----------------------------------------------------------------------------------------


ORDERS = (["127.0.0.30", "127.0.0.9", "127.0.0.100", "127.0.0.2"], ["127.0.0.2", "127.0.0.30", "127.0.0.9", "127.0.0.100"],
          ["127.0.0.100", "127.0.0.2", "127.0.0.30", "127.0.0.9"])


def four(port, order):
    names = [f"e{a.rpartition('.')[2]}" for a in order]
    return ("ttl: 0\nanswers: 4\nendpoints: {" + ", ".join(f"{n}: {a}" for n, a in zip(names, order)) + "}\n"
            "regions: {global: {" + ", ".join(f"{n}: 1" for n in names) + "}}\n" + healthlib.health(port))


def test_b70_the_state_is_that_of_the_address_in_whatever_order(both, make_config, port):
    endpoints = {a: Endpoint(a, port) for a in ORDERS[0]}
    try:
        domains = {f"d{i}": four(port, order) for i, order in enumerate(ORDERS)}
        server, healthd = both(domains)
        healthd.wait_states(**{a: "up" for a in endpoints})
        endpoints["127.0.0.9"].stop()
        rest = set(endpoints) - {"127.0.0.9"}
        for i in range(3):
            wait_answers(server, f"d{i}.example.com", rest)
        for i in range(3):
            domains[f"d{i}"] = four(port, ORDERS[(i + 1) % 3])
        sluicelib.build(make_config(domains), healthd.data)
        server.reload()
        healthd.ask("reload")
        healthd.wait_log("4 checks, 0 of them new, 0 ended")  # reordering alone changes nothing
        for i in range(3):
            wait_answers(server, f"d{i}.example.com", rest)
        endpoints["127.0.0.100"].stop()
        rest -= {"127.0.0.100"}
        for i in range(3):
            wait_answers(server, f"d{i}.example.com", rest)
    finally:
        for endpoint in endpoints.values():
            endpoint.stop()


def test_a_reload_disturbs_nothing_else(tmp_path, make_config, port):
    one = {"one": healthlib.levels(port, "a: 127.0.0.11", more=healthlib.CALM)}
    two = {"two": healthlib.levels(port, "a: 127.0.0.12", more=healthlib.CALM)}
    data = sluicelib.build(make_config({**one, **two}), tmp_path / "data")
    with Endpoint("127.0.0.11", port), Endpoint("127.0.0.12", port), Healthd(data) as healthd:
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "up"})
        since = healthd.checks()["127.0.0.11"]["since"]
        sluicelib.build(make_config(one, name="without"), data)
        wait_for(lambda: set(healthd.states()) == {"127.0.0.11"}, "the check of two has ended")
        assert healthd.checks()["127.0.0.11"]["since"] == since
        assert healthd.states()["127.0.0.11"] == "up"


def test_a_list_that_cannot_be_read_changes_nothing(tmp_path, make_config, port):
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11")}), tmp_path / "data")
    with Endpoint("127.0.0.11", port), Healthd(data) as healthd:
        healthd.wait_states(**{"127.0.0.11": "up"})
        good = os.readlink(data / "current")
        (data / "bad").mkdir()
        (data / "bad/checks.json").write_text('{"domains":[{"domain":"x."}],"format":1}')
        os.symlink("bad", data / "next")
        os.replace(data / "next", data / "current")
        healthd.wait_log(r"reload failed, the old checks go on: .*bad/checks.json: `domains`: item 1: x\.:")
        assert healthd.states() == {"127.0.0.11": "up"}
        assert not healthd.status()["last_reload"]["ok"]
        os.symlink(good, data / "next")
        os.replace(data / "next", data / "current")
        healthd.signal(signal.SIGHUP)
        wait_for(lambda: healthd.status()["last_reload"]["ok"], "the good build is back")


def test_many_reloads_leave_nothing_behind(tmp_path, make_config, port):
    more = "interval: 300ms, timeout: 300ms, rise: 2, fall: 100"  # no pause of the machine makes one down

    def config(step):
        domains = {f"d{i}": healthlib.levels(port, f"a: 127.0.4.{1 + (i * step) % 50}", f"b: 127.0.4.{60 + step % 3}",
                                             more=more) for i in range(10)}
        return make_config(domains, name=f"config{step}")

    data = tmp_path / "data"
    builds = []
    for step in range(1, 6):
        sluicelib.build(config(step), data)
        builds.append(os.readlink(data / "current"))
    with Endpoint("127.0.4.1", port), Healthd(data) as healthd:
        healthd.wait_states(**{"127.0.4.1": "up"})
        descriptors = len(os.listdir(f"/proc/{healthd.proc.pid}/fd"))
        for round_ in range(60):
            os.symlink(builds[round_ % 5], data / "next")
            os.replace(data / "next", data / "current")
            if round_ % 3 == 0:
                healthd.signal(signal.SIGHUP)
            healthd.ask("reload")
            assert healthd.status()["build"] == builds[round_ % 5]
            assert healthd.states()["127.0.4.1"] == "up"
        healthd.wait_states(**{"127.0.4.1": "up"})
        wait_for(lambda: len(os.listdir(f"/proc/{healthd.proc.pid}/fd")) <= descriptors + 20, "no descriptor is left")


def test_more_probes_than_may_start_is_said(tmp_path, make_config, port):
    domain = {"cdn": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12", more="interval: 10ms, timeout: 10ms")}
    data = sluicelib.build(make_config(domain), tmp_path / "data")
    with Endpoint("127.0.0.11", port), Healthd(data, "--rate", "20") as healthd:
        assert "the checks want 200 probes in a second, --rate allows 20" in healthd.log
        done = healthd.status()["probes"]["done"]
        wait_for(lambda: healthd.status()["probes"]["done"] >= done + 20, "both go on")


def test_without_a_build_it_waits_and_tells_nobody(tmp_path, make_config, port):
    data = tmp_path / "data"
    data.mkdir()
    with Endpoint("127.0.0.11", port), Healthd(data, wait=False) as healthd:
        healthd.wait_log("waiting for a build")
        assert not os.path.exists(healthd.feed)
        assert healthd.status()["build"] is None
        sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11")}), data)
        healthd.wait_log(r"\bready\b")
        healthd.wait_states(**{"127.0.0.11": "up"})
        assert os.path.exists(healthd.feed)


# ---- time ------------------------------------------------------------------------------------------


def test_b94_a_stopped_process_makes_no_verdict_and_no_burst(tmp_path, make_config, port):
    count = 40
    domains = {f"d{i}": healthlib.levels(port, f"a: 127.0.1.{i}", more="interval: 2s, timeout: 2s, rise: 1, fall: 1")
               for i in range(1, count + 1)}
    data = sluicelib.build(make_config(domains), tmp_path / "data")
    endpoints = [Endpoint(f"127.0.1.{i}", port) for i in range(1, count + 1)]
    try:
        with Healthd(data) as healthd:
            healthd.wait_states(**{e.address: "up" for e in endpoints})
            done = healthd.status()["probes"]["done"]
            wait_for(lambda: healthd.status()["probes"]["done"] >= done + 2 * count, "two rounds")
            healthd.signal(signal.SIGSTOP)
            stopped = max(e.times[-1] for e in endpoints)
            wait_for(lambda: time.monotonic() > stopped + 5, "it stands still for a while")
            mark = healthd.mark()
            healthd.signal(signal.SIGCONT)
            healthd.wait_log(r"did not run for \d+ ms", since=mark)
            resumed = time.monotonic()
            done = healthd.status()["probes"]["done"]
            wait_for(lambda: healthd.status()["probes"]["done"] >= done + count, "the cadence resumes")
            assert set(healthd.states().values()) == {"up"}
            assert "down" not in "\n".join(healthd.lines[mark:])
            arrivals = sorted(t for e in endpoints for t in e.times if t >= resumed - 0.1)
            # Five are due in this time, all 40 were missed; a busy machine may delay some.
            worst = max(sum(t <= a < t + 0.25 for a in arrivals) for t in arrivals)
            assert worst <= count * 3 // 4, "no burst of missed probes"
    finally:
        for endpoint in endpoints:
            endpoint.stop()


def test_b94_jumps_of_the_wall_clock_change_nothing(tmp_path, make_config, port, monkeypatch):
    more = "interval: 300ms, timeout: 300ms, rise: 2, fall: 5"
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12", more=more)}),
                           tmp_path / "data")
    clock = clocklib.WallClock(tmp_path, monkeypatch)
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    with Endpoint("127.0.0.11", port) as endpoint, Healthd(data) as healthd:
        healthd.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "down"})
        since = healthd.checks()["127.0.0.11"]["since"]
        assert abs(since - time.time()) < 3600
        for jump in (86400, -86400, -int(time.time()), 0):
            mark, before, status = healthd.mark(), len(endpoint.times), healthd.status()
            clock.shift(jump)
            wait_for(lambda: len(endpoint.times) >= before + 6, "the cadence goes on")
            burst = endpoint.times[before:before + 6]
            assert burst[-1] - burst[0] > 0.3, "five intervals of 0.3 s, however late some were seen"
            assert healthd.states() == {"127.0.0.11": "up", "127.0.0.12": "down"}
            assert healthd.checks()["127.0.0.11"]["since"] == since
            assert "was up" not in "\n".join(healthd.lines[mark:]) and healthd.status()["pid"] == status["pid"]
    assert healthlib.saved(healthd.state) == {"127.0.0.11": "up", "127.0.0.12": "down"}


def test_b78_probes_are_spread_over_the_interval(tmp_path, make_config, port):
    count = 100
    domains = {f"d{i}": healthlib.levels(port, f"a: 127.0.2.{i}", more="interval: 4s, timeout: 1s, rise: 2, fall: 2")
               for i in range(1, count + 1)}
    data = sluicelib.build(make_config(domains), tmp_path / "data")
    endpoints = [Endpoint(f"127.0.2.{i}", port) for i in range(1, count + 1)]
    try:
        with Healthd(data) as healthd:
            healthd.wait_states(**{e.address: "up" for e in endpoints})
            done = healthd.status()["probes"]["done"]
            wait_for(lambda: healthd.status()["probes"]["done"] >= done + 2 * count, "two rounds")
        arrivals = sorted(t for e in endpoints for t in e.times)
        # An interval of 4 s has 16 windows of 250 ms, and each of them has probes; a busy machine may delay some.
        worst = max(sum(t <= a < t + 0.25 for a in arrivals) for t in arrivals)
        assert worst <= count // 2
        windows = {int((a - arrivals[0]) / 0.25) for a in arrivals}
        assert len(windows) > (max(windows) + 1) / 2, f"{len(windows)} of {max(windows) + 1} windows have probes"
    finally:
        for endpoint in endpoints:
            endpoint.stop()


# ---- results in a row ------------------------------------------------------------------------------


class Scripted(Endpoint):
    """Answers with 200 for S and 503 for F, then with what it answered last."""

    def __init__(self, address, port, script):
        self.script, self.asked = script, 0
        super().__init__(address, port)

    def _answer(self, peer):
        self.status = 200 if self.script[min(self.asked, len(self.script) - 1)] == "S" else 503
        self.asked += 1
        super()._answer(peer)


def test_b68_a_success_clears_the_failures(tmp_path, make_config, port):
    script = "SS" + "FS" * 3 + "FFS" * 2 + "FFF"
    more = "interval: 700ms, timeout: 700ms, rise: 2, fall: 3"  # no success may come too late
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11", more=more)}), tmp_path / "data")
    with Scripted("127.0.0.11", port, script) as endpoint, Healthd(data) as healthd:
        healthd.wait_log("127.0.0.11 .*: up, was unknown")
        healthd.wait_log("127.0.0.11 .*: down, was up: status 503")
        assert endpoint.asked >= len(script), "not before the third failure in a row"


class Flapping(Endpoint):
    """Answers with 200 and 503 in turn until it is told to be calm; then with 200."""

    def __init__(self, address, port):
        self.asked, self.calm = 0, False
        super().__init__(address, port)

    def _answer(self, peer):
        self.status = 503 if self.asked % 2 and not self.calm else 200
        self.asked += 1
        super()._answer(peer)


def test_flapping_is_held_down_and_shown(both, port):
    more = "interval: 300ms, timeout: 300ms, rise: 1, fall: 1, damping: {changes: 4, within: 1m, hold: 4s}"
    with Flapping("127.0.0.11", port) as endpoint, Endpoint("127.0.0.12", port):
        server, healthd = both({"cdn": healthlib.levels(port, "a: 127.0.0.11", "b: 127.0.0.12", more=more)})
        wait_for(lambda: healthd.checks()["127.0.0.11"]["held"], "it is held")
        check = healthd.checks()["127.0.0.11"]  # and goes on being held, while it goes on flapping
        assert check["state"] == "down" and 0 < check["held_ms"] <= 4000
        assert "HELD DOWN by damping" in healthd.sluice().stdout
        wait_answers(server, "cdn.example.com", ["127.0.0.12"])
        endpoint.calm = True
        wait_for(lambda: healthd.checks()["127.0.0.11"]["last"]["ok"], "its results are good again")
        wait_answers(server, "cdn.example.com", ["127.0.0.11"])
        assert not healthd.checks()["127.0.0.11"]["held"]


def test_b83_all_that_fails_together_is_the_checker_itself(tmp_path, make_config, port):
    addresses = [f"127.0.3.{i}" for i in range(1, 13)]
    domains = {f"d{i}": healthlib.levels(port, f"a: {a}") for i, a in enumerate(addresses)}
    data = sluicelib.build(make_config(domains), tmp_path / "data")
    endpoints = [Endpoint(a, port) for a in addresses]
    try:
        with Healthd(data) as healthd:
            healthd.wait_states(**{a: "up" for a in addresses})
            for endpoint in endpoints[:6]:
                endpoint.stop()
            healthd.wait_states(**{a: "down" for a in addresses[:6]})
            assert not healthd.status()["isolated"], "half of them may well be down"
            for endpoint in endpoints[6:]:
                endpoint.stop()
            healthd.wait_log("seems to be cut off")
            assert healthd.status()["isolated"] and "ISOLATED" in healthd.sluice().stdout
            for endpoint in endpoints:
                endpoint.start()
            healthd.wait_log("do not fail together any more")
    finally:
        for endpoint in endpoints:
            endpoint.stop()
