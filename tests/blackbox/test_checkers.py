# SPDX-License-Identifier: Apache-2.0
"""dnsviz and zonemaster-cli look at the example zones (undelegated, name servers given) and find no error.

They ask port 53, so everything runs in a network namespace of its own."""
import collections
import json
import os
import subprocess
import sys

import pytest

import sluicelib
from checkers_network import ROOT_SERVER, SERVERS, ZONES

# What zonemaster calls an error or a warning here, and why no answer of ours can change that.
ALLOWED = {
    "NAMESERVER_IP_PRIVATE_NETWORK": "the name servers have addresses for documentation, on loopback",
    "NAMESERVER_IP_WITHOUT_REVERSE": "the root zone of this test has no reverse tree",
    "NO_RESPONSE_PTR_QUERY": "the root zone of this test has no reverse tree",
}
NAMES = {
    "tm.example.com": ["tm.example.com", "www.tm.example.com", "cdn.tm.example.com", "app.tm.example.com",
                       "api.tm.example.com", "player.tm.example.com", "docs.tm.example.com", "any.dev.tm.example.com"],
    "example.org": ["example.org", "www.example.org", "_sip._tcp.example.org"],
}


def in_network(folder, commands):
    """Runs commands where the example zones are served; returns their results."""
    (folder / "hints").write_text(f". 3600 IN NS a.root-servers.net.\na.root-servers.net. 3600 IN A {ROOT_SERVER}\n")
    (folder / "commands").write_text(json.dumps(commands))
    argv = ["unshare", "--net"] + (["--user", "--map-root-user"] if os.getuid() else [])
    argv += [sys.executable, str(sluicelib.REPO / "tests/blackbox/checkers_network.py"), str(folder),
             str(folder / "commands")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, env=sluicelib.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("zone", ZONES)
def test_zonemaster(zone, tmp_path):
    pairs = [f"{name}/{address}" for name, both in SERVERS.items() for address in both]
    command = ["zonemaster-cli", "--hints", "hints", "--level", "INFO", "--json", "--raw", "--no-progress"]
    command += [word for pair in pairs for word in ("--ns", pair)] + [zone]
    (done,) = in_network(tmp_path, [command])
    assert done["status"] == 0, done
    found = json.loads(done["stdout"])
    entries = found["results"] if isinstance(found, dict) else found
    bad = [e for e in entries if e["level"] in ("WARNING", "ERROR", "CRITICAL") and e["tag"] not in ALLOWED]
    assert not bad, "\n".join(map(str, bad))
    tags = collections.Counter(e["tag"] for e in entries)
    # It has looked: each name server was seen, and the addresses of documentation were noticed.
    assert tags["NAMESERVER_IP_PRIVATE_NETWORK"] == len(pairs), tags
    modules = {e["module"].upper() for e in entries}
    assert {"ADDRESS", "BASIC", "CONSISTENCY", "DELEGATION", "NAMESERVER", "SYNTAX", "ZONE"} <= modules, modules


def statuses(tree, path=()):
    """Every (path, value) of `key` in what dnsviz says."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield path + (key,), value
            yield from statuses(value, path + (key,))
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            yield from statuses(value, path + (i,))


@pytest.mark.parametrize("zone", ZONES)
def test_dnsviz(zone, tmp_path):
    servers = ",".join(f"{name}={f'[{a}]' if ':' in a else a}" for name, both in SERVERS.items() for a in both)
    commands = [
        ["dnsviz", "probe", "-A", "-E", "-n", "-x", f"{zone}+:{servers}", "-o", "probe.json", *NAMES[zone]],
        ["dnsviz", "grok", "-l", "warning", "-r", "probe.json"],
        ["dnsviz", "grok", "-l", "info", "-r", "probe.json"],
    ]
    probe, grok, everything = in_network(tmp_path, commands)
    assert probe["status"] == grok["status"] == everything["status"] == 0, (probe, grok)
    assert grok["stdout"].strip() in ("", "{}"), grok["stdout"]  # neither errors nor warnings
    # It has looked: each name is there, and each server has answered.
    seen = json.loads(everything["stdout"])
    assert {name + "." for name in NAMES[zone]} <= set(seen)
    found = {value for path, value in statuses(seen) if path[-1] == "status" and len(path) == 2}
    assert found == {"NOERROR"}
    addresses = {path[-1] for path, _ in statuses(seen) if path[-2:-1] == ("servers",)}
    assert addresses == {a for both in SERVERS.values() for a in both}
