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
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, env=sluicelib.environment(), check=False)
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


SCENARIOS = ["moves", "to_own", "from_own", "three_targets", "killed", "back", "back_and_forth", "strangers",
             "wrong_answers", "refusals"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_migrate(tmp_path, scenario):
    run(tmp_path, scenario)


# A few of the requests that a migration sends to PowerDNS (more are not reached in one run: the run
# ends at the first that fails), each with another fault.
@pytest.mark.parametrize("fault, first", [("refused", 1), ("500", 2), ("cut", 3), ("lost", 4), ("401", 5), ("lost", 7),
                                          ("refused", 9), ("cut", 11), ("500", 13), ("lost", 15)])
def test_migrate_goes_on_after_a_fault(tmp_path, fault, first):
    run(tmp_path, "faults", fault, str(first))
