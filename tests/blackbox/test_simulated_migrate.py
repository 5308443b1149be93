# SPDX-License-Identifier: Apache-2.0
"""`sluice sync migrate` to and from Route 53 and NS1: simulators, in the network of test_migrate.py."""
import os
import subprocess
import sys

import pytest

import sluicelib


@pytest.mark.parametrize("direction", ["to", "from"])
@pytest.mark.parametrize("provider", ["route53", "ns1"])
def test_a_zone_moves(tmp_path, provider, direction):
    """The zone is made there; not one lookup fails, and every answer is of the model."""
    argv = ["unshare", "--net", "--mount"] + (["--user", "--map-root-user"] if os.getuid() else [])
    argv += [sys.executable, str(sluicelib.REPO / f"tests/blackbox/{provider}_network.py"), direction, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, env=sluicelib.environment(), check=False)
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stdout[-6000:] + done.stderr[-6000:]
