# SPDX-License-Identifier: Apache-2.0
"""Run as migrate_network.py, by test_migrate_dead.py: a zone leaves a provider that is down (killed, or silent),
in whole or in part, before it begins or in the middle.  Arguments: the scenario, an empty folder, and the
scenario's."""
import json
import random
import select
import signal
import socket
import subprocess
import threading

import dns.exception
import dns.flags
import dns.message
import dns.rdatatype

import migrate_network
import pdnslib
import serverlib
import sluicelib
from migrate_network import NAMES, PROVIDER, RESOLVERS, ZONE, deployer, once, registry, time_is_over, until
from migrate_world import ADDRESSES, World, check_moved

FROM, TO = PROVIDER["pdns"], PROVIDER["knot"]
START = ("--from", FROM, "--to", TO, "--yes")
DOWN = ("--down", FROM)
LONG = 3 * sluicelib.DEADLINE  # a resolver may be busy with a dead server for a minute


class Grave(threading.Thread):
    """Where PowerDNS was: takes what comes to its name servers and its API, and answers nothing."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.over, self.questions, self.calls = threading.Event(), [], 0
        self.sockets = []
        for address in ADDRESSES["pdns"]:
            self.open(address, 53, socket.SOCK_DGRAM)
            self.open(address, 53, socket.SOCK_STREAM)
        self.api = self.open(pdnslib.HOST, world.servers["pdns"].web.number, socket.SOCK_STREAM)
        self.start()

    def open(self, address, port, kind):
        opened = socket.socket(socket.AF_INET, kind)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((address, port))
        if kind == socket.SOCK_STREAM:
            opened.listen()
        self.sockets.append(opened)
        return opened

    def run(self):
        while not self.over.is_set():
            for ready in select.select(self.sockets, [], [], 0.1)[0]:
                if ready.type == socket.SOCK_DGRAM:
                    question = dns.message.from_wire(ready.recv(65535)).question[0]
                    self.questions.append((str(question.name), dns.rdatatype.to_text(question.rdtype)))
                else:
                    self.calls += ready is self.api  # before the other side knows
                    ready.accept()[0].close()

    def close(self):
        self.over.set()
        self.join(sluicelib.DEADLINE)
        for opened in self.sockets:
            opened.close()


def kill(world, kind="pdns"):
    """As kill -9."""
    server = world.servers[kind]
    (server if kind == "own" else server.process).kill()


def revive(world):
    """PowerDNS as it was when it was killed."""
    pdns = world.servers["pdns"]
    pdns.process = sluicelib.Process("pdns_server", f"--config-dir={pdns.folder}", cwd=pdns.folder)
    serverlib.wait_for(pdns.is_up, "the API of PowerDNS")
    for address in ADDRESSES["pdns"]:
        serverlib.wait_for(lambda a=address: world.is_up(a, ZONE), "PowerDNS")


def flat(done):
    return " ".join((done.stdout + done.stderr).split())


def stops(world, *words, told, status=1):
    """The command stops, says what fails, and how to go on without it."""
    done = world.migrate(*words, status=status)
    for text in told:
        assert text in flat(done), (text, done.stdout, done.stderr)
    return done


def knows(address, kind):
    """Whether a resolver still has the name servers of this kind in its cache (asked without recursion)."""
    query = sluicelib.make_query(ZONE, "NS")
    query.flags &= ~dns.flags.RD
    reply = sluicelib.udp(query, address, 53)
    return any(str(rd) in NAMES[kind] for rrset in (*reply.answer, *reply.authority) for rd in rrset)


def wait_forgotten(kind="pdns"):
    """A lookup that begins before that asks the dead name servers for up to a minute, whatever the delegation is."""
    for address in RESOLVERS.values():
        serverlib.wait_for(lambda a=address: not knows(a, kind), "the old delegation is out of the cache", LONG)


def wait_resolved(world):
    for address in RESOLVERS.values():
        serverlib.wait_for(lambda a=address: world.resolves(a), "answers again", LONG)


def wait_count(asking, more=400):
    before = asking.count
    serverlib.wait_for(lambda: asking.count > before + more, "questions", LONG)


def check_left(world, wanted, kinds):
    assert world.delegation() == sorted(wanted)
    for kind in kinds:
        assert world.apex(kind) == sorted(wanted)
    state = world.state()
    assert state["phase"] == "done" and state["down"] == [FROM], state


def nobody_asks(world, asking):
    """A new grave in place of the old one stays empty while resolvers answer some hundred questions.  A lookup that a
    resolver began with the old delegation keeps asking the dead servers for some seconds: the one before it counts."""
    graves = []

    def is_quiet():
        graves.append(Grave(world))
        wait_count(asking)
        graves[-1].close()
        assert graves[-1].calls == 0
        return not graves[-1].questions
    serverlib.wait_for(is_quiet, lambda: f"a time in which nobody asks: {[g.questions for g in graves]}", LONG)


def third_lives(folder):
    """At our server and PowerDNS; that is killed, and Knot takes its place.  Not one lookup fails: our server answers
    until Knot does, too.  Then PowerDNS is there again."""
    listed = ("own", "pdns", "knot")
    with World(folder, at=("own", "pdns"), kinds=listed, registered=("own", "pdns")) as world:
        world.deploy(listed=listed)
        old = world.apex("pdns")
        kill(world)
        grave = Grave(world)
        wanted = sorted((*NAMES["own"], *NAMES["knot"]))
        with world.asking() as asking:
            wait_count(asking)
            out = once(world, deployer(world, listed=listed), *START, *DOWN)
            check_left(world, wanted, ("own", "knot"))
            assert grave.calls == 0 and (ZONE, "SOA") not in grave.questions, grave.questions[:9]
            assert "waits until" not in out.partition("wait-out")[0]
            grave.close()
            nobody_asks(world, asking)
            world.deploy(listed=("own", "knot"), ns=wanted, delegation=wanted)
            assert world.sync("drift").returncode == 0
            revive(world)
            assert world.apex("pdns") == old
            done = world.migrate("--up", FROM)
            assert world.apex("pdns") == wanted and world.state()["down"] == [], done.stdout
        assert "deleted at dns-pdns" in world.migrate("--delete-old").stdout


def alone(folder):
    """At PowerDNS only, which is killed: once resolvers have forgotten its delegation, all lookups succeed.
    Back again once PowerDNS is there."""
    with World(folder) as world:
        kill(world)
        grave = Grave(world)
        world.web = "2s"
        world.write()
        stops(world, *START, told=("dns-pdns", "that is the API of dns-pdns", "--down dns-pdns goes on without it"))
        assert grave.calls > 0
        grave.close()
        grave = Grave(world)  # with nothing that is still on its way to the old one
        plan = world.migrate(*START, *DOWN, "--plan")
        assert "dns-pdns: neither asked nor written" in plan.stdout and not (folder / "state/tm.example.json").exists()
        process = world.spawn(*START, *DOWN)
        serverlib.wait_for(lambda: world.delegation() == sorted(NAMES["knot"]) or process.poll() is not None, "Knot", LONG)
        wait_forgotten()
        wait_resolved(world)
        with world.asking() as asking:
            out, _ = process.communicate(timeout=3 * sluicelib.DEADLINE)
            assert process.returncode == 0, out
            check_left(world, NAMES["knot"], ("knot",))
            assert grave.calls == 0 and (ZONE, "SOA") not in grave.questions, grave.questions[:9]
            grave.close()
            nobody_asks(world, asking)
            check_status(world)
            # Back, too early; then it is there, with what it had.
            stops(world, "--back", told=("dns-pdns",))
            assert world.delegation() == world.apex("knot") == sorted(NAMES["knot"])
            revive(world)
            world.servers["pdns"].put(f"www.{ZONE}", "A", ["192.0.2.99"], zone=ZONE)  # and not as the model has it
            world.migrate()
            for kind in ("pdns", "knot"):
                assert world.apex(kind) == sorted(NAMES["pdns"])
            assert world.delegation() == sorted(NAMES["pdns"]) and world.state()["down"] == []
        assert "answered by dns-pdns alone" in flat(world.migrate())


def check_status(world):
    assert "--up dns-pdns brings it level, --back goes back there" in flat(world.migrate())
    status = json.loads(world.migrate("--status", "--json").stdout)
    assert status["done"] and status["state"]["down"] == [FROM]
    assert "dns-pdns: neither asked nor written" in world.migrate("--status").stdout
    assert "still lists dns-pdns" in flat(world.migrate("--delete-old", status=1))


def middle(folder, phase):
    """PowerDNS is killed in the middle of a migration."""
    with World(folder) as world:
        until(world, phase, *START)
        phase = world.state()["phase"]
        covered = phase in ("parent-out", "apex-out", "wait-out")  # resolvers know Knot by then
        askers = world.asking() if covered else None
        if covered:
            askers.__enter__()
        kill(world)
        world.web = "2s"
        world.write()
        if phase != "wait-out":
            stops(world, told=("dns-pdns", "--down dns-pdns"))
        process = world.spawn(*DOWN, "--settle", "3600s")  # no pause between name servers
        if not covered:
            serverlib.wait_for(lambda: world.delegation() == sorted(NAMES["knot"]) or process.poll() is not None, "Knot", LONG)
            wait_forgotten()
            wait_resolved(world)
            askers = world.asking()
            askers.__enter__()
        out, _ = process.communicate(timeout=3 * sluicelib.DEADLINE)
        assert process.returncode == 0, out
        check_left(world, NAMES["knot"], ("knot",))
        nobody_asks(world, askers)
        askers.__exit__(None, None, None)
        revive(world)
        world.migrate("--up", FROM)
        check_moved(world, "pdns", "knot")


def returns(folder):
    """PowerDNS is there again while somebody is to set the delegation: its NS records are written at once."""
    with World(folder, ours=False) as world:
        kill(world)
        done = world.migrate(*START, *DOWN, "--once", status=3)
        assert "NS ns2.knot.example." in done.stdout and "NS ns1.pdns" not in done.stdout, done.stdout
        assert world.state()["phase"] == "parent-in" and world.apex("knot") == sorted(NAMES["knot"])
        assert "--up dns-pdns" in flat(world.migrate("--status"))
        revive(world)
        assert world.apex("pdns") == sorted(NAMES["pdns"])
        wait_resolved(world)
        with world.asking():
            done = world.migrate("--up", FROM, "--once", status=3)
            assert "dns-pdns gets what is in force" in done.stdout
            assert world.apex("pdns") == sorted(NAMES["knot"]) and world.state()["down"] == []
            once(world, registry(world))
            check_moved(world, "pdns", "knot")


def returns_early(folder):
    """PowerDNS is there again before Knot is verified: as if it had never been down."""
    with World(folder) as world:
        kill(world)
        world.servers["knot"].update(ZONE, lambda m: m.add("alien." + ZONE, 30, "TXT", '"x"'))
        stops(world, *START, *DOWN, told=("alien.tm.example. TXT", "--leave-records"))
        world.servers["knot"].update(ZONE, lambda m: m.delete("alien." + ZONE, "TXT"))
        out = until(world, "verify", *START, *DOWN)
        assert "NOTE: dns-pdns is neither asked nor written" in " ".join(out.split())
        revive(world)
        wait_resolved(world)
        with world.asking():
            world.migrate("--up", FROM)
            check_moved(world, "pdns", "knot")


def killed(folder):
    """The command is killed at any moment, again and again: the next run goes on without PowerDNS."""
    rng = random.Random(12)
    kills = 0
    with World(folder) as world:
        kill(world)
        words = (*START, *DOWN)
        for _ in range(200):
            process = world.spawn(*words)
            try:
                # (The last phase alone takes two seconds, however fast a machine is; a slow one gets its time in the end.)
                out, _ = process.communicate(timeout=rng.uniform(0.1, 1.0) * 1.1 ** kills)
                assert process.returncode == 0, out
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += 1
                if (folder / "state/tm.example.json").exists():
                    words = ()
        else:
            raise AssertionError(world.state())
        check_left(world, NAMES["knot"], ("knot",))
        wait_forgotten()
        wait_resolved(world)
        with world.asking() as asking:
            nobody_asks(world, asking)
    assert kills > 1, kills


def third_dies(folder):
    """Our server is the one that stays, and is down meanwhile: it stops nothing, once that is said, and it gets what
    it has missed before PowerDNS's zone may be deleted."""
    listed = ("own", "pdns", "knot")
    with World(folder, at=("own", "pdns"), kinds=listed, registered=("own", "pdns")) as world:
        world.deploy(listed=listed)
        wanted = sorted((*NAMES["own"], *NAMES["knot"]))
        kill(world, "own")
        with world.asking():
            stops(world, *START, told=("--down sluice goes on without it",))
            done = world.migrate(*START, "--settle", "0", "--down", "sluice")
            assert "sluice was down" in done.stdout and "--up sluice" in flat(done)
            assert world.delegation() == world.apex("knot") == world.apex("pdns") == wanted
            world.write(listed=("own", "knot"), delegation=wanted)
            assert "may still name dns-pdns" in flat(world.migrate("--delete-old", status=1))
            world.start_own()
            serverlib.wait_for(lambda: world.is_up(ADDRESSES["own"][0], ZONE), "our server")
            assert world.apex("own") != wanted
            done = world.migrate("--up", "sluice", status=3)
            assert "has to be deployed" in done.stdout and "--up sluice" in flat(done)
            world.deploy(listed=("own", "knot"), ns=wanted, delegation=wanted)
            world.migrate("--up", "sluice")
            assert world.state()["down"] == [] and world.apex("own") == wanted
            assert "deleted at dns-pdns" in world.migrate("--delete-old").stdout


