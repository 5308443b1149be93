# SPDX-License-Identifier: Apache-2.0
"""A configuration is read out of a commit, whatever its tree holds (B98)."""
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
def repository(tmp_path):
    path = tmp_path / "odd.git"
    git(tmp_path, "init", "-q", "--bare", path)
    return path


def blob(repository, content):
    return git(repository, "hash-object", "-w", "--stdin", stdin=content).stdout.strip()


def tree(repository, entries):
    """A tree of (mode, name, id), byte by byte: git itself would not make some of them."""
    raw = b"".join(f"{mode} ".encode() + (name if isinstance(name, bytes) else name.encode()) + b"\0"
                   + bytes.fromhex(oid) for mode, name, oid in entries)
    done = subprocess.run(["git", "-C", repository, "hash-object", "-w", "-t", "tree", "--literally", "--stdin"],
                          input=raw, capture_output=True, check=True, env=gitlib.environment())
    return done.stdout.decode().strip()


def commit(repository, root, name="main"):
    done = git(repository, "commit-tree", root, "-m", "odd")
    git(repository, "update-ref", f"refs/heads/{name}", done.stdout.strip())
    return done.stdout.strip()


def good(repository, more=(), zone_more=(), domain_more=()):
    """The entries of a good configuration, and others beside them."""
    leaf = tree(repository, sorted([("100644", "domain.yaml", blob(repository, gitlib.domain("192.0.2.1"))),
                                    *domain_more], key=lambda e: e[1]))
    zone = tree(repository, [("40000", "cdn", leaf), *zone_more,
                             ("100644", "zone.yaml", blob(repository, sluicelib.ZONE))])
    return tree(repository, [("40000", "example.com", zone), *more])


def check(repository, status=0, revision="main"):
    return sluicelib.sluice("check", "--git", repository, "--commit", revision, status=status).stderr


def test_a_build_of_a_commit_is_that_of_its_directory(tmp_path):
    site = gitlib.Site(tmp_path / "site")
    site.commit(sluicelib.config_files({"cdn": toollib.DOMAIN, "_wildcard.x": toollib.DOMAIN},
                                       records=toollib.RECORDS))
    git(site.work, "push", "-q", "origin", "main:side")
    sluicelib.sluice("build", "--git", site.bare, "--commit", "side", "--out", tmp_path / "of-git")
    sluicelib.sluice("build", site.work, "--out", tmp_path / "of-dir")
    of_git, of_dir = toollib.tree(tmp_path / "of-git/current/"), toollib.tree(tmp_path / "of-dir/current/")
    assert of_git.keys() == of_dir.keys()
    assert [n for n in of_git if of_git[n] != of_dir[n]] == ["manifest.json"]
    one, two = toollib.manifest(tmp_path / "of-git"), toollib.manifest(tmp_path / "of-dir")
    assert (one.pop("commit"), two.pop("commit")) == (site.head(), None)
    assert one.pop("commit_time") > two.pop("commit_time") == 0
    assert one == two
    # A tag, an id, a working tree's repository do as well.
    git(site.work, "tag", "-a", "v1", "-m", "x")
    assert "no errors" in sluicelib.sluice("check", "--git", site.work, "--commit", "v1").stdout
    assert "no errors" in sluicelib.sluice("check", "--git", site.bare, "--commit", site.head()[:12]).stdout


def test_what_is_no_repository_or_commit(tmp_path, repository):
    commit(repository, good(repository))
    assert "cannot find the commit nothing" in check(repository, 1, "nothing")
    assert "cannot find the commit main:example.com" in check(repository, 1, "main:example.com")
    assert "cannot open the repository" in check(tmp_path, 1)
    assert "go together" in sluicelib.sluice("check", "--git", repository, status=2).stderr
    assert "exclude each other" in sluicelib.sluice("check", ".", "--git", repository, "--commit", "x",
                                                    status=2).stderr


@pytest.mark.parametrize("name, target", [("a.yaml", "/etc/shadow"), ("link", "../../.."), ("zone.yaml", "other")])
def test_B98_symbolic_links(repository, name, target):
    link = ("120000", name, blob(repository, target))
    commit(repository, good(repository, domain_more=[link]))
    assert f"example.com/cdn/{name}:1:1: symbolic links are not followed" in check(repository, 1)


def test_B98_a_linked_zone_file(repository):
    zone = tree(repository, [("120000", "static.zone", blob(repository, "/etc/passwd")),
                             ("100644", "zone.yaml", blob(repository, sluicelib.ZONE + "zonefile: static.zone\n"))])
    commit(repository, tree(repository, [("40000", "example.com", zone)]))
    said = check(repository, 1)
    assert "symbolic links are not followed" in said and "root:" not in said


def test_B98_submodules(repository):
    commit(repository, good(repository, zone_more=[("160000", "sub", "1" * 40)]))
    assert "example.com/sub:1:1: a submodule" in check(repository, 1)


@pytest.mark.parametrize("name", ["../x", "..", ".", "a/b", "a/domain.yaml"])
def test_B98_names_that_lead_elsewhere(repository, name):
    commit(repository, good(repository, zone_more=[("100644", name, blob(repository, "x"))]))
    said = check(repository, 1)
    assert f"`{name}`" in said and "no file name" in said


