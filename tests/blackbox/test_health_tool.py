# SPDX-License-Identifier: Apache-2.0
"""`sluice health`, `sluice health test`, the checker's settings and its control socket."""
import json
import os
import re
import signal
import socket
import stat

import pytest

import healthlib
import sluicelib
from healthlib import Endpoint, Healthd


@pytest.fixture
def port():
    reserved = sluicelib.Port()
    yield reserved.number
    reserved.close()


@pytest.fixture
def healthd(tmp_path, make_config, port):
    """A checker with one endpoint that is up, and one that is down."""
    domain = healthlib.levels(port, "good: 127.0.0.11", "bad: 127.0.0.12", more=healthlib.CALM)
    data = sluicelib.build(make_config({"cdn": domain}), tmp_path / "data")
    with Endpoint("127.0.0.11", port), Healthd(data) as running:
        running.wait_states(**{"127.0.0.11": "up", "127.0.0.12": "down"})
        yield running


def refused(*args, status=1):
    done = sluicelib.run(sluicelib.program("sluice-healthd"), *args)
    assert done.returncode == status, done.stderr
    return done.stderr.splitlines()[-1]


# ---- sluice health ---------------------------------------------------------------------------------


def test_the_list_shows_what_is_down_first(healthd, port):
    out = healthd.sluice().stdout
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(r"checks +2: 1 up, 1 down, 0 unknown", out)
    assert out.index(f"DOWN     127.0.0.12, http, port {port}, /") < out.index("up       127.0.0.11")
    assert "connect refused, " in out and "status 200, " in out
    assert re.search(r"since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC \(", out)
    assert re.search(r"next probe in \d+(\.\d)? s|being probed now", out)
    assert "cdn.example.com. bad" in out


def test_the_list_as_json(healthd, port):
    out = json.loads(healthd.sluice("--json").stdout)
    check = next(c for c in out["checks"] if c["target"] == "127.0.0.12")
    assert (check["state"], check["why"], check["port"]) == ("down", "connect refused", port)
    assert check["users"] == [["cdn.example.com.", "bad"]]
    assert out["status"]["states"] == {"up": 1, "down": 1, "unknown": 0, "held": 0}


def test_the_list_of_one_domain_or_endpoint(healthd):
    assert "127.0.0.12" not in healthd.sluice("--domain", "cdn/good").stdout
    assert "127.0.0.12" in healthd.sluice("--domain", "cdn.example.com").stdout
    assert "no domain www with a health check" in healthd.sluice("--domain", "www", status=1).stderr
    assert "cdn has no endpoint worse" in healthd.sluice("--domain", "cdn/worse", status=1).stderr


def test_short_names_are_those_of_the_default_zone(tmp_path, make_config, port):
    domain = healthlib.levels(port, "a: 127.0.0.11")
    files = {"example.org/zone.yaml": sluicelib.ZONE}
    files.update({f"example.org/{name}/domain.yaml": domain.replace(".11", ".12") for name in ("cdn", "other", "two")})
    config = make_config({"cdn": domain, "two.deep": domain}, files=files)
    with Healthd(sluicelib.build(config, tmp_path / "data")) as running:
        assert set(running.checks(domain="cdn")) == {"127.0.0.11"}
        assert set(running.checks(domain="cdn.example.org")) == {"127.0.0.12"}
        assert set(running.checks(domain="other")) == {"127.0.0.12"}, "only one can be meant"
        assert "could be several domains" in running.sluice("--domain", "two", status=1).stderr
        assert "no domain cdn. with" in running.sluice("--domain", "cdn.", status=1).stderr


def test_a_check_now_shows_each_phase(healthd, port):
    done = healthd.sluice("test", "cdn", status=1)
    assert f"good     good: 127.0.0.11, http, port {port}, /" in done.stdout
    assert re.search(r"connect \d+\.\d ms, send \d+\.\d ms, first response \d+\.\d ms, all \d+\.\d ms", done.stdout)
    assert "FAILED   bad: 127.0.0.12" in done.stdout and "connect refused" in done.stdout
    assert "FAILED" not in healthd.sluice("test", "cdn.example.com/good").stdout
    assert healthd.states() == {"127.0.0.11": "up", "127.0.0.12": "down"}
    results = json.loads(healthd.sluice("test", "cdn", "--json", status=1).stdout)["results"]
    assert [(r["endpoint"], r["ok"]) for r in results] == [("bad", False), ("good", True)]
    assert results[1]["phases_us"]["connect"] >= 0 and results[0]["phases_us"]["first_response"] is None


