# SPDX-License-Identifier: Apache-2.0
"""`git push` deploys: what is accepted, what is refused, what is live afterwards."""
import json
import os
import pathlib
import subprocess

import gitlib
import pytest
import sluicelib
import toollib
from gitlib import git


@pytest.fixture(autouse=True)
def no_server_is_left():
    yield
    gitlib.Site.end_all()


@pytest.fixture
def site(tmp_path):
    site = gitlib.Site(tmp_path / "site").start()
    yield site
    site.server.stop()


# ---- the way it should go --------------------------------------------------------------------------


def test_a_push_is_live_when_git_returns(site):
    serial = site.serial()
    for number in range(2, 6):
        commit = site.change(f"192.0.2.{number}")
        said = site.push()
        assert site.ask() == [f"192.0.2.{number}"]
        assert f"is live: {commit[:12]}" in said and "NOT DEPLOYED" not in said
        assert site.serial() == serial + number - 1
    manifest = toollib.manifest(site.data)
    assert manifest["commit"] == commit and manifest["commit_time"] > 1700000000
    site.server.sluice("status")


def test_deploys_lists_what_was_live_and_by_whom(site):
    site.change("192.0.2.2", message="move to two")
    site.push(env=gitlib.environment(SLUICE_USER="alice", SSH_CONNECTION="192.0.2.77 5000 192.0.2.1 22"))
    newest, first = site.deploys()
    assert (newest["deploy"], first["deploy"]) == (2, 1)
    assert newest["live"] and not first["live"]
    assert newest["who"] == "alice" and newest["origin"] == "ssh from 192.0.2.77"
    assert newest["commit"] == site.head() and newest["subject"] == "move to two"
    assert newest["changed"] == ["example.com."]
    assert newest["zones"]["example.com."]["serial"] == 2
    text = site.sluice("deploys", site.bare).stdout
    assert "#2" in text and "alice" in text and "move to two" in text and "LIVE" in text
    assert all(len(line) <= 80 for line in text.splitlines()), text
    assert len(json.loads(site.sluice("deploys", site.bare, "--limit", 1, "--json").stdout)) == 1


def test_other_branches_and_tags_are_no_deploys(site):
    site.change("192.0.2.2")
    git(site.work, "tag", "v1")
    site.push("main:refs/heads/side", "v1")
    assert site.ask() == ["192.0.2.1"]
    site.commit({"example.com/cdn/domain.yaml": "not: good\n"})
    site.push("main:side")  # nobody looks at it
    site.push(":side", ":v1")
    assert len(site.deploys()) == 1


def test_a_forced_push_deploys_and_its_serial_goes_up(site):
    first = site.head()
    site.change("192.0.2.2")
    site.push()
    git(site.work, "reset", "-q", "--hard", first)
    site.push("+main")
    assert site.ask() == ["192.0.2.1"] and site.serial() == 3
    # The commit that is on no branch any more stays, for a rollback.
    git(site.bare, "gc", "-q", "--prune=now")
    site.sluice("rollback", "2", "--repository", site.bare)
    assert site.ask() == ["192.0.2.2"] and site.serial() == 4


def test_a_serial_goes_up_after_a_revert_and_stays_without_a_change(site):
    site.change("192.0.2.2")
    site.push()
    git(site.work, "revert", "--no-edit", "HEAD")
    site.push()
    assert (site.ask(), site.serial()) == (["192.0.2.1"], 3)
    site.commit({"README": "words\n"})
    site.push()
    assert site.serial() == 3 and len(site.deploys()) == 4
    site.commit({"example.org/zone.yaml": sluicelib.ZONE})
    site.push()
    assert (site.serial(), site.serial("example.org.")) == (3, 1)


def test_a_serial_goes_up_with_the_clock_set_back(site):
    site.change("192.0.2.2")
    site.push()
    sluicelib.write_tree(site.work, {"example.com/cdn/domain.yaml": gitlib.domain("192.0.2.3")})
    old = gitlib.environment(GIT_COMMITTER_DATE="2001-01-01T00:00:00Z", GIT_AUTHOR_DATE="2001-01-01T00:00:00Z")
    git(site.work, "commit", "-q", "-a", "-m", "from another time", env=old)
    site.push()
    assert site.serial() == 3


