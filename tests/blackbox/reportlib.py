# SPDX-License-Identifier: Apache-2.0
"""What the tests of reported faults (test_reports_*.py) share: clients with a place, counted answers."""
import collections
import json
import os
import struct
import subprocess
import sys

import dns.message

import sluicelib
import stats
from sluicelib import rdata

# Networks as they are in MaxMind's public test data, with what is known of them.
NETWORKS = [
    {"net": "216.160.83.56/29", "continent": "NA", "country": "US", "registered_country": "US"},
    {"net": "50.114.0.0/22", "continent": "NA", "country": "US", "registered_country": "US"},
    {"net": "81.2.69.160/27", "continent": "EU", "country": "GB", "registered_country": "US"},
    {"net": "89.160.20.112/28", "continent": "EU", "country": "SE", "registered_country": "DE"},
    {"net": "89.160.20.128/25", "continent": "EU", "country": "SE", "registered_country": "DE"},
    {"net": "67.43.156.0/24", "continent": "AS", "country": "BT", "registered_country": "RO"},
    {"net": "202.196.224.0/20", "continent": "AS", "country": "PH", "registered_country": "PH",
     "represented_country": "US"},
    {"net": "217.65.48.0/29", "continent": "EU", "country": "GI", "registered_country": "GI"},
    {"net": "2a02:cf40::/29", "continent": "EU", "country": "NO", "registered_country": "NO"},
    {"net": "2a02:d500::/29", "continent": "EU"},
    {"net": "214.1.1.0/24", "registered_country": "US"},
]
SE, US, GB, BT = "89.160.20.113", "216.160.83.57", "81.2.69.161", "67.43.156.1"
PH, GI, REGISTERED, NOWHERE = "202.196.224.1", "217.65.48.1", "214.1.1.1", "192.0.2.1"
NORWAY, EUROPE6 = "2a02:cf40::1", "2a02:d500::1"


def make_mmdb(folder):
    """A location file of these networks; returns its path."""
    source = folder / "networks.json"
    source.write_text(json.dumps(NETWORKS), encoding="utf-8")
    target = folder / "places.mmdb"
    subprocess.run([sys.executable, sluicelib.REPO / "tests/geo/make_mmdb.py", source, target], check=True)
    return target


def serve(folder, domains=None, files=None, geo=None, options=(), addresses=("127.0.0.1",), **config):
    """Builds a configuration in `folder` and starts a server for it."""
    tree = sluicelib.config_files(domains, **config)
    tree.update(files or {})
    data = sluicelib.build(sluicelib.write_tree(folder / "config", tree), folder / "data")
    return sluicelib.Server(data, *options, geo=geo, addresses=addresses)


def domain(endpoints, regions, more="ttl: 30\n"):
    """domain.yaml of endpoints {name: address or list} and regions {name: level or levels}."""
    return more + json.dumps({"endpoints": endpoints})[1:-1] + "\n" + json.dumps({"regions": regions})[1:-1] + "\n"


def drawn(server, name, count, rdtype="A", ecs=None, address=None):
    """Asks `count` times; how often each set of data came (joined by blanks), aliases left out."""
    wire = sluicelib.make_query(name, rdtype, ecs=ecs).to_wire()
    out = collections.Counter()
    for rest, times in sluicelib.flood(address or server.address, server.port, wire, count).items():
        reply = dns.message.from_wire(struct.pack("!H", 0) + rest, one_rr_per_rrset=True)
        assert reply.rcode() == 0, reply
        out[" ".join(rdata(reply, rdtype))] += times
    return out


def all_from(server, name, expected, count=100, **options):
    """Every one of many answers is `expected`, a set of texts, and each of them comes."""
    found = set(drawn(server, name, count, **options))
    assert found == set(expected), (name, options, found)


def shares(server, name, expected, count=5000, **options):
    """The answers come with these probabilities (false alarm: one in a thousand million)."""
    counts = drawn(server, name, count, **options)
    assert stats.shares_p(counts, expected, count) > 1e-9, (name, options, counts)


def health(server, name, **states):
    """health(server, name, a="down", b="auto"): what the checker would say."""
    for endpoint, state in states.items():
        server.sluice("health", "override", name, endpoint, state)


def in_own_network(scenario, data, script="own_network.py", timeout=4 * sluicelib.DEADLINE):
    """Runs a scenario of own_network.py for this build; returns the lines that it prints."""
    command = ["unshare", "--net"] + (["--user", "--map-root-user"] if os.getuid() else [])
    command += [sys.executable, str(sluicelib.REPO / "tests/blackbox" / script), scenario, str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=sluicelib.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
