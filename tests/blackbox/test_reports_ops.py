# SPDX-License-Identifier: Apache-2.0
"""Reports of operation: reloads without end (B96), programs that hang (B27), kills amid sets (B49), builds
that are not loaded (B92)."""
import contextlib
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import dns.message
import pytest

import healthlib
import serverlib
import sluicelib
import statelib
from test_probe_exec import processes

# ---- B96: reloads under load ------------------------------------------------------------------------

ZONES = [f"z{i}.example" for i in range(300)]
GOOD = ("192.0.2.1", "192.0.2.2")
RELOADS = int(os.environ.get("SLUICE_RELOADS", "200"))  # of which half are invalid; the report has 1000
STORM = 200  # signals


def build_all(folder):
    """A data directory with builds of 300 zones: two good ones that differ in every zone, and a
    broken one.  Returns it and the names of the builds."""
    data, builds = folder / "data", []
    for value in GOOD:
        files = {"defaults.yaml": f"default_zone: {ZONES[0]}\n"}
        for zone in ZONES:
            files[f"{zone}/zone.yaml"] = sluicelib.ZONE + f"records:\n  www: {{A: [{value}]}}\n"
        sluicelib.build(sluicelib.write_tree(folder / "config", files), data)
        builds.append(os.readlink(data / "current"))
    shutil.copytree(data / builds[-1], data / "broken", copy_function=os.link)
    [image] = [p for p in (data / "broken/zones").iterdir() if p.name.startswith("z150.example.") and "image" in p.name]
    octets = image.read_bytes()
    image.unlink()
    image.write_bytes(octets[:len(octets) // 2])
    return data, [*builds, "broken"]


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    return build_all(tmp_path_factory.mktemp("b96"))


@pytest.fixture
def many_zones(builds, tmp_path, start, monkeypatch):
    """A server of 300 zones, and a function that makes one of its three builds the current one."""
    serverlib.small_quarantine(monkeypatch)
    source, names = builds
    data = tmp_path / "data"
    shutil.copytree(source, data, symlinks=True, copy_function=os.link)

    def switch(number):
        os.symlink(names[number], data / "next")
        os.replace(data / "next", data / "current")

    switch(0)
    return start(data), switch


class Load:
    """Asks for all zones, about 2,000 times a second, and keeps every reply; nothing is asked twice.

    So few questions are open at a time that no buffer can run over: what is lost, the server lost.
    """
    OPEN = 100

    def __init__(self, server):
        self.questions = [sluicelib.make_query(f"www.{zone}", edns=False).to_wire()[2:] for zone in ZONES]
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sock.connect((server.address, server.port))
        self.open, self.replies, self.sent, self.problem = set(), {}, 0, None
        self.halt = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            begin = time.monotonic()
            while not self.halt.is_set():
                allowed = begin + self.sent / 2000 <= time.monotonic() and len(self.open) < self.OPEN
                if allowed:
                    self._ask()
                self._take(0 if allowed else 0.002)
            end = time.monotonic() + sluicelib.DEADLINE
            while self.open and time.monotonic() < end:
                self._take(0.1)
        except OSError as problem:
            self.problem = problem

    def _ask(self):
        for _ in range(20):
            number = self.sent % 65536
            self.sock.send(struct.pack("!H", number) + self.questions[self.sent % len(ZONES)])
            self.open.add(number)
            self.sent += 1

    def _take(self, seconds):
        self.sock.settimeout(seconds)
        try:
            while True:
                reply = self.sock.recv(4096)
                self.open.remove(reply[0] << 8 | reply[1])
                self.replies[reply[2:]] = self.replies.get(reply[2:], 0) + 1
        except (BlockingIOError, TimeoutError):
            pass

    def stop(self):
        """Every question was answered, and rightly; returns which of the addresses were seen."""
        self.halt.set()
        self.thread.join()
        self.sock.close()
        assert not self.problem and not self.open, (self.problem, len(self.open))
        assert sum(self.replies.values()) == self.sent > 0
        seen = set()
        for rest in self.replies:
            reply = dns.message.from_wire(b"\0\0" + rest)
            assert reply.rcode() == 0, reply
            [address] = sluicelib.rdata(reply)
            seen.add(address)
        assert seen <= set(GOOD)
        return seen


def resident(pid):
    """KiB"""
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def has_sanitizer():
    options = json.loads((sluicelib.BUILD / "meson-info/intro-buildoptions.json").read_text(encoding="utf-8"))
    return any(o["name"] == "b_sanitize" and o["value"] not in ("none", []) for o in options)


def loads(server, mark):
    """How many there were since then; there was one, and its line may still be on its way."""
    server.wait_log("reloaded: build", since=mark)
    return sum("reloaded: build" in line for line in server.lines[mark:])


def test_b96_many_reloads_under_load(many_zones):
    server, switch = many_zones

    def reload(round_):
        """Every second one is invalid."""
        switch(2 if round_ % 2 else round_ // 2 % 2)
        reply = statelib.call(server.control, "reload")
        assert reply["ok"] == (round_ % 2 == 0), reply
        if not reply["ok"]:
            assert "z150.example" in reply["error"], reply

    descriptors = serverlib.descriptors(server.proc.pid)
    load = Load(server)
    try:
        for round_ in range(12):  # the memory of two views, and what is allocated once
            reload(round_)
        memory = resident(server.proc.pid)
        for round_ in range(RELOADS):
            reload(round_)
        # Signals come faster than anything can be loaded: the last is followed, and few in between.
        switch(1)
        mark = server.mark()
        subprocess.run(["sh", "-c", f"i=0; while [ $i -lt {STORM} ]; do kill -HUP {server.proc.pid}; i=$((i + 1)); done"],
                       check=True)
        assert statelib.call(server.control, "reload")["ok"]
        assert loads(server, mark) <= STORM // 2
        assert sluicelib.rdata(server.ask("www.z0.example")) == [GOOD[1]]
    finally:
        seen = load.stop()
    assert seen == set(GOOD)
    serverlib.wait_for(lambda: serverlib.descriptors(server.proc.pid) == descriptors, "no descriptor is left open")
    grown = resident(server.proc.pid) - memory
    allowed = 64 << 10 if has_sanitizer() else max(memory // 20, 1 << 10)
    assert grown <= allowed, f"{grown} KiB more than {memory} KiB"


def test_b96_reloads_at_once_share_one(many_zones):
    server, switch = many_zones
    switch(1)
    mark = server.mark()
    peers = []
    try:
        server.signal(signal.SIGSTOP)  # so that all are there before the first is looked at
        for _ in range(30):
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            peer.settimeout(sluicelib.DEADLINE)
            peer.connect(str(server.control))
            peer.sendall(b'{"command":"reload"}\n')
            peers.append(peer)
        server.signal(signal.SIGCONT)
        for peer in peers:
            with peer.makefile("rb") as lines:
                assert json.loads(lines.readline())["ok"]
    finally:
        server.signal(signal.SIGCONT)
        for peer in peers:
            peer.close()
    assert loads(server, mark) <= 10
    assert sluicelib.rdata(server.ask("www.z299.example")) == [GOOD[1]]


@pytest.mark.parametrize("build", [1, 2], ids=["good", "broken"])
def test_b96_an_end_during_a_reload(build, many_zones, start):
    """With a load under way, another one waiting, and clients that wait for both."""
    server, switch = many_zones
    for round_ in range(4):
        if round_:
            switch(0)
            server = start(server.data)
        switch(build)
        peers = []
        for _ in range(2):
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            peer.connect(str(server.control))
            peer.sendall(b'{"command":"reload"}\n')
            peers.append(peer)
            server.signal(signal.SIGHUP)
        time.sleep(random.uniform(0, 0.03))  # an end at any moment of it
        server.stop()  # its exit status is 0, and no sanitizer has anything to say
        for peer in peers:
            peer.close()


# ---- B27: programs that hang, for many rounds of a running checker -----------------------------------


def machine(tmp_path, **programs):
    """Options: a settings file with programs of exec checks, as the user who runs the test."""
    path = tmp_path / "sluice.yaml"
    user = pwd.getpwuid(os.geteuid()).pw_name
    checks = {name: {"command": argv} for name, argv in programs.items()}
    path.write_text(json.dumps({"healthd": {"run-as": user}, "checks": checks}), encoding="utf-8")
    return "-c", path


def children(pid):
    """Names of all children of a process, those that nobody has waited for too."""
    out = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                name, _, rest = (entry / "stat").read_text(encoding="utf-8").rpartition(")")
                if int(rest.split()[1]) == pid:
                    out.append(name.partition("(")[2])
    return out


@pytest.mark.parametrize("script", [
    "sleep {0} & sleep {0}", "trap '' TERM INT HUP; sleep {0}; sleep {0}", "yes & sleep {0}"],
    ids=["tree", "ignored signals", "endless output"])
def test_b27_many_rounds_of_a_program_that_hangs(script, tmp_path, make_config):
    seconds = f"603.{os.getpid()}"
    own = machine(tmp_path, hang=["/bin/sh", "-c", script.format(seconds)])
    check = "health: {type: exec, check: hang, interval: 100ms, timeout: 80ms, rise: 1, fall: 1}\n"
    domain = "ttl: 0\nendpoints: {a: 127.0.0.41, b: 127.0.0.42}\nregions: {global: {a: 1, b: 1}}\n" + check
    data = sluicelib.build(make_config({"cdn": domain}), tmp_path / "data")
    with healthlib.Healthd(data, *own) as healthd:
        def done():
            return healthd.status()["probes"]["done"]

        serverlib.wait_for(lambda: done() >= 10, "some rounds")
        assert set(healthd.states().values()) == {"down"}
        serverlib.wait_for(lambda: {c["why"] for c in healthd.checks().values()} == {"timeout in running the program"},
                           lambda: f"the reason, but it is {healthd.checks()}")
        goal, before, many = done() + 2 * 25, serverlib.descriptors(healthd.proc.pid), 20
        while done() < goal:
            assert len(children(healthd.proc.pid)) <= many, "no child, alive or dead, piles up"
            assert serverlib.descriptors(healthd.proc.pid) <= before + many, "nor does a descriptor"
    serverlib.wait_for(lambda: not processes(seconds), "the end of all that it has started")


# ---- B49: a server that is killed while many set -----------------------------------------------------


def test_b49_what_was_said_to_be_done_outlives_a_kill(tmp_path, make_config, start):
    names = [f"e{i}" for i in range(20)]
    level = "{" + ", ".join(f"{e}: 1" for e in names) + "}"
    domain = ("endpoints: {" + ", ".join(f"{e}: 192.0.2.{i + 1}" for i, e in enumerate(names)) + "}\n"
              f"regions: {{global: {level}}}\n")
    data = sluicelib.build(make_config({"cdn": domain}), tmp_path / "data")
    server = sluicelib.Server(data, "--state", tmp_path / "state")
    argv = [sluicelib.program("sluice"), "endpoints", "set", "cdn", "--socket", str(server.control)]
    tools = [subprocess.Popen([*argv, f"{e}={i + 100}"], env=sluicelib.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) for i, e in enumerate(names)]
    serverlib.wait_for(lambda: any(t.poll() is not None for t in tools), "the first that is done")
    server.kill()
    told = [t.communicate(timeout=sluicelib.DEADLINE)[1] for t in tools]
    ended = [t.returncode for t in tools]
    server = start(data, "--state", tmp_path / "state")
    weights = {e: w for (_, _, e), w in statelib.weights(server.control).items()}
    for i, (name, status) in enumerate(zip(names, ended)):
        if status in (0, 3):  # done; 3: but what is printed afterwards could not be had
            allowed = (i + 100,)
        else:
            allowed = (i + 100, None) if "it is not known" in told[i] else (None,)
        assert status in (0, 1) or "is set nevertheless" in told[i], told[i]
        assert weights.get(name) in allowed, (name, status, told[i], weights)
    assert 0 in ended and len(statelib.history(server.control)) == len(weights), "each has its row in the trail"
    server.sluice("endpoints", "set", "cdn", "e0=7")


# ---- B92: what is configured, but not yet deployed ---------------------------------------------------


def test_b92_what_is_shown_is_what_is_served(make_config, start):
    """An endpoint of a build that no server has loaded is not there, and cannot be set."""
    old = "endpoints: {a: 192.0.2.1, b: 192.0.2.2}\nregions: {global: {a: 1, b: 1}}\n"
    server = start(make_config({"cdn": old}))
    new = "endpoints: {a: 192.0.2.1, b: 192.0.2.2, c: 192.0.2.3}\nregions: {global: {a: 1, b: 5, c: 1}}\n"
    sluicelib.build(make_config({"cdn": new}), server.data)

    def shown():
        [domain] = json.loads(server.sluice("endpoints", "get", "cdn", "--json").stdout)["domains"]
        [level] = domain["regions"][0]["levels"]
        return {e["endpoint"]: e["weight"] for e in level["endpoints"]}

    assert shown() == {"a": 1, "b": 1}
    failed = server.sluice("endpoints", "set", "cdn", "c=3", status=1)
    assert "c" in failed.stderr and len(failed.stderr.splitlines()) == 1 and not failed.stdout
    server.reload()
    assert shown() == {"a": 1, "b": 5, "c": 1}
    server.sluice("endpoints", "set", "cdn", "c=3")
