# SPDX-License-Identifier: Apache-2.0
"""`sluice sync apply`: runs at the same time, saved plans, and a server that is down."""
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys

import pytest

import ns1lib
import ns1sim
import serverlib
import sluicelib
import statelib

ZONE = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns1.e.test., ns2.e.test.]
providers: [dns-b]
records:
  ns1: {A: [192.0.2.53]}
  ns2: {A: [192.0.2.54]}
  www: {A: [192.0.2.80]}
"""
DOMAIN = """\
ttl: 30
endpoints: {one: 192.0.2.1, two: 192.0.2.2}
regions:
  global: {one: 3, two: 1}
"""


class World(ns1lib.World):
    """A configuration at NS1, and the machine's settings with a folder for locks."""

    def __init__(self, folder, **options):
        self.locks = folder / "locks"
        self.locks.mkdir()
        super().__init__(folder, **options)

    def set_up(self, more=""):
        super().set_up(f"syncd: {{locks: {self.locks}}}\n" + more)

    def write(self, www="192.0.2.80"):
        super().write(DOMAIN, ZONE.replace("192.0.2.80", www))

    def start(self, *options):
        return subprocess.Popen([str(w) for w in [sluicelib.program("sluice"), *self.words("apply", "--yes", *options)]],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=sluicelib.environment())

    def shares(self):
        return ns1sim.shares(self.record(), ns1sim.Client())

    def lock_name(self):
        """The name of the lock file, as a run makes it."""
        held = self.folder / "held"
        held.mkdir(exist_ok=True)
        name = [None]

        def look():
            names = os.listdir(self.locks)
            name[0] = names[0] if names else name[0]
            return name[0]
        process = self.start("--allow-ns-change")
        serverlib.wait_for(look, "a lock")
        process.communicate(timeout=sluicelib.DEADLINE)
        return name[0]


@pytest.fixture
def make(tmp_path):
    worlds = []

    def one(**options):
        worlds.append(World(tmp_path, **options))
        return worlds[-1]
    yield one
    for world in worlds:
        world.sim.close()


# ---- at the same time ------------------------------------------------------------------------

def test_two_at_the_same_time(make):
    """Each change is made once, whoever is first; the second finds nothing to do."""
    world = make(latency=0.02)
    runs = [world.start("--allow-ns-change", "--json") for _ in range(3)]
    out = [(run.communicate(timeout=sluicelib.DEADLINE), run.returncode) for run in runs]
    assert [status for _, status in out] == [0, 0, 0], out
    asked = sorted(json.loads(text)["providers"][0]["asked"] for (text, _), _ in out)
    assert asked[:2] == [0, 0] and asked[2] == len(world.writes()) > 4
    assert not os.listdir(world.locks)


HOLD = """
import fcntl, json, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o660)
fcntl.flock(fd, fcntl.LOCK_EX)
os.write(fd, sys.argv[2].encode())
print("held", flush=True)
sys.stdin.read()
"""