def test_a_zone_that_comes_back_does_not_start_again(site):
    files = {"example.org/zone.yaml": sluicelib.ZONE}
    site.commit(files)
    site.push()
    site.commit({"example.org/zone.yaml": sluicelib.ZONE + "records: {www: {A: 192.0.2.9}}\n"})
    site.push()
    assert site.serial("example.org.") == 2
    site.commit({"example.org/zone.yaml": None})
    site.push()
    site.commit({"example.org/zone.yaml": sluicelib.ZONE + "records: {www: {A: 192.0.2.10}}\n"})
    site.push()
    assert site.serial("example.org.") == 3


def test_serials_go_on_from_what_was_served_before_the_first_deploy(tmp_path):
    config = sluicelib.write_tree(tmp_path / "c", sluicelib.config_files({"cdn": gitlib.domain("192.0.2.1")}))
    for number in range(1, 6):
        sluicelib.write_tree(config, {"example.com/cdn/domain.yaml": gitlib.domain(f"192.0.2.{number}")})
        sluicelib.build(config, tmp_path / "site/data")
    site = gitlib.Site(tmp_path / "site")
    site.commit(sluicelib.config_files({"cdn": gitlib.domain("192.0.2.100")}))
    site.push()
    assert toollib.manifest(site.data)["zones"][0]["serial"] == 6


def test_only_what_changed_is_made_anew(site):
    site.commit({f"zone{i}.example/zone.yaml": sluicelib.ZONE for i in range(5)})
    site.push()
    before = {z["name"]: os.stat(site.data / "current" / z["image"]).st_ino
              for z in toollib.manifest(site.data)["zones"]}
    site.commit({"zone3.example/zone.yaml": sluicelib.ZONE + "records: {www: {A: 192.0.2.9}}\n"})
    site.push()
    after = {z["name"]: os.stat(site.data / "current" / z["image"]).st_ino
             for z in toollib.manifest(site.data)["zones"]}
    assert {n for n in after if after[n] != before[n]} == {"zone3.example."}


def test_zones_that_were_not_read_stand_in_all_lists(site, tmp_path):
    """The result is the same as that of a build that reads all."""
    health = "health: {type: http, path: /x}\n"
    files = {}
    for zone in ("a.example", "b.a.example", "c.example", "d.example"):
        files[f"{zone}/zone.yaml"] = sluicelib.ZONE
        for name in ("one", "two", "_wildcard.x"):
            files[f"{zone}/{name}/domain.yaml"] = gitlib.domain("192.0.2.1") + health * (zone != "c.example")
    site.commit(files)
    site.push()
    for number, path in enumerate(("a.example/one", "d.example/two", "c.example/one", "b.a.example/two")):
        site.commit({f"{path}/domain.yaml": gitlib.domain(f"192.0.2.{number + 7}") + health})
        site.push()
        whole = tmp_path / f"whole{number}"
        sluicelib.sluice("build", "--git", site.bare, "--commit", "main", "--out", whole)
        for name in ("checks.json", "domains.json"):
            assert (site.data / "current" / name).read_bytes() == (whole / "current" / name).read_bytes()
    site.commit({"c.example/one/domain.yaml": None, "d.example/zone.yaml": None, "d.example/one/domain.yaml": None,
                 "d.example/two/domain.yaml": None, "d.example/_wildcard.x/domain.yaml": None})
    site.push()
    sluicelib.sluice("build", "--git", site.bare, "--commit", "main", "--out", tmp_path / "w")
    for name in ("checks.json", "domains.json"):
        assert (site.data / "current" / name).read_bytes() == (tmp_path / "w/current" / name).read_bytes()


def test_a_zone_is_read_again_when_something_around_it_changed(site):
    """What a zone depends on beside its own directory: defaults, files elsewhere, zones around it."""
    parent = {"tm.example.com/zone.yaml": sluicelib.ZONE}
    site.commit({**parent, "shared/www.zone": "www 60 A 192.0.2.50\n",
                 "example.com/zone.yaml": sluicelib.ZONE + "zonefile: ../shared/www.zone\n"})
    site.push()
    assert site.ask("www.example.com.") == ["192.0.2.50"]
    site.commit({"shared/www.zone": "www 60 A 192.0.2.51\n"})
    site.push()
    assert site.ask("www.example.com.") == ["192.0.2.51"]
    # A name of the zone below, in the zone above, which did not change.
    site.commit({"example.com/a.sub/domain.yaml": gitlib.domain("192.0.2.1")})
    site.push()
    site.commit({"sub.example.com/zone.yaml": sluicelib.ZONE})
    assert "example.com/a.sub/domain.yaml" in site.push(status=1)
    git(site.work, "reset", "-q", "--hard", "HEAD~1")
    # A region that exists no more.
    site.commit({"defaults.yaml": "regions: {office: [192.0.2.0/24]}\n",
                 "example.com/cdn/domain.yaml": "endpoints: {one: 192.0.2.1}\n"
                                                "regions: {global: {one: 1}, office: {one: 1}}\n"})
    site.push()
    site.commit({"defaults.yaml": "regions: {}\n"})
    assert "example.com/cdn/domain.yaml" in site.push(status=1)


