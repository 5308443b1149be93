# SPDX-License-Identifier: Apache-2.0
"""`sluice endpoints` with a real server: what changes something, its refusals, and what then is answered."""
import concurrent.futures
import json
import os
import re
import subprocess
import time

import healthlib
import sluicelib
import toollib
from endpointslib import API, CDN, SOLO, answered, check_columns, endpoints, get, overrides, refused, server, weights  # noqa: F401


# ---- set -----------------------------------------------------------------------------------------


def test_set(server):
    done = endpoints(server, "set", "cdn[global]", "central-4=95", "central-5=5", "--reason", "canary", "--for", "2h")
    check_columns(done.stdout)
    assert done.stdout.startswith("cdn.example.com.: set until 20")
    assert "global level 1: central-4 100 -> 95, central-5 0 -> 5" in done.stdout
    assert re.search(r"central-4 +95 +95% +100%", done.stdout)
    assert weights(server) == {"central-4": 95, "central-5": 5, "legacy": 0}
    assert weights(server, "eu") == {"central-4": 1, "central-5": 1}
    assert answered(server) == {"central-4": 0.95, "central-5": 0.05}
    [override] = [o for o in overrides(server) if o["endpoint"] == "central-4"]
    assert (override["region"], override["level"], override["value"], override["reason"]) == ("global", 1, 95, "canary")
    assert 7190 < override["expires_at"] - override["set_at"] <= 7200


def test_set_json(server):
    out = json.loads(endpoints(server, "set", "cdn[na,us-*]", "central-4=7", "--json").stdout)
    assert not out["dry_run"] and out["domain"]["domain"] == "cdn.example.com."
    assert [(c["region"], c["endpoint"], c["old"], c["new"]) for c in out["changes"]] == [
        ("us-ny", "central-4", 0, 7), ("us-ca", "central-4", 1, 7), ("na", "central-4", 1, 7)]
    assert [r["region"] for r in out["domain"]["regions"]] == ["us-ny", "us-ca", "na"]


def test_set_holds_over_restart_and_reload(make_config, start, tmp_path):
    config = make_config({"cdn": CDN})
    server = start(config, "--state", tmp_path / "state")
    endpoints(server, "set", "cdn[eu]", "central-4=9")
    sluicelib.write_tree(config, {"example.com/cdn/domain.yaml": CDN.replace("ttl: 30", "ttl: 31")})
    sluicelib.build(config, server.data)
    server.reload()
    assert weights(server, "eu") == {"central-4": 9, "central-5": 1}
    server.stop()
    assert weights(start(server.data, "--state", tmp_path / "state"), "eu") == {"central-4": 9, "central-5": 1}


def test_profiles_set(server):
    endpoints(server, "set", "cdn[eu]", "mostly[central-4]")
    assert weights(server, "eu") == {"central-4": 95, "central-5": 5}
    endpoints(server, "set", "cdn[eu]", "only[central-5]")
    assert weights(server, "eu") == {"central-4": 0, "central-5": 100}
    endpoints(server, "set", "cdn[eu]", "even")
    assert weights(server, "eu") == {"central-4": 1, "central-5": 1}
    endpoints(server, "set", "cdn[eu]", "shift[central-4:central-5,10]")
    assert weights(server, "eu") == {"central-4": 4, "central-5": 6}
    endpoints(server, "set", "cdn[eu]", "without[central-4]")
    assert weights(server, "eu") == {"central-4": 0, "central-5": 6}
    endpoints(server, "set", "cdn[eu,na]", "canary")
    assert weights(server, "na") == {"central-4": 95, "central-5": 5}
    assert "central-4 has 95 of 100" in refused(server, "set", "cdn[eu]", "shift[central-4:central-5,96]")


def test_profiles_are_listed(server):
    out = endpoints(server, "profiles").stdout
    assert "mostly[E]" in out and "canary: central-4=95 central-5=5 (1 domain)" in out
    out = endpoints(server, "profiles", "cdn[global]").stdout
    assert "only[central-4]: central-4=100 central-5=0 legacy=0" in out
    assert "canary: central-4=95 central-5=5 legacy=0" in out
    [one, two] = json.loads(endpoints(server, "profiles", "cdn[global]", "--json").stdout)["levels"]
    assert (one["level"], two["level"]) == (1, 2)
    by_name = {p["profile"]: p for p in two["profiles"]}
    assert by_name["even"]["weights"] == {"central-5": 1} and "no other endpoint" in by_name["mostly[central-5]"]["refused"]
    assert "central-4 is not in level 2 of: global" in by_name["canary"]["refused"]


