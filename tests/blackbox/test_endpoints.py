# SPDX-License-Identifier: Apache-2.0
"""`sluice endpoints` with a real server: every command, its refusals, and what then is answered."""
import concurrent.futures
import fcntl
import json
import os
import pathlib
import pty
import random
import re
import signal
import struct
import subprocess
import termios
import threading

import pytest

import healthlib
import sluicelib
import toollib

CDN = """\
ttl: 30
owner: streaming
endpoints:
  central-4: [192.0.2.4, "2001:db8::4"]
  central-5: [192.0.2.5, "2001:db8::5"]
  legacy: 192.0.2.9
regions:
  global:
    - {central-4: 100, central-5: 0, legacy: 0}
    - {central-5: 100}
  eu: {central-4: 1, central-5: 1}
  us-ny: {central-5: 1, central-4: 0}
  us-ca: {central-4: 1, central-5: 0}
  na: {central-5: 3, central-4: 1}
profiles:
  canary: {central-4: 95, central-5: 5}
"""
API = """\
endpoints: {central-4: 192.0.2.4, edge-1: 192.0.2.11}
regions: {global: {central-4: 1, edge-1: 1}}
"""
SOLO = "endpoints: {central-4: 192.0.2.4}\nregions: {global: {central-4: 1}}\n"
NAMES = {"office": "[192.0.2.0/24]"}


@pytest.fixture
def server(make_config, start):
    return start(make_config({"cdn": CDN, "api": API}))


def endpoints(server, *args, **options):
    return server.sluice("endpoints", *args, **options)


def refused(server, *args, status=1):
    """The one line of a command that changes nothing."""
    before = overrides(server)
    done = endpoints(server, *args, status=status)
    assert done.stderr.startswith("sluice: ") and done.stderr.count("\n") == 1, done.stderr
    assert overrides(server) == before
    return done.stderr


def overrides(server):
    return sluicelib.control(server.control, "domain", domain="cdn.example.com.")["domain"]["overrides"]


def get(server, *names):
    return json.loads(endpoints(server, "get", *names, "--json").stdout)["domains"]


def weights(server, region="global", level=1, name="cdn"):
    [domain] = get(server, f"{name}[{region}]")
    return {e["endpoint"]: e["weight"] for e in domain["regions"][0]["levels"][level - 1]["endpoints"]}


def answered(server, client="192.0.2.1", name="cdn"):
    text = server.sluice("explain", name, "--client", client, "--json").stdout
    return {a["endpoint"]: a["probability"] for a in json.loads(text)["answers"]}


def check_columns(text):
    for line in text.splitlines():
        assert len(line) <= 80, line


# ---- get -----------------------------------------------------------------------------------------


def test_get(server):
    out = endpoints(server, "get", "cdn").stdout
    check_columns(out)
    for part in ("cdn.example.com.", "TTL 30 s", "owner streaming", "A, AAAA", "global", "us-ny", "cache fills"):
        assert part in out
    assert re.search(r"^  1  central-4 +100 +100% +unchecked$", out, re.M)
    assert "overrides" not in out


def test_get_json(server):
    [cdn] = get(server, "cdn.example.com.")
    assert (cdn["domain"], cdn["zone"], cdn["owner"], cdn["ttl"]) == (
        "cdn.example.com.", "example.com.", "streaming", 30)
    assert [r["region"] for r in cdn["regions"]] == ["global", "eu", "us-ny", "us-ca", "na"]
    first = cdn["regions"][0]["levels"][0]["endpoints"]
    assert first[0]["share"] == {"A": 1.0, "AAAA": 1.0} and first[2]["share"] == {"A": 0.0}
    assert first[0]["eligible"] == {"A": True, "AAAA": True} and first[1]["eligible"] == {"A": False, "AAAA": False}
    assert cdn["regions"][0]["now"] == {"A": {"level": 1, "fallback": False}, "AAAA": {"level": 1, "fallback": False}}


def test_names_relative_and_absolute(server):
    for name in ("cdn", "cdn.example.com", "cdn.example.com.", "CDN.Example.Com"):
        assert get(server, name)[0]["domain"] == "cdn.example.com."
    assert len(get(server)) == 2 and len(get(server, "cdn[eu]", "api")) == 2


