# SPDX-License-Identifier: Apache-2.0
"""`sluice follow`: another machine serves what was deployed, with the same serials."""
import os
import signal
import subprocess

import gitlib
import pytest
import sluicelib
import toollib
from gitlib import git
from serverlib import wait_for


@pytest.fixture(autouse=True)
def no_server_is_left():
    yield
    gitlib.Site.end_all()


class Follower:
    """A machine of its own that follows a site."""

    def __init__(self, root, url):
        self.root, self.url = root, url
        self.data, self.socket = root / "data", root / "control.sock"
        self.root.mkdir()
        self.server = self.process = None

    def once(self, status=0):
        return sluicelib.sluice("follow", self.url, "--data", self.data, "--socket", self.socket, "--once",
                                status=status).stderr

    def start(self):
        assert "no server listens" in self.once(status=3)
        self.server = sluicelib.Server(self.data, control=str(self.socket))
        self.once()
        return self

    def run(self):
        self.process = sluicelib.Process(sluicelib.program("sluice"), "follow", self.url, "--data", self.data,
                                         "--socket", self.socket, "--interval", "3600")
        self.process.wait_log("following")
        self.process.wait_log("is live|NOT|cannot")
        return self.process

    def state(self):
        """What is served: serials and answers."""
        return (sluicelib.rdata(self.server.ask("cdn.example.com.")),
                sluicelib.rdata(self.server.ask("example.com.", "SOA")))

    def stop(self):
        if self.process:
            self.process.stop()
        if self.server:
            self.server.stop()


@pytest.fixture
def site(tmp_path):
    site = gitlib.Site(tmp_path / "site").start()
    yield site
    site.server.stop()


@pytest.fixture
def follower(site, tmp_path):
    follower = Follower(tmp_path / "follower", f"file://{site.bare}").start()
    yield follower
    follower.stop()


def state(site):
    return site.ask(), sluicelib.rdata(site.server.ask("example.com.", "SOA"))


def test_it_serves_the_same_with_the_same_serials(site, follower):
    assert follower.state() == state(site)
    for number in range(2, 5):
        site.change(f"192.0.2.{number}")
        site.push()
    # Two deploys are left out here, and their serials with them.
    follower.once()
    assert follower.state() == state(site) and site.serial() == 4
    assert toollib.tree(follower.data / "current/") == toollib.tree(site.data / "current/")
    site.sluice("rollback", "--repository", site.bare)
    follower.once()
    assert follower.state() == state(site) and site.serial() == 5
    follower.server.sluice("status")
    mirror = follower.data / "deploy/mirror.git"
    assert "#5" in sluicelib.sluice("deploys", mirror).stdout
    assert "roll back there" in sluicelib.sluice("rollback", "--repository", mirror, status=1).stderr


def test_a_follower_that_starts_late_or_was_something_else(site, tmp_path):
    for number in range(2, 5):
        site.change(f"192.0.2.{number}")
        site.push()
    config = sluicelib.write_tree(tmp_path / "c", sluicelib.config_files({"cdn": gitlib.domain("192.0.2.77")}))
    late = Follower(tmp_path / "late", site.bare)
    sluicelib.build(config, late.data)  # of another origin, with serial 1
    late.server = sluicelib.Server(late.data, control=str(late.socket))
    late.once()
    assert late.state() == state(site)
    late.stop()


def test_only_what_was_deployed_is_served(site, follower):
    """A push that is not live at home is not live here; the branch does not matter."""
    site.server.stop()
    before = follower.state()
    git(site.bare, "update-ref", "refs/heads/main", git(site.bare, "rev-parse", "main").stdout.strip())
    site.change("192.0.2.2")
    git(site.work, "push", "-q", "origin", "main:refs/heads/side")
    follower.once()
    assert follower.state() == before
    site.server = sluicelib.Server(site.data, control=str(site.socket))