def new_dies(folder):
    """Knot, which is to get the zone, is killed in the middle: back without it."""
    with World(folder, patience="3s") as world:
        with world.asking():
            until(world, "wait-in", *START, "--settle", "0")
            kill(world, "knot")
            stops(world, "--back", told=("dns-knot", "--down dns-knot goes on without it"))
            assert "cannot be done without" in flat(world.migrate("--forward", "--down", TO, status=2))
            world.migrate("--back", "--down", TO)
            assert world.delegation() == world.apex("pdns") == sorted(NAMES["pdns"])
            assert world.state()["down"] == [TO]


def api_only(folder):
    """Only PowerDNS's API is gone, its name servers answer: not one lookup fails.  And the other way round, the
    message says so."""
    with World(folder) as world:
        world.url, world.web = f"http://{pdnslib.HOST}:9", "2s"
        world.write()
        with world.asking() as asking:
            stops(world, *START, told=("that is the API of dns-pdns", "--down dns-pdns"))
            assert "did you mean dns-pdns" in flat(world.migrate(*START, "--down", "dns-pdn", status=1))
            assert "gets the zone" in flat(world.migrate(*START, "--down", TO, status=2))
            world.migrate(*START, *DOWN, "--once", status=3)
            world.migrate("--once", "--down", "dns-pdn", status=1)
            assert world.state()["down"] == [FROM]
            time_is_over(world)
            world.migrate()
            check_left(world, NAMES["knot"], ("knot",))
            assert world.apex("pdns") == sorted(NAMES["pdns"])
            kill(world)
            nobody_asks(world, asking)
        (folder / "state/tm.example.json").unlink()
    again = folder / "again"
    again.mkdir()
    with World(again) as world:
        path = again / "config/defaults.yaml"
        path.write_text(path.read_text(encoding="ascii").replace("type: powerdns,", "type: powerdns, servers: [127.0.2.9],"),
                        encoding="ascii")
        stops(world, *START, told=("dns-pdns: the name server 127.0.2.9 does not answer",
                                   "that is a name server of dns-pdns", "--down dns-pdns"))


