# SPDX-License-Identifier: Apache-2.0
"""Run as migrate_network.py, by test_migrate_faults.py: a migration in which requests to a provider (PowerDNS's,
Route 53's and NS1's API, transfers from and updates to Knot and BIND, also those of the parent zone, questions to
our server's control socket) meet a fault once each.  Arguments: the scenario, an empty folder, and the scenario's.

Where a migration stands is told by its state file.  From each such place the command is run again and again,
each time with the fault at the first request that has not met it there, until it is over: what a command that
begins there would send until it comes to the next place is all hit, or a fixed sample of it."""
import collections
import json
import threading
import time
import zlib

import dns.exception

import faultlib
import migrate_network
import pdnslib
import sluicelib
from migrate_network import ADDRESSES, KEY, NAMES, PARENT, PROVIDER, ZONE
from migrate_places import PLACES, BindWorld

MIXED = ("429", "reset", "short", "503", "garbage", "denied", "close")  # one after the other
ANY = ("before", "lost", "500", "after", "cut", "429", "reset", "short", "garbage", "denied", "close")
MOST = 400  # runs


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
    """The fault, once for each request of each place, or for one of `of` of them."""

    def __init__(self, mode, of=1):
        self.mode, self.of, self.met, self.place = mode, of, set(), None
        self.modes = {"mixed": MIXED, "any": ANY}.get(mode, (mode,))
        self.well = collections.Counter()  # requests of this run that got their reply

    def begin(self, place):
        self.place = place
        self.well.clear()

    def __call__(self, index, request):
        what = request.method, request.path
        key = self.place, what, self.well[what]
        chosen = self.mode and zlib.crc32(repr((*self.place[:2], what, key[-1])).encode()) % self.of == 0
        if chosen and key not in self.met:
            mode = self.modes[len(self.met) % len(self.modes)]
            self.met.add(key)
            return PLACES[request.path.split("/")[1]].modes.get(mode, mode)
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
            reply = sluicelib.ask(PARENT, 53, ZONE, "NS")
            named = tuple(sorted(str(r) for rrset in reply.authority for r in rrset))
            self.sets.add(named)
            if not named:
                self.holes.append("no delegation")
            address_of = {name: a for kind, both in ADDRESSES.items() for name, a in zip(NAMES[kind], both)}
            for name in named:
                for owner, rdtype in self.QUESTIONS:
                    self.ask(name, address_of[name], owner, rdtype)

    def ask(self, server, address, owner, rdtype):
        """As a resolver does, which asks again: a busy machine loses datagrams."""
        self.lookups += 1
        try:
            for last in (False, False, True):
                try:
                    reply = sluicelib.ask(address, 53, owner, rdtype, timeout=5)
                    break
                except dns.exception.Timeout:
                    if last:
                        raise
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


class Behind:
    """Its providers and the parent's server are behind proxies of one set of faults."""

    def __init__(self, folder, at, kinds, timeout):
        self.faults = faultlib.Faults()
        self.places, self.timeout = {}, timeout
        super().__init__(folder, at=at)
        for kind in (*kinds, "parent"):
            self.places[kind] = PLACES[kind](self, kind, Labelled(f"/{kind}", self.faults))
        self.write()
        for place in self.places.values():
            if place.has_zone():
                place.put_foreign()

    def write(self, **options):
        super().write(**options)
        path = self.folder / "config/defaults.yaml"
        lines = path.read_text(encoding="ascii").splitlines(keepends=True)
        for place in self.places.values():
            lines = [place.rewrite(line, self.timeout) for line in lines]
        path.write_text("".join(lines), encoding="ascii")

    def dump(self):
        """All record sets but the SOA, everywhere."""
        return {key: body for place in self.places.values() for key, body in place.dump().items()}

    def place(self):
        """Where the migration stands, by its state and by what name servers say."""
        state = self.state() if (self.folder / "state/tm.example.json").exists() else {"phase": None, "back": False}
        apexes = [tuple(sorted(sluicelib.rdata(sluicelib.ask(ADDRESSES[kind][0], 53, ZONE, "NS"))))
                  for kind in self.places if kind != "parent"]
        return state["phase"], state["back"], tuple(self.delegation()), *apexes

    def argv(self, *words):
        out = super().argv(*words)
        if "own" in self.places:
            out[out.index(str(self.control))] = self.places["own"].proxy.path
        return out

    def go(self, *words, fault=None):
        Labelled.run += 1
        done = self.faults.run(*self.argv("migrate", ZONE, "--state", self.folder / "state", "--yes", "--leave-records",
                                          "--settle", "0", *words), fault=fault,
                               deadline=5 * sluicelib.DEADLINE)
        assert KEY.secret not in done.stdout + done.stderr and pdnslib.KEY not in done.stdout + done.stderr
        return done

    def wait(self):
        """Until the time that the state names."""
        left = json.loads(self.migrate("--status", "--json").stdout)["next"] / 1000 - time.time()
        assert left < 5, left
        threading.Event().wait(max(0.0, left))

    def close(self):
        super().close()
        for place in self.places.values():
            place.close()