def test_unknown_names_get_a_hint(server):
    assert "cdn.example.com." in refused(server, "get", "cnd")
    assert "did you mean" in refused(server, "get", "cnd")
    assert "not a steered name" in refused(server, "get", "www.elsewhere.")
    assert "the regions are: global, eu, us-ny" in refused(server, "get", "cdn[ue]")
    assert "did you mean central-4?" in refused(server, "set", "cdn", "cental-4=1")
    assert "did you mean central-4?" in refused(server, "disable", "cdn", "centrl-4")
    assert "did you mean canary?" in refused(server, "set", "cdn", "canari")
    assert "did you mean mostly?" in refused(server, "set", "cdn", "mosty[central-4]")
    assert "central-4=WEIGHT" in refused(server, "set", "cdn", "central-4")


def test_health_and_status_and_why(server):
    server.sluice("health", "override", "cdn", "central-4", "down", "--family", "6")
    endpoints(server, "disable", "cdn", "legacy", "--reason", "disk", "--for", "2h")
    out = endpoints(server, "get", "cdn[global]").stdout
    check_columns(out)
    assert re.search(r"central-4 +100 +100% A +IPv6 down", out) and re.search(r"\n +0% AAAA +100%\n", out)
    assert re.search(r"legacy +0 +0% +disabled", out) or re.search(r"legacy +0 +0% A +disabled", out)
    flat = " ".join(out.split())
    assert "central-4 is down for IPv6" in flat and "forced by hand" in flat
    assert "legacy: disabled by root" in flat and "until 20" in flat and "UTC: disk" in flat
    [cdn] = get(server, "cdn[global]")
    one = cdn["endpoints"][0]
    assert one["health"]["6"] == {"state": "down", "measured": "unknown", "checked": False, "forced": True,
                                  "since": None, "why": None}
    [legacy] = [e for e in cdn["endpoints"] if e["endpoint"] == "legacy"]
    assert not legacy["enabled"] and legacy["configured_enabled"] and legacy["manual"]["reason"] == "disk"
    assert cdn["regions"][0]["now"]["AAAA"]["level"] == 2


def test_b92_probe_errors_and_a_lost_checker(make_config, start, tmp_path):
    port = sluicelib.Port()
    data = sluicelib.build(make_config({"cdn": healthlib.levels(port.number, "good: 127.0.0.21", "bad: 127.0.0.22")}),
                           tmp_path / "data")
    with healthlib.Endpoint("127.0.0.21", port.number), healthlib.Healthd(data) as healthd:
        healthd.wait_states(**{"127.0.0.21": "up", "127.0.0.22": "down"})
        server = start(data, "--health", healthd.feed)
        healthlib.wait_for(lambda: get(server, "cdn")[0]["endpoints"][1]["health"]["4"]["state"] == "down", "a verdict")
        out = endpoints(server, "get", "cdn").stdout
        check_columns(out)
        assert re.search(r"good +\d+ +100% .*up, \d+ ", out) or re.search(r"good +\d+ +100% +up", out)
        assert re.search(r"bad +\d+ +0% .*down, \d+ ", out)
        assert re.search(r"bad is down since 20\S+ \S+ UTC: connect refused", " ".join(out.split()))
        assert "HEALTH IS" not in out
        healthd.stop()
        healthlib.wait_for(lambda: not get(server, "cdn")[0]["health"]["connected"], "the loss")
        out = endpoints(server, "get", "cdn").stdout
        check_columns(out)
        assert re.search(r"HEALTH IS OLD: the checker is lost, last heard \d+ s ago", out) and "bad is down" in out
    port.close()


def test_fallback_is_told(server):
    for endpoint in ("central-4", "central-5"):
        server.sluice("health", "override", "cdn", endpoint, "down")
    out = endpoints(server, "get", "cdn[eu]").stdout
    assert "FALLBACK" in out and re.search(r"central-4 +1 +50% +down", out)


def test_disabled_in_the_configuration(make_config, start):
    server = start(make_config({"cdn": "endpoints: {a: 192.0.2.1, b: {addresses: 192.0.2.2, enabled: false}}\n"
                                       "regions: {global: {a: 1, b: 1}}\n"}))
    assert "b is disabled by `enabled: false`" in " ".join(endpoints(server, "get", "cdn").stdout.split())
    endpoints(server, "enable", "cdn", "b")
    out = endpoints(server, "get", "cdn").stdout
    assert "b: enabled" in out and re.search(r"b +1 +50% +50% +unchecked|b +1 +50% +0% +unchecked", out)


