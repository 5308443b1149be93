# SPDX-License-Identifier: Apache-2.0
"""Run as migrate_network.py, by test_migrate_faults.py: a migration in which every request to a provider
(PowerDNS's API, transfers from and updates to Knot, also those of the parent zone) meets a fault once.
Arguments: the scenario, an empty folder, the fault.

Where a migration stands is told by its state file.  From each such place the command is run again and again,
each time with the fault at the first request that has not met it there, until it is over: what a command that
begins there would send until it comes to the next place is all hit."""
import collections
import json
import threading
import time

import dns.exception
import dns.query
import dns.xfr
import dns.zone

import faultlib
import migrate_network
import pdnslib
import secondaries
import sluicelib
from migrate_network import ADDRESSES, KEY, NAMES, PARENT, PROVIDER, ZONE

DNS_MODES = {"429": "SERVFAIL", "500": "REFUSED", "503": "SERVFAIL", "denied": "REFUSED"}
MIXED = ("429", "reset", "short", "503", "garbage", "denied", "close")  # one after the other
MOST = 400  # runs
FOREIGN = {"pdns": ("theirs." + ZONE, "A"), "knot": ("alien." + ZONE, "TXT"), "parent": ("other.example.", "TXT")}
ADDRESS_OF = {name: address for kind, both in ADDRESSES.items() for name, address in zip(NAMES[kind], both)}


class Labelled:
    """The faults of one proxy of several: its requests say whose they are.  A request that is still under way
    when its command is dead kills no other one."""
    run = 0  # the number of the command that runs

    def __init__(self, label, faults):
        self.label, self.faults = label, faults
        self.forwarded = faults.forwarded
        self.of = threading.local()

    def arrive(self, method, path, write):
        self.of.run = Labelled.run
        return self.faults.arrive(method, f"{self.label}{path}", write)

    def kill(self):
        if self.of.run == Labelled.run:
            self.faults.kill()


class Every:
    """The fault, once for each request of each place."""

    def __init__(self, mode):
        self.mode, self.met, self.place = mode, set(), None
        self.well = collections.Counter()  # requests of this run that got their reply

    def begin(self, place):
        self.place = place
        self.well.clear()

    def __call__(self, index, request):
        what = request.method, request.path
        key = self.place, what, self.well[what]
        if self.mode and key not in self.met:
            mode = MIXED[len(self.met) % len(MIXED)] if self.mode == "mixed" else self.mode
            self.met.add(key)
            return mode if request.path.startswith("/pdns") else DNS_MODES.get(mode, mode)
        self.well[what] += 1
        return None


class Watcher(threading.Thread):
    """Asks all name servers that the parent names, again and again: each has to have the whole zone."""

    QUESTIONS = migrate_network.Asker.QUESTIONS + ((ZONE, "SOA"), (ZONE, "NS"))

    def __init__(self):
        super().__init__(daemon=True)
        self.over, self.lock = threading.Event(), threading.Lock()
        self.lookups, self.holes, self.sets = 0, [], set()
        self.judge = migrate_network.Asker("").judge

    def look(self):
        with self.lock:
            reply = sluicelib.ask(PARENT, 53, ZONE, "NS", timeout=5)
            named = tuple(sorted(str(r) for rrset in reply.authority for r in rrset))
            self.sets.add(named)
            if not named:
                self.holes.append("no delegation")
            for name in named:
                for owner, rdtype in self.QUESTIONS:
                    self.ask(name, owner, rdtype)

    def ask(self, server, owner, rdtype):
        self.lookups += 1
        try:
            reply = sluicelib.ask(ADDRESS_OF[server], 53, owner, rdtype, timeout=5)
            good = bool(reply.answer) if owner == ZONE and rdtype != "MX" else self.judge(owner, rdtype, reply)
        except (OSError, dns.exception.DNSException) as error:
            reply, good = error, False
        if not good:
            self.holes.append(f"{time.strftime('%T')} {server} {owner} {rdtype}: {reply}")

    def run(self):
        while not self.over.is_set():
            self.look()
            self.over.wait(0.05)

    def stop(self):
        self.over.set()
        self.join(sluicelib.DEADLINE)