def test_it_runs_for_long_and_looks_at_once_when_asked(site, follower):
    process = follower.run()
    for number in range(2, 5):
        site.change(f"192.0.2.{number}")
        site.push()
        mark = process.mark()
        process.signal(signal.SIGHUP)
        process.wait_log(f"deploy {number} is live", since=mark)
        assert follower.state() == state(site)
    # The origin is gone, and comes back.
    os.rename(site.bare, f"{site.bare}.away")
    process.signal(signal.SIGHUP)
    process.wait_log("cannot fetch from")
    assert follower.state() == state(site)
    os.rename(f"{site.bare}.away", site.bare)
    site.change("192.0.2.9")
    site.push()
    mark = process.mark()
    process.signal(signal.SIGHUP)
    process.wait_log("deploy 5 is live", since=mark)
    # So is the server.
    follower.server.stop()
    site.change("192.0.2.10")
    site.push()
    process.signal(signal.SIGHUP)
    process.wait_log("no server listens")
    follower.server = sluicelib.Server(follower.data, control=str(follower.socket))
    process.signal(signal.SIGHUP)
    process.wait_log("deploy 6 is live")
    assert follower.state() == state(site)


def test_deploys_that_were_rewritten_are_refused(site, follower):
    before = follower.state()
    first = git(site.bare, "rev-parse", "refs/sluice/deploys").stdout.strip()
    site.change("192.0.2.2")
    site.push()
    follower.once()
    git(site.bare, "update-ref", "refs/sluice/deploys", first)
    site.change("192.0.2.3")
    site.push()
    said = follower.once(status=1)
    assert "were rewritten" in said and str(follower.data / "deploy/mirror.git") in said
    assert follower.state() != before and follower.state()[0] == ["192.0.2.2"]
    assert "were rewritten" in follower.server.sluice("status", status=3).stderr
    subprocess.run(["rm", "-r", follower.data / "deploy/mirror.git"], check=True)
    follower.once()
    assert follower.state() == state(site)
    follower.server.sluice("status")


def test_garbage_is_refused(site, follower):
    good = git(site.bare, "rev-parse", "refs/sluice/deploys").stdout.strip()
    main = git(site.bare, "rev-parse", "main").stdout.strip()
    record = git(site.bare, "show", "refs/sluice/deploys:deploy.json").stdout
    before = follower.state()
    numbers = {"zones": '"zones": {}', "deploy": '"deploy": 1', "commit": f'"commit": "{"1" * 40}"'}
    texts = ["", "{}", "nonsense", "x" * 100000,
             *(record.replace(next(line for line in record.splitlines() if line.startswith(f' "{key}"')).rstrip(","),
                              " " + new) for key, new in numbers.items() if key != "zones")]
    for text in texts:
        blob = git(site.bare, "hash-object", "-w", "--stdin", stdin=text).stdout.strip()
        tree = git(site.bare, "mktree", stdin=f"100644 blob {blob}\tdeploy.json\n").stdout.strip()
        odd = git(site.bare, "commit-tree", tree, "-p", good, "-p", main, "-m", "x").stdout.strip()
        git(site.bare, "update-ref", "refs/sluice/deploys", odd)
        follower.once(status=1)
        assert follower.state() == before
    blob = git(site.bare, "hash-object", "-w", "--stdin", stdin="x").stdout.strip()
    git(site.bare, "update-ref", "refs/sluice/deploys", blob)
    follower.once(status=1)
    git(site.bare, "update-ref", "refs/sluice/deploys", good)
    follower.once()
    assert follower.state() == before


