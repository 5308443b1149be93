# SPDX-License-Identifier: Apache-2.0
"""The command line of `sluice` without a server: help, errors, exit statuses, `check`, `explain`."""
import json
import os
import subprocess

import pytest

import sluicelib
import toollib
from toollib import fails

COMMANDS = ["check", "build", "explain", "endpoints", "sync", "health", "hook", "deploys", "rollback", "follow", "status",
            "reload", "stop"]
HELPS = [[c] for c in COMMANDS] + [["sync", c] for c in ("plan", "apply", "drift")] + [["hook", c] for c in ("install", "pre-receive", "post-receive")] + [["endpoints", c] for c in (
    "get", "set", "profiles", "reset", "enable", "disable", "drain", "undrain", "history", "exposure")] + [["health", "override"]]


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
