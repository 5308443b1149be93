# SPDX-License-Identifier: Apache-2.0
"""Run as migrate_faults_network.py, by test_migrate_lookups.py: migrations whose own DNS lookups meet faults
(lookuplib.py): what it asks the name servers of both providers, those of the parent zone, and the resolver of the
system.  The resolvers and those who watch ask the servers themselves."""
import collections
import json
import zlib

import lookuplib
import migrate_faults_network
import migrate_network
from migrate_faults_network import check_end, words_of
from migrate_network import ADDRESSES, NAMES, PARENT, PROVIDER, RESOLVERS, ZONE

RESOLVER = "127.0.9.1"


class World(migrate_faults_network.world_of("knot")):
    """The name servers of PowerDNS, Knot and the parent zone are asked through proxies."""

    def __init__(self, folder, at=("pdns",)):
        self.lookups, self.asked = lookuplib.Lookups(), {}
        super().__init__(folder, at, ("pdns", "knot"), "20s")
        for kind in ("pdns", "knot"):
            self.asked[kind] = [lookuplib.Proxy(kind, address, self.lookups) for address in ADDRESSES[kind]]
        self.asked["parent"] = [lookuplib.Proxy("parent", PARENT, self.lookups)]
        self.write()

    def write(self, **options):
        super().write(**options)
        path = self.folder / "config/defaults.yaml"
        text = path.read_text(encoding="ascii").replace(f", servers: [{PARENT}]", "")
        for kind, proxies in self.asked.items():
            provider = "top" if kind == "parent" else PROVIDER[kind]
            servers = ", ".join(p.text for p in proxies)
            text = "".join(f"{line[:-2]}, servers: [{servers}]}}\n" if line.startswith(f"  {provider}: ") else line
                           for line in text.splitlines(keepends=True))
        path.write_text(text, encoding="ascii")

    def close(self):
        super().close()
        for proxies in self.asked.values():
            for proxy in proxies:
                proxy.close()


class Some:
    """A fault for each question of each phase, or for one of `of` of them; at most `most` of a phase in one run."""

    def __init__(self, world, modes, of, most=1):
        self.world, self.modes, self.of, self.most = world, modes, of, most
        self.met, self.here = set(), collections.Counter()
        self.well = collections.Counter()
        self.path = world.folder / "state/tm.example.json"

    def begin(self, place):
        self.here.clear()
        self.well.clear()
        self.world.lookups.begin(self.decide)

    def __call__(self, index, request):
        return None  # requests to providers meet none

    def decide(self, label, name, rdtype):
        state = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {"phase": None, "back": None}
        phase = state["phase"], state["back"]
        what = label, name, rdtype
        self.well[phase, what] += 1
        key = phase, what, self.well[phase, what]
        if key[2] > 4 or key in self.met or self.here[phase] >= self.most or zlib.crc32(repr(key).encode()) % self.of:
            return None
        mode = self.modes[len(self.met) % len(self.modes)]
        self.met.add(key)
        self.here[phase] += 1
        return mode


class Run(migrate_faults_network.Run):
    whose = ("dns-", "parent zone", "NS records")

    def faulty(self):
        return [mode for *_, mode in self.world.lookups.met if mode not in lookuplib.HARMLESS]

    def lookup_faults(self, modes, of, *words, most=1):
        """As play(), with faults of lookups."""
        self.fault = Some(self.world, modes, of, most)
        self.over(*words)
        self.met += len(self.fault.met)

    def alone(self, modes, of, *words):
        """One run of the command, which has to repeat what fails."""
        fault = Some(self.world, modes, of, most=2)
        fault.begin(None)
        done, out = None, ""
        for _ in range(3):  # a machine that is very busy may lose what nothing was done to
            done = self.world.go(*words, fault=fault)
            out, words = out + done.stdout, ()
            if done.returncode != 3:
                break
        assert done.returncode == 0, (self.world.lookups.met, out, done.stderr)
        self.met += len(self.world.lookups.met)
        assert "tries again" in out, (self.world.lookups.met, out)
        self.world.lookups.begin(lambda *what: None)


