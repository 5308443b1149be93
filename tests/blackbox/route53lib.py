# SPDX-License-Identifier: Apache-2.0
"""What the tests of Route 53 share: its simulator (route53sim.py), the driver, and a configuration to sync."""
import json

import pytest

import pdnslib
import route53sim
import sluicelib

ATOMS = ["continent:eu", "continent:na", "country:fr", "country:us", "country:ca", "subdivision:us-ca", "continent:as"]
ZONE = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns-1.awsdns-01.org., ns-2.awsdns-02.com.]
providers: [dns-a]
records:
  www: {A: [192.0.2.80], AAAA: ["2001:db8::80"], TXT: ["a ; b"]}
"""
DOMAIN = """\
ttl: 30
endpoints: {one: 192.0.2.1, two: 192.0.2.2, spare: 192.0.2.3}
health: {type: tcp, port: 80}
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  fr: {two: 1}
"""
CONSENTS = ["--allow-last", "--allow-large"]


@pytest.fixture
def sim():
    out = route53sim.Route53()
    yield out
    out.close()


def once(sim, *steps, **more):
    settings = {"type": "route53", "url": sim.url, "secret": "key"}
    return pdnslib.once(sim, *steps, settings=settings, key=more.pop("key", route53sim.CREDENTIALS), **more)


def apply(sim, *domains, **more):
    return once(sim, "read", "compile", "apply", "decompile", domains=domains, **more)


def sample(**more):
    return pdnslib.domain(
        {"eu": (["continent:eu", "country:ca"], [{"one": 3, "two": 1}, {"spare": 1}]),
         "global": (["global"], [{"two": 5}, {"one": 0, "spare": 7}])},
        {"one": ["192.0.2.1", "2001:db8::1"], "two": ["192.0.2.2", "192.0.2.22", "2001:db8::2"],
         "spare": ["192.0.2.3", "2001:db8::3"]}, **more)


def ask(sim, place=(None, None, None), rdtype="A", name="cdn.e.test."):
    return {" ".join(v): float(p) for v, p in sim.answer(name, rdtype, place).items()}


def status_of(manual=0, down=False):
    health = 2 if down else 1
    return {"manual": manual, "health4": health, "health6": health}


def meanwhile(sim, wanted, do):
    """Somebody else does something just before the first request that fits."""
    left = [do]

    def fault(index, method, path):
        if left and wanted(method, path):
            left.pop()()

    sim.fault = fault


class World:
    """A configuration and a simulator."""

    def __init__(self, folder, sim):
        self.folder, self.sim = folder, sim
        sim.sets[("e.test.", "NS", None)].ttl = 3600
        self.secret(route53sim.CREDENTIALS)
        (folder / "sluice.yaml").write_text(f"secrets: {{dns-a: {{file: {folder}/key}}}}\n", encoding="ascii")
        self.write()

    def secret(self, text):
        (self.folder / "key").write_text(text, encoding="ascii")
        (self.folder / "key").chmod(0o600)

    def write(self, domain=DOMAIN, zone=ZONE):
        (self.folder / "config/e.test/cdn/domain.yaml").unlink(missing_ok=True)
        sluicelib.write_tree(self.folder / "config", {
            "defaults.yaml": "default_zone: e.test\nproviders:\n"
                             f"  dns-a: {{type: route53, url: \"{self.sim.url}\", secret: dns-a, health: pushed}}\n",
            "e.test/zone.yaml": zone, **({"e.test/cdn/domain.yaml": domain} if domain else {})})

    def options(self):
        return ["--config", self.folder / "config", "--settings", self.folder / "sluice.yaml",
                "--socket", self.folder / "no-server"]

    def run(self, command, *options, status=0):
        done = sluicelib.sluice("sync", command, *self.options(), *options, "--json", status=status)
        assert route53sim.SECRET not in done.stdout + done.stderr
        return json.loads(done.stdout)

    def apply(self, *options, status=0):
        return self.run("apply", "--yes", *options, status=status)


@pytest.fixture
def world(tmp_path, sim):
    return World(tmp_path, sim)
