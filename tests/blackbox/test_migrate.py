# SPDX-License-Identifier: Apache-2.0
"""`sluice sync migrate`: a zone moves between real servers, with real resolvers asked all the time.

Each test is a scenario of migrate_network.py, in a network of its own where all servers are on port 53.
Not one lookup may fail, and every answer must be of the model (providers.md section 3, complaint C39).
"""
import os
import subprocess
import sys

import pytest

import sluicelib


def run(tmp_path, scenario, *words):
    argv = ["unshare", "--net", "--mount"] + (["--user", "--map-root-user"] if os.getuid() else [])
    argv += [sys.executable, str(sluicelib.REPO / "tests/blackbox/migrate_network.py"), scenario, str(tmp_path), *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1800, env=sluicelib.environment(), check=False)
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


SCENARIOS = ["moves", "to_own", "from_own", "three_targets", "killed", "back", "back_and_forth", "strangers",
             "wrong_answers", "refusals"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_migrate(tmp_path, scenario):
    run(tmp_path, scenario)


# A few of the requests that a migration sends to PowerDNS (more are not reached in one run: the run
# ends at the first that fails), each with another fault.
@pytest.mark.parametrize("fault, first", [("refused", 1), ("500", 2), ("cut", 4), ("lost", 5), ("401", 8), ("lost", 11)])
def test_migrate_goes_on_after_a_fault(tmp_path, fault, first):
    run(tmp_path, "faults", fault, str(first))


def test_name_servers_of_a_provider_are_checked(tmp_path):
    for text in ("[a b]", "[]", "{a: b}", "192.0.2.53"):
        sluicelib.write_tree(tmp_path, {"defaults.yaml": f"providers: {{x: {{type: ns1, secret: s, ns: {text}}}}}\n"})
        done = sluicelib.sluice("check", tmp_path, status=1)
        assert "`ns`" in done.stdout + done.stderr, done
    sluicelib.write_tree(tmp_path, {"defaults.yaml": "providers: {x: {type: ns1, secret: s, ns: [ns1.example.net., NS2.example.net.]}}\n"})
    sluicelib.sluice("check", tmp_path)
