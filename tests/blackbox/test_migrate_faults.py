# SPDX-License-Identifier: Apache-2.0
"""`sluice sync migrate` with a fault at every request that it sends to a provider, PowerDNS, Knot and the
parent zone's server alike (migrate_faults_network.py); at a sample of them to and from Route 53, NS1, BIND and
our own server.

After each fault the command is run again.  The migration comes to its end, with the same zone and the same NS
records at both providers; at no time is one of the name servers that the parent names without an answer of
the model, nor is a resolver; what others made is untouched; a run that says that nothing was changed has changed
nothing.  With SLUICE_FAULTS=all, all faults in all directions.
"""
import os
import subprocess
import sys

import pytest

import sluicelib

MODES = ["before", "after", "lost", "cut", "429", "500", "503", "reset", "silent", "short", "garbage", "denied", "close"]
KINDS = ["r53", "ns1", "bind", "own"]  # beside PowerDNS, as Knot is
CASES = [("move", "before", "pdns", "knot"), ("move", "after", "knot", "pdns"), ("move", "500", "pdns", "knot"),
         ("move", "cut", "knot", "pdns"), ("back", "lost", "pdns", "knot"), ("back", "mixed", "pdns", "knot"), ("amid", "knot")]
# A request of so many meets a fault.
CASES += [("tour", "r53", "20"), ("tour", "ns1", "16"), ("tour", "bind", "12"), ("tour", "own", "20")]
if os.environ.get("SLUICE_FAULTS") == "all":
    CASES = [(way, mode, *ends) for kind in ["knot", *KINDS] for ends in (("pdns", kind), (kind, "pdns"))
             for way in ("move", "back") for mode in MODES] + [("amid", kind) for kind in ["knot", *KINDS] if kind != "own"]


@pytest.mark.parametrize("words", CASES, ids="-".join)
def test_a_fault_at_each_request(tmp_path, words):
    argv = ["unshare", "--net", "--mount"] + (["--user", "--map-root-user"] if os.getuid() else [])
    argv += [sys.executable, str(sluicelib.REPO / "tests/blackbox/migrate_faults_network.py"), words[0], str(tmp_path), *words[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1800, env=sluicelib.environment(), check=False)
    print(done.stdout[-6000:])
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stderr[-6000:]
