# SPDX-License-Identifier: Apache-2.0
"""`sluice sync verify`: what name servers answer against the model, with our server, PowerDNS and Knot."""
import json

import dns.flags
import dns.rcode
import pytest

import fakedns
import pdnslib
import serverlib
import sluicelib
import test_sync_rfc2136 as rfc2136

ZONE = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns1.e.test., ns2.e.test.]
providers: [%s]
records:
  ns1: {A: [192.0.2.53]}
  ns2: {A: [192.0.2.54]}
  www: {A: [192.0.2.80, 192.0.2.81], TXT: ["a ; b"], CAA: ["0 issue \\"ca.example\\""]}
  far: {NS: [ns.far.e.test.]}
  ns.far: {A: [192.0.2.55]}
  "*.w": {TXT: ["any"]}
  "@": {MX: ["10 mail.example.net."]}
"""
DOMAIN = """\
ttl: 30
endpoints: {one: [192.0.2.1, 192.0.2.11, "2001:db8::1"], two: [192.0.2.2, "2001:db8::2"], spare: [192.0.2.3, "2001:db8::3"]}
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  eu: {one: 1, two: 2}
  ca-qc: {two: 1}
  192.0.2.200/29: {spare: 1}
providers: {dns-b: {allow_loss: [geo, status, priority, weight]}}
"""
SEVERAL = """\
ttl: 30
answers: 2
endpoints: {one: 192.0.2.1, two: 192.0.2.2, three: 192.0.2.3, four: 192.0.2.4}
regions: {global: {one: 4, two: 2, three: 1, four: 1}}
providers: {dns-b: {allow_loss: [geo, status, priority, weight]}}
"""
HOSTS = """\
ttl: 30
endpoints: {one: a.example.net., two: b.example.net.}
regions: {global: {one: 3, two: 1}, af: {two: 1}}
providers: {dns-b: {allow_loss: [geo, status, priority, weight]}}
"""
GEO = sluicelib.REPO / "tests/geo/test-city.mmdb"
DRAWS = "600"  # a weight that is wrong by a tenth of all is beyond one in 10^7 with these shares


class World:
    """One zone at our server, PowerDNS and Knot."""

    def __init__(self, folder, names="sluice, dns-a, dns-b"):
        self.folder, self.names = folder, names
        self.pdns = pdnslib.Pdns(folder / "pdns")
        self.pdns.make_zone()
        self.knot = rfc2136.Knot(folder / "knot")
        for name, text in (("key", pdnslib.KEY), ("tsig", ":".join((rfc2136.KEY.algorithm, rfc2136.KEY.name, rfc2136.KEY.secret)))):
            (folder / name).write_text(text, encoding="ascii")
            (folder / name).chmod(0o600)
        self.write()
        data = sluicelib.build(folder / "config", folder / "data")
        self.server = sluicelib.Server(data, geo=GEO)
        self.settings = folder / "sluice.yaml"
        self.settings.write_text(
            f"data: {data}\ncontrol: {self.server.control}\ngeo: {GEO}\nsecrets:\n"
            f"  dns-a: {{file: {folder}/key}}\n  dns-b: {{file: {folder}/tsig}}\n", encoding="ascii")

    def write(self, domain=DOMAIN, zone=ZONE, servers=None, **more):
        servers = servers or f"127.0.0.1@{self.pdns.port}"
        sluicelib.write_tree(self.folder / "config", {
            "defaults.yaml": "default_zone: e.test\nproviders:\n"
                             f"  dns-a: {{type: powerdns, url: \"{self.pdns.url}\", secret: dns-a, servers: [{servers}]}}\n"
                             f"  dns-b: {{type: rfc2136, address: 127.0.0.1@{self.knot.port}, secret: dns-b}}\n",
            "e.test/zone.yaml": zone % self.names, "e.test/cdn/domain.yaml": domain,
            "e.test/many/domain.yaml": SEVERAL, "e.test/hosts/domain.yaml": HOSTS, **more})

    def run(self, command, *options, status=0):
        return sluicelib.sluice("sync", command, "--config", self.folder / "config", "--settings", self.settings,
                                *options, status=status)

    def apply(self):
        self.run("apply", "--yes", "--allow-ns-change", "--provider", "dns-a,dns-b")

    def verify(self, *options, status=0):
        return json.loads(self.run("verify", "--draws", DRAWS, "--json", *options, status=status).stdout)

    def close(self):
        self.server.kill()
        self.pdns.close()
        self.knot.close()


@pytest.fixture
def world(tmp_path):
    out = World(tmp_path)
    out.apply()
    yield out
    out.close()


def lines(out, verdict=None, **wanted):
    return [line for line in out["lines"] if verdict in (None, line["verdict"])
            and all(line[k] == v for k, v in wanted.items())]


def test_three_providers_as_the_model_says(world):
    out = world.verify()
    assert out["differ"] == out["silent"] == out["skipped"] == 0, lines(out, "differs")
    ours = lines(out, provider="sluice", name="cdn.e.test.", type="A")
    assert {line["region"] for line in ours} == {"global", "eu", "ca-qc", "192.0.2.200/29"}
    glob = lines(out, provider="dns-a", name="cdn.e.test.", type="A", region="global")[0]
    assert glob["expected"] == {"192.0.2.1 192.0.2.11": 0.75, "192.0.2.2": 0.25}
    assert glob["draws"] == int(DRAWS) and glob["p"] > 1e-9
    # What the provider has lost is compared with what was declared: the default answer.
    knot = lines(out, provider="dns-b", name="cdn.e.test.", type="A")
    assert [line["expected"] for line in knot] == [{"192.0.2.1 192.0.2.11 192.0.2.2": 1.0}]
    # A type that is not offered is no data, a delegation is a referral, what is below it is not asked for.
    assert lines(out, provider="dns-a", name="many.e.test.", type="AAAA")[0]["expected"] == {"no data": 1.0}
    assert lines(out, provider="dns-b", name="far.e.test.", type="NS") and not lines(out, name="ns.far.e.test.")
    text = world.run("verify", "cdn", "--draws", DRAWS).stdout
    assert "not one user" in text and max(len(line) for line in text.splitlines()) <= 80
