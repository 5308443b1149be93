# SPDX-License-Identifier: Apache-2.0
"""Faults of what `sluice sync migrate` itself asks: the NS, SOA and DS questions to the name servers of the
providers and of the parent zone, those that verify answers, and the resolver of the system
(migrate_lookups_network.py, lookuplib.py).

It repeats them, or stops with the reason and has changed nothing; run again, it comes to its end.  With
SLUICE_FAULTS=all, every fault at every one of them.
"""
import os
import subprocess
import sys

import pytest

import lookuplib
import sluicelib

CASES = [("go", "10"), ("never",), ("resolver",)]
if os.environ.get("SLUICE_FAULTS") == "all":
    CASES += [("go", "1"), *(("every", mode, "4" if mode in lookuplib.SLOW else "1") for mode in lookuplib.ALL)]


@pytest.mark.parametrize("words", CASES, ids="-".join)
def test_faults_of_lookups(tmp_path, words):
    argv = ["unshare", "--net", "--mount"] + (["--user", "--map-root-user"] if os.getuid() else [])
    argv += [sys.executable, str(sluicelib.REPO / "tests/blackbox/migrate_lookups_network.py"), words[0], str(tmp_path), *words[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1800, env=sluicelib.environment(), check=False)
    print(done.stdout[-6000:])
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stderr[-6000:]