def test_levels(server):
    endpoints(server, "set", "cdn[global]", "central-5=7", "--level", "2")
    assert weights(server, level=2) == {"central-5": 7} and weights(server)["central-5"] == 0
    assert "there is no level 2 in: eu, us-ny, us-ca, na" in refused(server, "set", "cdn", "central-5=7", "--level", "2")
    assert "legacy is not in level 1 of: eu, us-ny, us-ca, na" in refused(server, "set", "cdn", "legacy=1")
    assert "central-4 is not in level 2 of: global" in refused(
        server, "set", "cdn[global]", "central-5=1", "central-4=1", "--level", "2")
    for level in ("0", "-1", "x", "1x", "65536", ""):
        endpoints(server, "set", "cdn", "central-4=1", "--level", level, status=2)


def test_nothing_is_applied_if_a_part_is_wrong(server):
    for words in (["central-4=1", "nobody=1"], ["central-4=1", "central-5=x"], ["central-4=1", "legacy=1"]):
        refused(server, "set", "cdn", *words, status=2 if "central-5=x" in words else 1)
    refused(server, "set", "cdn[eu,nowhere]", "central-4=1")
    assert overrides(server) == []


def test_b40_zero_is_a_weight(server):
    endpoints(server, "set", "cdn[eu]", "central-4=0")
    assert weights(server, "eu") == {"central-4": 0, "central-5": 1}
    [eu] = get(server, "cdn[eu]")[0]["regions"]
    assert eu["levels"][0]["endpoints"][0]["share"] == {"A": 0.0, "AAAA": 0.0}
    assert eu["levels"][0]["endpoints"][0]["configured_weight"] == 1
    assert re.search(r"central-4 +0 +0% +50%", endpoints(server, "get", "cdn[eu]").stdout)
    assert "write 0 for no traffic" in refused(server, "set", "cdn[eu]", "central-4=", status=2)
    endpoints(server, "set", "cdn[eu]", "central-5=2")
    assert weights(server, "eu") == {"central-4": 0, "central-5": 2}


def test_an_empty_level_is_refused(server):
    text = refused(server, "set", "cdn[global]", "central-4=0")
    assert "level 1 of global would have no weight above 0 (served then: A by level 2: central-5 100%" in text
    assert "--force" in text
    done = endpoints(server, "set", "cdn[global]", "central-4=0", "--force")
    assert "warning: level 1 of global would have no weight" in done.stderr
    assert answered(server) == {"central-5": 1}
    text = refused(server, "set", "cdn[eu]", "central-4=0", "central-5=0")
    assert "level 1: central-4 50%, central-5 50%" in text


def test_a_type_left_on_weight_0_is_refused(server):
    text = refused(server, "set", "cdn[global]", "only[legacy]")  # it has no IPv6 address
    assert "level 1 of global would have no weight above 0 for AAAA (served then: level 2: central-5 100%)" in text
    endpoints(server, "set", "cdn[global]", "only[legacy]", "--force")
    assert answered(server) == {"legacy": 1}
    out = endpoints(server, "get", "cdn[global]").stdout
    assert re.search(r"legacy +100 +100% A +0%", out) and re.search(r"2  central-5 +100 +0% A", out)
    assert "\n" + 40 * " " + "  100% AAAA" in out or re.search(r"\n +100% AAAA +0%", out)


def test_a_single_endpoint_of_a_type_is_warned_of(make_config, start):
    server = start(make_config({"cdn": "endpoints: {a: [192.0.2.1, '2001:db8::1'], b: 192.0.2.2}\n"
                                       "regions: {global: {a: 1, b: 1}}\n"}))
    done = endpoints(server, "set", "cdn", "a=1", "b=9")
    assert done.stderr == ("sluice: warning: only a has AAAA in level 1 of global: its weight cannot move "
                           "that type\n")
    assert json.loads(endpoints(server, "set", "cdn", "a=2", "--json").stdout)["warnings"] == [
        "only a has AAAA in level 1 of global: its weight cannot move that type"]