@pytest.mark.parametrize("name", [b"new\nline", b";id", b"-rf", b"$(id)", b"\xff\xfe", b"a\x1b[31mb", b"x" * 300])
def test_B98_odd_names_of_domains(repository, name):
    leaf = tree(repository, [("100644", "domain.yaml", blob(repository, gitlib.domain("192.0.2.1")))])
    commit(repository, good(repository, zone_more=[("40000", name, leaf)]))
    done = subprocess.run([sluicelib.program("sluice"), "check", "--git", repository, "--commit", "main"],
                          capture_output=True, text=True, errors="replace", env=sluicelib.environment(),
                          timeout=sluicelib.DEADLINE)
    assert not sluicelib.SANITIZER.search(done.stderr), done.stderr
    if name in (b"-rf",):
        assert done.returncode in (0, 1)  # a host name of its own, whatever one thinks of it
        return
    assert done.returncode == 1
    assert all(line.startswith(("example.com/", "sluice: ")) for line in done.stderr.splitlines()), done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("name", ["zone.yml", "Zone.yaml", "domain.yaml"])
def test_B98_names_that_are_close(repository, name):
    commit(repository, good(repository, zone_more=[("100644", name, blob(repository, ""))]))
    assert f"example.com/{name}:1:1: " in check(repository, 1)


def test_B98_an_entry_twice(repository):
    twice = [("100644", "zone.yaml", blob(repository, sluicelib.ZONE))] * 2
    commit(repository, tree(repository, [("40000", "example.com", tree(repository, twice))]))
    assert "two entries `zone.yaml`" in check(repository, 1)


def test_B98_what_does_not_matter(repository):
    """The executable bit, attributes, filters, hidden and other files."""
    attributes = blob(repository, "*.yaml export-ignore filter=evil text eol=crlf ident\n")
    leaf = tree(repository, [("100644", ".gitattributes", attributes),
                             ("100755", "domain.yaml", blob(repository, gitlib.domain("192.0.2.1")))])
    zone = tree(repository, [("100644", ".gitattributes", attributes), ("40000", "cdn", leaf),
                             ("100644", "zone.yaml", blob(repository, sluicelib.ZONE))])
    commit(repository, tree(repository, [("100644", ".gitattributes", attributes),
                                         ("100644", "README", blob(repository, "x")),
                                         ("40000", "example.com", zone)]))
    assert "no errors: 1 zone" in sluicelib.sluice("check", "--git", repository, "--commit", "main").stdout


def test_B98_empty_and_large_files(repository):
    commit(repository, good(repository, zone_more=[("40000", "empty", tree(
        repository, [("100644", "domain.yaml", blob(repository, ""))]))]))
    assert "example.com/empty/domain.yaml:1:1: " in check(repository, 1)
    large = blob(repository, "# " + "x" * (20 << 20))
    commit(repository, good(repository, zone_more=[("40000", "large", tree(
        repository, [("100644", "domain.yaml", large)]))]))
    assert "example.com/large/domain.yaml:1:1: the file is too large" in check(repository, 1)


def test_B98_directories_without_end(repository):
    below = tree(repository, [("100644", "x", blob(repository, "x"))])
    for _ in range(200):
        below = tree(repository, [("40000", "d", below)])
    commit(repository, good(repository, more=[("40000", "z", below)]))
    assert "nested too deep" in check(repository, 1)


def test_B98_objects_that_are_missing(repository):
    zone = tree(repository, [("100644", "zone.yaml", "1" * 40)])
    commit(repository, tree(repository, [("40000", "example.com", zone), ("40000", "gone", "2" * 40)]))
    assert "cannot read" in check(repository, 1)
    commit(repository, tree(repository, [("40000", "example.com", zone)]))
    assert "example.com/zone.yaml:1:1: cannot read" in check(repository, 1)
    tree_as_file = tree(repository, [("100644", "zone.yaml", zone)])
    commit(repository, tree(repository, [("40000", "example.com", tree_as_file)]))
    assert "example.com/zone.yaml" in check(repository, 1)


def test_B98_50_000_files(repository):
    """Many files that are none of ours, and many domains."""
    other = blob(repository, "x")
    leaf = tree(repository, [("100644", "domain.yaml", blob(repository, gitlib.domain("192.0.2.1")))])
    many = tree(repository, [("100644", f"f{i:05}", other) for i in range(50000)])
    zone = tree(repository, [*[("40000", f"d{i:04}", leaf) for i in range(1000)],
                             ("100644", "zone.yaml", blob(repository, sluicelib.ZONE))])
    commit(repository, tree(repository, [("40000", "docs", many), ("40000", "example.com", zone)]))
    done = sluicelib.sluice("check", "--git", repository, "--commit", "main")
    assert "1000 steered domains" in done.stdout


def test_B98_nothing_outside_is_touched(tmp_path):
    """Pushed trees of all these kinds are refused, and no file appears anywhere else."""
    site = gitlib.Site(tmp_path / "site")
    site.commit(sluicelib.config_files({"cdn": gitlib.domain("192.0.2.1")}))
    site.push()
    files = gitlib.files_of(site.root)
    objects = {n for n in files if n.startswith("work/.git/")}
    link = blob(site.work, "/etc/shadow")
    for entries in ([("120000", "zone.yaml", link)], [("100644", "../../evil", link)], [("160000", "sub", "1" * 40)]):
        zone = tree(site.work, [("40000", "cdn", git(site.work, "rev-parse", "HEAD:example.com/cdn").stdout.strip()),
                                *entries])
        odd = commit(site.work, tree(site.work, [("40000", "example.com", zone)]), "odd")
        said = git(site.work, "push", "origin", "+odd:main", status=None)
        assert said.returncode != 0, said.stderr
        assert git(site.bare, "rev-parse", "main").stdout.strip() != odd
    after = {n: s for n, s in gitlib.files_of(site.root).items() if not n.startswith("work/.git/")}
    assert after == {n: s for n, s in files.items() if n not in objects}
