# SPDX-License-Identifier: Apache-2.0
"""sluice-syncd with a real server and a real PowerDNS: what is set here arrives there."""
import json
import os
import pathlib
import signal
import socket

import pytest

import gitlib
import pdnslib
import serverlib
import sluicelib
import statelib
import toollib
from syncdlib import DOMAIN, ZONE, Syncd

NAME = "cdn.e.test."


class World:
    """A server, a provider, and the machine's settings; sluice-syncd runs unless it is stopped."""

    def __init__(self, folder, more="", names="sluice, dns-a", others=0):
        self.folder = folder
        self.domains = 1 + others
        self.pdns = pdnslib.Pdns(folder / "pdns")
        self.pdns.make_zone()
        (folder / "key").write_text(pdnslib.KEY, encoding="ascii")
        (folder / "key").chmod(0o600)
        sluicelib.write_tree(folder / "config", {
            "defaults.yaml": "default_zone: e.test\nproviders:\n"
                             f"  dns-a: {{type: powerdns, url: \"{self.pdns.url}\", secret: dns-a, health: pushed}}\n" + more,
            "e.test/zone.yaml": ZONE.replace("sluice, %s", names), "e.test/cdn/domain.yaml": DOMAIN,
            **{f"e.test/n{i}/domain.yaml": DOMAIN for i in range(others)}})
        data = sluicelib.build(folder / "config", folder / "data")
        (folder / "state").mkdir()
        self.server = sluicelib.Server(data, "--state", folder / "state")
        self.control = folder / "syncd.sock"
        self.settings = folder / "sluice.yaml"
        self.settings.write_text(
            f"data: {data}\ncontrol: {self.server.control}\n"
            f"secrets: {{dns-a: {{file: {folder}/key}}}}\n"
            f"syncd: {{control: {self.control}, state: {folder}/queues, config: {folder}/config}}\n", encoding="ascii")
        self.syncd = None
        self.logs = []

    def start(self):
        self.syncd = Syncd(self.settings)

    def end(self, how=signal.SIGTERM):
        self.syncd.signal(how)
        self.syncd.wait()
        self.logs.append(self.syncd.log)
        self.syncd = None

    def close(self):
        if self.syncd:
            self.syncd.kill()
            self.logs.append(self.syncd.log)
        self.server.kill()
        self.pdns.close()
        for log in self.logs:
            assert pdnslib.KEY not in log
            assert not sluicelib.SANITIZER.search(log), log
        for path in (self.folder / "queues").glob("*"):
            assert pdnslib.KEY not in path.read_text(encoding="utf-8")

    def status(self, domain=None):
        return sluicelib.control(self.control, "status", domain=domain)

    def provider(self, name="dns-a"):
        return {p["name"]: p for p in self.status()["providers"]}.get(name)

    def is_level(self):
        provider = self.provider()
        return provider is not None and provider["domains"] == self.domains and not provider["behind"] + provider["zones_behind"]

    def wait_level(self):
        serverlib.wait_for(self.is_level, "a provider that is level")

    def endpoints(self, *words, status=0):
        done = sluicelib.sluice("endpoints", *words, "--socket", self.server.control, "--settings", self.settings,
                                status=status)
        assert pdnslib.KEY not in done.stdout + done.stderr
        return done

    def sluice(self, *words, status=0):
        return sluicelib.sluice(*words, "--socket", self.server.control, "--settings", self.settings, status=status)

    def answers_if_any(self):
        return self.answers() if self.pdns.rrset(NAME, "LUA") else set()

    def answers(self):
        return set(self.pdns.draws(NAME, 60))


@pytest.fixture
def world(tmp_path):
    out = World(tmp_path)
    yield out
    out.close()


