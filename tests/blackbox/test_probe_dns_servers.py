# SPDX-License-Identifier: Apache-2.0
"""Probes of type dns of real servers: Knot DNS, NSD, BIND, and sluiced itself."""
import pytest

import primaries
import sluicelib
from probelib import probe, settings

# More than fits into 512 octets; BIND takes no more than 100.
BIG = [f"big IN A 192.0.2.{i}" for i in range(1, 100)] + [f'big IN TXT "{"x" * 200} {i}"' for i in range(20)]


@pytest.fixture(params=[primaries.Knot, primaries.Nsd, primaries.Bind], ids=["knot", "nsd", "bind"])
def server(request, tmp_path):
    reserved, peer = sluicelib.Port(), sluicelib.Port()
    running = request.param(tmp_path / "primary", reserved.number, primaries.zone_text(1, *BIG),
                            (primaries.HOST, peer.number))
    try:
        running.start()
        running.wait_serial(1)
        yield running
    finally:
        running.kill()
        reserved.close()
        peer.close()


CASES = [
    ({"name": "mail.example.net"}, (True, "rcode NOERROR, 1 of type A")),
    ({"name": "MAIL.example.net.", "expect": {"data": "192.0.2.25"}}, (True, "expected data of type A came")),
    ({"name": "alias.example.net", "expect": {"data": "192.0.2.53"}}, (True, "expected data of type A came")),
    ({"name": "a.wild.example.net", "rrtype": "TXT", "expect": {"data": "found"}},
     (True, "expected data of type TXT came")),
    ({"name": "example.net", "rrtype": "MX", "expect": {"data": "10 MAIL.example.net"}},
     (True, "expected data of type MX came")),
    ({"name": "example.net", "rrtype": "SOA"}, (True, "rcode NOERROR, 1 of type SOA")),
    ({"name": "big.example.net"}, (True, "rcode NOERROR, 99 of type A")),
    ({"name": "big.example.net", "rrtype": "TXT"}, (True, "rcode NOERROR, 20 of type TXT")),
    ({"name": "mail.example.net", "rrtype": "AAAA"}, (False, "no answer of type AAAA")),
    ({"name": "x.sub.example.net"}, (False, "no answer of type A")),  # a referral
    ({"name": "none.example.net"}, (False, "rcode NXDOMAIN, expected NOERROR")),
    ({"name": "none.example.net", "expect": {"rcode": "NXDOMAIN"}}, (True, "rcode NXDOMAIN")),
    ({"name": "www.example.com"}, (False, "rcode REFUSED, expected NOERROR")),
]


def test_answers(server):
    for case, expected in CASES:
        result = probe(settings("dns", port=server.port, **case), "127.0.0.1")
        assert (result["ok"], result["reason"]) == expected, case


def test_sluiced(start, make_config):
    domain = "ttl: 30\nendpoints: {a: 192.0.2.7}\nregions: {global: {a: 1}}\n"
    port = start(make_config({"cdn": domain})).port
    for case, expected in (({"name": "cdn.example.com", "expect": {"data": "192.0.2.7"}}, True),
                           ({"name": "cdn.example.com", "rrtype": "AAAA"}, False)):
        assert probe(settings("dns", port=port, **case), "127.0.0.1")["ok"] == expected
