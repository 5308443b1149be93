# SPDX-License-Identifier: Apache-2.0
"""`sluice sync migrate` with a fault at every request that it sends to a provider, PowerDNS, Knot and the
parent zone's server alike (migrate_faults_network.py).

After each fault the command is run again.  The migration comes to its end, with the same zone and the same NS
records at both providers; at no time is one of the name servers that the parent names without an answer of
the model; what others made is untouched; a run that says that nothing was changed has changed nothing.
With SLUICE_FAULTS=all, all faults in all directions.
"""
import os
import subprocess
import sys

import pytest

import sluicelib

MODES = ["before", "after", "lost", "cut", "429", "500", "503", "reset", "silent", "short", "garbage", "denied", "close"]
CASES = [("to_knot", "before"), ("to_pdns", "after"), ("to_knot", "500"), ("to_pdns", "cut"), ("back", "lost"), ("back", "mixed")]
if os.environ.get("SLUICE_FAULTS") == "all":
    CASES = [(way, mode) for way in ("to_knot", "to_pdns", "back") for mode in MODES]


@pytest.mark.parametrize("scenario, mode", [*CASES, ("amid", "REFUSED")])
def test_a_fault_at_each_request(tmp_path, scenario, mode):
    argv = ["unshare", "--net", "--mount"] + (["--user", "--map-root-user"] if os.getuid() else [])
    argv += [sys.executable, str(sluicelib.REPO / "tests/blackbox/migrate_faults_network.py"), scenario, str(tmp_path), mode]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, env=sluicelib.environment(), check=False)
    print(done.stdout[-6000:])
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stderr[-6000:]