def test_dry_run(server):
    out = endpoints(server, "set", "cdn[eu]", "only[central-4]", "--dry-run").stdout
    assert "nothing was changed; it would be" in out and re.search(r"central-4 +100 +100% +50%", out)
    assert overrides(server) == []
    document = json.loads(endpoints(server, "set", "cdn[eu]", "only[central-4]", "--dry-run", "--json").stdout)
    assert document["dry_run"] and document["domain"]["regions"][0]["levels"][0]["endpoints"][0]["weight"] == 100
    refused(server, "set", "cdn[global]", "central-4=0", "--dry-run")


def test_for_and_reason_are_checked(server):
    for time in ("0s", "2", "h", "-1h", "1w", "99999d", "1s1h", ""):
        refused(server, "set", "cdn[eu]", "central-4=1", "--for", time, status=2)
    endpoints(server, "set", "cdn[eu]", "central-4=1", "--for", "1h30m")
    assert "may not act as" in refused(server, "set", "cdn[eu]", "central-4=1", "--as", "ann") if os.getuid() else True


def test_a_time_ends(server):
    endpoints(server, "set", "cdn[eu]", "central-4=8")
    endpoints(server, "set", "cdn[eu]", "central-4=9", "--for", "1s")
    server.wait_log(r"expire")  # maybe before the command has returned
    assert weights(server, "eu") == {"central-4": 1, "central-5": 1}  # the configuration's, not 8
    rows = json.loads(endpoints(server, "history", "cdn", "--json").stdout)["history"]
    assert [r["command"] for r in rows] == ["expire", "set", "set"]
    assert rows[1]["what"]["until"] > 0 and "until" not in rows[2]["what"]
    assert [o["value"] for o in rows[0]["what"]["dropped"]] == [9] and overrides(server) == []
    assert "eu level 1: central-4: weight 9 ended" in endpoints(server, "history").stdout


# ---- B16: regions --------------------------------------------------------------------------------


def test_b16_region_patterns(server):
    for selector, part in (("cdn[]", "empty"), ("cdn[eu,]", "empty"), ("cdn[xx-*]", "no region matches `xx-*`"),
                           ("cdn[us-*,tyop]", "no region matches `tyop`"), ("cdn[[a]", "not closed"),
                           ("cdn[eu", "not closed"), ("cdn[eu]x", "follows")):
        for command in (["set", selector, "central-4=1"], ["get", selector], ["reset", selector]):
            text = refused(server, *command)
            assert part in text and "the regions are: global, eu, us-ny, us-ca, na" in text
    endpoints(server, "set", "cdn[US-*]", "central-4=3")
    assert {o["region"] for o in overrides(server)} == {"us-ny", "us-ca"}
    endpoints(server, "set", "cdn[eu]", "central-4=3")
    assert {o["region"] for o in overrides(server)} == {"us-ny", "us-ca", "eu"}


def test_b16_everything_prints_the_full_effect(server):
    out = endpoints(server, "set", "cdn[*]", "central-4=2").stdout
    for region in ("global", "eu", "us-ny", "us-ca", "na"):
        assert f"  {region} level 1: central-4 " in out and re.search(rf"^{region} +weight", out, re.M)


# ---- B49: many at once -----------------------------------------------------------------------------


def run_all(commands):
    with concurrent.futures.ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(lambda c: sluicelib.run(sluicelib.program("sluice"), "endpoints", *c), commands))


def test_b49_twenty_sets_at_once(make_config, start):
    names = [f"e{i}" for i in range(20)]
    text = ("endpoints:\n" + "".join(f"  {e}: 192.0.2.{i + 1}\n" for i, e in enumerate(names)) +
            "regions: {global: {" + ", ".join(f"{e}: 1" for e in names) + "}}\n")
    server = start(make_config({"cdn": text}))
    done = run_all([["set", "cdn", f"{e}={i + 100}", "--socket", server.control] for i, e in enumerate(names)])
    assert [d.returncode for d in done] == [0] * 20, [d.stderr for d in done]
    assert weights(server) == {e: i + 100 for i, e in enumerate(names)}
    rows = json.loads(endpoints(server, "history", "--json").stdout)["history"]
    assert len(rows) == 20 and len({r["revision"] for r in rows}) == 20


