# SPDX-License-Identifier: Apache-2.0
"""A configuration with one provider of any kind (faultkinds.py), whose requests can fail (faultlib.py).

    world = faultworld.World("route53", tmp_path)
    world.write("www: {A: [192.0.2.80]}", {"cdn": text_of_domain_yaml})
    world.apply()
    done = world.sluice("apply", "--yes", fault=faultlib.at(3, "lost"))
"""
import pathlib

import faultkinds
import faultlib
import sluicelib

HEAD = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns1.e.test., ns2.e.test.]
providers: [dns-a]
records:
  ns1: {A: [192.0.2.53]}
  ns2: {A: [192.0.2.54]}
"""
LOSS = "providers: {dns-a: {allow_loss: [geo, status, priority, weight]}}\n"


class World:
    """Configuration, settings, and one provider `dns-a` of a kind."""

    def __init__(self, kind, folder, **options):
        self.folder = pathlib.Path(folder)
        self.faults = faultlib.Faults()
        self.kind = faultkinds.KINDS[kind](self.folder, self.faults, **options)
        (self.folder / "secret").write_text(self.kind.secret, encoding="ascii")
        (self.folder / "secret").chmod(0o600)
        (self.folder / "sluice.yaml").write_text(f"secrets: {{dns-a: {{file: {self.folder}/secret}}}}\n", encoding="ascii")

    def write(self, records, domains, folder="config", more="", loss=None, head=HEAD, defaults=""):
        """records: YAML lines below `records:`; domains: {name: text of domain.yaml}; more: settings of the
        provider.  loss: domains allow every loss (None: where the provider cannot steer)."""
        loss = not self.kind.steers if loss is None else loss
        root = self.folder / folder
        for old in root.glob("e.test/*/domain.yaml"):
            old.unlink()
        sluicelib.write_tree(root, {
            "defaults.yaml": "default_zone: e.test\nproviders:\n"
                             f"  dns-a: {{{self.kind.settings}, secret: dns-a{more}}}\n" + defaults,
            "e.test/zone.yaml": head + "".join(f"  {line}\n" for line in records.splitlines()),
            **{f"e.test/{name}/domain.yaml": text + (LOSS if loss else "")
               for name, text in domains.items()}})
        return root

    def sluice(self, command, *options, config="config", **more):
        done = self.faults.run("sync", command, "--config", self.folder / config, "--settings",
                               self.folder / "sluice.yaml", "--socket", self.folder / "no-server", *options, **more)
        assert self.kind.secret not in done.stdout + done.stderr
        return done

    def run(self, command, *options, status=0, **more):
        """With --json; returns the document."""
        done = self.sluice(command, *options, "--json", **more)
        if status is not None:
            assert done.returncode == status, (done.stdout, done.stderr)
        return done.json

    def apply(self, *options, status=0, **more):
        return self.run("apply", "--yes", "--allow-ns-change", *options, status=status, **more)

    def close(self):
        self.kind.close()