def test_host_names_wildcards_and_the_apex(make_config, start):
    hosts = "endpoints: {a: a.example.net, b: b.example.net}\nregions: {global: {a: 1, b: 1}}\n"
    server = start(make_config({"app": hosts, "_wildcard.x": API, "@": API}))
    out = endpoints(server, "set", "app", "a=3", "b=1").stdout
    assert "CNAME; TTL" in out and re.search(r"^  1  a +3 +75% +50% +unchecked$", out, re.M)
    assert get(server, "*.x[global]")[0]["domain"] == "*.x.example.com."
    endpoints(server, "set", "example.com", "edge-1=4")
    assert weights(server, name="example.com.") == {"central-4": 1, "edge-1": 4}
    endpoints(server, "drain", "a")
    assert answered(server, name="app") == {"b": 1}


def test_long_names_wrap(make_config, start):
    name, region = "e" * 63, "r" * 63
    text = (f"endpoints: {{{name}: 192.0.2.1, b: '2001:db8::1', c: [192.0.2.3, '2001:db8::3']}}\n"
            f"regions: {{global: {{{name}: 1, b: 1, c: 65535}}, {region}: {{{name}: 7, c: 9}}}}\n")
    label = "x" * 63
    server = start(make_config({label: text}, defaults=f"default_zone: example.com\nregions: {{{region}: [eu]}}\n"))
    endpoints(server, "set", label, f"{name}=65535", "--reason", "some words " * 20, "--for", "2h")
    server.sluice("health", "override", label, "c", "down", "--family", "6")
    for command in (["get", label], ["history"], ["profiles", label], ["reset", label], ["drain", name, "--dry-run"]):
        check_columns(endpoints(server, *command).stdout)


def test_b92_zero_one_and_many_endpoints(make_config, start):
    many = {f"e{i}": f"10.0.{i // 250}.{i % 250 + 1}" for i in range(200)}
    level = "{" + ", ".join(f"{e}: {i}" for i, e in enumerate(many)) + "}"
    text = "endpoints:\n" + "".join(f"  {e}: {a}\n" for e, a in many.items()) + f"regions: {{global: {level}, eu: {level}}}\n"
    server = start(make_config({"many": text, "solo": SOLO}))
    assert len(get(server, "many")[0]["regions"][0]["levels"][0]["endpoints"]) == 200
    assert len(get(server, "solo")[0]["endpoints"]) == 1
    out = endpoints(server, "set", "many", "even", "--reason", "all").stdout
    check_columns(out)
    assert set(weights(server, "eu", name="many").values()) == {1}
    json.loads(endpoints(server, "history", "--json").stdout)
    blocks = json.loads(endpoints(server, "get", "--format", "slack").stdout)["blocks"]
    assert len(blocks) <= 50 and all(len(b["text"]["text"]) <= 3000 for b in blocks if b["type"] == "section")

    empty = start(make_config(name="empty"))
    assert get(empty) == []
    assert endpoints(empty, "get").stdout == "no steered names\n"
    assert json.loads(endpoints(empty, "profiles", "--json").stdout)["configured"] == []
    assert json.loads(endpoints(empty, "history", "--json").stdout) == {"history": []}


def test_b92_texts_of_all_kinds(server):
    reason = 'größer "than" \\ <b>&amp; `x` \u2603'
    endpoints(server, "set", "cdn", "central-4=1", "--reason", reason)
    [cdn] = get(server, "cdn")
    assert {o["reason"] for o in cdn["overrides"]} == {reason}
    assert reason in " ".join(endpoints(server, "get", "cdn").stdout.split())
    slack = json.loads(endpoints(server, "get", "cdn", "--format", "slack").stdout)
    text = "".join(b["text"]["text"] for b in slack["blocks"])
    assert "&lt;b&gt;&amp;amp; 'x'" in " ".join(text.split())
    assert "UTF-8" in refused(server, "set", "cdn", "central-4=2", "--reason", b"\xff".decode(errors="surrogateescape"),
                              status=2)
    refused(server, "set", "cdn", "central-4=2", "--reason", "x" * 2000, status=2)