class OwnWorld(migrate_network.World):
    def __init__(self, folder, at):
        super().__init__(folder, at=at, kinds=("pdns", "own"))


def world_of(kind):
    """The class of worlds in which that kind stands beside PowerDNS."""
    if kind == "r53":
        from route53_network import World as base
    elif kind == "ns1":
        from ns1_network import World as base
    else:
        base = {"knot": migrate_network.World, "own": OwnWorld, "bind": BindWorld}[kind]
    return type("World", (Behind, base), {})


def open_world(folder, source, target, timeout):
    other = target if source == "pdns" else source
    return world_of(other)(folder, (source,), (source, target), timeout)


class Run:
    """A migration in a world that is watched, run after run, until `done`."""
    whose = ("dns-", "sluice: sluice: ", "top")  # what a fault is told of

    def __init__(self, world):
        self.world, self.watcher, self.asking = world, Watcher(), world.asking(0.02, 8)
        self.runs, self.requests, self.met, self.codes = 0, 0, 0, collections.Counter()
        world.faults.watch = lambda request: self.watcher.look()
        self.foreign = self.theirs(world.dump())
        assert len(self.foreign) == sum(place.has_zone() for place in world.places.values()), self.foreign
        self.deploys = migrate_network.deployer(world)

    def theirs(self, dump):
        keys = {key for place in self.world.places.values() for key in place.foreign}
        return {key: body for key, body in dump.items() if key in keys}

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
            self.follow(done)

    def follow(self, done):
        """What the command says that has to be done before it is run again."""
        if "when that is done" in done.stdout:
            self.deploys(done.stdout)
        elif done.stdout.rstrip().endswith("again") and "next " in done.stdout:
            self.world.wait()

    def faulty(self):
        """What the last run met."""
        return [r.mode for r in self.world.faults.requests if r.mode]

    def check(self, done, before):
        faulty = self.faulty()
        now = self.world.dump()
        assert self.theirs(now) == self.foreign
        assert done.killed or done.returncode in (0, 1, 3), (done.returncode, done.stderr)
        # (What a killed command had sent beside may arrive only after its end.)
        assert not done.killed or {"before", "after"} & set(faulty), done.stderr
        if done.returncode == 1:
            assert faulty and now == before, (faulty, done.stderr, set(map(str, now.items())) ^ set(map(str, before.items())))
        if done.returncode in (1, 3) and "next " not in done.stdout:
            assert faulty and done.stderr.startswith("sluice: "), (faulty, done.stdout, done.stderr)
            assert any(p in done.stderr for p in self.whose), done.stderr
        assert not self.watcher.holes, self.watcher.holes[:3]

    def play(self, mode, *words, of=1, least=60):
        self.fault = Every(mode, of)
        self.over(*words)
        self.met += len(self.fault.met)
        assert not mode or len(self.fault.met) > least, self.met  # a migration without faults sends some 70 requests

    def until(self, phase, *words):
        """Without a fault, until the migration is in the phase."""
        while migrate_network.world_phase(self.world) != phase:
            done = self.world.go("--once", *words)
            assert done.returncode in (0, 3), done.stderr
            if done.returncode == 0:
                return  # on a slow machine the time of the phase was over at once
            if self.world.state()["phase"] != phase:
                self.follow(done)

    def __enter__(self):
        self.watcher.start()
        self.asking.__enter__()
        return self

    def __exit__(self, kind, value, trace):
        self.watcher.stop()
        self.asking.__exit__(kind, value, trace)
        if not kind:
            assert not self.watcher.holes, self.watcher.holes[:3]

    def __str__(self):
        return (f"{self.met} faults, {self.runs} runs {dict(self.codes)}, {self.requests} requests, "
                f"{self.watcher.lookups + self.asking.count} lookups, {len(self.watcher.sets)} delegations")


