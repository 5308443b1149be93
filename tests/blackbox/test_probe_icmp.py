# SPDX-License-Identifier: Apache-2.0
"""Probes of type icmp, in a network namespace of their own (icmp_network.py)."""
import json

import pytest

from reportlib import in_own_network

GOOD = [True, "echo reply", False]
NOTHING = [False, "timeout in waiting for the echo reply", False]

EXPECTED = {
    "good": GOOD,
    "wrong id": NOTHING,
    "wrong sequence": NOTHING,
    "wrong token": NOTHING,
    "other address": NOTHING,
    "silence": NOTHING,
    "host unreachable": [False, "host unreachable", False],
    "prohibited": [False, "forbidden by a router", False],
    "time exceeded": [False, "time exceeded on the way", False],
    "short error": [False, "host unreachable", False],
    "error of another": NOTHING,
    "second answered": GOOD,
    "short, long, good": GOOD,
    "wrong, then good": GOOD,
}


def results(rights):
    (line,) = in_own_network(rights, "", script="icmp_network.py")
    return json.loads(line)


@pytest.mark.parametrize("rights", ["unprivileged", "raw"])
def test_replies_and_errors(rights):
    seen = results(rights)
    expected = {f"{name} {family}": result for name, result in EXPECTED.items() for family in (4, 6)}
    expected["neither 4"] = [False, "unreachable (ICMP type 3 code 14)", False]
    expected["neither 6"] = [False, "unreachable (ICMP type 1 code 99)", False]
    for target in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        expected[target] = GOOD
    for target in ("203.0.113.1", "2001:db8:7777::1"):
        expected[target] = [False, "network unreachable", False]
    expected["many"] = [True, 2000]
    expected["cancelled"] = [[], []]
    assert seen == expected


def test_without_rights():
    """It says nothing of the endpoint, and says what to do."""
    seen = results("none")
    assert seen["127.0.0.1"] == seen["good 6"] == [False, "ICMP needs ping_group_range or CAP_NET_RAW", True]