def test_b92_a_closed_pipe(server):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run([sluicelib.program("sluice"), "endpoints", "get", "--json", "--socket", server.control],
                              stdout=pipe, stderr=subprocess.PIPE, text=True, env=sluicelib.environment(),
                              timeout=sluicelib.DEADLINE)
    assert done.returncode == 1 and "cannot write" in done.stderr
    assert not sluicelib.SANITIZER.search(done.stderr)


def test_colour_only_on_a_terminal(server):
    endpoints(server, "disable", "cdn", "central-5")

    def on_terminal(**more):
        env = {k: v for k, v in sluicelib.environment().items() if k != "NO_COLOR"}
        ours, theirs = pty.openpty()
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        done = subprocess.run([sluicelib.program("sluice"), "endpoints", "get", "cdn", "--socket", server.control],
                              stdout=theirs, env={**env, **more}, timeout=sluicelib.DEADLINE, check=True)
        os.close(theirs)
        out = b""
        try:
            while part := os.read(ours, 65536):
                out += part
        except OSError:
            pass
        os.close(ours)
        assert done.returncode == 0
        return out

    assert b"\x1b[33mdisabled\x1b[0m" in on_terminal()
    assert b"\x1b" not in on_terminal(NO_COLOR="1")
    assert "\x1b" not in endpoints(server, "get", "cdn").stdout


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
    end = [o["expires_at"] for o in overrides(server)]
    assert len(end) == 1 and end[0] > 0
    server.wait_log(r"expire")
    assert weights(server, "eu") == {"central-4": 1, "central-5": 1}  # the configuration's, not 8
    rows = json.loads(endpoints(server, "history", "cdn", "--json").stdout)["history"]
    assert [r["command"] for r in rows] == ["expire", "set", "set"]
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
        server.ask("cdn.example.com.", ecs=f"203.0.113.{i}/32" if i < 30 else f"198.51.{i}.0/24")
        server.ask("cdn.example.com.", "AAAA", ecs="203.0.113.7/32")
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


# ---- servers that do not run, hang or die ---------------------------------------------------------------


def offline(tmp_path, make_config, server=None):
    """A settings file whose server does not run, and a function that runs `endpoints` with it."""
    data = tmp_path / "offline"
    sluicelib.build(make_config({"cdn": CDN, "api": API}), data)
    state = tmp_path / "state"
    state.mkdir(exist_ok=True)
    settings = tmp_path / "sluice.yaml"
    settings.write_text(f"control: {tmp_path}/none.sock\nstate: {state}\ndata: {data}\n", encoding="utf-8")
    return data, state, lambda *args, status: sluicelib.sluice("endpoints", *args, "-c", settings, status=status)


def test_without_a_server(tmp_path, make_config, start):
    data, state, run = offline(tmp_path, make_config)
    done = run("set", "cdn[eu]", "central-4=9", "--reason", "early", status=3)
    assert "saved, but the server is not running" in done.stderr
    assert "NO SERVER runs" in done.stdout and re.search(r"central-4 +9 +90% +50%", done.stdout)
    run("disable", "cdn.example.com", "legacy", status=3)
    run("drain", "edge-*", status=3)
    run("undrain", "edge-*", status=3)
    run("reset", "cdn[na]", status=0)  # nothing to do
    assert "cdn.example.com." in run("get", "cnd", status=1).stderr
    assert json.loads(run("get", "cdn", "--json", status=3).stdout)["domains"][0]["serving"] is False
    assert len(json.loads(run("history", "--json", status=0).stdout)["history"]) == 4
    assert "canary" in run("profiles", status=0).stdout
    server = start(data, "--state", state)
    assert weights(server, "eu") == {"central-4": 9, "central-5": 1}
    rows = json.loads(endpoints(server, "history", "cdn", "--json").stdout)["history"]
    assert [(r["command"], r["who"]) for r in rows] == [("disable", "root"), ("set", "root")]


def test_the_store_of_another_server_is_left_alone(tmp_path, make_config, monkeypatch):
    """Who names a socket means that server: the settings' store counts only if they are its own."""
    _, state, _ = offline(tmp_path, make_config)
    for variable in (None, "there"):
        if variable:
            monkeypatch.setenv("SLUICE_SOCKET", str(tmp_path / "mistyped"))
        args = [] if variable else ["--socket", tmp_path / "mistyped"]
        done = sluicelib.sluice("endpoints", "set", "cdn.example.com.", "central-4=1", *args, status=1)
        assert "no server listens at" in done.stderr
    assert not (state / "store.db").exists()


