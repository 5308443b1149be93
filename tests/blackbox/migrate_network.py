# SPDX-License-Identifier: Apache-2.0
"""Run in a network and a mount namespace of its own by test_migrate.py: a small DNS of real servers on
port 53 (migrate_world.py), in which a zone moves while resolvers are asked all the time.  Arguments: the
scenario, an empty folder.  Prints what was seen."""
import fcntl
import json
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pdnslib  # noqa: E402
import serverlib  # noqa: E402
import sluicelib  # noqa: E402
from checkers_network import add_address  # noqa: E402
from migrate_world import (ADDRESSES, DOMAIN, KEY, NAMES, PARENT, PROVIDER, RESOLVERS, STEERED, TEXT, WWW, ZONE,  # noqa: E402, F401
                           Asker, Asking, Knot, World, addresses_of_servers, check_moved, names, soa)
from wildcard_address import loopback_up  # noqa: E402


def moves(folder):
    """From PowerDNS to Knot, the parent zone being ours."""
    with World(folder) as world:
        with world.asking() as asking:
            done = world.start("pdns", "knot")
            check_moved(world, "pdns", "knot")
            before = asking.count
            world.servers["pdns"].process.kill()  # nobody asks there any more
            serverlib.wait_for(lambda: asking.count > before + 400, "questions without the old servers")
        print(done.stdout)
        assert "zone.yaml does not list dns-knot" in done.stdout
        assert "not one failed" not in done.stdout and world.state()["phase"] == "done"


def once(world, play, *words):
    """Runs --once until all is done; `play` does what the output asks for.  Returns all output."""
    out = ""
    for _ in range(100):
        done = world.migrate("--once", *words, status=None)
        out += done.stdout
        words = ()
        assert done.returncode in (0, 3), done.stdout + done.stderr
        if done.returncode == 0:
            return out
        if "when that is done" in done.stdout:
            play(done.stdout)
        else:  # by the clock
            left = json.loads(world.migrate("--status", "--json").stdout)["next"] / 1000 - time.time()
            assert left < 5, left
            threading.Event().wait(max(0.0, left))
    raise AssertionError(out)


def registry(world):
    """Sets the delegation that the output names."""
    def play(text):
        lines = [line.split() for line in text.splitlines() if line.split()[:2] == [ZONE, "NS"]]
        assert lines, text

        def change(message):
            message.delete(ZONE, "NS")
            for words in lines:
                message.add(ZONE, 1, "NS", words[2])
        world.parent.update("example.", change)
    return play


def deployer(world, **options):
    """Pushes the `ns:` that the output names."""
    def play(text):
        found = " ".join(text.split()).rpartition(" ns: [")[2].partition("]")[0]
        assert found, text
        world.deploy(ns=found.split(", "), **options)
    return play


def to_own(folder):
    """From PowerDNS to our own server; the parent zone is a registry's."""
    with World(folder, ours=False, kinds=("pdns", "own")) as world:
        pushes, sets = deployer(world, listed=("pdns", "own")), registry(world)

        def play(text):
            (pushes if "has to be deployed" in text else sets)(text)
        world.deploy(listed=("pdns", "own"))
        with world.asking():
            out = once(world, play, "--from", PROVIDER["pdns"], "--to", "sluice", "--yes", "--ns",
                       ",".join(NAMES["own"]))
            check_moved(world, "pdns", "own")
        assert "zone.yaml does not list" not in out and "The delegation is not ours" in out


def from_own(folder):
    """From our own server to PowerDNS, where the zone is made; and deleted where it can be."""
    with World(folder, at=("own",), kinds=("pdns", "own")) as world:
        with world.asking():
            out = once(world, deployer(world), "--from", "sluice", "--to", PROVIDER["pdns"], "--yes")
            check_moved(world, "own", "pdns")
        assert world.state()["made"]
        assert "providers: with dns-pdns, without sluice" in " ".join(out.split())
        done = world.migrate("--delete-old", status=1)
        assert "still lists sluice" in done.stderr
        world.deploy(listed=("pdns",), ns=NAMES["pdns"])
        assert "deleted there, by hand" in world.migrate("--delete-old", status=1).stderr