def test_a_check_now_of_what_is_not_checked(healthd):
    assert "no domain nothing with a health check" in healthd.sluice("test", "nothing", status=1).stderr
    assert "has no endpoint x" in healthd.sluice("test", "cdn/x", status=1).stderr
    assert "DOMAIN" in healthd.sluice("test", status=2).stderr


def test_without_a_checker(tmp_path):
    done = sluicelib.sluice("health", "--socket", tmp_path / "none", status=1)
    assert "no health checker listens" in done.stderr and "sluice-healthd" in done.stderr
    assert "unknown command tset; did you mean test?" in sluicelib.sluice("health", "tset", status=2).stderr
    assert "override" in sluicelib.sluice("health", "--help").stdout


def test_the_settings_tell_the_socket(healthd, tmp_path, monkeypatch):
    settings = tmp_path / "sluice.yaml"
    settings.write_text(f"data: {healthd.data}\nhealthd: {{control: {healthd.control}}}\n")
    assert "2: 1 up, 1 down" in sluicelib.sluice("health", "-c", settings).stdout
    assert "127.0.0.12" not in sluicelib.sluice("health", "--settings", settings, "--domain", "cdn/good").stdout
    assert "good: 127.0.0.11" in sluicelib.sluice("health", "test", "cdn/good", "-c", settings).stdout
    assert "-c FILE" in sluicelib.sluice("health", "--help").stdout
    assert "-c FILE" in sluicelib.sluice("health", "test", "--help").stdout
    # What is nearer wins, and then the file is not even read.
    settings.write_text("healthd:\n  control: [x]\n")
    for command in (["health"], ["health", "test", "cdn/good"]):
        done = sluicelib.sluice(*command, "-c", settings, status=1)
        assert done.stderr == f"sluice: {settings}:2:12: `control` must be a single text\n"
        sluicelib.sluice(*command, "-c", settings, "--socket", healthd.control)
    missing = tmp_path / "none.yaml"
    assert str(missing) in sluicelib.sluice("health", "-c", missing, status=1).stderr
    monkeypatch.setenv("SLUICE_HEALTHD_SOCKET", healthd.control)
    sluicelib.sluice("health", "-c", missing)


# ---- the control socket ----------------------------------------------------------------------------


