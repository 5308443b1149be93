# SPDX-License-Identifier: Apache-2.0
"""`sluice` as the client of the control socket: of servers that say odd things, and of a real one."""
import json
import os
import pathlib
import socket
import time

import pytest

import sluicelib
import statelib
import toollib
from toollib import fails

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


def answer_status(request):
    if request["command"] == "domain":
        return {"ok": True, "domain": {"name": request["domain"], "zone": "tm.example.com.", "revision": 7,
                                       "steer": STEER, "overrides": OVERRIDES, "health": []},
                "data": "/nowhere", "health": {"connected": True, "age": 0}}
    return STATUS if request["command"] == "status" else {"ok": True}


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
