# SPDX-License-Identifier: Apache-2.0
"""The command line of `sluice`: help, errors, exit statuses, and the client of the control socket."""
import json
import os
import pathlib
import socket
import subprocess
import time

import pytest

import sluicelib
import statelib
import toollib

COMMANDS = ["check", "build", "explain", "endpoints", "sync", "health", "hook", "deploys", "rollback", "follow", "status",
            "reload", "stop"]
HELPS = [[c] for c in COMMANDS] + [["sync", c] for c in ("plan", "apply", "drift")] + [["hook", c] for c in ("install", "pre-receive", "post-receive")] + [["endpoints", c] for c in (
    "get", "set", "profiles", "reset", "enable", "disable", "drain", "undrain", "history", "exposure")] + [["health", "override"]]
STEER = {"owner": "cdn.tm.example.com.", "ttl": 30, "answers": 1, "draw_per": "query", "types": ["A"],
         "endpoints": [{"name": "one", "enabled": True, "addresses": ["192.0.2.1"]},
                       {"name": "two", "enabled": True, "addresses": ["192.0.2.2"]}],
         "regions": [{"name": "global", "atoms": ["global"], "levels": [[["one", 1], ["two", 1]]]}]}
OVERRIDES = [{"kind": "status", "endpoint": "one", "region": "", "level": 0, "family": 0, "value": 2,
              "who": "ann", "origin": None, "reason": None, "set_at": 0, "expires_at": 0, "cause": None,
              "before": None}]
STATUS = {
    "ok": True,
    "build": {"id": "0123456789abcdef", "commit": None, "commit_time": 0,
              "zones": [{"name": "tm.example.com.", "serial": 3, "names": 5, "domains": 2}]},
    "workers": 2, "uptime": 3700, "pid": 42, "listen": ["127.0.0.1@53", "::1@53"],
    "health": {"connected": False, "age": None},
    "overrides": [{"domain": "cdn.tm.example.com.", "endpoint": "one", "kind": "status",
                   "value": 2, "who": "ann", "set_at": 0, "expires_at": 0}],
    "geo": {"path": "/g.mmdb", "build_epoch": 1, "age": 90000, "ipv6": False},
    "counters": {"queries": 12, "dropped": 0},
}


def fails(*args, status, **options):
    """The one line that a failing command prints, without `sluice: `."""
    done = sluicelib.sluice(*args, status=status, **options)
    assert done.stdout == "" and done.stderr.startswith("sluice: "), done
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
    return done.stderr[8:-1]


def answer_status(request):
    if request["command"] == "domain":
        return {"ok": True, "domain": {"name": request["domain"], "zone": "tm.example.com.", "revision": 7,
                                       "steer": STEER, "overrides": OVERRIDES, "health": []},
                "data": "/nowhere", "health": {"connected": True, "age": 0}}
    return STATUS if request["command"] == "status" else {"ok": True}


# ---- help and errors ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", HELPS, ids=" ".join)
def test_help_has_examples(command):
    done = sluicelib.sluice(*command, "--help")
    assert done.stdout.startswith("Usage:\n") and "\nExamples:\n" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout
    assert not done.stderr


def test_overview():
    done = sluicelib.sluice("--help")
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout
    assert sluicelib.sluice("--version").stdout.startswith("sluice 0.")


def test_wrong_usage():
    assert fails(status=2).startswith("no command given")
    assert fails("chekc", status=2) == "unknown command chekc; did you mean check?"
    assert "sluice --help" in fails("frobnicate", status=2)
    assert fails("endpoints", "disabel", "a", "b", status=2).endswith("did you mean disable?")
    assert fails("health", "x", status=2).endswith("health --help lists them")
    assert fails("build", ".", status=2).startswith("--out is missing")
    assert "did you mean --out?" in fails("build", ".", "--otu", "x", status=2)
    assert "give both" in fails("build", "--zone-file", "x", "--out", "y", status=2)
    assert "give one" in fails("build", "x", "--zone-list", "x", "--out", "y", status=2)
    assert "unexpected argument b" in fails("check", "a", "b", status=2)
    assert "--client is missing" in fails("explain", "cdn", status=2)
    assert "not an IP address" in fails("explain", "cdn", "--client", "192.0.2", status=2)
    assert "--type A or" in fails("explain", "cdn", "--client", "::1", "--type", "MX", status=2)
    assert "add --config" in fails("explain", "cdn", "--client", "::1", "--down", "x", status=2)
    assert "up, down or auto" in fails("health", "override", "cdn", "x", "dead", status=2)
    assert "--family 4 or" in fails("health", "override", "cdn", "x", "up", "--family", "5", status=2)