class Holder:
    def __init__(self, path, text):
        self.process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), text], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "held\n"

    def end(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def test_who_waits_is_told_for_whom(make):
    world = make(latency=0.02)
    name = world.lock_name()
    world.write("192.0.2.81")
    before = len(world.writes())
    holder = Holder(world.locks / name, json.dumps({"pid": 4711, "user": "alice\x1b[2J", "program": "sluice", "since": 1}))
    out = world.apply("--wait", "0", status=1)
    assert out["errors"][0]["failure"] == "conflict"
    error = out["errors"][0]["error"]
    assert "dns-b: e.test. is being changed there by process 4711 of alice?[2J (sluice), for " in error
    assert "nothing was changed" in error
    assert len(world.writes()) == before
    plan = json.loads(world.run("plan", "--json").stdout)  # reading needs no lock
    done = world.run("apply", "--digest", plan["digest"], "--wait", "0", status=1)
    assert "process 4711" in done.stderr and "digest" not in done.stderr
    waiting = world.start()
    holder.end()  # killed: its lock is free by itself
    out, err = waiting.communicate(timeout=sluicelib.DEADLINE)
    assert waiting.returncode == 0, err
    assert len(world.writes()) == before + 1


@pytest.mark.parametrize("text", ["", "{", "[]", "{\"pid\": \"x\"}", "x" * 10000, "\0"])
def test_what_a_holder_says_is_not_believed(make, text):
    world = make(latency=0.02)
    holder = Holder(world.locks / world.lock_name(), text.replace("\0", "\1"))
    assert "another process" in world.apply("--wait", "0", status=1)["errors"][0]["error"]
    holder.end()


def test_hostile_lock_files(make):
    world = make(latency=0.02)
    name = world.lock_name()
    victim = world.folder / "victim"
    victim.write_text("mine\n", encoding="ascii")
    path = world.locks / name
    for trap in (lambda: path.symlink_to(victim), lambda: path.hardlink_to(victim), lambda: os.mkfifo(path),
                 path.mkdir):
        trap()
        assert "lock" in world.apply(status=1)["errors"][0]["error"]
        assert victim.read_text(encoding="ascii") == "mine\n"
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    world.apply()


def test_folders_of_locks(make, monkeypatch):
    """Without the machine's folder it is one of one's own, which nobody else can write to."""
    world = make(latency=0.02)
    own = world.folder / "runtime"
    own.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    world.locks.rmdir()
    done = world.run("apply", "--yes", "--allow-ns-change")
    assert f"warning: locks in {world.locks} cannot be used (No such file or directory)" in done.stderr
    assert stat.S_IMODE((own / "sluice-locks").stat().st_mode) == 0o700
    (own / "sluice-locks").rmdir()
    elsewhere = world.folder / "elsewhere"
    elsewhere.mkdir()
    (own / "sluice-locks").symlink_to(elsewhere)
    world.run("apply", "--yes")
    assert not os.listdir(elsewhere)


# ---- saved plans -----------------------------------------------------------------------------

def test_C38_a_saved_plan(make):
    world = make()
    file = world.folder / "monday.plan"
    plan = json.loads(world.run("plan", "--out", file, "--json", "--allow-ns-change").stdout)
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert saved["digest"] == plan["digest"] and saved["consents"] == ["allow-ns-change"]
    assert not world.writes()
    assert file.stat().st_mode & 0o077 == 0
    done = world.run("apply", "--plan", file)
    assert "done" in done.stdout
    assert world.shares() == {"192.0.2.1": 0.75, "192.0.2.2": 0.25}
    done = world.run("apply", "--plan", file, status=1)  # done already: nothing of it is to be done any more
    assert "nothing was changed" in done.stderr and "nothing is to be done any more" in done.stdout


def test_a_stale_plan_is_refused_with_what_changed(make):
    world = make()
    world.apply()
    file = world.folder / "p"
    world.write("192.0.2.81")
    world.run("plan", "www", "--out", file)
    before = len(world.writes())
    world.sim.zones["e.test"][("www.e.test", "A")]["answers"] = [{"answer": ["192.0.2.99"]}]
    done = world.run("apply", "--plan", file, status=1)
    assert "dns-b: e.test. www.e.test./A: is not as it was at the provider" in done.stdout
    assert "nothing was changed" in done.stderr and "sluice sync plan --out" in done.stderr
    world.sim.zones["e.test"][("www.e.test", "A")]["answers"] = [{"answer": ["192.0.2.80"]}]
    world.write("192.0.2.82")
    out = json.loads(world.run("apply", "--plan", file, "--json", status=1).stdout)
    assert out["kind"] == "stale" and [c["key"] for c in out["changes"]] == ["www.e.test./A"]
    assert len(world.writes()) == before
    world.write("192.0.2.81")
    world.run("apply", "--plan", file)
    assert len(world.writes()) == before + 1


GOOD = {"format": 1, "kind": "sluice sync plan", "made": 1, "actor": "x", "git": None, "names": [], "providers": None,
        "consents": [], "digest": "0" * 64, "targets": []}


@pytest.mark.parametrize("wrong", [
    "", "[]", "{\"format\": 1}", "[[[[[[", "{\"a\": 1, \"a\": 2}", {"format": 2}, {"digest": "0" * 63},
    {"digest": "Z" * 64}, {"digest": 1}, {"names": "x"}, {"names": [1]}, {"providers": 1}, {"consents": ["all"]},
    {"targets": {}}, {"targets": [1]}, {"targets": [{"provider": "x", "zone": "y", "items": [{}]}]}, {"kind": "x"}])
def test_hostile_plan_files(make, wrong):
    world = make()
    file = world.folder / "p"
    file.write_text(json.dumps({**GOOD, **wrong}) if isinstance(wrong, dict) else wrong, encoding="utf-8")
    done = world.run("apply", "--plan", file, status=1)
    assert "nothing was changed" in done.stderr and str(file) in done.stderr and len(done.stderr.splitlines()) == 1
    assert not world.sim.requests


def test_a_plan_says_all(make):
    world = make()
    file = world.folder / "p"
    world.run("plan", "--out", file, status=3)
    for more in (["www"], ["--provider", "dns-b"], ["--take-over"], ["--digest", "0" * 12]):
        assert "leave them out" in world.run("apply", "--plan", file, *more, status=2).stderr
    assert "cannot read" in world.run("apply", "--plan", world.folder / "none", status=1).stderr
    assert "--wait" in world.run("apply", "--yes", "--wait", "x", status=2).stderr
    assert "not saved" in world.run("plan", "--out", world.folder / "no/p", status=1).stderr


# ---- a server that is down -------------------------------------------------------------------

@pytest.fixture
def down(make):
    """A server with weights that were set by hand, which has ended."""
    world = make()
    data = sluicelib.build(world.folder / "config", world.folder / "data")
    state = world.folder / "state"
    state.mkdir()
    world.set_up(f"state: {state}\ndata: {data}\ncontrol: {world.socket}\n")
    with sluicelib.Server(data, "--state", state) as server:
        statelib.commit(server.control, [statelib.weight("one", 0, domain="cdn.e.test."),
                                         statelib.weight("two", 7, domain="cdn.e.test.")])
    return world


def test_overrides_when_the_server_is_down(down):
    """What was set by hand is read from the store, and not undone."""
    out = down.apply()
    assert "of its store" in out["note"]
    assert down.shares() == {"192.0.2.2": 1.0}
    assert "Note: the server does not answer" in down.run("plan").stdout
    done = sluicelib.sluice("endpoints", "get", "cdn", "--socket", down.socket, "--settings", down.settings, status=None)
    assert "weight 0 (configured 3)" in done.stdout


def test_set_when_the_server_is_down_reaches_the_provider(down):
    down.apply()
    sluicelib.write_tree(down.folder, {"sluice.yaml": down.settings.read_text(encoding="ascii").replace(
        "syncd: {", f"syncd: {{config: {down.folder}/config, control: {down.folder}/none, ")})
    done = sluicelib.sluice("endpoints", "set", "cdn", "only[one]", "--socket", down.socket, "--settings", down.settings,
                            status=3)
    assert down.shares() == {"192.0.2.1": 1.0}, done.stderr


def test_a_store_that_cannot_be_read(down):
    (down.folder / "state/store.db").write_bytes(b"x" * 5000)
    assert "with --as-configured" in down.run("apply", "--yes", status=1).stderr
    assert not down.writes()
    down.apply("--as-configured")
    assert down.shares() == {"192.0.2.1": 0.75, "192.0.2.2": 0.25}
