# SPDX-License-Identifier: Apache-2.0
"""What the tests of `sluice endpoints` share."""
import json

import pytest

import sluicelib

CDN = """\
ttl: 30
owner: streaming
endpoints:
  central-4: [192.0.2.4, "2001:db8::4"]
  central-5: [192.0.2.5, "2001:db8::5"]
  legacy: 192.0.2.9
regions:
  global:
    - {central-4: 100, central-5: 0, legacy: 0}
    - {central-5: 100}
  eu: {central-4: 1, central-5: 1}
  us-ny: {central-5: 1, central-4: 0}
  us-ca: {central-4: 1, central-5: 0}
  na: {central-5: 3, central-4: 1}
profiles:
  canary: {central-4: 95, central-5: 5}
"""
API = """\
endpoints: {central-4: 192.0.2.4, edge-1: 192.0.2.11}
regions: {global: {central-4: 1, edge-1: 1}}
"""
SOLO = "endpoints: {central-4: 192.0.2.4}\nregions: {global: {central-4: 1}}\n"
NAMES = {"office": "[192.0.2.0/24]"}


@pytest.fixture
def server(make_config, start):
    return start(make_config({"cdn": CDN, "api": API}))


def endpoints(server, *args, **options):
    return server.sluice("endpoints", *args, **options)


def refused(server, *args, status=1):
    """The one line of a command that changes nothing."""
    before = overrides(server)
    done = endpoints(server, *args, status=status)
    assert done.stderr.startswith("sluice: ") and done.stderr.count("\n") == 1, done.stderr
    assert overrides(server) == before
    return done.stderr


def overrides(server):
    return sluicelib.control(server.control, "domain", domain="cdn.example.com.")["domain"]["overrides"]


def get(server, *names):
    return json.loads(endpoints(server, "get", *names, "--json").stdout)["domains"]


def weights(server, region="global", level=1, name="cdn"):
    [domain] = get(server, f"{name}[{region}]")
    return {e["endpoint"]: e["weight"] for e in domain["regions"][0]["levels"][level - 1]["endpoints"]}


def answered(server, client="192.0.2.1", name="cdn"):
    text = server.sluice("explain", name, "--client", client, "--json").stdout
    return {a["endpoint"]: a["probability"] for a in json.loads(text)["answers"]}


def check_columns(text):
    for line in text.splitlines():
        assert len(line) <= 80, line