def test_the_control_socket_outlives_bad_clients(healthd):
    assert stat.S_IMODE(os.stat(healthd.control).st_mode) == 0o660
    for request in (b"{}\n", b"[1]\n", b"\xff\n", b'{"command":"dance"}\n', b'{"command":"test"}\n', b"\n"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(healthd.control)
            sock.sendall(request)
            reply = json.loads(sock.makefile().readline())
            assert not reply["ok"] and reply["code"] == 2, request
    with socket.socket(socket.AF_UNIX) as sock:  # more than a request may have
        sock.connect(healthd.control)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(100):
                sock.sendall(b"x" * 65536)
    with socket.socket(socket.AF_UNIX) as sock:  # several in one piece
        sock.connect(healthd.control)
        sock.sendall(b'{"command":"status"}\n{"command":"checks"}\n{"command":"reload"}\n')
        lines = sock.makefile()
        assert all(json.loads(lines.readline())["ok"] for _ in range(3))
    for _ in range(20):  # gone before the answer
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(healthd.control)
            sock.sendall(b'{"command":"test","domain":"cdn"}\n{"command":"reload"}\n')
    assert healthd.status()["ok"]


def test_stop_by_the_control_socket(tmp_path, make_config, port):
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11")}), tmp_path / "data")
    healthd = Healthd(data)
    healthd.ask("stop")
    assert healthd.wait() == 0
    assert not os.path.exists(healthd.control) and not os.path.exists(healthd.feed)


# ---- settings --------------------------------------------------------------------------------------


def test_help_and_version():
    done = sluicelib.run(sluicelib.program("sluice-healthd"), "--help")
    assert done.returncode == 0 and "Examples:" in done.stdout and max(map(len, done.stdout.splitlines())) <= 80
    assert re.fullmatch(r"sluice-healthd \S+\n", sluicelib.run(sluicelib.program("sluice-healthd"), "--version").stdout)


def test_wrong_usage():
    assert "--data DIR is missing" in refused(status=2)
    assert "--feed SOCKET is missing" in refused("--data", "x", status=2)
    assert "--state FILE is missing" in refused("--data", "x", "--feed", "y", status=2)
    assert "unknown option --foo" in refused("--foo", status=2)
    assert "unexpected argument `x`" in refused("x", status=2)
    assert "`0` is not a number from 1 to" in refused("--rate", "0", status=2)
    assert "neither `text` nor `json`" in refused("--log", "xml", status=2)


@pytest.mark.parametrize("text,message", [
    ("healthd: {staet: x}", "unknown key (did you mean `state`?)"),
    ("healthd: []", "`healthd`: must be a map"),
    ("healthd: {rate: fast}", "`rate`: `fast` is not a number"),
    ("healthd: {webhook-allow: {a: b}}", "must be a list of networks"),
    ("checks: {x: [relative]}", "`x`: must be a list: the absolute path"),
    ("checks: {x: {command: /bin/true}}", "`x`: must be a list"),
    ("checks: {x: {cmd: [/bin/true]}}", "must be {command: [PROGRAM, ARGUMENT...]}"),
    ("secrets: [a]", "`secrets`: must be a map"),
    ("data: x\nhealth: y", "--state FILE is missing"),
    ("- x", "must be a map of settings"),
])
def test_a_bad_settings_file(tmp_path, text, message):
    path = tmp_path / "sluice.yaml"
    path.write_text(text + "\n", encoding="utf-8")
    error = refused("-c", path)
    assert message in error and ("missing" in message or str(path) in error)


def test_a_settings_file_of_all_programs(tmp_path, make_config, port):
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11")}), tmp_path / "data")
    (tmp_path / "sluice.yaml").write_text(f"""
data: {data}
listen: 127.0.0.1@5300
health: {tmp_path}/feed
checks: {{foo: {{command: [/bin/true, -x]}}, bar: [/bin/false]}}
secrets: {{pd: {{file: /nowhere}}}}
healthd:
  state: {tmp_path}/state.json
  control: {tmp_path}/control
  rate: 100
  webhook-allow: [127.0.0.0/8]
deploy: {{branch: main}}
""", encoding="utf-8")
    process = sluicelib.Process(sluicelib.program("sluice-healthd"), "-c", tmp_path / "sluice.yaml", "--log", "json")
    try:
        process.wait_log(r'"ready: build ')
        assert sluicelib.control(tmp_path / "control", "status")["checks"] == 1
        assert os.path.exists(tmp_path / "feed")
        settings = ("health", "--socket", tmp_path / "control")
        assert "127.0.0.11" in sluicelib.sluice(*settings).stdout
    finally:
        process.stop()
    assert (tmp_path / "state.json").exists()


def test_a_second_checker_is_refused(healthd, tmp_path):
    error = refused("--data", healthd.data, "--feed", healthd.feed, "--state", tmp_path / "other").lower()
    assert healthd.feed.lower() in error
    assert healthd.states()["127.0.0.11"] == "up"


def test_a_killed_checker_leaves_nothing_in_the_way(tmp_path, make_config, port):
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11")}), tmp_path / "data")
    with Endpoint("127.0.0.11", port):
        first = Healthd(data)
        first.wait_states(**{"127.0.0.11": "up"})
        healthlib.wait_for(lambda: first.state.exists() and healthlib.saved(first.state), "it is saved soon")
        first.kill()
        with Healthd(data) as second:
            assert second.states() == {"127.0.0.11": "up"}


def test_the_service_manager_is_told(tmp_path, make_config, port):
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port, "a: 127.0.0.11")}), tmp_path / "data")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(sluicelib.DEADLINE)
        manager.bind(str(tmp_path / "notify"))
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        seen = []

        def wait_told(word):
            while True:
                seen.append(manager.recv(4096).decode())
                if word in seen[-1]:
                    return

        with Healthd(data, env=env) as healthd:
            wait_told("READY=1")
            wait_told("WATCHDOG=1")
            healthd.signal(signal.SIGHUP)
            wait_told("RELOADING=1")
            wait_told("READY=1")
            healthd.signal(signal.SIGTERM)
            wait_told("STOPPING=1")  # read while it stops: the socket holds only a few messages
            assert healthd.wait() == 0