def three_targets(folder):
    """Our server, PowerDNS and Knot: one stays, one goes, one comes.  The NS records of the apex are
    the same at all of them after each step (complaint C13)."""
    with World(folder, at=("own", "pdns"), kinds=("own", "pdns", "knot"), registered=("own", "pdns")) as world:
        both = ("own", "pdns", "knot")
        world.deploy(listed=both)
        pushes = deployer(world, listed=both)

        def play(text):
            pushes(text)
            assert set(world.apex("own")) == set(world.apex("pdns")) == set(world.apex("knot"))
        with world.asking():
            once(world, play, "--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes")
            wanted = sorted((*NAMES["own"], *NAMES["knot"]))
            assert world.delegation() == wanted
            assert world.apex("own") == world.apex("pdns") == world.apex("knot") == wanted
        world.deploy(listed=("own", "knot"), ns=wanted, delegation=wanted)
        assert world.sync("drift").returncode == 0
        done = world.migrate("--delete-old")
        assert "deleted at dns-pdns" in done.stdout and world.servers["pdns"].api("GET", f"/zones/{ZONE}")[0] == 404
        assert "there is no way back" in world.migrate("--back", status=2).stderr


def killed(folder):
    """Killed at any moment, again and again: the next run goes on."""
    rng = random.Random(11)
    kills = 0
    with World(folder) as world:
        with world.asking():
            words = ("--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes")
            for _ in range(200):
                process = world.spawn(*words)
                try:
                    # (The pauses alone take six seconds, however fast a machine is; a slow one gets its time in the end.)
                    out, _ = process.communicate(timeout=rng.uniform(0.2, 1.8) * 1.1 ** kills)
                    assert process.returncode == 0, out
                    break
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.communicate()
                    kills += 1
            else:
                raise AssertionError(world.state())
            check_moved(world, "pdns", "knot")
        assert kills > 2, kills


def until(world, phase, *words):
    """Goes on until the state is in the phase; a busy machine may interrupt it a little later.  (A phase that moves name
    servers is there for the pause between two of them, with `--settle 0` hardly at all.)"""
    path = world.folder / "state/tm.example.json"
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    process = world.spawn(*words)
    seen, end = set(), time.monotonic() + 3 * sluicelib.DEADLINE
    try:
        while phase not in seen and process.poll() is None and time.monotonic() < end:
            now = path.read_text(encoding="utf-8") if path.exists() else ""
            if now != before:  # else it may not have begun
                seen.add(json.loads(now)["phase"])
            time.sleep(0.001)
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=3 * sluicelib.DEADLINE)
    assert phase in seen and process.returncode == 3 and "interrupted at" in out, (seen, out)
    return out


def world_phase(world):
    try:
        return world.state()["phase"]
    except FileNotFoundError:
        return None


def back(folder):
    """The way back, from the middle and from near the end."""
    with World(folder) as world:
        start = ("--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes")
        with world.asking():
            until(world, "parent-in", *start)
            done = world.migrate("--back")
            assert world.delegation() == world.apex("pdns") == world.apex("knot") == sorted(NAMES["pdns"])
            assert "answered by dns-pdns alone" in " ".join(done.stdout.split())
            until(world, "apex-out", *start)
            assert "on the way back" not in " ".join(world.migrate("--status").stdout.split())
            world.migrate("--back")
            assert world.delegation() == world.apex("pdns") == world.apex("knot") == sorted(NAMES["pdns"])


def back_and_forth(folder):
    """Turned round on the way back, too."""
    with World(folder) as world:
        start = ("--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes", "--settle", "0")
        with world.asking():
            until(world, "wait-in", *start)
            until(world, "parent-out", "--back", "--settle", "1s")
            assert "on the way back" in " ".join(world.migrate("--status").stdout.split())
            world.migrate("--forward")
            check_moved(world, "pdns", "knot")