# ---- what is refused -------------------------------------------------------------------------------


def test_B13_the_pushed_tree_is_checked_inside_the_quarantine(site):
    """A bad commit is refused with file, line and column, and leaves nothing behind."""
    site.change("192.0.2.2")
    site.push()
    files, data = gitlib.files_of(site.bare), toollib.tree(site.data)
    site.commit({"example.com/cdn/domain.yaml": "ttl: 30\nendpoints: {one: 192.0.2.3}\n"
                                                "regions:\n  global: {one: 1, tow: 0}\n"})
    said = site.push(status=1)
    assert "example.com/cdn/domain.yaml:4:20: " in said and "`tow`" in said, said
    assert "refused" in said and "pre-receive hook declined" in said
    assert gitlib.files_of(site.bare) == files and toollib.tree(site.data) == data
    assert site.ask() == ["192.0.2.2"]
    # The repair needs nothing else.
    site.change("192.0.2.4")
    site.push()
    assert site.ask() == ["192.0.2.4"]


@pytest.mark.parametrize("what", [[":main"], ["main:refs/sluice/deploys"], [":refs/sluice/deploys"],
                                  ["main:refs/sluice/other"], ["main", "main:refs/sluice/x"]])
def test_refs_that_must_stay(site, what):
    if len(what) == 2:
        site.change("192.0.2.2")
    before = git(site.bare, "for-each-ref").stdout
    said = site.push("-f", *what, status=1)
    assert "sluice: refused: " in said
    assert git(site.bare, "for-each-ref").stdout == before and site.ask() == ["192.0.2.1"]


def test_an_empty_tree_is_refused(site):
    git(site.work, "rm", "-q", "-r", ".")
    git(site.work, "commit", "-q", "-m", "all gone")
    assert "is empty, so all names would be refused" in site.push(status=1)
    site.commit({"README": "no zone\n"})
    assert "there is no zone in the commit" in site.push(status=1)
    assert site.ask() == ["192.0.2.1"]


def test_exec_checks_are_looked_up(tmp_path):
    settings = tmp_path / "sluice.yaml"
    settings.write_text("checks: {known: {command: [/bin/true]}}\n", encoding="ascii")
    site = gitlib.Site(tmp_path / "site", "--system", settings)
    check = gitlib.domain("192.0.2.1") + "health: {type: exec, check: %s}\n"
    site.commit(sluicelib.config_files({"cdn": check % "unknown"}))
    said = site.push(status=1)
    assert "example.com/cdn/domain.yaml:" in said and "`unknown`" in said
    site.commit({"example.com/cdn/domain.yaml": check % "known"})
    site.push()
    # The settings change, the zone does not: it is looked at again.
    settings.write_text("checks: {}\n", encoding="ascii")
    site.commit({"README": "x"})
    assert "`known`" in site.push(status=1)


def test_B13_hostile_surroundings(site, tmp_path):
    """The hooks run with nothing of what a login gives, and from anywhere."""
    site.change("192.0.2.2")
    new = site.head()
    git(site.work, "push", "-q", "origin", "main:refs/heads/side")
    away = tmp_path / "away"
    away.mkdir()
    (away / "HEAD").write_text("ref: refs/heads/evil\n", encoding="ascii")
    line = f"{'0' * 40} {new} refs/heads/main\n"
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": "/dev/shm", "GIT_DIR": ".", "LC_ALL": ""}
    env.update({k: v for k, v in sluicelib.environment().items() if k.endswith("SAN_OPTIONS")})
    for hook in ("pre-receive", "post-receive"):
        if hook == "post-receive":
            git(site.bare, "update-ref", "refs/heads/main", new)
        done = subprocess.run(["setsid", "sh", "-c", f"umask 077; cd {away}; exec {site.bare}/hooks/{hook}"],
                              input=line, env=env, capture_output=True, text=True, timeout=sluicelib.DEADLINE)
        assert done.returncode == 0, done.stderr
        assert not sluicelib.SANITIZER.search(done.stderr), done.stderr
    assert site.ask() == ["192.0.2.2"]
    # The server may be another user than the one who pushes.
    for path in [site.data / "current", *(site.data / "current/").rglob("*")]:
        mode = path.stat().st_mode & 0o777
        assert mode & 0o044 == 0o044, (path, oct(mode))
    assert sorted(p.name for p in away.iterdir()) == ["HEAD"]


