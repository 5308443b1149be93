# SPDX-License-Identifier: Apache-2.0
"""`sluice sync`: our own server as a provider, and what all providers have in common."""
import json

import pytest

import sluicelib
import toollib

CONFIG_ZONE = sluicelib.ZONE + "providers: [sluice]\n"


def config(tmp_path, domain=toollib.DOMAIN, records="www: {A: [192.0.2.80]}\n", zone=CONFIG_ZONE, defaults=""):
    files = sluicelib.config_files({"cdn": domain}, zone_yaml=zone, records=records, defaults=defaults)
    return sluicelib.write_tree(tmp_path / "config", files)


def sync(server, command, folder, *options, status=0):
    done = server.sluice("sync", command, "--config", folder, "--json", *options, status=status)
    return json.loads(done.stdout)


@pytest.fixture
def served(tmp_path):
    folder = config(tmp_path)
    data = sluicelib.build(folder, tmp_path / "data")
    with sluicelib.Server(data) as server:
        yield folder, server


def test_the_own_server_is_in_sync(served):
    folder, server = served
    out = sync(server, "drift", folder)
    assert out["v"] == 1 and out["kind"] == "drift" and out["items"] == [] and out["errors"] == []
    assert out["providers"][0]["equal"] == 3  # cdn, NS, www
    fidelity = out["providers"][0]["domains"]["cdn.example.com."]["fidelity"]
    assert {layer["grade"] for layer in fidelity.values()} == {"exact"}
    assert server.sluice("sync", "drift", "--config", folder).stdout.endswith("All in sync.\n")
    assert "nothing to do" in server.sluice("sync", "apply", "--config", folder, "--yes").stdout


def test_drift_of_the_own_server(served, tmp_path):
    folder, server = served
    config(tmp_path, toollib.DOMAIN.replace("one: 3", "one: 1"), "www: {A: [192.0.2.81]}\n")
    out = sync(server, "drift", folder, status=3)
    assert [(i["op"], i["key"]) for i in out["items"]] == [
        ("update", "cdn.example.com./STEER"), ("update", "www.example.com./A")]
    assert out["items"][1]["old"]["values"] == ["192.0.2.80"]
    assert out["items"][1]["new"]["values"] == ["192.0.2.81"]
    shares = out["providers"][0]["domains"]["cdn.example.com."]
    assert shares["before"]["global"] == {"one": 0.75, "two": 0.25}
    assert shares["after"]["global"] == {"one": 0.5, "two": 0.5}
    text = server.sluice("sync", "drift", "--config", folder, status=3).stdout
    assert "global           one                   50.0 %  sluice 75.0 %" in text
    # It changes by deploys only.
    done = server.sluice("sync", "apply", "--config", folder, "--yes", status=3)
    assert "held back: comes by a deploy" in done.stdout
    sluicelib.build(folder, server.data)
    # Built, but not served yet.
    out = sync(server, "drift", folder, status=1)
    assert "run `sluice reload`" in out["errors"][0]["error"]
    server.reload()
    assert sync(server, "drift", folder)["items"] == []


def test_many_zones_are_read_by_several_at_once(tmp_path):
    """The results stay in the order of the zones, and one that fails is alone."""
    zones = [f"z{i:02}.example" for i in range(20)]
    files = {f"{zone}/zone.yaml": CONFIG_ZONE for zone in zones}
    folder = sluicelib.write_tree(tmp_path / "config", files)
    with sluicelib.Server(sluicelib.build(folder, tmp_path / "data")) as server:
        out = sync(server, "drift", folder)
        assert [p["zone"] for p in out["providers"]] == [z + "." for z in zones]
        assert {p["state"] for p in out["providers"]} == {"planned"} and not out["errors"]
        sluicelib.write_tree(folder, {"new.example/zone.yaml": CONFIG_ZONE})
        out = sync(server, "drift", folder, status=3)
        assert [e["zone"] for e in out["errors"]] == ["new.example."] and len(out["providers"]) == 21


def test_digest(served):
    folder, server = served
    config(folder.parent, records="www: {A: [192.0.2.81]}\n")
    first = sync(server, "plan", folder, status=3)["digest"]
    assert first == sync(server, "plan", folder, status=3)["digest"] and len(first) == 64
    done = server.sluice("sync", "apply", "--config", folder, "--digest", "0" * 64, status=1)
    assert first in done.stderr and "nothing was changed" in done.stderr
    server.sluice("sync", "apply", "--config", folder, "--digest", first[:12], status=3)
    done = server.sluice("sync", "apply", "--config", folder, "--digest", first[:11], status=1)
    assert "nothing was changed" in done.stderr


def test_restricted_to_names(served, tmp_path):
    folder, server = served
    config(tmp_path, toollib.DOMAIN.replace("one: 3", "one: 1"), "www: {A: [192.0.2.81]}\n")
    for name in ("cdn", "cdn.example.com", "cdn.example.com."):
        assert [i["key"] for i in sync(server, "plan", folder, name, status=3)["items"]] == [
            "cdn.example.com./STEER"]
    assert len(sync(server, "plan", folder, "example.com", status=3)["items"]) == 2


def test_wrong_usage(served):
    folder, server = served
    done = server.sluice("sync", "apply", "--config", folder, status=2)
    assert "--yes" in done.stderr
    server.sluice("sync", "plan", "--git", "x", status=2)
    done = server.sluice("sync", "plan", "nowhere.example.com", "--config", folder, status=1)
    assert "nowhere.example.com" in done.stderr
    done = server.sluice("sync", "plan", "--provider", "sluise", "--config", folder, status=1)
    assert "sluise" in done.stderr
    assert "sluice sync apply" in server.sluice("sync", "apply", "--help").stdout


def test_one_provider_that_fails_does_not_stop_the_others(tmp_path):
    zone = CONFIG_ZONE.replace("[sluice]", "[sluice, dns-x]")
    folder = config(tmp_path, zone=zone, defaults="default_zone: example.com\nproviders:\n"
                    "  dns-x: {type: ns1, secret: dns-x}\n")
    with sluicelib.Server(sluicelib.build(folder, tmp_path / "data")) as server:
        out = sync(server, "plan", folder, status=3)
        assert [e["provider"] for e in out["errors"]] == ["dns-x"]
        assert [p["state"] for p in out["providers"]] == ["planned", "failed"]
        assert "dns-x" in out["errors"][0]["error"]
        assert sync(server, "drift", folder, "--provider", "sluice")["errors"] == []


def test_without_a_server(tmp_path):
    folder = config(tmp_path)
    done = sluicelib.sluice("sync", "plan", "--config", folder, "--socket", tmp_path / "none", status=1)
    assert "no server listens" in done.stderr


def test_from_git_and_from_the_current_build(tmp_path):
    folder = config(tmp_path)
    for command in (["init", "-q", "-b", "main"], ["add", "."],
                    ["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "x"]):
        assert sluicelib.run("git", "-C", folder, *command).returncode == 0
    data = tmp_path / "data"
    sluicelib.sluice("build", "--git", folder, "--commit", "main", "--out", data)
    settings = tmp_path / "sluice.yaml"
    settings.write_text(f"data: {data}\ndeploy: {{repository: {folder}, branch: main}}\n", encoding="utf-8")
    with sluicelib.Server(data) as server:
        done = server.sluice("sync", "drift", "--git", folder, "--commit", "main", "--json")
        commit = json.loads(done.stdout)["git"]
        assert len(commit) == 40
        done = server.sluice("sync", "drift", "--settings", settings, "--json")
        assert json.loads(done.stdout)["git"] == commit