def strangers(folder):
    """Somebody else changes NS records, B loses a record or stops answering: it stops, and changes nothing."""
    with World(folder, patience="5s") as world:
        start = ("--from", PROVIDER["pdns"], "--to", PROVIDER["knot"], "--yes", "--settle", "0", "--once")
        knot, top = world.servers["knot"], world.parent
        with world.asking():
            for _ in range(5):  # a busy machine may come back when the time of the phase is over
                done = world.migrate(*start, status=3)
                if world.state()["phase"] == "wait-in":
                    break
                world.migrate("--back")
            assert world.state()["phase"] == "wait-in", done.stdout + done.stderr
            before = world.delegation()
            top.update("example.", lambda m: m.delete(ZONE, "NS", NAMES["knot"][0]))
            time_is_over(world)
            done = world.migrate("--once", status=1)
            assert "ns1.knot.example. has gone from the NS records of the delegation" in done.stderr
            assert world.delegation() == sorted(set(before) - {NAMES["knot"][0]})
            top.update("example.", lambda m: m.add(ZONE, 1, "NS", NAMES["knot"][0]))
            # A record that goes at B.
            knot.update(ZONE, lambda m: m.delete("mail." + ZONE, "A"))
            done = world.migrate("--once", status=1)
            assert "dns-knot: mail.tm.example. A is not as the configuration has it" in done.stderr
            assert world.delegation() == before
            knot.update(ZONE, lambda m: m.add("mail." + ZONE, 1, "A", "192.0.2.25"))
            # B does not answer.
            knot.process.proc.send_signal(signal.SIGSTOP)
            try:
                done = world.migrate("--once", status=1)
            finally:
                knot.process.proc.send_signal(signal.SIGCONT)
            assert "dns-knot: " in done.stderr and world.delegation() == before
            assert "--back goes back to dns-pdns" in done.stderr
            # A third name server that somebody adds may stay, if that is said.
            for server in (knot,):
                server.update(ZONE, lambda m: m.add(ZONE, 1, "NS", "ns1.own.example."))
            done = world.migrate("--once", status=1)
            assert "ns1.own.example. has come into the NS records of the apex" in done.stderr
            knot.update(ZONE, lambda m: m.delete(ZONE, "NS", "ns1.own.example."))
            top.update("example.", lambda m: m.delete(ZONE, "NS", NAMES["pdns"][0]))
            world.migrate("--as-is")
            check_moved(world, "pdns", "knot")


def time_is_over(world):
    left = json.loads(world.migrate("--status", "--json").stdout)["next"] / 1000 - time.time()
    threading.Event().wait(max(0.0, left))


def wrong_answers(folder):
    """One of B's name servers does not answer as the configuration says: it is not used."""
    with World(folder) as world:
        first, second = ADDRESSES["knot"]
        world.servers["knot"].close()
        content = soa() + "".join(f"@ 1 IN NS {n}\n" for n in NAMES["knot"])
        world.servers["knot"] = Knot(folder / "first", [first], {ZONE: content})
        stale = Knot(folder / "stale", [second], {ZONE: content.replace("IN NS ns1.knot", "IN NS ns1.pdns").replace(
            "IN NS ns2.knot", "IN NS ns2.pdns") + "www 1 IN A 192.0.2.99\nwww 1 IN TXT moving\n"})
        for address in (first, second):
            serverlib.wait_for(lambda a=address: world.is_up(a, ZONE), "Knot")
        with world.asking():
            done = world.start("pdns", "knot", "--once", status=3)
        assert "dns-knot does not answer as the configuration says" in done.stderr, done.stderr
        assert world.delegation() == world.apex("pdns") == sorted(NAMES["pdns"])
        assert world.state()["phase"] == "verify"
        assert "nobody asks dns-knot" in " ".join(world.migrate("--back").stdout.split())
        stale.close()