def test_without_a_server_and_settings(tmp_path):
    for args in (["get", "cdn"], ["set", "cdn.example.com.", "a=1"], ["drain", "a"], ["history"]):
        done = sluicelib.sluice("endpoints", *args, "--socket", tmp_path / "none", status=1)
        assert "no server listens at" in done.stderr and "--socket" in done.stderr and done.stderr.count("\n") == 1


def test_a_broken_settings_file(tmp_path, server):
    """It stops nobody who names the socket."""
    settings = tmp_path / "broken.yaml"
    settings.write_text("control: [\n", encoding="utf-8")
    endpoints(server, "get", "cdn", "-c", settings)
    done = sluicelib.sluice("endpoints", "get", "cdn", "-c", settings, status=1)
    assert "broken.yaml:2:" in done.stderr or "broken.yaml:1:" in done.stderr
    settings.write_text(f"control: {server.control}\n", encoding="utf-8")
    sluicelib.sluice("endpoints", "get", "cdn", "-c", settings)


def test_a_commit_without_an_answer_is_not_called_failed(tmp_path):
    """The connection is lost after the request: sent again with the same id, then told as unknown."""
    ids = []

    def answer(request):
        if request["command"] == "commit":
            ids.append(request["request"])
            return b""
        steer = {"owner": "cdn.example.", "ttl": 30, "answers": 1, "draw_per": "query", "types": ["A"],
                 "endpoints": [{"name": "a", "enabled": True, "addresses": ["192.0.2.1"]}],
                 "regions": [{"name": "global", "atoms": ["global"], "levels": [[["a", 1]]]}]}
        return {"ok": True, "data": "/x", "health": {},
                "domain": {"name": "cdn.example.", "revision": 1, "steer": steer, "overrides": [], "health": []}}

    with toollib.FakeServer(tmp_path / "s", answer) as server:
        done = sluicelib.sluice("endpoints", "set", "cdn.example.", "a=2", "--socket", server.path, status=1)
    assert "it is not known whether cdn.example. was changed" in done.stderr and done.stderr.count("\n") == 1
    assert len(ids) == 2 and ids[0] == ids[1]


def test_a_server_that_hangs(make_config, start, tmp_path):
    """At once: one that says nothing at all, and one that is silent after a commit."""
    server = start(make_config({"cdn": CDN}))
    told = sluicelib.control(server.control, "domain", domain="cdn.example.com.")
    silence = threading.Event()

    def answer(request):
        if request["command"] == "commit":
            silence.wait(sluicelib.DEADLINE)
            return b""
        return told

    with toollib.FakeServer(tmp_path / "s", answer) as fake, concurrent.futures.ThreadPoolExecutor(2) as pool:
        server.signal(signal.SIGSTOP)
        try:
            runs = [pool.submit(sluicelib.sluice, "endpoints", "set", "cdn.example.com.", "central-4=2", "--socket", path,
                                status=1) for path in (server.control, fake.path)]
            stopped, silent = [run.result() for run in runs]
        finally:
            server.signal(signal.SIGCONT)
            silence.set()
    assert "does not answer" in stopped.stderr and stopped.stderr.count("\n") == 1
    assert "does not answer" in silent.stderr and silent.stderr.count("\n") == 1
    assert "it is not known whether cdn.example.com. was changed" in silent.stderr


@pytest.mark.parametrize("reply", [b"", b"{}\n", b"[]\n", b'{"ok": true}\n', b'{"ok": true, "domain": 1}\n',
                                   b'{"ok": true, "domain": {"name": "x.", "steer": {}}}\n',
                                   b'{"ok": true, "domains": 1}\n', b'{"ok": true, "history": {}}\n',
                                   b'{"ok": false, "error": "no", "code": 1}\n'])
def test_nonsense_from_the_server(tmp_path, reply):
    with toollib.FakeServer(tmp_path / "s", lambda request: reply) as server:
        for args in (["get", "x."], ["get"], ["set", "x.", "a=1"], ["drain", "a"], ["history"], ["profiles", "x."],
                     ["profiles"], ["exposure", "x."], ["reset", "x."], ["disable", "x.", "a"]):
            done = sluicelib.sluice("endpoints", *args, "--socket", server.path, status=1)
            assert done.stderr.startswith("sluice: ") and done.stderr.count("\n") == 1, done.stderr