def test_B21_a_bad_file_does_not_damage_the_good_state(tmp_path):
    site = gitlib.Site(tmp_path / "site").start()
    names = ("a", "b", "c")
    site.commit({f"example.com/{n}/domain.yaml": gitlib.domain(f"192.0.2.{i + 1}") for i, n in enumerate(names)})
    site.push()
    answers = {n: site.ask(f"{n}.example.com.") for n in names}
    site.commit({"example.com/b/domain.yaml": gitlib.domain("192.0.2.9") + "# x\n" * 40 + "ownr: x\n"})
    assert "example.com/b/domain.yaml:44:" in site.push(status=1)
    assert {n: site.ask(f"{n}.example.com.") for n in names} == answers
    site.commit({"example.com/b/domain.yaml": None})
    site.push()
    assert sluicelib.rcode(site.server.ask("b.example.com.")) == "NXDOMAIN"
    assert site.ask("a.example.com.") == answers["a"]
    site.server.stop()


# ---- installing ------------------------------------------------------------------------------------


def test_install_may_be_repeated_and_keeps_hooks_of_others(tmp_path):
    site = gitlib.Site(tmp_path / "site")
    before = gitlib.files_of(site.bare)
    site.install()
    assert gitlib.files_of(site.bare) == before
    foreign = site.bare / "hooks/post-receive"
    foreign.write_text("#!/bin/sh\nexit 0\n", encoding="ascii")
    said = sluicelib.sluice("hook", "install", site.bare, "--branch", "other", status=1).stderr
    assert "there is another hook at" in said
    assert foreign.read_text(encoding="ascii") == "#!/bin/sh\nexit 0\n"
    assert git(site.bare, "config", "sluice.branch").stdout == "main\n"


def test_install_says_what_cannot_deploy(tmp_path):
    git(tmp_path, "init", "-q", "plain")
    assert "is not bare" in sluicelib.sluice("hook", "install", tmp_path / "plain", status=1).stderr
    assert "cannot open the repository" in sluicelib.sluice("hook", "install", tmp_path / "none", status=1).stderr
    git(tmp_path, "init", "-q", "--bare", "b.git")
    git(tmp_path / "b.git", "config", "core.hooksPath", "/elsewhere")
    assert "core.hooksPath" in sluicelib.sluice("hook", "install", tmp_path / "b.git", status=1).stderr
    git(tmp_path / "b.git", "config", "--unset", "core.hooksPath")
    assert "not the name of a branch" in sluicelib.sluice("hook", "install", tmp_path / "b.git", "--branch", "a..b",
                                                          status=1).stderr
    assert "does not deploy" in sluicelib.sluice("deploys", tmp_path / "b.git", status=1).stderr


def test_odd_paths_are_quoted(tmp_path):
    site = gitlib.Site(tmp_path / "it's a $(site) dir")
    site.commit(sluicelib.config_files({"cdn": gitlib.domain("192.0.2.1")}))
    site.push()
    assert toollib.manifest(site.data)["commit"] == site.head()


def test_another_branch(tmp_path):
    site = gitlib.Site(tmp_path / "site", "--branch", "live/now", branch="live/now")
    site.commit(sluicelib.config_files({"cdn": gitlib.domain("192.0.2.1")}))
    site.push()
    assert toollib.manifest(site.data)["commit"] == site.head()
    assert git(site.bare, "symbolic-ref", "HEAD").stdout == "refs/heads/live/now\n"