def go(folder, of):
    """There, stopped by each fault and run again; then back in one run."""
    with World(folder) as world, Run(world) as run:
        run.lookup_faults(lookuplib.QUICK, int(of), *words_of("pdns", "knot"))
        check_end(world, "pdns", "knot")
        run.alone(lookuplib.QUICK, max(2, int(of) // 2), "--back")
        check_end(world, "pdns", "knot", forward=False)
    print(run)


def every(folder, mode, of):
    """One fault, there and back."""
    with World(folder) as world, Run(world) as run:
        run.lookup_faults((mode,), int(of), *words_of("pdns", "knot"), most=99)
        check_end(world, "pdns", "knot")
        run.lookup_faults((mode,), int(of), "--back", most=99)
        check_end(world, "pdns", "knot", forward=False)
    print(run)


WRONG = ("SERVFAIL", "REFUSED", "upward", "lame", "garbage", "tc-garbage")


def refused(world, text, *words):
    """The command stops for this reason (a busy machine may have others, before) and changes nothing."""
    for _ in range(5):
        before = world.dump()
        done = world.go(*words)
        assert done.returncode == 1 and world.dump() == before, (done.stdout, done.stderr)
        if text in done.stderr:
            return
    raise AssertionError((text, done.stderr))


def begins_never(world):
    """With DS records in the parent zone, whatever its name servers say when they are asked for them."""
    world.parent.update("example.", lambda m: m.add(ZONE, 1, "DS", "1 13 2 " + "ab" * 32))
    for mode in WRONG:
        world.lookups.begin(lambda label, name, rdtype, m=mode: m if rdtype == "DS" else None)
        refused(world, "the parent zone: the name server", "--once", *words_of("pdns", "knot"))
        assert world.lookups.met, mode
    world.lookups.begin(lambda *what: None)
    refused(world, "DS records", "--once", *words_of("pdns", "knot"))
    world.parent.update("example.", lambda m: m.delete(ZONE, "DS"))


def deletes_never(world, run):
    """The zone stays where it is delegated, whatever the parent's name servers say."""
    run.lookup_faults((None,), 1, *words_of("pdns", "knot"))
    check_end(world, "pdns", "knot")
    world.write(ns=NAMES["knot"], listed=("knot",), delegation=NAMES["knot"])
    world.parent.update("example.", lambda m: m.add(ZONE, 1, "NS", NAMES["pdns"][0]))
    for mode in (*WRONG, "empty", None):
        world.lookups.begin(lambda label, name, rdtype, m=mode: m if label == "parent" else None)
        text = {"empty": "no delegation", None: "still is a name server"}.get(mode, "the parent zone: the name server")
        refused(world, text, "--delete-old")
        assert world.servers["pdns"].api("GET", f"/zones/{ZONE}")[0] == 200


def never(folder):
    """What must not be done on the word of a name server that does not know."""
    with World(folder) as world, Run(world) as run:
        begins_never(world)
        deletes_never(world, run)
    print(run)


def resolver(folder):
    """The resolver of the system fails for the parent zone: that is not taken for a parent further up."""
    world = migrate_network.World(folder, ours=False, kinds=("pdns", "knot"))
    lookups = lookuplib.Lookups()
    proxy = lookuplib.Proxy("resolver", RESOLVERS["unbound"], lookups, RESOLVER)
    (folder / "resolv.conf").write_text(f"nameserver {RESOLVER}\noptions timeout:5 attempts:3\n", encoding="ascii")
    with world:
        for mode in ("SERVFAIL", "REFUSED", "silent", "tc-tc", None):
            lookups.begin(lambda label, name, rdtype, m=mode: m if (name, rdtype) == ("example.", "NS") else None)
            done = world.migrate("--from", "dns-pdns", "--to", "dns-knot", "--plan", status=None)
            if mode:
                assert lookups.met and done.returncode == 1, (mode, lookups.met, done.stdout)
                assert "does not tell the parent zone of tm.example." in done.stderr, done.stderr
        assert done.returncode == 0, done.stderr
    proxy.close()


SCENARIOS = {"go": go, "every": every, "never": never, "resolver": resolver}

if __name__ == "__main__":
    migrate_network.SCENARIOS = SCENARIOS
    migrate_network.main()