def test_a_bad_configuration_that_was_deployed(site, follower):
    """Another version of sluice may have let it pass: what was served stays."""
    before = follower.state()
    good = git(site.bare, "rev-parse", "refs/sluice/deploys").stdout.strip()
    bad = site.commit({"example.com/cdn/domain.yaml": "nonsense: 1\n"})
    git(site.work, "push", "-q", "origin", "main:refs/heads/side")
    record = git(site.bare, "show", "refs/sluice/deploys:deploy.json").stdout
    record = record.replace('"deploy": 1', '"deploy": 2').replace(git(site.bare, "rev-parse", "main").stdout.strip(), bad)
    record = record.replace('"build": "', '"build": "0000000000000000", "x": "')
    blob = git(site.bare, "hash-object", "-w", "--stdin", stdin=record).stdout.strip()
    tree = git(site.bare, "mktree", stdin=f"100644 blob {blob}\tdeploy.json\n").stdout.strip()
    odd = git(site.bare, "commit-tree", tree, "-p", good, "-p", bad, "-m", "x").stdout.strip()
    git(site.bare, "update-ref", "refs/sluice/deploys", odd)
    said = follower.once(status=3)
    assert "example.com/cdn/domain.yaml:1:1: unknown key" in said
    assert follower.state() == before
    assert "NOT DEPLOYED" in follower.server.sluice("status", status=3).stderr


@pytest.mark.parametrize("url, words", [
    ("/nowhere", "cannot fetch from /nowhere"), ("--upload-pack=touch evil", "unknown option"),
    ("ext::sh -c touch% evil", "cannot fetch"), ("ssh://nobody@127.0.0.1:1/x.git", "cannot fetch"),
    ("ssh://-oProxyCommand=touch%20evil/x", "cannot fetch")])
def test_urls_that_cannot_be_followed(tmp_path, url, words):
    done = sluicelib.sluice("follow", url, "--data", tmp_path / "data", "--once", status=None, cwd=tmp_path)
    assert done.returncode in (1, 2) and words in done.stderr, done
    assert not (tmp_path / "evil").exists()


def test_a_repository_without_deploys(tmp_path):
    git(tmp_path, "init", "-q", "--bare", "empty.git")
    said = sluicelib.sluice("follow", tmp_path / "empty.git", "--data", tmp_path / "d", "--once", status=1).stderr
    assert "nothing was deployed" in said


def test_all_from_the_settings(site, tmp_path):
    """As the service runs it."""
    data, control = tmp_path / "d", tmp_path / "c.sock"
    settings = tmp_path / "sluice.yaml"
    settings.write_text(f"data: {data}\ncontrol: {control}\ndeploy: {{follow: {site.bare}}}\n", encoding="ascii")
    sluicelib.sluice("follow", "-c", settings, "--once", status=3)
    with sluicelib.Server(data, control=str(control)) as server:
        sluicelib.sluice("follow", "-c", settings, "--once")
        assert sluicelib.rdata(server.ask("cdn.example.com.")) == site.ask()
        assert "#1" in sluicelib.sluice("deploys", "-c", settings).stdout
    settings.write_text(f"data: {data}\n", encoding="ascii")
    assert "which repository?" in sluicelib.sluice("follow", "-c", settings, "--once", status=2).stderr


def test_kill_at_any_moment(site, follower):
    """What one process has begun the next one ends."""
    library = toollib.fault_library()[1]
    number = 1
    for at in range(2, 60, 7):
        number += 1
        site.change(f"192.0.2.{number}")
        site.push()
        before, wanted = follower.state(), state(site)
        env = sluicelib.environment()
        env.update(LD_PRELOAD=library, FAULT_AT=str(at), FAULT_MARK=str(follower.root / "mark"))
        env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
        subprocess.run([sluicelib.program("sluice"), "follow", follower.url, "--data", follower.data, "--socket",
                        follower.socket, "--once"], env=env, capture_output=True, timeout=sluicelib.DEADLINE)
        assert follower.state() in (before, wanted)
        follower.once()
        assert follower.state() == wanted


def test_set_on_a_follower_warns_that_it_holds_here_alone(site, follower):
    def set_here(server_socket):
        return sluicelib.sluice("endpoints", "set", "cdn.example.com.", "even", "--socket", server_socket)

    done = set_here(follower.socket)
    assert f"this machine follows {follower.url}: what is set here holds here alone" in done.stdout + done.stderr
    done = set_here(site.socket)
    assert "follows" not in done.stdout + done.stderr