def test_set_arrives_at_the_provider(world):
    world.start()
    world.wait_level()
    assert world.answers() == {"192.0.2.1", "192.0.2.2"}
    world.endpoints("set", "cdn", "only[two]")
    assert world.answers() == {"192.0.2.2"}
    row = statelib.history(world.server.control)[0]
    assert row["result"] == {"sluice": "done", "dns-a": "done"}
    world.wait_level()  # (a look at the server of before may be taken in only now)
    assert "dns-a" not in world.endpoints("get", "cdn").stdout
    assert "level, 1 steered name" in world.sluice("status").stdout
    world.endpoints("disable", "cdn", "two")
    assert world.answers() == {"192.0.2.3"}
    world.endpoints("reset", "cdn", "--status")
    assert world.answers() == {"192.0.2.1", "192.0.2.2"}
    command = pathlib.Path(f"/proc/{world.syncd.proc.pid}/cmdline").read_bytes()
    assert pdnslib.KEY.encode() not in command
    world.end()


def test_a_provider_that_was_down_is_brought_level(world):
    world.start()
    world.wait_level()
    os.kill(world.pdns.process.proc.pid, signal.SIGSTOP)
    done = world.endpoints("set", "cdn", "only[two]", status=3)
    assert "dns-a is behind at cdn.e.test." in done.stderr
    assert "behind" in statelib.history(world.server.control)[0]["result"]["dns-a"]
    done = world.endpoints("get", "cdn", status=3)
    assert "dns-a is behind" in done.stdout and "dns-a: global level 1: one weight 3 (here 0)" in done.stdout
    out = json.loads(world.endpoints("get", "cdn", "--json", status=3).stdout)
    assert "dns-a BEHIND with 1 of 1 steered name" in world.sluice("status", status=3).stdout
    assert [p["name"] for p in out["domains"][0]["providers"] if not p["level"]] == ["dns-a"]
    os.kill(world.pdns.process.proc.pid, signal.SIGCONT)
    world.wait_level()
    assert world.answers() == {"192.0.2.2"}
    world.endpoints("get", "cdn")


def test_one_provider_never_holds_up_another(tmp_path):
    port = sluicelib.Port()
    world = World(tmp_path, f"  dns-b: {{type: powerdns, url: \"http://127.0.0.1:{port.number}\", secret: dns-a}}\n",
                  "dns-a, dns-b")
    try:
        world.start()
        world.wait_level()
        statelib.commit(world.server.control, [statelib.weight("one", 0, domain=NAME)])
        serverlib.wait_for(lambda: world.answers() == {"192.0.2.2"}, "the new weights at dns-a")
        world.wait_level()
        assert world.provider("dns-b")["behind"] == 1
    finally:
        world.close()
        port.close()


def test_killed_in_the_middle(world):
    """What was to be done is on disk, whatever is killed when."""
    world.start()
    world.wait_level()
    os.kill(world.pdns.process.proc.pid, signal.SIGSTOP)
    statelib.commit(world.server.control, [statelib.weight("one", 0, domain=NAME)])
    serverlib.wait_for(lambda: world.provider()["behind"] == 1, "a job")
    world.end(signal.SIGKILL)
    queue = json.loads((world.folder / "queues/dns-a.json").read_text(encoding="utf-8"))
    assert list(queue["jobs"]) == [NAME]
    os.kill(world.pdns.process.proc.pid, signal.SIGCONT)
    world.start()
    serverlib.wait_for(lambda: world.answers() == {"192.0.2.2"}, "the new weights")
    world.wait_level()


def test_the_end_of_a_timed_override_reaches_the_provider(world):
    world.start()
    world.wait_level()

    def arrives(seconds):
        world.endpoints("set", "cdn", "only[two]", "--for", f"{seconds}s")
        return world.answers() == {"192.0.2.2"}
    assert any(arrives(seconds) for seconds in (3, 15, 50))  # on a slow machine it may be over before it is looked at
    serverlib.wait_for(lambda: world.answers() == {"192.0.2.1", "192.0.2.2"}, "the configured weights", 2 * sluicelib.DEADLINE)


def test_health_is_pushed(world):
    world.start()
    world.wait_level()
    statelib.commit(world.server.control, [statelib.health("one", 2, 4, domain=NAME)])
    serverlib.wait_for(lambda: world.answers() == {"192.0.2.2"}, "an endpoint that is down")


