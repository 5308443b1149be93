# SPDX-License-Identifier: Apache-2.0
"""`sluice endpoints get`: what is shown of a domain, and that it is what is answered."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

import healthlib
import sluicelib
from endpointslib import API, SOLO, answered, check_columns, endpoints, get, refused, server, weights  # noqa: F401


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