def timeout_of(mode):
    return "2s" if mode == "silent" else "20s"


def check_end(world, source, target, forward=True):
    """Both providers have the zone as it should be, with the same NS records; the state says done."""
    at, left = (target, source) if forward else (source, target)
    migrate_network.check_moved(world, left, at)
    state = world.state()
    assert state["phase"] == "done" and state["back"] != forward
    for kind, place in world.places.items():
        dump = place.dump()
        assert kind in ("own", "parent") or {name for _, name, rdtype in dump if rdtype.split("/")[0] in ("A", "LUA", "MX")} >= {
            "www." + ZONE, "mail." + ZONE, "cdn." + ZONE, ZONE}, dump
    # A plan of all of it is empty but for the NS records, which zone.yaml does not have yet.
    write = world.deploy if "own" in world.places else world.write
    write(ns=NAMES[at], listed=(source, target), delegation=NAMES[at])
    done = world.sync("drift", ZONE, "example.", status=None)
    assert done.returncode == 0, done.stdout + done.stderr


def words_of(source, target):
    told = ("--ns", ",".join(NAMES[target])) if target == "own" else ()
    return "--from", PROVIDER[source], "--to", PROVIDER[target], *told


def move(folder, mode, source, target):
    """Forward, with the fault."""
    mode = None if mode == "none" else mode
    with open_world(folder, source, target, timeout_of(mode)) as world, Run(world) as run:
        run.play(mode, *words_of(source, target), least=20)
        check_end(world, source, target)
        if source == "pdns" and target != "own":
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
    with open_world(folder, source, target, timeout_of(mode)) as world, Run(world) as run:
        go_back(run, source, target, mode)
    print(run)


def go_back(run, source, target, mode, of=1, least=20):
    run.until("wait-out", *words_of(source, target))
    assert run.world.delegation() == sorted(NAMES[target])
    run.play(mode, "--back", of=of, least=least)
    check_end(run.world, source, target, forward=False)


def amid(folder, kind):
    """One provider refuses its part of a change of NS records, so that they are not the same everywhere:
    the way back is open, and puts them right."""
    with open_world(folder, "pdns", kind, "20s") as world, Run(world) as run:
        refuse_amid(run, kind)
    print(run)


def refuse_amid(run, kind):
    world = run.world
    mode = PLACES[kind].modes.get("denied", "denied")

    def refuse(index, request):
        return mode if request.write and request.path.startswith(f"/{kind}") and world.state()["phase"] == "apex-in" else None
    done = world.go("--once", *words_of("pdns", kind), fault=refuse)
    assert done.returncode == 3 and PROVIDER[kind] in done.stderr, done.stderr
    assert world.state()["phase"] == "apex-in" and world.apex("pdns") != world.apex(kind), world.apex(kind)
    run.met += 1
    run.play(None, "--back")
    assert world.apex(kind) == sorted(NAMES["pdns"])
    check_end(world, "pdns", kind, forward=False)


def tour(folder, kind, of):
    """There, back half way, and back, with a sample of the requests that meet faults of all kinds."""
    with open_world(folder, "pdns", kind, "20s") as world, Run(world) as run:
        if kind != "own":
            refuse_amid(run, kind)
        run.play("any", *words_of("pdns", kind), of=int(of), least=2)
        check_end(world, "pdns", kind)
        go_back(run, kind, "pdns", "any", of=int(of), least=2)
    print(run)


SCENARIOS = {"move": move, "back": back, "amid": amid, "tour": tour}

if __name__ == "__main__":
    migrate_network.SCENARIOS = SCENARIOS
    migrate_network.main()
