# SPDX-License-Identifier: Apache-2.0
"""`sluice sync migrate` from a provider that is down, while another one is, and when they are there again.

Each test is a scenario of migrate_dead_network.py, in a network of its own with real servers that are killed.
While one server that the resolvers know answers, not one lookup fails.
"""
import os
import subprocess
import sys

import pytest

import sluicelib


def run(tmp_path, scenario, *words):
    argv = ["unshare", "--net", "--mount"] + (["--user", "--map-root-user"] if os.getuid() else [])
    argv += [sys.executable, str(sluicelib.REPO / "tests/blackbox/migrate_dead_network.py"), scenario, str(tmp_path), *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1800, env=sluicelib.environment(), check=False)
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stdout[-6000:] + done.stderr[-6000:]


@pytest.mark.parametrize("scenario", ["third_lives", "alone", "returns", "returns_early", "killed", "third_dies",
                                      "new_dies", "api_only", "to_own", "parent_too"])
def test_dead(tmp_path, scenario):
    run(tmp_path, scenario)


@pytest.mark.parametrize("phase", ["verify", "apex-in", "parent-in", "wait-in", "parent-out", "apex-out", "wait-out"])
def test_dies_in_the_middle(tmp_path, phase):
    run(tmp_path, "middle", phase)