def test_endpoints_is_also_a_program(tmp_path):
    link = tmp_path / "endpoints"
    link.symlink_to(sluicelib.program("sluice"))
    assert "disable" in sluicelib.run(link, "--help").stdout
    done = sluicelib.run(link, "disable", "cdn.", "one", "--socket", tmp_path / "none")
    assert done.returncode == 1 and "no server listens" in done.stderr


def test_a_full_disk_is_not_silence():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sluicelib.program("sluice"), "--help"], stdout=full, text=True,
                              stderr=subprocess.PIPE, env=sluicelib.environment())
    assert done.returncode == 1 and "No space left" in done.stderr


def test_output_that_nobody_reads():
    """A closed pipe is an error of the write, not a death without a word."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([sluicelib.program("sluice"), "--help"], stdout=write_end, text=True,
                          stderr=subprocess.PIPE, env=sluicelib.environment())
    os.close(write_end)
    assert done.returncode == 1 and "Broken pipe" in done.stderr


# ---- check ------------------------------------------------------------------------------------------


def test_check(make_config):
    done = sluicelib.sluice("check", make_config({"cdn": toollib.DOMAIN}))
    assert done.stdout == "no errors: 1 zone, 3 static records, 1 steered domain\n"


def test_check_as_json(make_config, tmp_path):
    config = make_config({"cdn": toollib.DOMAIN + "health: {type: exec, check: disk}\n"})
    out = json.loads(sluicelib.sluice("check", config, "--json").stdout)
    problems = out.pop("problems")
    assert out == {"ok": True, "zones": 1, "records": 3, "domains": 1}
    file = f"{config}/example.com/cdn/domain.yaml"
    assert [(p["path"], p["line"], p["column"], p["level"]) for p in problems] == [(file, 12, 22, "warning")]
    assert "`disk`" in problems[0]["message"]
    sluicelib.write_tree(config, {"example.com/cdn/domain.yaml": toollib.DOMAIN.replace("one: 3", "oen: 3")})
    done = sluicelib.sluice("check", config, "--json", status=1)
    out = json.loads(done.stdout)
    assert out["ok"] is False and not done.stderr
    assert [(p["line"], p["level"]) for p in out["problems"]] == [(9, "error")]
    done = sluicelib.sluice("check", tmp_path / "none", "--json", status=1)
    assert json.loads(done.stdout)["ok"] is False and "No such file" in done.stderr


def test_build_as_json(make_config, tmp_path):
    config = make_config({"cdn": toollib.DOMAIN})
    for changed in (1, 0):
        done = sluicelib.sluice("build", config, "--out", tmp_path / "data", "--json")
        assert json.loads(done.stdout) == {"zones": 1, "changed": changed, "unchanged": not changed}


def test_the_wrong_directory(make_config, tmp_path):
    """Somebody in the wrong place must not build a server that refuses every name."""
    config = make_config({"cdn": toollib.DOMAIN})
    data = sluicelib.build(config, tmp_path / "data")
    before = os.readlink(data / "current")
    (tmp_path / "empty").mkdir()
    message = fails("build", tmp_path / "empty", "--out", data, status=1)
    assert message == f"there is no zone in {tmp_path}/empty; give the root of a configuration"
    done = sluicelib.sluice("build", "--zone-list", "-", "--out", data, stdin="", status=1)
    assert "there is no zone in -" in done.stderr
    assert os.readlink(data / "current") == before
    done = sluicelib.sluice("check", tmp_path / "empty")
    assert "warning: there is no zone in" in done.stderr and done.stderr.count("\n") == 1
    done = sluicelib.sluice("check", config / "example.com", status=1)
    assert "zone.yaml; if it does, give the root of the configuration instead" in done.stderr
    message = fails("build", config, "--out", config / "defaults.yaml", status=1)
    assert message == f"cannot make folder {config}/defaults.yaml/builds: Not a directory"


def test_check_works_on_the_working_directory(make_config):
    assert "no errors" in sluicelib.sluice("check", cwd=make_config({"cdn": toollib.DOMAIN})).stdout


def test_check_reports_every_problem(make_config):
    config = make_config({"a": toollib.DOMAIN.replace("192.0.2.3,", "192.0.2.300,"),
                          "b": toollib.DOMAIN.replace("spare: 1", "spaer: 1")})
    done = sluicelib.sluice("check", config, status=1)
    assert done.stdout == ""
    assert "a/domain.yaml:6:" in done.stderr and "b/domain.yaml:10:" in done.stderr


def test_check_of_nothing(tmp_path):
    fails("check", tmp_path / "none", status=1)


def test_check_finds_what_cannot_be_built(make_config):
    """An RRset that fits no message is a problem of the configuration, not of the build."""
    values = ", ".join(f'"{i:04d}{"x" * 250}"' for i in range(300))
    done = sluicelib.sluice("check", make_config(records=f"big: {{TXT: [{values}]}}"), status=1)
    assert "example.com/zone.yaml:" in done.stderr and "big.example.com" in done.stderr


def test_exec_checks_are_looked_up_in_the_machines_settings(make_config, tmp_path):
    own = toollib.DOMAIN.replace(
        'one: [192.0.2.1, "2001:db8::1"]',
        'one: {addresses: [192.0.2.1, "2001:db8::1"], health: {check: own}}')
    config = make_config({"cdn": own + "health:\n  type: exec\n  check: disk\n"})
    sluicelib.write_tree(tmp_path, {
        "good.yaml": "checks:\n  disk: {command: [/bin/true]}\n  own: {command: [/bin/true]}\n",
        "bad.yaml": "checks:\n  disc: {command: [/bin/true]}\n",
        "odd.yaml": "checks: [disk]\n", "broken.yaml": "checks: [\n"})

    def check(*args, status):
        return sluicelib.sluice("check", config, *args, status=status).stderr

    assert check("--system", tmp_path / "good.yaml", status=0) == ""
    file = f"{config}/example.com/cdn/domain.yaml"
    column = 1 + own.splitlines()[3].index("check: own")
    places = [f"{file}:4:{column}: ", f"{file}:14:3: "]
    lines = check(status=0).splitlines()
    assert all(line.startswith(f"{place}warning: ") for line, place in zip(lines, places, strict=True))
    bad = tmp_path / "bad.yaml"
    assert check("--system", bad, status=1).splitlines() == [
        f"{places[0]}{bad} defines no check `own`; add it there under `checks:`",
        f"{places[1]}{bad} defines no check `disk`; add it there under `checks:`"]
    assert check("--system", tmp_path / "odd.yaml", status=1).startswith(f"{tmp_path}/odd.yaml:1:9: `checks`")
    assert "broken.yaml:2:1: " in check("--system", tmp_path / "broken.yaml", status=1)
    assert "none.yaml:1:1: cannot read" in check("--system", tmp_path / "none.yaml", status=1)


def test_one_settings_file_for_check_and_server(make_config, tmp_path):
    """Sections of other programs do not keep sluiced from starting."""
    config = make_config({"cdn": toollib.DOMAIN + "health: {type: exec, check: disk}\n"})
    data = sluicelib.build(config, tmp_path / "data")
    port = sluicelib.Port()
    settings = tmp_path / "sluice.yaml"
    settings.write_text(f"data: {data}\nlisten: 127.0.0.1@{port.number}\ncontrol: {tmp_path}/sock\n"
                        "threads: 1\nchecks:\n  disk: {command: [/bin/true], timeout: 2s}\n"
                        "healthd: {workers: 4}\n", encoding="utf-8")
    assert not sluicelib.sluice("check", config, "--system", settings).stderr
    server = sluicelib.Process(sluicelib.program("sluiced"), "-c", settings)
    try:
        server.wait_log(r"\bready\b")
        assert "example.com." in sluicelib.sluice("status", "--socket", tmp_path / "sock").stdout
        assert "3 priority  level 1" in sluicelib.sluice("explain", "cdn", "--client", "::1", "-c", settings).stdout
        server.stop()
    finally:
        server.kill()
        port.close()


# ---- explain without a server --------------------------------------------------------------------------


def explain(config, *args, domain="cdn", **options):
    done = sluicelib.sluice("explain", domain, "--config", config, "--json", *args, **options)
    return json.loads(done.stdout)


def test_explain(make_config):
    config = make_config({"cdn": toollib.DOMAIN})
    out = explain(config, "--client", "192.0.2.1")
    assert out["domain"] == "cdn.example.com." and out["client"] == "192.0.2.1"
    assert (out["type"], out["region"], out["level"]) == ("A", "global", 1)
    assert out["fallback"] is False and out["nodata"] is False
    assert out["location"] == {"continent": None, "country": None, "subdivisions": [], "asn": None}
    assert out["answers"] == [{"endpoint": "one", "probability": 0.75, "rdata": ["192.0.2.1"]},
                              {"endpoint": "two", "probability": 0.25, "rdata": ["192.0.2.2"]}]
    out = explain(config, "--client", "192.0.2.200", "--type", "aaaa")
    assert (out["region"], out["scope"], out["type"]) == ("192.0.2.128/25", 25, "AAAA")
    assert out["answers"][0]["rdata"] == ["2001:db8::2"]


def test_explain_with_facts(make_config):
    config = make_config({"cdn": toollib.DOMAIN})
    out = explain(config, "--client", "::1", "--down", "one,two")
    assert out["level"] == 2 and out["answers"][0]["endpoint"] == "spare"
    out = explain(config, "--client", "::1", "--disabled", "one", "--down", "two,spare")
    assert out["fallback"] and [a["endpoint"] for a in out["answers"]] == ["two"]
    done = fails("explain", "cdn", "--config", config, "--client", "::1", "--down", "tow", status=1)
    assert done == "the domain has no endpoint tow; did you mean two?"
    done = fails("explain", "cdn", "--config", config, "--client", "::1", "--down", "other", status=1)
    assert done == "the domain has no endpoint other; there are: one two spare"


@pytest.mark.parametrize("domain", ["cdn", "cdn.example.com", "cdn.example.com.", "CDN"])
def test_explain_names(make_config, domain):
    out = explain(make_config({"cdn": toollib.DOMAIN}), "--client", "::1", domain=domain)
    assert out["domain"] == "cdn.example.com."


def test_explain_wildcard(make_config):
    config = make_config({"_wildcard.w": toollib.DOMAIN}, records="a.b.w: {A: [192.0.2.9]}")
    explain(config, "--client", "::1", domain="x.y.w")
    for name in ("w", "b.w", "x.b.w"):
        assert "not a steered name" in fails("explain", name, "--config", config, "--client", "::1",
                                             status=1)


def test_explain_of_a_name_that_is_not_steered(make_config):
    config = make_config({"cdn": toollib.DOMAIN})
    message = fails("explain", "www", "--config", config, "--client", "192.0.2.1", status=1)
    assert message.startswith("www.example.com. is not a steered name")


def test_explain_as_text(make_config):
    done = sluicelib.sluice("explain", "cdn", "--config", make_config({"cdn": toollib.DOMAIN}),
                            "--client", "192.0.2.1")
    assert "global" in done.stdout and "one" in done.stdout and "\x1b" not in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "Shares are of cache fills, not of users" in done.stdout
    assert "share of cache fills, not of users" in sluicelib.sluice("explain", "--help").stdout


def test_explain_with_one_zone_and_no_default_zone(tmp_path):
    config = sluicelib.write_tree(tmp_path / "config", {"example.com/zone.yaml": sluicelib.ZONE,
                                                        "example.com/cdn/domain.yaml": toollib.DOMAIN})
    assert explain(config, "--client", "::1")["domain"] == "cdn.example.com."
    sluicelib.write_tree(config, {"example.org/zone.yaml": sluicelib.ZONE})
    assert "default_zone" in fails("explain", "cdn", "--config", config, "--client", "::1", status=2)


def test_explain_with_bad_location_data(make_config, tmp_path):
    config = make_config({"cdn": toollib.DOMAIN})
    sluicelib.write_tree(tmp_path, {"bad.mmdb": "not a database"})
    for name in ("bad.mmdb", "none.mmdb"):
        message = fails("explain", "cdn", "--config", config, "--client", "192.0.2.1", "--geo",
                        tmp_path / name, status=1)
        assert name in message


# ---- the client of the control socket --------------------------------------------------------------------


def test_no_server(tmp_path):
    path = tmp_path / "sock"
    for command in (["status"], ["reload"], ["stop"], ["explain", "cdn", "--client", "192.0.2.1"],
                    ["endpoints", "disable", "cdn.", "one"], ["health", "override", "c.", "e", "up"]):
        message = fails(*command, "--socket", path, status=1)
        assert message == (f"no server listens at {path}; start sluiced, or name its socket with "
                           "--socket")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    assert "no server listens" in fails("status", "--socket", path, status=1)
    assert "too long" in fails("status", "--socket", "x" * 200, status=1)
    path.unlink()
    path.mkdir()
    assert str(path) in fails("status", "--socket", path, status=1)


def test_socket_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SLUICE_SOCKET", str(tmp_path / "elsewhere"))
    assert f"{tmp_path}/elsewhere" in fails("status", status=1)
    assert f"{tmp_path}/other" in fails("status", "--socket", tmp_path / "other", status=1)
    monkeypatch.setenv("SLUICE_SOCKET", "")
    assert "/run/sluice/control.sock" in fails("status", status=1)


def test_status(tmp_path):
    with toollib.FakeServer(tmp_path / "s", answer_status) as server:
        out = sluicelib.sluice("status", "--socket", server.path).stdout
        assert json.loads(sluicelib.sluice("status", "--json", "--socket", server.path).stdout) == STATUS
    for wanted in ("0123456789abcdef", "tm.example.com. serial 3, 5 names, 2 steered", "1 h 1 min",
                   "127.0.0.1@53, ::1@53", "no checker", "cdn.tm.example.com. one: disabled",
                   "by ann", "/g.mmdb", "1 d 1 h old", ", IPv4 only", "queries=12", "none since the"):
        assert wanted in out, out
    assert "dropped" not in out


def test_status_at_3_am(tmp_path):
    """What is wrong, and what was done by whom, comes before the rest, on 80 columns."""
    now = int(time.time())
    bad = json.loads(json.dumps(STATUS))
    bad["build"].update(commit="4f2a" * 10, commit_time=now - 3000)
    why = "no build in /var/lib/sluice (make one with `sluice build`): No such file or directory"
    bad["last_reload"] = {"ok": False, "at": now - 330, "error": why, "warning": None}
    bad["overrides"] = [{"domain": "cdn.tm.example.com.", "endpoint": "one", "kind": "status",
                         "value": 2, "who": "ann", "set_at": now - 7230, "family": None,
                         "reason": "disk replacement, ask Ann before you enable it again " * 3},
                        {"domain": "cdn.tm.example.com.", "endpoint": "two", "kind": "health",
                         "value": 2, "who": "bob", "set_at": now - 90, "family": 6,
                         "reason": None}]
    zone = {"state": "current", "serial": 7, "refreshed": now - 90, "error": None}
    bad["secondary"] = [dict(zone, zone="fine.example."),
                        dict(zone, zone="bad.example.", state="expired", error="refused\x1b[31m")]
    bad["counters"] = {f"counter_{i}": 10**9 + i for i in range(20)}
    with toollib.FakeServer(tmp_path / "s", lambda request: bad) as server:
        done = sluicelib.sluice("status", "--socket", server.path, status=3)
        as_json = sluicelib.sluice("status", "--json", "--socket", server.path, status=3)
    assert done.stderr.startswith("sluice: the last reload failed; ") and done.stderr.count("\n") == 1
    assert json.loads(as_json.stdout) == bad and as_json.stderr == done.stderr
    lines = done.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines), done.stdout
    flat = " ".join(done.stdout.split())
    places = [flat.index(part) for part in (
        "serving 1 zone, 2 steered names", "1 h 1 min, since 20", "FAILED at 20", "(5 min ago)", why,
        "build 0123456789abcdef", "commit " + "4f2a" * 10, "2 in force", "one: disabled",
        "by ann, since 20", "(2 h 0 min ago): disk replacement", "two: health forced down for IPv6",
        "by bob", "no checker", "location", "bad.example. expired (NOT SERVED)", "refused?[31m",
        "fine.example. current, serial 7", "zones 1", "listens", "counters")]
    assert places == sorted(places), done.stdout


def test_status_tells_that_location_data_are_old(tmp_path):
    part = dict(STATUS, last_reload={"ok": True, "at": 1, "error": None, "warning": "/g.mmdb: cut off"})
    with toollib.FakeServer(tmp_path / "s", lambda request: part) as server:
        done = sluicelib.sluice("status", "--socket", server.path, status=3)
    assert "/g.mmdb: cut off" in " ".join(done.stdout.split())
    assert "old location data" in done.stderr and done.stderr.count("\n") == 1


def test_status_without_zones(tmp_path):
    empty = dict(STATUS, build={"id": "x", "zones": []})
    with toollib.FakeServer(tmp_path / "s", lambda request: empty) as server:
        assert "NO ZONE" in sluicelib.sluice("status", "--socket", server.path).stdout


def test_reload_in_part(tmp_path):
    reply = {"ok": True, "build": {"id": "x"}, "zones": 3, "changed": 1, "warning": "/g.mmdb: cut off"}
    with toollib.FakeServer(tmp_path / "s", lambda request: reply) as server:
        done = sluicelib.sluice("reload", "--socket", server.path, status=3)
        as_json = sluicelib.sluice("reload", "--json", "--socket", server.path, status=3)
    assert done.stdout == "serving build x: 3 zones, 1 of them changed\n"
    assert done.stderr == ("sluice: the zones are loaded, but the old location data stay in use: "
                           "/g.mmdb: cut off\n")
    assert json.loads(as_json.stdout) == reply and as_json.stderr == done.stderr


def test_endpoints_reset(tmp_path):
    with toollib.FakeServer(tmp_path / "s", answer_status) as server:
        to = ["cdn.tm.example.com.", "--status", "--reason", "over", "--socket", server.path]
        done = sluicelib.sluice("endpoints", "reset", *to)
        assert done.stdout == "cdn.tm.example.com.: one is as configured again\n"
        request = server.requests[-1]
        assert request["expect"] == [["cdn.tm.example.com.", 7]] and len(request["request"]) == 32
        [change] = request["changes"]
        assert (change["op"], change["kind"], change["endpoint"]) == ("drop", "status", "one")
        [audit] = request["audits"]
        assert (audit["command"], audit["reason"]) == ("reset", "over")
        reply = json.loads(sluicelib.sluice("endpoints", "reset", "--json", *to).stdout)
        assert [c["endpoint"] for c in reply["changes"]] == ["one"]


def test_status_of_many_zones_is_short(tmp_path):
    many = json.loads(json.dumps(STATUS))
    many["build"]["zones"] *= 1000
    with toollib.FakeServer(tmp_path / "s", lambda request: many) as server:
        out = sluicelib.sluice("status", "--socket", server.path).stdout
    assert "and 980 more" in out and len(out.splitlines()) < 40


def test_requests(tmp_path):
    with toollib.FakeServer(tmp_path / "s", answer_status) as server:
        to = ["--socket", server.path]
        out = sluicelib.sluice("endpoints", "disable", "cdn", "one", "two", "--reason", "fire", *to)
        assert out.stdout == ("cdn.tm.example.com.: one is disabled\n"
                              "cdn.tm.example.com.: two is disabled\n")
        request = server.requests[-1]
        assert request["command"] == "commit"
        assert [(c["op"], c["kind"], c["domain"], c["endpoint"], c["value"], c["reason"])
                for c in request["changes"]] == [("set", "status", "cdn.tm.example.com.", e, 2, "fire")
                                                 for e in ("one", "two")]
        sluicelib.sluice("health", "override", "cdn.tm.example.com", "one", "down", "--family", "6", *to)
        [change] = server.requests[-1]["changes"]
        assert [change[k] for k in ("op", "kind", "domain", "endpoint", "family", "value")] == [
            "set", "health", "cdn.tm.example.com.", "one", 6, 2]
        sluicelib.sluice("health", "override", "else.where.", "one", "auto", *to)
        assert server.requests[-1] == {"command": "domain", "domain": "else.where."}  # nothing was forced
        sluicelib.sluice("reload", *to)
        assert server.requests[-1] == {"command": "reload"}
        sluicelib.sluice("stop", *to)
        assert server.requests[-1] == {"command": "stop"}


def test_the_servers_error_and_status_are_passed_on(tmp_path):
    for code, status in ((1, 1), (2, 2), (3, 3), (0, 1), (77, 1), (None, 1)):
        reply = {"ok": False, "error": "no such domain\x1b[31m", "code": code}
        with toollib.FakeServer(tmp_path / "s", lambda request: reply) as server:
            message = fails("reload", "--socket", server.path, status=status)
        assert message == "no such domain?[31m"
        (tmp_path / "s").unlink()


@pytest.mark.parametrize("reply", [b"", b"\n", b"hello\n", b"{\n", b"[]\n", b"{}\n", b'"x"\n',
                                   b'{"ok": 1}\n', b'{"ok": false}\n', b"\xff\xfe\x00\n"])
def test_nonsense_from_the_socket(tmp_path, reply):
    with toollib.FakeServer(tmp_path / "s", lambda request: reply) as server:
        fails("status", "--socket", server.path, status=1)


@pytest.mark.parametrize("build", [None, 1, [], {}, {"id": 1, "zones": {}}, {"zones": [1, None, {}]}])
def test_odd_status_does_no_harm(tmp_path, build):
    odd = {"ok": True, "build": build, "overrides": [1], "listen": [1], "health": 1, "geo": [],
           "last_reload": 1, "secondary": [1], "counters": 1, "uptime": -1e300}
    with toollib.FakeServer(tmp_path / "s", lambda request: odd) as server:
        sluicelib.sluice("status", "--socket", server.path)
        sluicelib.sluice("endpoints", "enable", "cdn", "one", "--socket", server.path, status=2)
        fails("endpoints", "enable", "cdn.tm.example.com.", "one", "--socket", server.path, status=1)


# ---- with a real server ----------------------------------------------------------------------------------


def test_with_a_server(make_config, start):
    config = make_config({"cdn": toollib.DOMAIN})
    server = start(config)
    out = server.sluice("status").stdout
    assert "example.com. serial 1" in out and "no database" in out

    def drawn(*args):
        text = server.sluice("explain", "cdn", "--client", "192.0.2.1", "--json", *args).stdout
        return {a["endpoint"]: a["probability"] for a in json.loads(text)["answers"]}

    assert drawn() == {"one": 0.75, "two": 0.25}
    server.sluice("endpoints", "disable", "cdn", "one", "--reason", "drill")
    assert drawn() == {"two": 1}
    assert "cdn.example.com. one" in server.sluice("status").stdout
    server.sluice("endpoints", "enable", "cdn.example.com", "one")
    server.sluice("health", "override", "cdn", "one", "down", "--family", "6")
    assert drawn() == {"one": 0.75, "two": 0.25} and drawn("--type", "AAAA") == {"two": 1}
    server.sluice("health", "override", "cdn", "one", "auto")
    assert drawn("--type", "AAAA") == {"one": 0.75, "two": 0.25}
    assert "global" in server.sluice("explain", "cdn", "--client", "192.0.2.1").stdout
    for command in (["explain", "www", "--client", "192.0.2.1"],
                    ["endpoints", "disable", "cdn", "won"], ["health", "override", "www", "a", "up"]):
        done = server.sluice(*command, status=1)
        assert done.stderr.startswith("sluice: ") and done.stderr.count("\n") == 1, done

    sluicelib.write_tree(config, {"example.com/cdn/domain.yaml":
                                  toollib.DOMAIN.replace("one: 3", "one: 1")})
    sluicelib.build(config, server.data)
    assert "1 zone, 1 of them changed" in server.reload().stdout
    assert drawn() == {"one": 0.5, "two": 0.5}
    server.sluice("stop")
    assert server.wait() == 0


def test_relative_names_with_several_zones(make_config, start):
    files = {"example.org/zone.yaml": sluicelib.ZONE, "example.org/cdn/domain.yaml": toollib.DOMAIN}
    server = start(make_config({"cdn": toollib.DOMAIN}, files=files))
    for name, full in (("cdn", "cdn.example.com."), ("cdn.example.org", "cdn.example.org.")):
        done = server.sluice("explain", name, "--client", "192.0.2.1", "--json")
        assert json.loads(done.stdout)["domain"] == full
    server.sluice("endpoints", "disable", "cdn", "one")
    overrides = json.loads(server.sluice("status", "--json").stdout)["overrides"]
    assert [o["domain"] for o in overrides] == ["cdn.example.com."]


def test_reset_with_a_server(make_config, start):
    server = start(make_config({"cdn": toollib.DOMAIN}))
    server.sluice("endpoints", "disable", "cdn", "one")
    server.sluice("endpoints", "enable", "cdn", "two")
    server.sluice("health", "override", "cdn", "one", "down")
    out = server.sluice("endpoints", "reset", "cdn", "--status").stdout
    assert sorted(out.splitlines()) == ["cdn.example.com.: one is as configured again",
                                        "cdn.example.com.: two is as configured again"]
    left = json.loads(server.sluice("status", "--json").stdout)["overrides"]
    assert [(o["endpoint"], o["kind"], o["family"]) for o in left] == \
        [("one", "health", 4), ("one", "health", 6)]
    out = server.sluice("endpoints", "reset", "cdn", "--status").stdout
    assert out == "cdn.example.com.: no endpoint was enabled or disabled, and no weight set by hand\n"
    assert "not a steered name" in server.sluice("endpoints", "reset", "www", "--status", status=1).stderr


def test_who_is_taken_whole_or_refused(make_config, start):
    """A name that is cut inside of a character would break every later status."""
    server = start(make_config({"cdn": toollib.DOMAIN}))

    def disable(who):
        return statelib.commit(server.control, [statelib.status("one", 2)], **{"as": who})

    reply = disable("\u00e9" * 129)
    assert not reply["ok"] and reply["error"] == "as: must have 1 to 256 octets, not 258" and reply["code"] == 2
    assert disable("\u00e9" * 128)["ok"]
    [override] = json.loads(server.sluice("status", "--json").stdout)["overrides"]
    assert override["who"] == "\u00e9" * 128


def raw_request(path, request):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(sluicelib.DEADLINE)
        sock.connect(str(path))
        sock.sendall(json.dumps(request).encode() + b"\n")
        with sock.makefile("rb") as lines:
            return json.loads(lines.readline())


def test_a_failed_reload_is_seen_later(make_config, start, tmp_path, city_mmdb):
    geo = tmp_path / "geo.mmdb"
    whole = pathlib.Path(city_mmdb).read_bytes()
    geo.write_bytes(whole)
    server = start(make_config({"cdn": toollib.DOMAIN}), geo=geo)
    assert json.loads(server.sluice("status", "--json").stdout)["last_reload"] is None

    def reload(status):
        done = server.sluice("reload", status=status)
        last = json.loads(server.sluice("status", "--json", status=3 if status else 0).stdout)
        return done, last["last_reload"]

    current = server.data / "current"
    target = os.readlink(current)
    current.unlink()
    done, last = reload(1)
    assert "no build in" in done.stderr and last["ok"] is False and "no build in" in last["error"]
    assert "FAILED" in server.sluice("status", status=3).stdout
    current.symlink_to(target)
    replace(geo, b"no database")
    done, last = reload(3)
    assert "location data" in done.stderr and "1 zone" in done.stdout
    assert last["ok"] is True and last["error"] is None and "geo.mmdb" in last["warning"]
    replace(geo, whole)
    done, last = reload(0)
    assert not done.stderr and (last["ok"], last["error"], last["warning"]) == (True, None, None)
    assert abs(last["at"] - time.time()) < sluicelib.DEADLINE
    assert "reload     done" in server.sluice("status").stdout


def replace(path, data):
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


def test_check_system_reads_the_settings_of_every_program(tmp_path):
    settings = tmp_path / "sluice.yaml"

    def check():
        done = subprocess.run([sluicelib.program("sluice"), "check", "--system", settings], capture_output=True,
                              text=True, check=False, cwd="/")
        return done.returncode, done.stdout + done.stderr

    settings.write_text("data: /var/lib/sluice\nlisten: [127.0.0.1]\nhealthd: {rate: 10}\n"
                        "checks: {disk: {command: [/bin/true]}}\nas: [chatbot]\n")
    assert check() == (0, f"no errors in {settings}\n")
    settings.write_text("data: /var/lib/sluice\nlisten: [127.0.0.1]\nhelthd: {rate: 10}\nhealthd: {fed: /x}\n"
                        "deploy: {repo: /x}\n")
    status, text = check()
    assert status == 1
    assert f"{settings}:3:1: unknown section `helthd`; did you mean healthd?" in text
    assert f"{settings}:4:11: `fed`: unknown key (did you mean `feed`?)" in text
    assert f"{settings}:5:10: unknown key `repo` in `deploy`" in text
    settings.write_text("data: /var/lib/sluice\nlisten: [127.0.0.300]\n")
    status, text = check()
    assert status == 1 and f"{settings}:2:10: `listen`" in text
    settings.write_text("deploy: {repository: /srv/dns.git}\n")  # a git host
    assert check()[0] == 0
    settings.write_text("- a\n")
    assert check()[0] == 1
    settings.unlink()
    status, text = check()
    assert status == 1 and len(text.splitlines()) == 1