def test_b49_shifts_at_once_are_all_applied(make_config, start):
    """Each is computed from the state before it: ten shifts of 5 points end at 50, whatever the order."""
    server = start(make_config({"cdn": "endpoints: {a: 192.0.2.1, b: 192.0.2.2}\nregions: {global: {a: 100, b: 0}}\n"}))
    done = run_all([["set", "cdn", "shift[a:b,5]", "--socket", server.control]] * 10)
    assert [d.returncode for d in done] == [0] * 10, [d.stderr for d in done]
    assert weights(server) == {"a": 50, "b": 50}


def test_b49_two_sets_of_one_endpoint(server):
    done = run_all([["set", "cdn[eu]", f"central-4={w}", "--socket", server.control] for w in (5, 7)])
    assert [d.returncode for d in done] == [0, 0]
    rows = json.loads(endpoints(server, "history", "cdn", "--json").stdout)["history"]
    last, first = [r["what"]["changes"][0] for r in rows]
    assert first["old"] == 1 and last["old"] == first["new"] and {first["new"], last["new"]} == {5, 7}
    assert weights(server, "eu")["central-4"] == last["new"]


def test_b49_the_loser_computes_again(tmp_path):
    """A conflict is no failure: the weights are computed from the newer state."""
    state = {"revision": 1, "a": 10}

    def answer(request):
        if request["command"] == "commit" and state["revision"] == 1:
            state.update(revision=2, a=60)
            return {"ok": False, "conflict": True, "error": "someone was first", "code": 1}
        if request["command"] == "commit":
            state["commit"] = request
            return {"ok": True, "revision": 3}
        steer = {"owner": "cdn.example.", "ttl": 30, "answers": 1, "draw_per": "query", "types": ["A"],
                 "endpoints": [{"name": "a", "enabled": True, "addresses": ["192.0.2.1"]},
                               {"name": "b", "enabled": True, "addresses": ["192.0.2.2"]}],
                 "regions": [{"name": "global", "atoms": ["global"], "levels": [[["a", state["a"]], ["b", 40]]]}]}
        return {"ok": True, "data": "/x", "health": {"connected": False, "age": None},
                "domain": {"name": "cdn.example.", "zone": "example.", "revision": state["revision"],
                           "steer": steer, "overrides": [], "health": []}}

    with toollib.FakeServer(tmp_path / "s", answer) as server:
        sluicelib.sluice("endpoints", "set", "cdn.example.", "shift[a:b,10]", "--socket", server.path)
    assert {c["endpoint"]: c["value"] for c in state["commit"]["changes"]} == {"a": 50, "b": 50}
    assert state["commit"]["expect"] == [["cdn.example.", 2]]


def test_b49_sets_while_builds_are_loaded(make_config, start):
    config = make_config({"cdn": CDN})
    server = start(config)
    argv = [sluicelib.program("sluice"), "endpoints", "set", "cdn[eu]", "--socket", str(server.control), "--json"]
    procs = []
    for i in range(4):
        sluicelib.write_tree(config, {"example.com/cdn/domain.yaml": CDN.replace("ttl: 30", f"ttl: {40 + i}")})
        sluicelib.build(config, server.data)
        procs.append(subprocess.Popen([*argv, f"central-4={i + 10}"], env=sluicelib.environment(),
                                      stdout=subprocess.DEVNULL))
        server.reload()
        procs.append(subprocess.Popen([*argv, f"central-5={i + 10}"], env=sluicelib.environment(),
                                      stdout=subprocess.DEVNULL))
    assert [p.wait(sluicelib.DEADLINE) for p in procs] == [0] * 8
    rows = json.loads(endpoints(server, "history", "cdn", "--json").stdout)["history"]
    assert len(rows) == 8
    for name in ("central-4", "central-5"):
        mine = [c for r in rows for c in r["what"]["changes"] if c["endpoint"] == name]
        assert weights(server, "eu")[name] == mine[0]["new"] and get(server, "cdn")[0]["ttl"] == 43


# ---- reset, enable, disable ------------------------------------------------------------------------


