# SPDX-License-Identifier: Apache-2.0
"""`sluice sync migrate` to and from NS1: the simulator, in the network of test_migrate.py."""
import os
import subprocess
import sys

import pytest

import sluicelib


@pytest.mark.parametrize("direction", ["to", "from"])
def test_a_zone_moves(tmp_path, direction):
    """The zone is made there; not one lookup fails, and every answer is of the model."""
    argv = ["unshare", "--net", "--mount"] + (["--user", "--map-root-user"] if os.getuid() else [])
    argv += [sys.executable, str(sluicelib.REPO / "tests/blackbox/ns1_network.py"), direction, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, env=sluicelib.environment(), check=False)
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stdout[-6000:] + done.stderr[-6000:]
