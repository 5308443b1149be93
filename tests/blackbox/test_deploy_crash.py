# SPDX-License-Identifier: Apache-2.0
"""Deploys that are interrupted, fail half-way, or run close together."""
import errno
import json
import os
import signal
import subprocess
import sys
import threading

import gitlib
import pytest
import sluicelib
import toollib
from gitlib import git
from serverlib import wait_for

DOMAINS = 50
PARTS = 4  # the calls of a hook that can fail are spread over so many tests: every second one


@pytest.fixture(autouse=True)
def no_server_is_left():
    yield
    gitlib.Site.end_all()


def all_domains(number):
    return {f"example.com/d{i}/domain.yaml": gitlib.domain(f"192.0.2.{number}") for i in range(DOMAINS)}


@pytest.fixture
def site(tmp_path):
    site = gitlib.Site(tmp_path / "site").start()
    site.commit(all_domains(1))
    site.push()
    site.sluice("deploys", site.bare)
    yield site
    site.server.stop()


def live(site):
    """The number that all domains have: never two."""
    seen = {tuple(site.ask(f"d{i}.example.com.")) for i in range(DOMAINS)}
    assert len(seen) == 1, f"a mixture is served: {seen}"
    return int(seen.pop()[0].rpartition(".")[2])


def check_repaired(site, number, serial):
    """A push without a fault makes its own content live, with a greater serial."""
    site.commit(all_domains(number))
    said = site.push()
    assert "is live" in said, said
    assert live(site) == number
    assert site.serial() > serial
    toollib.manifest(site.data)
    site.server.sluice("status")
    site.sluice("deploys", site.bare)
    assert not [n for n in os.listdir(site.data / "builds") if n == ".next"]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("fault", [None, errno.ENOSPC], ids=["killed", "full disk"])
@pytest.mark.parametrize("hook", ["pre-receive", "post-receive"])
def test_B47_all_or_nothing(site, hook, fault, part):
    """At each of the calls that change files the hook ends (as by kill -9), or fails."""
    site.arm(hook)
    old = 1
    for at in range(1 + 2 * part + (fault is not None), 80, 2 * PARTS):
        new = old + 1
        serial = site.serial()
        site.commit(all_domains(new))
        reached, status, said = site.push_with_fault(at, fault)
        now = live(site)
        assert now in (old, new), (at, now)
        toollib.manifest(site.data)
        if not reached:
            assert now == new and status == 0 and at > 20
            return
        if hook == "pre-receive":
            assert status != 0 or now == new, said
            assert now == old or status == 0
        elif fault is not None:
            assert status == 0 and ("NOT DEPLOYED" in said or now == new), said
        if status == 0 and now != new:
            # It was accepted and is not live: that is known, and trying again mends it.
            assert "NOT DEPLOYED" in site.server.sluice("status", status=3).stderr
            if at % 2:
                site.sluice("deploys", site.bare, "--retry")
                assert live(site) == new and site.serial() > serial
                site.server.sluice("status")
        check_repaired(site, new + 1, serial)
        old = new + 1