def test_reset(server):
    endpoints(server, "set", "cdn[eu,na]", "central-4=5")
    endpoints(server, "disable", "cdn", "legacy")
    assert "eu level 1: central-4 5 -> 1" in endpoints(server, "reset", "cdn[eu]").stdout
    assert weights(server, "eu")["central-4"] == 1 and weights(server, "na")["central-4"] == 5
    assert "na level 1" in endpoints(server, "reset", "cdn", "--dry-run").stdout
    assert weights(server, "na")["central-4"] == 5
    endpoints(server, "reset", "cdn[eu]", "--status")  # legacy is not in that region
    assert len(overrides(server)) == 2
    out = endpoints(server, "reset", "cdn", "--status").stdout
    assert "na level 1: central-4 5 -> 1" in out and "legacy is as configured again" in out
    assert overrides(server) == []
    assert "no weight was set by hand" in endpoints(server, "reset", "cdn").stdout


def test_enable_and_disable(server):
    out = endpoints(server, "disable", "cdn", "central-4", "central-5", "--for", "5m", "--reason", "x").stdout
    assert re.match(r"cdn.example.com.: central-4 is disabled until 20.* UTC\n", out)
    assert all(o["expires_at"] > 0 for o in overrides(server))
    endpoints(server, "enable", "cdn", "central-4")
    assert answered(server) == {"central-4": 1}
    document = json.loads(endpoints(server, "disable", "cdn", "central-4", "--json").stdout)
    assert [(c["endpoint"], c["old"], c["new"]) for c in document["changes"]] == [("central-4", "enabled", "disabled")]


# ---- drain, undrain --------------------------------------------------------------------------------


def test_drain_and_undrain(make_config, start):
    server = start(make_config({"cdn": CDN, "api": API, "solo": SOLO}))
    endpoints(server, "set", "cdn[eu]", "central-4=50", "--reason", "mine", "--for", "2h")
    done = endpoints(server, "drain", "central-4", "--dry-run", status=3)
    assert "api.example.com.: 1 weight would be drained" in done.stdout and len(overrides(server)) == 1
    done = endpoints(server, "drain", "central-4", "--reason", "power", status=3)
    check_columns(done.stdout)
    flat = " ".join(done.stdout.split())
    assert "solo.example.com.: SKIPPED, in global nothing else has a weight for A from level 1 on" in flat
    assert "us-ca nothing else has a weight" in flat  # central-5 has weight 0 there
    assert "1 domain drained" in flat and "2 domains skipped" in flat
    assert weights(server, name="api") == {"central-4": 0, "edge-1": 1}
    assert weights(server, "eu")["central-4"] == 50

    endpoints(server, "set", "cdn[us-ca]", "central-5=1")
    assert "2 domains drained" in endpoints(server, "drain", "central-4", status=3).stdout or \
        weights(server, "eu")["central-4"] == 0
    assert weights(server, "eu")["central-4"] == 0 and weights(server)["central-4"] == 0
    assert {o["cause"] for o in overrides(server) if o["endpoint"] == "central-4"} == {"drain:central-4"}

    endpoints(server, "set", "cdn[na]", "central-4=77", "--reason", "needed")
    done = endpoints(server, "undrain", "central-4")
    flat = " ".join(done.stdout.split())
    assert "kept: na level 1 central-4 at 77, set since by root" in flat and "2 domains restored" in flat
    assert weights(server, "na")["central-4"] == 77
    [mine] = [o for o in overrides(server) if o["region"] == "eu"]
    assert (mine["value"], mine["reason"], mine["cause"]) == (50, "mine", None) and mine["expires_at"] > 0
    assert weights(server)["central-4"] == 100 and weights(server, name="api") == {"central-4": 1, "edge-1": 1}
    assert "nothing is drained by" in endpoints(server, "undrain", "edge-*", status=1).stderr


