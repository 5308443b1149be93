# SPDX-License-Identifier: Apache-2.0
"""What the tests of `sluice sync` with NS1 share: a configuration whose provider `dns-b` is the simulator (ns1sim.py)."""
import json

import ns1sim
import sluicelib

ZONE = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns1.e.test., ns2.e.test.]
providers: [dns-b]
records:
  ns1: {A: [192.0.2.53]}
  ns2: {A: [192.0.2.54]}
  www: {A: [192.0.2.80], AAAA: ["2001:db8::80"], TXT: ["a ; b", "semi\\"quote"]}
  "@": {MX: ["10 mail.example.net."], CAA: ["0 issue \\"ca.example.net\\""]}
"""
DOMAIN = """\
ttl: 30
endpoints: {one: 192.0.2.1, two: 192.0.2.2, spare: 192.0.2.3}
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  as: {two: 1}
  eu: {one: 1, spare: 1}
  ca-qc: {spare: 1}
  192.0.2.128/25: {two: 1}
  203.0.113.0/24: {one: 0, two: 10}
"""
CDN = ("cdn.e.test", "A")


class World:
    """A configuration, the simulator, and the machine's settings; options are the simulator's."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.sim = ns1sim.Simulator(**options)
        self.sim.make_zone()
        (folder / "key").write_text(ns1sim.KEY, encoding="ascii")
        (folder / "key").chmod(0o600)
        self.settings = folder / "sluice.yaml"
        self.socket = folder / "no-server"
        self.set_up()
        self.write()

    def set_up(self, more=""):
        """Writes the machine's settings, with more lines."""
        self.settings.write_text(f"secrets: {{dns-b: {{file: {self.folder}/key}}}}\n" + more, encoding="ascii")

    def write(self, domain=DOMAIN, zone=ZONE, **domains):
        """Texts of cdn's and of other domains' domain.yaml; None: there is none."""
        files = {"defaults.yaml": "default_zone: e.test\nproviders:\n"
                                  f"  dns-b: {{type: ns1, url: \"{self.sim.url}\", secret: dns-b}}\n",
                 "e.test/zone.yaml": zone}
        for name, text in {"cdn": domain, **domains}.items():
            (self.folder / f"config/e.test/{name}/domain.yaml").unlink(missing_ok=True)
            if text:
                files[f"e.test/{name}/domain.yaml"] = text
        sluicelib.write_tree(self.folder / "config", files)

    def words(self, command, *options):
        return ["sync", command, "--config", self.folder / "config", "--settings", self.settings,
                "--socket", self.socket, *options]

    def run(self, command, *options, status=0):
        done = sluicelib.sluice(*self.words(command, *options), status=status)
        assert ns1sim.KEY not in done.stdout + done.stderr
        return done

    def sync(self, command, *options, status=0):
        return json.loads(self.run(command, *options, "--json", status=status).stdout)

    def apply(self, *options, status=0):
        return self.sync("apply", "--yes", "--allow-ns-change", *options, status=status)

    def record(self, key=CDN):
        return self.sim.zones["e.test"].get(key)

    def writes(self):
        return [r for r in self.sim.requests if r[0] != "GET"]


class Watched:
    """A world that is in sync, then changed; it can be set back.  Notes names that become empty."""

    def __init__(self, world, change, leaving=(), consents=()):
        world.apply()
        self.world = world
        self.consents = consents  # for the run after the fault
        self.start = {k: json.dumps(v) for k, v in world.sim.zones["e.test"].items()}
        self.steady = {d for d, _ in self.start} - set(leaving)
        self.empty = []
        world.write(*change)
        first = len(world.sim.requests)
        self.apply()
        self.requests = [m for m, _ in world.sim.requests[first:]]
        assert world.sync("plan", "--allow-ns-change")["items"] == []
        self.end = set(world.sim.zones["e.test"])
        world.sim.watch = self.look

    def look(self, zones):
        self.empty += self.steady - {d for (d, _), r in zones["e.test"].items() if r["answers"]}

    def apply(self, status=0):
        return self.world.apply("--allow-large", "--allow-last", status=status)

    def fail_at(self, index, fault, forever=False):
        """The change with a fault at one request (or all from there on), and then without."""
        sim = self.world.sim
        sim.zones["e.test"] = {k: json.loads(v) for k, v in self.start.items()}
        first = len(sim.requests)
        sim.faults = {first + i: fault for i in range(index, index + (100 if forever else 1))}
        done = self.apply(status=None)
        if forever:
            assert done["errors"] and done["providers"][0]["state"] != "applied", (index, done)
        sim.faults = {}
        self.world.apply("--allow-large", "--allow-last", *self.consents)
        assert self.world.sync("plan", "--allow-ns-change")["items"] == []
        assert set(sim.zones["e.test"]) == self.end, index
        assert not self.empty, (index, self.empty)