class World(migrate_network.World):
    """PowerDNS, Knot and the parent's Knot are behind proxies of one set of faults."""

    def __init__(self, folder, at, timeout):
        self.faults = faultlib.Faults()
        self.proxies, self.timeout = {}, timeout
        super().__init__(folder, at=at)
        for kind in ("knot", "parent"):
            self.proxies[kind] = faultlib.DnsProxy(53, Labelled(f"/{kind}", self.faults))
            self.proxies[kind].target = (PARENT if kind == "parent" else ADDRESSES["knot"][0], 53)
        self.proxies["pdns"] = faultlib.HttpProxy(self.servers["pdns"].url, Labelled("/pdns", self.faults))
        self.write()
        self.put_foreign()

    def write(self, **options):
        if "pdns" in self.proxies:
            self.url, self.web, self.patience = self.proxies["pdns"].url, self.timeout, self.timeout
        super().write(**options)
        path = self.folder / "config/defaults.yaml"
        text = path.read_text(encoding="ascii")
        if "pdns" in self.proxies:
            for kind, address in (("knot", ADDRESSES["knot"][0]), ("parent", PARENT)):
                text = text.replace(f"address: {address},", f"address: 127.0.0.1@{self.proxies[kind].port},")
            text = text.replace(f"{self.proxies['parent'].port}, secret: tsig}}", f"{self.proxies['parent'].port}, secret: tsig, "
                                f"timeout: {self.timeout}, servers: [{PARENT}]}}")
            path.write_text(text, encoding="ascii")

    def put_foreign(self):
        if "pdns" in self.at:
            self.servers["pdns"].put(*FOREIGN["pdns"], ["192.0.2.66"], zone=ZONE)
        self.servers["knot"].update(ZONE, lambda m: m.add(FOREIGN["knot"][0], 30, "TXT", '"theirs"'))
        self.parent.update("example.", lambda m: m.add(FOREIGN["parent"][0], 30, "TXT", '"others"'))

    def dump(self):
        """All record sets but the SOA, at all three."""
        out = {}
        status, zone = self.servers["pdns"].api("GET", f"/zones/{ZONE}")
        out["pdns", "zone", str(status)] = []
        for rrset in zone["rrsets"] if status == 200 else []:
            if rrset["type"] != "SOA":
                records = sorted(json.dumps(r, sort_keys=True) for r in rrset["records"])
                out["pdns", rrset["name"], rrset["type"]] = [rrset["ttl"], *records]
        for where, address, zone in (("knot", ADDRESSES["knot"][0], ZONE), ("parent", PARENT, "example.")):
            for line in self.transfer(address, zone):
                name, ttl, rdtype, data = line.split(" ", 3)
                if rdtype != "SOA":
                    out.setdefault((where, name, rdtype), []).append(f"{ttl} {data}")
        return {key: sorted(map(str, value)) for key, value in out.items()}

    @staticmethod
    def transfer(address, zone):
        result = dns.zone.Zone(zone, relativize=False)
        query, _ = dns.xfr.make_query(result, keyring=KEY.ring(), keyname=KEY.name, keyalgorithm=KEY.algorithm)
        dns.query.inbound_xfr(address, result, query=query, lifetime=sluicelib.DEADLINE)
        return secondaries.texts(result)

    def place(self):
        """Where the migration stands, by its state and by what name servers say."""
        state = self.state() if (self.folder / "state/tm.example.json").exists() else {"phase": None, "back": False}
        apexes = [tuple(sorted(sluicelib.rdata(sluicelib.ask(both[0], 53, ZONE, "NS")))) for kind, both in ADDRESSES.items()
                  if kind in self.servers]
        return state["phase"], state["back"], tuple(self.delegation()), *apexes

    def go(self, *words, fault=None):
        Labelled.run += 1
        done = self.faults.run(*self.argv("migrate", ZONE, "--state", self.folder / "state", "--yes", "--leave-records",
                                          "--settle", "0", *words), fault=fault)
        assert KEY.secret not in done.stdout + done.stderr and pdnslib.KEY not in done.stdout + done.stderr
        return done

    def wait(self):
        """Until the time that the state names."""
        left = json.loads(self.migrate("--status", "--json").stdout)["next"] / 1000 - time.time()
        assert left < 5, left
        threading.Event().wait(max(0.0, left))

    def close(self):
        super().close()
        for proxy in self.proxies.values():
            proxy.close()


class Run:
    """A migration in a world that is watched, run after run, until `done`."""

    def __init__(self, world):
        self.world, self.watcher = world, Watcher()
        self.runs, self.requests, self.met, self.codes = 0, 0, 0, collections.Counter()
        world.faults.watch = lambda request: self.watcher.look()
        self.foreign = self.theirs(world.dump())
        assert len(self.foreign) == 2 + ("pdns" in world.at), self.foreign

    @staticmethod
    def theirs(dump):
        return {key: body for key, body in dump.items() if any(key == (where, *record) for where, record in FOREIGN.items())}

    def over(self, *words):
        """All of it; each run of the command with the fault at the next requests that have not met it."""
        fault = self.fault
        while True:
            assert self.runs < MOST, self.codes
            before = self.world.dump()
            fault.begin(self.world.place())
            done = self.world.go("--once", *words, fault=fault)
            self.runs += 1
            self.requests += len(self.world.faults.requests)
            self.codes[done.returncode] += 1
            self.check(done, before)
            if done.returncode == 0:
                return
            if done.stdout.rstrip().endswith("again") and "next " in done.stdout:
                self.world.wait()

    def check(self, done, before):
        faulty = [r for r in self.world.faults.requests if r.mode]
        now = self.world.dump()
        assert self.theirs(now) == self.foreign
        assert done.killed or done.returncode in (0, 1, 3), (done.returncode, done.stderr)
        # (What a killed command had sent beside may arrive only after its end.)
        assert not done.killed or any(r.mode in ("before", "after") for r in faulty), done.stderr
        if done.returncode == 1:
            assert faulty and now == before, (faulty, done.stderr, set(map(str, now.items())) ^ set(map(str, before.items())))
        if done.returncode in (1, 3) and "next " not in done.stdout:
            assert faulty and done.stderr.startswith("sluice: "), (faulty, done.stdout, done.stderr)
            assert any(p in done.stderr for p in ("dns-pdns", "dns-knot", "top")), done.stderr
        assert not self.watcher.holes, self.watcher.holes[:3]

    def play(self, mode, *words):
        self.fault = Every(mode)
        self.over(*words)
        self.met += len(self.fault.met)
        assert not mode or self.met > 60, self.met  # a migration without faults sends some 70 requests

    def __enter__(self):
        self.watcher.start()
        return self

    def __exit__(self, kind, value, trace):
        self.watcher.stop()
        if not kind:
            assert not self.watcher.holes, self.watcher.holes[:3]

    def __str__(self):
        return (f"{self.met} faults, {self.runs} runs {dict(self.codes)}, {self.requests} requests, {self.watcher.lookups} lookups, "
                f"{len(self.watcher.sets)} delegations")