def test_sync_apply_brings_a_provider_level(world):
    """What somebody else has done is seen without waiting for the next attempt."""
    world.start()
    world.wait_level()
    (world.folder / "key").write_text("wrong\n", encoding="ascii")
    done = world.endpoints("set", "cdn", "only[two]", status=3)
    assert "dns-a" in done.stderr
    assert "dns-a: behind" in world.endpoints("history", "cdn").stdout
    (world.folder / "key").write_text(pdnslib.KEY, encoding="ascii")
    sluicelib.sluice("sync", "apply", "--yes", "--config", world.folder / "config", "--settings", world.settings,
                     "--socket", world.server.control, "--provider", "dns-a", "--allow-ns-change")
    world.wait_level()
    assert world.answers() == {"192.0.2.2"}


def test_without_syncd_the_tool_does_it(world):
    sluicelib.sluice("sync", "apply", "--yes", "--config", world.folder / "config", "--settings", world.settings,
                     "--socket", world.server.control, "--provider", "dns-a", "--allow-ns-change")
    world.endpoints("set", "cdn", "only[two]")
    assert world.answers() == {"192.0.2.2"}
    assert "sluice-syncd does not listen" in world.sluice("status", status=3).stderr
    (world.folder / "key").write_text("wrong\n", encoding="ascii")
    done = world.endpoints("set", "cdn", "only[one]", status=3)
    assert "dns-a is behind" in done.stderr and "wrong" not in done.stderr.replace("wrong key", "")
    assert world.answers() == {"192.0.2.2"}


@pytest.mark.parametrize("at", [2, 4, 6, 8, 12])
def test_killed_at_a_write(world, at):
    """Whichever of its writes sluice-syncd does not survive, the next one goes on."""
    library = str(toollib.fault_library()[1])
    env = {"FAULT_AT": str(at), "FAULT_MARK": str(world.folder / "mark"), "LD_PRELOAD": library,
           "ASAN_OPTIONS": sluicelib.environment()["ASAN_OPTIONS"] + ":verify_asan_link_order=0"}
    first = sluicelib.Process(sluicelib.program("sluice-syncd"), "-c", world.settings, env=env)
    statelib.commit(world.server.control, [statelib.weight("one", 0, domain=NAME)])
    serverlib.wait_for(lambda: not first.alive() or world.answers_if_any() == {"192.0.2.2"}, "its end, or its work")
    first.kill()
    world.logs.append(first.log)
    world.start()
    world.wait_level()
    assert world.answers() == {"192.0.2.2"}
    assert not list((world.folder / "queues").glob("*.damaged"))


@pytest.mark.parametrize("text", [
    "{\"format\": 1", "", "[]", "{\"format\": 2, \"jobs\": {}, \"level\": {}}",
    "{\"format\": 1, \"jobs\": {\"cdn.e.test.\": 1}, \"level\": {}}",
    "{\"format\": 1, \"jobs\": {}, \"level\": {\"cdn.e.test.\": null}}"])
def test_damaged_queue_is_set_aside(world, text):
    (world.folder / "queues").mkdir()
    (world.folder / "queues/dns-a.json").write_text(text, encoding="ascii")
    world.start()
    world.syncd.wait_log("queue of dns-a was damaged")
    world.wait_level()
    assert (world.folder / "queues/dns-a.json.damaged").exists()


def test_bad_settings(tmp_path):
    path = tmp_path / "sluice.yaml"
    path.write_text("syncd: {contrl: /tmp/x}\n", encoding="ascii")
    done = sluicelib.run(sluicelib.program("sluice-syncd"), "-c", path)
    assert done.returncode == 1 and "did you mean `control`" in done.stderr
    assert sluicelib.run(sluicelib.program("sluice-syncd")).returncode == 2
    assert "Examples:" in sluicelib.run(sluicelib.program("sluice-syncd"), "--help").stdout


def test_system_check_knows_the_section(tmp_path):
    path = tmp_path / "sluice.yaml"
    path.write_text("syncd: {control: /run/x.sock, state: /tmp/x}\n", encoding="ascii")
    sluicelib.sluice("check", "--system", path)
    path.write_text("syncd: {stat: /tmp/x}\n", encoding="ascii")
    assert "did you mean `state`" in sluicelib.sluice("check", "--system", path, status=1).stderr