def refusals(folder):
    """What is not begun, and why; a plan sends nothing that writes."""
    with World(folder) as world:
        pdns = world.servers["pdns"]
        serial = pdns.serial(ZONE)
        done = world.migrate("--from", "dns-pdns", "--to", "dns-knot", "--plan")
        assert "wait-in" in done.stdout and not (folder / "state").exists()
        proxy = pdnslib.Faulty(pdns, 10 ** 6, "refused")
        world.url = proxy.url
        world.write()
        world.migrate("--from", "dns-pdns", "--to", "dns-knot", "--dry-run")
        assert set(proxy.seen) == {"GET"} and pdns.serial(ZONE) == serial
        proxy.close()
        world.url = None
        world.write()
        refused = (
            (("--from", "dns-pdns", "--to", "dns-knotty", "--yes"), 1, "did you mean dns-knot"),
            (("--from", "dns-pdns", "--to", "dns-pdns", "--yes"), 2, "the same provider"),
            (("--from", "dns-knot", "--to", "dns-pdns", "--yes"), 1, "dns-knot"),
            (("--from", "dns-pdns", "--to", "dns-knot"), 1, "--yes"),
            ((), 2, "no migration of tm.example. is under way"),
            (("--back",), 2, "no migration"),
            (("--status",), 1, "no migration"),
        )
        for words, status, text in refused:
            done = world.migrate(*words, status=status)
            assert text in done.stderr, (words, done.stderr)
        begin = ("--from", "dns-pdns", "--to", "dns-knot", "--yes", "--once")
        # Records that would be lost.
        pdns.put(f"theirs.{ZONE}", "A", ["192.0.2.66"], zone=ZONE)
        done = world.migrate(*begin, status=1)
        assert "theirs.tm.example. A" in done.stderr and "--leave-records" in done.stderr
        assert pdns.api("PATCH", f"/zones/{ZONE}", {"rrsets": [
            {"name": f"theirs.{ZONE}", "type": "A", "changetype": "DELETE"}]})[0] == 204
        # Answers that are signed.
        world.parent.update("example.", lambda m: m.add(ZONE, 1, "DS", "1 13 2 " + "ab" * 32))
        done = world.migrate(*begin, status=1)
        assert "DS records" in done.stderr
        world.parent.update("example.", lambda m: m.delete(ZONE, "DS"))
        # Name servers in the zone itself need glue.
        done = world.migrate(*begin, "--ns", f"ns.{ZONE}", status=1)
        assert "has no address for it" in done.stderr
        world.write(more="  ns: {A: [127.0.3.1]}\n")
        world.sync("apply", "--yes", ZONE)
        done = world.migrate(*begin, "--ns", f"ns.{ZONE}", status=1)
        assert "glue" in done.stderr and "example." in done.stderr
        world.write()
        world.sync("apply", "--yes", ZONE)
        # A loss that the domain does not allow.
        world.write(domain=DOMAIN.partition("providers")[0])
        done = world.migrate(*begin, status=1)
        assert "cdn.tm.example. A is held back" in done.stderr, done.stderr
        assert world.delegation() == world.apex("pdns") == sorted(NAMES["pdns"])
        world.write()
        assert world.migrate("--status").returncode == 0
        # A damaged state is not believed; another run is kept out.
        path = folder / "state/tm.example.json"
        good = path.read_text(encoding="utf-8")
        path.write_text(good.replace('"fill"', '"fly"'), encoding="utf-8")
        assert "is damaged (`phase`" in world.migrate("--once", status=1).stderr
        path.write_text(good, encoding="utf-8")
        with open(f"{path}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert "another `sluice sync migrate`" in world.migrate("--once", status=1).stderr
        world.migrate("--once", "--settle", "0", status=3)
        phase = world.state()["phase"]
        assert phase in ("wait-in", "wait-out"), phase  # (a busy machine comes further)
        done = world.migrate("--from", "dns-knot", "--to", "dns-pdns", "--yes", status=2)
        assert f"is under way ({phase})" in done.stderr


def faults(folder, fault, first):
    """From the request number `first` on, PowerDNS's API fails; with it well again, the next run goes on."""
    fault = int(fault) if fault.isdigit() else fault
    with World(folder, at=("knot",)) as world:
        proxy = pdnslib.Faulty(world.servers["pdns"], int(first), fault)
        world.url, world.web = proxy.url, "4s"
        world.write()
        start = ("--from", PROVIDER["knot"], "--to", PROVIDER["pdns"], "--yes", "--settle", "0", "--once")
        with world.asking():
            for _ in range(20):
                done = world.migrate(*start, status=None)
                if done.returncode != 3 or len(proxy.seen) >= int(first):
                    break
                time_is_over(world)
            reached = len(proxy.seen) >= int(first)
            assert done.returncode in ((1, 3) if reached else (0,)), done
            assert not reached or "dns-pdns" in done.stderr, done.stderr
            proxy.close()
            world.url, world.web = None, "30s"
            world.write()
            world.migrate(*(start[:-1] if not (folder / "state/tm.example.json").exists() else ()))
            check_moved(world, "knot", "pdns")
            assert world.servers["pdns"].rrset("www." + ZONE, "A", zone=ZONE)
        print("reached" if reached else "not reached", done.stderr)


SCENARIOS = {f.__name__: f for f in (moves, to_own, from_own, three_targets, killed, back, back_and_forth, strangers, wrong_answers,
                                     refusals, faults)}


def main():
    folder = pathlib.Path(sys.argv[2])
    loopback_up()
    add_address(RESOLVERS["bind"], 0)  # named listens only where an interface has the address
    (folder / "resolv.conf").write_text(f"nameserver {RESOLVERS['unbound']}\noptions timeout:5 attempts:3\n", encoding="ascii")
    if not pathlib.Path("/etc/resolv.conf").exists():
        pathlib.Path("/etc/resolv.conf").touch()  # something to mount over
    subprocess.run(["mount", "--bind", folder / "resolv.conf", "/etc/resolv.conf"], check=True)
    SCENARIOS[sys.argv[1]](folder, *sys.argv[3:])
    print("passed")


if __name__ == "__main__":
    main()