def timeout_of(mode):
    return "2s" if mode == "silent" else "20s"


def check_end(world, source, target, forward=True):
    """Both providers have the zone as it should be, with the same NS records; the state says done."""
    migrate_network.check_moved(world, *((source, target) if forward else (target, source)))
    state = world.state()
    assert state["phase"] == "done" and state["back"] != forward
    dump = world.dump()
    dumped = {where: {key[1:]: body for key, body in dump.items() if key[0] == where} for where in ("pdns", "knot")}
    for where in dumped:
        assert {name for name, rdtype in dumped[where] if rdtype in ("A", "LUA", "MX")} >= {
            "www." + ZONE, "mail." + ZONE, "cdn." + ZONE, ZONE}, dumped[where]
    # A plan of all of it is empty but for the NS records, which zone.yaml does not have yet.
    kind = target if forward else source
    world.write(ns=NAMES[kind], listed=("pdns", "knot"), delegation=NAMES[kind])
    done = world.sync("drift", ZONE, "example.", status=None)
    assert done.returncode == 0, done.stdout + done.stderr


def move(folder, mode, source, target):
    """Forward, with the fault."""
    mode = None if mode == "none" else mode
    with World(folder, (source,), timeout_of(mode)) as world, Run(world) as run:
        run.play(mode, "--from", PROVIDER[source], "--to", PROVIDER[target])
        check_end(world, source, target)
        if source == "pdns":
            delete_at_last(world, source, target)
    print(run)


def delete_at_last(world, source, target):
    """The zone is deleted where it was; the reply to that is lost, but what is there tells."""
    world.write(ns=NAMES[target], listed=(target,), delegation=NAMES[target])
    done = world.go("--delete-old", fault=lambda index, request: "lost" if request.method == "DELETE" else None)
    assert done.returncode == 0 and f"deleted at {PROVIDER[source]}" in done.stdout, (done.stdout, done.stderr)
    assert any(r.mode for r in world.faults.requests) and world.servers[source].api("GET", f"/zones/{ZONE}")[0] == 404


def back(folder, mode, source="pdns", target="knot"):
    """Forward without a fault as far as `wait-out`, then the whole way back with it."""
    with World(folder, (source,), timeout_of(mode)) as world, Run(world) as run:
        words = ("--from", PROVIDER[source], "--to", PROVIDER[target])
        while migrate_network.world_phase(world) != "wait-out":
            done = world.go("--once", *words)
            assert done.returncode == 3, done.stderr
            if world.state()["phase"] != "wait-out":
                world.wait()
        assert world.delegation() == sorted(NAMES[target])
        run.play(mode, "--back")
        check_end(world, source, target, forward=False)
    print(run)


def amid(folder, mode):
    """One provider refuses its part of a change of NS records, so that they are not the same everywhere:
    the way back is open, and puts them right."""
    with World(folder, ("pdns",), timeout_of(mode)) as world, Run(world) as run:
        apexes = [world.apex(kind) for kind in ("pdns", "knot")]

        def refuse(index, request):
            return mode if (request.method, request.path) == ("UPDATE", "/knot") and world.state()["phase"] == "apex-in" else None
        done = world.go("--once", "--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], fault=refuse)
        assert done.returncode == 3 and "dns-knot" in done.stderr, done.stderr
        assert world.state()["phase"] == "apex-in" and world.apex("pdns") != world.apex("knot"), apexes
        run.play(None, "--back")
        check_end(world, "pdns", "knot", forward=False)
        assert world.apex("knot") == sorted(NAMES["pdns"])
    print(run)


SCENARIOS = {"amid": amid, "to_knot": lambda folder, mode: move(folder, mode, "pdns", "knot"),
             "to_pdns": lambda folder, mode: move(folder, mode, "knot", "pdns"),
             "back": back}

if __name__ == "__main__":
    migrate_network.SCENARIOS = SCENARIOS
    migrate_network.main()