def test_killed_at_any_moment(make_config, start, tmp_path):
    """kill -9 of the command or of the server: what was acknowledged is there, what failed is not, and
    what is not known is whole or absent; history and state agree.  $SLUICE_KILLS: how many times."""
    rng = random.Random(3)
    server = start(make_config({"cdn": CDN}), "--state", tmp_path / "state")
    before = 1
    for i in range(int(os.environ.get("SLUICE_KILLS", "18"))):
        weight = 100 + i
        proc = subprocess.Popen([sluicelib.program("sluice"), "endpoints", "set", "cdn.example.com.[eu]", "--socket",
                                 str(server.control), "--json", f"central-4={weight}", f"central-5={weight}"],
                                env=sluicelib.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            proc.wait(rng.random() * 0.2)
        except subprocess.TimeoutExpired:
            pass
        if i % 3 == 1:
            proc.kill()
        elif i % 3 == 2:
            server.kill()
        error = proc.communicate(timeout=sluicelib.DEADLINE)[1]
        if i % 3 == 2:
            server = start(server.data, "--state", tmp_path / "state")
        now = set(weights(server, "eu").values())
        assert now in ({before}, {weight}), now
        if proc.returncode in (0, 3):
            assert now == {weight}
        elif proc.returncode == 1 and "it is not known" not in error:
            assert now == {before}
        before = now.pop()
        rows = json.loads(endpoints(server, "history", "cdn", "--json").stdout)["history"]
        assert (rows[0]["what"]["changes"][0]["new"] if rows else 1) == before


def test_endpoints_under_its_own_name(server, tmp_path):
    link = pathlib.Path(tmp_path / "endpoints")
    link.symlink_to(sluicelib.program("sluice"))
    done = sluicelib.run(link, "get", "cdn", "--socket", server.control)
    assert done.returncode == 0 and done.stdout.startswith("cdn.example.com.")
    assert "did you mean get?" in sluicelib.run(link, "gte").stderr


# ---- B62, B65: what get says is what is answered ---------------------------------------------------------


def test_b62_shares_are_of_one_level(make_config, start):
    text = ("endpoints: {a: 192.0.2.1, b: 192.0.2.2, c: 192.0.2.3, d: 192.0.2.4, e: 192.0.2.5, f: 192.0.2.6}\n"
            "regions: {global: [{a: 1, b: 1}, {c: 1, d: 1}, {e: 1, f: 1}]}\n")
    server = start(make_config({"cdn": text}))
    for down, level in ((), 1), (("a",), 1), (("b",), 2), (("c", "d"), 3), (("e", "f"), 1):
        for endpoint in down:
            server.sluice("health", "override", "cdn", endpoint, "down")
        [region] = get(server, "cdn")[0]["regions"]
        shares = {e["endpoint"]: e["share"]["A"] for lv in region["levels"] for e in lv["endpoints"] if e["share"]["A"]}
        assert region["now"]["A"] == {"level": level, "fallback": bool(down == ("e", "f"))}
        assert shares == answered(server) and sum(shares.values()) == pytest.approx(1)


def test_b65_shares_sum_to_one(make_config, start):
    for i, level in enumerate(("{a: 15, b: 15, c: 35, d: 35}", "{a: 1, b: 1, c: 1}", "{a: 1, b: 65535}")):
        text = ("endpoints: {a: 192.0.2.1, b: 192.0.2.2, c: 192.0.2.3, d: 192.0.2.4}\n"
                f"regions: {{global: {level}}}\n")
        server = start(make_config({"cdn": text}, name=f"config{i}"))
        [region] = get(server, "cdn")[0]["regions"]
        assert sum(e["share"]["A"] for e in region["levels"][0]["endpoints"]) == pytest.approx(1, abs=1e-12)
        out = endpoints(server, "get", "cdn").stdout
        assert "0%" not in re.findall(r"\b\d+%", out) or level == "{a: 1, b: 65535}"
        if level == "{a: 1, b: 65535}":
            assert "<0.1%" in out and ">99.9%" in out