def test_settings_name_the_repository(site, tmp_path):
    settings = tmp_path / "sluice.yaml"
    settings.write_text(f"data: {site.data}\ndeploy: {{repository: {site.bare}}}\n", encoding="ascii")
    assert "#1" in site.sluice("deploys", "--settings", settings).stdout
    settings.write_text("deploy: {repositery: x}\n", encoding="ascii")
    assert "did you mean repository?" in site.sluice("deploys", "--settings", settings, status=1).stderr
    settings.write_text("data: /nowhere\n", encoding="ascii")
    assert "which repository?" in site.sluice("deploys", "--settings", settings, status=1).stderr


# ---- rollback --------------------------------------------------------------------------------------


def test_rollback_and_the_push_that_undoes_it(site):
    for number in (2, 3):
        site.change(f"192.0.2.{number}")
        site.push()
    tip = site.head()
    said = site.sluice("rollback", "--repository", site.bare).stdout
    assert "deploy 4 is live" in said and "of deploy 2" in said
    assert site.ask() == ["192.0.2.2"] and site.serial() == 4
    assert git(site.bare, "rev-parse", "main").stdout.strip() == tip
    assert site.deploys()[0]["kind"] == "rollback" and site.deploys()[0]["of"] == 2
    site.server.sluice("status")  # it was meant, so nothing is wrong
    # Trying again what is live changes nothing.
    site.sluice("deploys", site.bare, "--retry")
    assert site.ask() == ["192.0.2.2"] and len(site.deploys()) == 4
    site.sluice("rollback", "1", "--repository", site.bare)
    assert site.ask() == ["192.0.2.1"]
    site.change("192.0.2.9")
    said = site.push()
    assert "this undoes the rollback" in said and site.ask() == ["192.0.2.9"]


def test_rollback_says_what_it_cannot(site):
    def refused(*args):
        return site.sluice("rollback", *args, "--repository", site.bare, status=1).stderr
    assert "no earlier commit" in refused()
    assert "there is no deploy 7" in refused("7")
    assert "nothing to do" in refused("1")
    assert "not the number of a deploy" in site.sluice("rollback", "x", "--repository", site.bare, status=2).stderr
    assert len(site.deploys()) == 1


# ---- not live --------------------------------------------------------------------------------------


def test_accepted_not_deployed_is_told_and_repaired(site):
    site.server.stop()
    site.change("192.0.2.2")
    said = site.push()
    assert "ACCEPTED, NOT DEPLOYED: no server listens" in said and "--retry" in said
    assert "NOT DEPLOYED" in site.sluice("deploys", site.bare, status=3).stderr
    site.sluice("deploys", site.bare, "--retry", status=3)
    site.server = sluicelib.Server(site.data, control=str(site.socket))
    assert site.ask() == ["192.0.2.2"]
    site.server.sluice("status")  # the start has mended it
    site.sluice("deploys", site.bare, "--retry")
    site.sluice("deploys", site.bare)
    assert site.serial() == 2


def test_a_reload_that_fails_is_told(tmp_path):
    """The server says no: status 3, and the next push repairs."""
    site = gitlib.Site(tmp_path / "site")
    answers = [{"ok": False, "error": "the image is damaged", "code": 1}]
    with toollib.FakeServer(site.socket, lambda request: answers[0]) as fake:
        site.commit(sluicelib.config_files({"cdn": gitlib.domain("192.0.2.1")}))
        assert "NOT DEPLOYED: the server did not load the build: the image is damaged" in site.push()
        build = toollib.manifest(site.data) and os.readlink(site.data / "current")[7:]
        answers[0] = {"ok": True, "build": {"id": "0" * 16}}
        site.change("192.0.2.2")
        assert "serves another folder of builds" in site.push()
        answers[0] = {"ok": True, "build": {"id": build}, "data": str(site.data)}
        done = sluicelib.sluice("status", "--socket", fake.path, status=3)
        assert "NOT DEPLOYED" in done.stderr and "serves another folder" in done.stderr


def test_the_data_folder_cannot_be_used(site):
    """An unreadable target: refused before the push is accepted."""
    os.rename(site.data, f"{site.data}.away")
    pathlib.Path(site.data).write_text("in the way", encoding="ascii")
    site.change("192.0.2.2")
    said = site.push(status=1)
    assert "sluice: refused: " in said and str(site.data) in said
    os.unlink(site.data)
    os.rename(f"{site.data}.away", site.data)
    site.push()
    assert site.ask() == ["192.0.2.2"]