def test_drain_by_pattern_zone_and_type(make_config, start):
    files = {"example.org/zone.yaml": sluicelib.ZONE, "example.org/api/domain.yaml": API}
    mixed = ("endpoints: {c7-1: [192.0.2.1, '2001:db8::1'], c7-2: 192.0.2.2, other: 192.0.2.3}\n"
             "regions: {global: {c7-1: 1, c7-2: 1, other: 1}}\n")
    server = start(make_config({"api": API, "mixed": mixed}, files=files))
    done = endpoints(server, "drain", "c7-*", status=1)  # no other endpoint has AAAA
    assert "SKIPPED, in global nothing else has a weight for AAAA" in " ".join(done.stdout.split())
    endpoints(server, "drain", "c7-2")
    endpoints(server, "drain", "central-*", "--zone", "example.org")
    assert weights(server, name="api.example.com")["central-4"] == 1
    assert weights(server, name="api.example.org")["central-4"] == 0
    document = json.loads(endpoints(server, "undrain", "central-*", "--json").stdout)
    assert [(d["domain"], d["status"]) for d in document["domains"] if d["status"] == "done"] == [
        ("api.example.org.", "done")]
    assert "did you mean central-4?" in refused_plain(server, "drain", "centrl-4")
    for pattern in ("", "[a", "x\\"):
        endpoints(server, "drain", pattern, status=2)
    assert "not served" in refused_plain(server, "drain", "central-4", "--zone", "nowhere.test")


def refused_plain(server, *args):
    done = endpoints(server, *args, status=1)
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_drain_twice_is_undone_once(server):
    endpoints(server, "set", "cdn[us-ca]", "central-5=1")
    endpoints(server, "drain", "central-4")
    endpoints(server, "drain", "central-4")
    endpoints(server, "undrain", "central-4")
    assert weights(server)["central-4"] == 100 and weights(server, "us-ca")["central-4"] == 1
    assert [o["region"] for o in overrides(server)] == ["us-ca"]


# ---- history -----------------------------------------------------------------------------------------


def test_history(server, monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 5555 192.0.2.8 22")
    endpoints(server, "set", "cdn[eu]", "central-4=5", "--reason", "canary", "--for", "2h")
    monkeypatch.setenv("SLUICE_ORIGIN", "chat #ops")
    endpoints(server, "disable", "api", "edge-1")
    out = endpoints(server, "history").stdout
    check_columns(out)
    assert re.search(r"^20\S+ \S+ UTC set cdn.example.com. by root \(ssh 192.0.2.7\)\n    canary\n    until 20", out, re.M)
    assert "eu level 1: central-4 1 -> 5" in out and "disable api.example.com. by root (chat #ops)" in out
    assert out.index("disable api") < out.index("set cdn")
    assert "api" not in endpoints(server, "history", "cdn").stdout
    rows = json.loads(endpoints(server, "history", "--limit", "1", "--json").stdout)["history"]
    assert [r["domain"] for r in rows] == ["api.example.com."]
    endpoints(server, "history", "--limit", "0", status=2)


# ---- exposure ----------------------------------------------------------------------------------------


def test_exposure(server):
    for i in range(40):
        server.ask("cdn.example.com.", ecs=f"203.0.113.{i}/32" if i < 30 else f"198.51.{i}.0/24", tcp=True)
        server.ask("cdn.example.com.", "AAAA", ecs="203.0.113.7/32", tcp=True)
    endpoints(server, "set", "cdn[global]", "central-4=3", "central-5=1")
    healthlib.wait_for(lambda: json.loads(endpoints(server, "exposure", "cdn", "--json").stdout)["exposure"]["answers"] == 80,
                       "80 answers")
    document = json.loads(endpoints(server, "exposure", "cdn", "--json").stdout)["exposure"]
    [region] = [r for r in document["regions"] if r["region"] == "global"]
    by_name = {e["endpoint"]: e for e in region["endpoints"]}
    assert by_name["central-4"]["answers"] == 80 and by_name["central-4"]["expected"] == {"A": 0.75, "AAAA": 0.75}
    out = endpoints(server, "exposure", "cdn").stdout
    check_columns(out)
    assert "80 answers in the last" in out and "moves" in out
    assert re.search(r"^  central-4 +80 +100%  75%$", out, re.M) and re.search(r"^  central-5 +0 +0%  25%$", out, re.M)
    assert json.loads(endpoints(server, "exposure", "cdn", "--format", "slack").stdout)["blocks"]
    assert "did you mean" in refused(server, "exposure", "cnd")
    assert "0 answers" in endpoints(server, "exposure", "api").stdout