@pytest.fixture
def site(tmp_path):
    out = gitlib.Site(tmp_path / "site")
    yield out
    gitlib.Site.end_all()


def test_a_deploy_reaches_the_provider(site, tmp_path):
    """The configuration is the commit of the build that is served."""
    pdns = pdnslib.Pdns(tmp_path / "pdns")
    syncd = None
    try:
        pdns.make_zone()
        (tmp_path / "key").write_text(pdnslib.KEY, encoding="ascii")
        (tmp_path / "key").chmod(0o600)
        site.start()
        site.commit({"defaults.yaml": "default_zone: e.test\nproviders:\n"
                                      f"  dns-a: {{type: powerdns, url: \"{pdns.url}\", secret: dns-a}}\n",
                     "e.test/zone.yaml": ZONE % "dns-a", "e.test/cdn/domain.yaml": DOMAIN})
        site.push()
        settings = tmp_path / "sluice.yaml"
        settings.write_text(f"data: {site.data}\ncontrol: {site.socket}\ndeploy: {{repository: {site.bare}}}\n"
                            f"secrets: {{dns-a: {{file: {tmp_path}/key}}}}\n"
                            f"syncd: {{control: {tmp_path}/syncd.sock, state: {tmp_path}/queues}}\n", encoding="ascii")
        syncd = Syncd(settings)
        serverlib.wait_for(lambda: pdns.rrset(NAME, "LUA"), "a first record")
        assert set(pdns.draws(NAME, 60)) == {"192.0.2.1", "192.0.2.2"}
        site.commit({"e.test/cdn/domain.yaml": DOMAIN.replace("one: 3, two: 1", "one: 0, two: 1")})
        site.push()
        serverlib.wait_for(lambda: set(pdns.draws(NAME, 60)) == {"192.0.2.2"}, "the new configuration")
        syncd.stop()
        assert not list((tmp_path / "queues").glob("*.damaged"))
    finally:
        if syncd:
            syncd.kill()
        pdns.close()


def test_who_may_use_it(world):
    """The socket is for the group, the queues for nobody else."""
    world.start()
    world.wait_level()
    assert world.control.stat().st_mode & 0o777 == 0o660
    assert (world.folder / "queues").stat().st_mode & 0o077 == 0
    assert (world.folder / "queues/dns-a.json").stat().st_mode & 0o077 == 0
    assert not sluicelib.control(world.control, "status", domain="nothing.e.test.")["domain"]["providers"]
    for wrong in (b"\n", b"{}\n", b"[1\n", b"{\"command\": \"sync\"}\n", b"{\"command\": \"no\"}\n"):
        assert json.loads(exchange(world.control, wrong))["code"] == 2
    assert exchange(world.control, b"x" * (70 << 10)) == b""
    assert world.is_level()
    sluicelib.control(world.control, "stop")
    assert world.syncd.wait() == 0
    assert not world.control.exists()


def exchange(path, request):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(sluicelib.DEADLINE)
        sock.connect(str(path))
        try:
            sock.sendall(request)
            with sock.makefile("rb") as lines:
                return lines.readline()
        except (BrokenPipeError, ConnectionResetError):
            return b""


def test_a_cluster_that_fails_may_change_a_whole_zone(tmp_path):
    """The limit of 30 % is for mistakes: of outages nobody has to approve."""
    world = World(tmp_path, others=12)
    try:
        world.start()
        world.wait_level()
        world.end()
        names = ["cdn", *(f"n{i}" for i in range(12))]
        for name in names:
            sluicelib.sluice("health", "override", name, "one", "down", "--socket", world.server.control, status=None)
        world.start()
        world.wait_level()
        world.end()
        assert "held back" not in world.logs[-1], world.logs[-1]
        for name in names:
            assert set(world.pdns.draws(f"{name}.e.test.", 20)) == {"192.0.2.2"}, name
    finally:
        world.close()