def to_own(folder):
    """To our own server, which gets its NS records by a deploy: that has to come first."""
    with World(folder, kinds=("pdns", "own")) as world:
        world.deploy(listed=("pdns", "own"))
        kill(world)
        words = (*START[:2], "--to", "sluice", "--yes", "--ns", ",".join(NAMES["own"]), *DOWN)
        stops(world, *words, told=(f"before it goes on: ns: [{', '.join(NAMES['own'])}]",))
        assert world.state()["phase"] == "fill" and world.delegation() == sorted(NAMES["pdns"])
        world.deploy(listed=("pdns", "own"), ns=NAMES["own"])
        world.migrate()
        check_left(world, NAMES["own"], ("own",))
        wait_resolved(world)
        with world.asking() as asking:
            nobody_asks(world, asking)


def parent_too(folder):
    """The parent zone is at a provider that is down alone: that is said, and nothing begun."""
    with World(folder) as world:
        kill(world)
        stops(world, *START, "--down", f"{FROM},top", told=("the parent zone example. is at", "move the parent zone first"))


SCENARIOS = {f.__name__: f for f in (third_lives, alone, middle, returns, returns_early, killed, third_dies, new_dies, api_only,
                                     to_own, parent_too)}

if __name__ == "__main__":
    migrate_network.SCENARIOS = SCENARIOS
    migrate_network.main()