def test_B47_a_full_disk(tmp_path):
    """On a small file system of its own, that is filled while pushes come."""
    script = os.path.join(os.path.dirname(__file__), "own_disk.py")
    own = ["unshare", "--mount"] + (["--user", "--map-root-user"] if os.getuid() else [])
    done = subprocess.run([*own, sys.executable, script, tmp_path], capture_output=True, text=True,
                          env=sluicelib.environment(), timeout=4 * sluicelib.DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused: cannot write" in done.stdout and "No space left on device" in done.stdout, done.stdout


@pytest.mark.parametrize("part", range(4))
def test_B17_of_two_pushes_the_later_update_wins(tmp_path, part):
    """The deploy of A takes as long as B needs to come; B is live in the end, every time."""
    site = gitlib.Site(tmp_path / "site", socket=tmp_path / "relay")
    site.socket = tmp_path / "own.sock"
    gate = {"wait": None}

    def before(_pid, request):
        if request["command"] == "reload" and gate["wait"]:
            wanted, gate["wait"] = gate["wait"], None
            wait_for(lambda: git(site.bare, "rev-parse", "main").stdout.strip() == wanted, "the other push")

    relay = gitlib.Relay(tmp_path / "relay", site.socket, before)
    site.start()
    git(site.root, "clone", "-q", str(site.bare), "other")
    other = site.root / "other"
    serial = site.serial()
    for number in range(5 * part, 5 * part + 5):
        names = ("cdn", "cdn") if number % 2 else ("cdn", "api")
        site.change(f"192.0.2.{number + 10}", names[0])
        git(other, "pull", "-q", "--rebase", str(site.work), "main")
        sluicelib.write_tree(other, {f"example.com/{names[1]}/domain.yaml": gitlib.domain(f"192.0.2.{number + 100}")})
        git(other, "add", "-A")
        git(other, "commit", "-q", "-m", "B")
        gate["wait"] = git(other, "rev-parse", "HEAD").stdout.strip()
        said = []
        first = threading.Thread(target=lambda: said.append(site.push(status=None)))
        first.start()
        wait_for(lambda: gate["wait"] is None or said, "the deploy of A")
        assert gate["wait"] is None, "".join(map(str, said))
        told = git(other, "push", "-q", "origin", "main").stderr
        first.join(sluicelib.DEADLINE)
        assert site.ask(f"{names[1]}.example.com.") == [f"192.0.2.{number + 100}"], (said, told)
        if names[0] != names[1]:
            assert site.ask() == [f"192.0.2.{number + 10}"]
        tip = git(site.bare, "rev-parse", "main").stdout.strip()
        assert toollib.manifest(site.data)["commit"] == tip == site.deploys()[0]["commit"]
        assert site.serial() > serial
        serial = site.serial()
        git(site.work, "pull", "-q", "--rebase", str(other), "main")
    relay.close()
    site.server.stop()


def test_B17_a_deploy_that_is_killed_with_the_lock(tmp_path):
    """The second push waits for the lock, gets it when the first is killed, and makes all live."""
    site = gitlib.Site(tmp_path / "site", socket=tmp_path / "relay")
    site.socket = tmp_path / "own.sock"
    state = {"armed": False, "pid": None}
    go = threading.Event()

    def before(pid, request):
        if state["armed"] and request["command"] == "reload":
            state["armed"] = False
            state["pid"] = pid
            go.wait(sluicelib.DEADLINE)

    relay = gitlib.Relay(tmp_path / "relay", site.socket, before)
    site.start()
    serial = site.serial()
    state["armed"] = True
    site.change("192.0.2.2")
    first = threading.Thread(target=site.push)
    first.start()
    wait_for(lambda: state["pid"] is not None, "the first deploy")
    site.change("192.0.2.3")
    second = threading.Thread(target=site.push)
    second.start()
    wait_for(lambda: git(site.bare, "rev-parse", "main").stdout.strip() == site.head(), "the second push")
    os.kill(state["pid"], signal.SIGKILL)
    go.set()
    first.join(sluicelib.DEADLINE)
    second.join(sluicelib.DEADLINE)
    assert site.ask() == ["192.0.2.3"] and site.serial() > serial
    site.sluice("deploys", site.bare)
    relay.close()
    site.server.stop()


def test_B17_pushes_from_many_at_once(site):
    """Six people push at the same time; who is late pulls and pushes again.  Nothing is lost."""
    def person(number):
        clone = site.root / f"clone{number}"
        git(site.root, "clone", "-q", str(site.bare), clone)
        sluicelib.write_tree(clone, {f"example.com/p{number}/domain.yaml": gitlib.domain(f"198.51.100.{number}")})
        git(clone, "add", "-A")
        git(clone, "commit", "-q", "-m", f"person {number}")
        for _ in range(50):
            if git(clone, "push", "-q", "origin", "main", status=None).returncode == 0:
                return
            git(clone, "pull", "-q", "--rebase", "origin", "main")

    people = [threading.Thread(target=person, args=(number,)) for number in range(1, 7)]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join(sluicelib.DEADLINE)
    assert [site.ask(f"p{number}.example.com.") for number in range(1, 7)] == \
        [[f"198.51.100.{number}"] for number in range(1, 7)]
    serials = [d["zones"]["example.com."]["serial"] for d in site.deploys()]
    assert serials == sorted(set(serials), reverse=True)
    assert toollib.manifest(site.data)["commit"] == git(site.bare, "rev-parse", "main").stdout.strip()
    site.server.sluice("status")


def test_a_lock_of_the_deploys_that_was_left_behind(site):
    """A deploy that was killed while it wrote the reference."""
    lock = site.bare / "refs/sluice/deploys.lock"
    lock.write_text("", encoding="ascii")
    site.commit(all_domains(2))
    site.push()
    assert live(site) == 2 and not lock.exists()


def test_a_damaged_live_build_is_made_anew(site):
    """What cannot be taken over is read and built again."""
    current = (site.data / "current").resolve()
    for name in ("domains.json", "checks.json", "zones/example.com.image", "inputs.json"):
        site.commit({"example.org/zone.yaml": sluicelib.ZONE + f"# {name}\n"})
        path = (site.data / "current").resolve() / name
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[:-3] + b"xyz")
        site.push()
        toollib.manifest(site.data)
        assert live(site) == 1
    assert current.name != (site.data / "current").resolve().name


def test_damaged_notes_of_a_prepared_build(site):
    notes = site.data / "deploy/prepared.json"
    for text in ("", "{", "[]", '{"commit": 1}', json.dumps({"build": "../../../etc/pass"})):
        notes.write_text(text, encoding="ascii")
        site.sluice("deploys", site.bare, "--retry")
    assert live(site) == 1


def test_damaged_deploy_records_are_told(site):
    """Somebody wrote into the reference: nothing is guessed, pushes are refused."""
    good = git(site.bare, "rev-parse", "refs/sluice/deploys").stdout.strip()
    for text in ("", "{}", "[1]", '{"format": 1}', '{"format": 2}', "\xff", '{"format":1,"format":1}'):
        blob = git(site.bare, "hash-object", "-w", "--stdin", stdin=text).stdout.strip()
        tree = git(site.bare, "mktree", stdin=f"100644 blob {blob}\tdeploy.json\n").stdout.strip()
        odd = git(site.bare, "commit-tree", tree, "-p", good, "-p", "main", "-m", "x").stdout.strip()
        git(site.bare, "update-ref", "refs/sluice/deploys", odd)
        assert "deploy record" in site.sluice("deploys", site.bare, status=1).stderr
        site.commit({"README": text})
        assert "deploy record" in site.push(status=1)
    git(site.bare, "update-ref", "refs/sluice/deploys", good)
    site.push()
    assert live(site) == 1
