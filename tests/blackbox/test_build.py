# SPDX-License-Identifier: Apache-2.0
"""`sluice build`: the same bytes for the same input, only what changed, all or nothing."""
import errno
import json
import os
import pathlib
import resource
import shutil
import subprocess

import dns.rdatatype
import dns.zone
import pytest

import sluicelib
import toollib

CONFIG = {"domains": {"cdn": toollib.DOMAIN, "@": toollib.DOMAIN, "_wildcard.w": toollib.DOMAIN},
          "records": toollib.RECORDS}
PLAIN = """\
$TTL 300
@ IN SOA ns1 hostmaster 7 7200 900 1209600 60
@ IN NS ns1
ns1 IN A 192.0.2.53
www IN A 192.0.2.80
"""


def build(config, data, **options):
    return sluicelib.sluice("build", config, "--out", data, **options)


def write_zone(folder, number, address="192.0.2.80"):
    name = f"z{number}.example"
    text = PLAIN.replace("192.0.2.80", address)
    sluicelib.write_tree(folder, {f"{name}.zone": text})
    return f"{name} {name}.zone\n"


def write_list(folder, count, **changed):
    lines = [write_zone(folder, i, changed.get(f"z{i}", "192.0.2.80")) for i in range(count)]
    sluicelib.write_tree(folder, {"list": "".join(lines)})
    return folder / "list"


# ---- products -------------------------------------------------------------------------------------


def test_what_a_build_holds(make_config, tmp_path):
    done = build(make_config(**CONFIG), tmp_path / "data")
    assert done.stdout == "built 1 zone, 1 of them changed\n" and not done.stderr
    manifest = toollib.manifest(tmp_path / "data")
    assert manifest["commit"] is None and manifest["format"] == 1
    [zone] = manifest["zones"]
    assert zone["name"] == "example.com." and zone["serial"] == 1 and zone["domains"] == 3
    assert zone["image"] == "zones/example.com.image"
    header, *domains = map(json.loads, (tmp_path / "data/current/domains.json").read_text().splitlines())
    assert header["default_zone"] == "example.com" and header["domains"] == 3
    assert [d["domain"] for d in domains] == ["*.w.example.com.", "cdn.example.com.", "example.com."]
    assert all(d["owner"] == "edge" and d["steer"]["owner"] == d["domain"] for d in domains)


def test_checks_are_listed(make_config, tmp_path):
    health = toollib.DOMAIN + "health: {type: tcp, port: 80}\n"
    build(make_config({"cdn": health, "other": toollib.DOMAIN}), tmp_path / "data")
    checks = json.loads((tmp_path / "data/current/checks.json").read_text())
    [domain] = checks["domains"]
    assert domain["domain"] == "cdn.example.com." and domain["owner"] == "edge"
    assert set(domain["endpoints"]) == {"one", "two", "spare"}
    one = domain["endpoints"]["one"]
    assert one["addresses"] == ["192.0.2.1", "2001:db8::1"]
    assert one["health"]["type"] == "tcp" and one["health"]["port"] == 80
    assert [e["name"] for e in domain["steer"]["endpoints"]] == ["one", "two", "spare"]
    assert domain["steer"]["regions"][0]["atoms"] == ["global"]


def test_master_file_loads_in_other_servers(make_config, tmp_path):
    build(make_config(**CONFIG), tmp_path / "data")
    toollib.check_master_file("example.com", tmp_path / "data/current/zones/example.com.zone")


def test_master_files_of_the_examples_load_in_other_servers(tmp_path):
    build(sluicelib.REPO / "examples", tmp_path / "data")
    for zone in toollib.manifest(tmp_path / "data")["zones"]:
        toollib.check_master_file(zone["name"], tmp_path / "data/current" / zone["zonefile"])


def test_master_file_is_for_people_too(tmp_path):
    """Types that ldns reads stand in it as people write them, not as \\# and hex (CAA once did)."""
    records = ['caa IN CAA 0 issue "ca.example"', 'txt IN TXT "a b" "c"', "srv IN SRV 1 2 3 www",
               "tlsa IN TLSA 3 1 1 " + "ab" * 32, "svc IN HTTPS 1 . alpn=h2"]
    sluicelib.write_tree(tmp_path, {"z.zone": PLAIN + "".join(r + "\n" for r in records)})
    sluicelib.sluice("build", "--zone-file", tmp_path / "z.zone", "--origin", "z.example", "--out", tmp_path / "data")
    written = (tmp_path / "data" / "current" / "zones" / "z.example.zone").read_text(encoding="ascii")
    assert "\\#" not in written
    assert 'caa.z.example.\t300\tIN\tCAA\t0 issue "ca.example"\n' in written


def test_a_txt_in_yaml_is_the_text_itself(make_config, tmp_path):
    data = tmp_path / "data"
    build(make_config(records="t: {TXT: ['\\# 1 00']}\n"), data)
    written = (data / "current" / "zones" / "example.com.zone").read_text(encoding="ascii")
    assert '\tTXT\t"\\\\# 1 00"\n' in written


def test_master_file_of_a_master_file_means_the_same(tmp_path):
    text = PLAIN + r"""
odd\.label\032\;\" IN TXT "a\"b\\c;d" "\000\255" unquoted
type65280 IN TYPE65280 \# 4 01020304
$ORIGIN deep.@
* 60 IN MX 10 www.z.example.
EMPTY.Case IN CNAME WWW.z.example.
"""
    text = text.replace("$ORIGIN deep.@", "$ORIGIN deep.z.example.")
    sluicelib.write_tree(tmp_path, {"in.zone": text})
    sluicelib.sluice("build", "--zone-file", tmp_path / "in.zone", "--origin", "z.example",
                     "--out", tmp_path / "data")
    [zone] = toollib.manifest(tmp_path / "data")["zones"]
    assert zone["serial"] == 7
    path = tmp_path / "data/current" / zone["zonefile"]
    toollib.check_master_file("z.example", path)
    before = dns.zone.from_text(text, "z.example", relativize=False)
    after = dns.zone.from_file(str(path), "z.example", relativize=False)
    assert before == after


def test_steered_names_stand_in_the_master_file_with_their_default_answer(make_config, tmp_path):
    drained = toollib.DOMAIN.replace("two: 1}", "two: 0}", 1)
    hosts = ("endpoints: {a: a.example.net., b: b.example.net.}\n"
             "regions: {global: {a: 1, b: 2}}\nttl: 5\n")
    build(make_config({"cdn": toollib.DOMAIN, "drained": drained, "hosts": hosts}),
          tmp_path / "data")
    zone = dns.zone.from_file(str(tmp_path / "data/current/zones/example.com.zone"), "example.com",
                              relativize=False)

    def texts(name, rdtype):
        rdataset = zone.find_rdataset(name + ".example.com.", rdtype)
        return rdataset.ttl, sorted(r.to_text() for r in rdataset)

    assert texts("cdn", "A") == (30, ["192.0.2.1", "192.0.2.2"])
    assert texts("cdn", "AAAA") == (30, ["2001:db8::1", "2001:db8::2"])
    assert texts("drained", "A") == (30, ["192.0.2.1"])
    assert texts("hosts", "CNAME") == (5, ["b.example.net."])


def test_dangerous_zone_names_stay_in_the_folder(tmp_path):
    sluicelib.write_tree(tmp_path, {"in.zone": PLAIN})
    for origin in ("\\.\\.\\047\\.\\.\\047evil.example", "\\.\\..example", "a\\000b.example", "."):
        text = PLAIN if origin != "." else PLAIN.replace("www IN", "www.net IN")
        sluicelib.write_tree(tmp_path, {"in.zone": text})
        data = tmp_path / "data"
        sluicelib.sluice("build", "--zone-file", tmp_path / "in.zone", "--origin", origin,
                         "--out", data)
        assert len(toollib.manifest(data)["zones"]) == 1
        assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "in.zone"]
        assert len(list((data / "current/zones").iterdir())) == 3
        shutil.rmtree(data)


def test_longest_zone_name(tmp_path):
    origin = ".".join(["a" * 61] * 4 + ["b" * 4])  # 254 octets with the root
    sluicelib.write_tree(tmp_path, {"in.zone": "@ 60 IN SOA a. b. 1 2 3 4 5\n@ 60 IN NS ns.example.\n"})
    sluicelib.sluice("build", "--zone-file", tmp_path / "in.zone", "--origin", origin, "--out", tmp_path / "data")
    assert toollib.manifest(tmp_path / "data")["zones"][0]["name"] == origin + "."
    server = sluicelib.Server(tmp_path / "data")
    with server:
        assert server.ask(origin, "NS").answer


# ---- same input, changed input ----------------------------------------------------------------------


def test_same_input_gives_the_same_bytes(make_config, tmp_path):
    one = make_config(**CONFIG, name="one")
    two = make_config(**CONFIG, name="two")
    os.utime(two / "example.com/zone.yaml", (1, 1))
    build(one, tmp_path / "data1")
    build(two, tmp_path / "data2")
    assert toollib.tree(tmp_path / "data1") == toollib.tree(tmp_path / "data2")


def test_the_same_folder_twice_changes_nothing(make_config, tmp_path):
    config = make_config(**CONFIG)
    build(config, tmp_path / "data")
    before = toollib.tree(tmp_path / "data")
    assert build(config, tmp_path / "data").stdout == "nothing changed: 1 zone\n"
    assert toollib.tree(tmp_path / "data") == before
    build(config, tmp_path / "other")
    assert toollib.tree(tmp_path / "other") == before


def test_only_changed_zones_are_built(tmp_path):
    data = tmp_path / "data"
    sluicelib.sluice("build", "--zone-list", write_list(tmp_path / "in", 5), "--out", data)
    inodes = {p.name: p.stat().st_ino for p in (data / "current/zones").iterdir()}
    done = sluicelib.sluice("build", "--zone-list", write_list(tmp_path / "in", 5, z3="192.0.2.9"),
                            "--out", data)
    assert done.stdout == "built 5 zones, 1 of them changed\n"
    for path in (data / "current/zones").iterdir():
        assert (path.stat().st_ino == inodes[path.name]) == ("z3." not in path.name), path.name


def test_serials_only_go_up(make_config, tmp_path):
    def serial():
        return toollib.manifest(tmp_path / "data")["zones"][0]["serial"]

    one = {"domains": {"cdn": toollib.DOMAIN}}
    two = {"domains": {"cdn": toollib.DOMAIN.replace("ttl: 30", "ttl: 31")}}
    for config, expected in ((one, 1), (one, 1), (two, 2), (one, 3), (one, 3)):
        build(make_config(**config), tmp_path / "data")
        assert serial() == expected
    zone = dns.zone.from_file(str(tmp_path / "data/current/zones/example.com.zone"), "example.com")
    assert zone.find_rdataset("@", "SOA")[0].serial == 3


def test_what_is_not_configuration_changes_no_serial(make_config, tmp_path):
    build(make_config(**CONFIG), tmp_path / "data")
    build(make_config(**CONFIG, files={"README.md": "hello", "CODEOWNERS": "x"}), tmp_path / "data")
    assert toollib.manifest(tmp_path / "data")["zones"][0]["serial"] == 1


DEFAULTS = """\
default_zone: example.com
alerts:
  oncall: {format: json, url: "https://events.example.com/hook"}
providers:
  dns-b: {type: powerdns, url: "https://dns-b.example.net", secret: dns-b}
"""


@pytest.mark.parametrize("more, file, wanted", [
    ("health: {type: tcp, port: 80}\n", "checks.json", '"port": 80'),
    ("health: {type: tcp, port: 443, fall: 7}\n", "checks.json", '"fall": 7'),
    ("health: {type: tcp, port: 443}\nalerts: {on: [failover], to: [oncall]}\n", "checks.json", '"failover"'),
    ("health: {type: tcp, port: 443}\nproviders: {dns-b: {allow_loss: [geo]}}\n", "domains.json",
     '"allow_loss"'),
    ("health: {type: tcp, port: 443}\nprofiles: {canary: {one: 95, two: 5}}\n", "domains.json", '"canary"'),
], ids=["health", "fall", "alerts", "providers", "profiles"])
def test_what_is_no_part_of_the_zone_changes_no_serial(more, file, wanted, make_config, tmp_path):
    """Secondaries need not transfer a zone because a check has changed; the checker must learn it."""
    domain = toollib.DOMAIN + "health: {type: tcp, port: 443}\n"
    data = tmp_path / "data"

    def made():
        current = data / "current"
        zone = toollib.manifest(data)["zones"][0]
        return (zone["serial"], (current / zone["image"]).read_bytes(),
                (current / "zones/example.com.zone").read_bytes())

    build(make_config({"cdn": domain}, defaults=DEFAULTS), data)
    before, was, link = made(), (data / "current" / file).read_text(), os.readlink(data / "current")
    done = build(make_config({"cdn": toollib.DOMAIN + more}, defaults=DEFAULTS), data)
    assert done.stdout == "built 1 zone, 0 of them changed\n" and not done.stderr
    now = (data / "current" / file).read_text()
    assert os.readlink(data / "current") != link
    assert wanted not in was and wanted in now
    assert made() == before


def test_old_builds_go(make_config, tmp_path):
    for ttl in range(1, 12):
        build(make_config({"cdn": toollib.DOMAIN.replace("ttl: 30", f"ttl: {ttl}")}),
              tmp_path / "data")
    assert len(list((tmp_path / "data/builds").iterdir())) == 8
    toollib.manifest(tmp_path / "data")


# ---- plain zones --------------------------------------------------------------------------------------


def test_zone_list_with_comments(tmp_path):
    listing = write_list(tmp_path / "in", 3)
    listing.write_text("# zones\n\n" + listing.read_text() + "   \n; end\n")
    done = sluicelib.sluice("build", "--zone-list", listing, "--out", tmp_path / "data")
    assert done.stdout == "built 3 zones, 3 of them changed\n"
    stdin = "".join(f"z{i}.example {tmp_path}/in/z{i}.example.zone\n" for i in range(3))
    done = sluicelib.sluice("build", "--zone-list", "-", "--out", tmp_path / "data", stdin=stdin)
    assert done.stdout == "nothing changed: 3 zones\n"


def test_zone_list_names_every_bad_zone(tmp_path):
    listing = write_list(tmp_path / "in", 6)
    sluicelib.sluice("build", "--zone-list", listing, "--out", tmp_path / "data")
    before = toollib.tree(tmp_path / "data")
    write_list(tmp_path / "in", 6, z2="bad", z4="192.0.2.300", z5="192.0.2.5")
    with listing.open("a") as out:
        out.write("one\nz6.example z6.example.zone\nz..7 z1.example.zone\nz0.example z0.example.zone\n")
    done = sluicelib.sluice("build", "--zone-list", listing, "--out", tmp_path / "data", status=1)
    for wanted in ("/in/z2.example.zone:5:", "/in/z4.example.zone:5:", "/in/list:7:1:", "/in/list:9:1:",
                   "z6.example.zone", "z..7", "z0.example"):
        assert wanted in done.stderr, wanted
    assert "z1.example.zone:" not in done.stderr and "z3." not in done.stderr
    assert toollib.tree(tmp_path / "data") == before


def test_a_thousand_zones(tmp_path):
    listing = write_list(tmp_path / "in", 1000)
    sluicelib.sluice("build", "--zone-list", listing, "--out", tmp_path / "data")
    assert len(toollib.manifest(tmp_path / "data")["zones"]) == 1000


# ---- bad input, bad luck --------------------------------------------------------------------------------


def test_a_bad_configuration_changes_nothing(make_config, tmp_path):
    build(make_config(**CONFIG), tmp_path / "data")
    before = toollib.tree(tmp_path / "data")
    bad = make_config({"cdn": toollib.DOMAIN.replace("one: 3", "won: 3")}, name="bad")
    done = build(bad, tmp_path / "data", status=1)
    assert "cdn/domain.yaml:9:" in done.stderr and "won" in done.stderr
    assert toollib.tree(tmp_path / "data") == before
    build(bad, tmp_path / "new", status=1)
    assert not (tmp_path / "new").exists()


def test_a_damaged_manifest_is_an_error(make_config, tmp_path):
    config = make_config(**CONFIG)
    build(config, tmp_path / "data")
    path = tmp_path / "data/current/manifest.json"
    path.write_text(path.read_text()[:-20])
    done = build(config, tmp_path / "data", status=1)
    assert len(done.stderr.splitlines()) == 1
    assert "manifest.json is damaged" in done.stderr and f"remove {tmp_path}/data" in done.stderr


def test_a_foreign_folder_is_refused(make_config, tmp_path):
    sluicelib.write_tree(tmp_path / "data", {"current/file": "x"})
    done = build(make_config(**CONFIG), tmp_path / "data", status=1)
    assert "not a link to a build" in done.stderr
    assert (tmp_path / "data/current/file").read_text() == "x"
    sluicelib.write_tree(tmp_path, {"file": "x"})
    done = build(make_config(**CONFIG), tmp_path / "file", status=1)
    assert "file" in done.stderr and len(done.stderr.splitlines()) == 1


def every_fault(tmp_path, config, old, number=None):
    """Builds `config` over a copy of `old` with a fault at call 1, 2, 3, ... until there is none."""
    at = 0
    reached = True
    while reached:
        at += 1
        data = tmp_path / f"fault-{at}"
        shutil.copytree(old, data, symlinks=True)
        done, reached = toollib.run_with_fault(at, ["build", config, "--out", data],
                                               tmp_path / "mark", number)
        yield at, data, done
        shutil.rmtree(data)
    assert at > 20 and done.returncode == 0


@pytest.fixture
def two_builds(make_config, tmp_path):
    """A build, and a configuration with changes; with the trees of both."""
    build(make_config({"cdn": toollib.DOMAIN}), tmp_path / "old")
    changed = make_config({"cdn": toollib.DOMAIN.replace("ttl: 30", "ttl: 31")})
    shutil.copytree(tmp_path / "old", tmp_path / "new", symlinks=True)
    build(changed, tmp_path / "new")
    ids = [os.readlink(tmp_path / d / "current") for d in ("old", "new")]
    return changed, tmp_path / "old", ids


def test_killed_at_every_step(two_builds, tmp_path):
    config, old, ids = two_builds
    seen = set()
    for at, data, done in every_fault(tmp_path, config, old):
        assert done.returncode in (0, -9), (at, done)
        live = os.readlink(data / "current")
        assert live in ids
        toollib.manifest(data)
        seen.add((live, done.returncode))
        build(config, data)  # the next one is not disturbed
        assert os.readlink(data / "current") == ids[1]
        assert sorted(p.name for p in data.iterdir()) == ["builds", "current", "lock"]
        assert {p.name for p in (data / "builds").iterdir()} == {i[7:] for i in ids}
    assert seen == {(ids[0], -9), (ids[1], -9), (ids[1], 0)}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_full_or_broken_disk_at_every_step(two_builds, tmp_path, number):
    config, old, ids = two_builds
    failed = 0
    for at, data, done in every_fault(tmp_path, config, old, number):
        live = os.readlink(data / "current")
        toollib.manifest(data)
        if done.returncode == 0:
            assert live == ids[1]
            continue
        failed += 1
        assert done.returncode == 1, (at, done)
        assert os.strerror(number) in done.stderr and len(done.stderr.splitlines()) == 1
        build(config, data)
        assert os.readlink(data / "current") == ids[1]
    assert failed > 10


def test_a_limit_of_file_sizes(make_config, tmp_path):
    config = make_config({"cdn": toollib.DOMAIN})
    build(config, tmp_path / "data")
    before = toollib.tree(tmp_path / "data")
    records = "\n".join(f"h{i}: {{A: [192.0.2.1]}}" for i in range(2000))
    big = make_config({"cdn": toollib.DOMAIN}, records=records, name="big")
    done = subprocess.run(
        [sluicelib.program("sluice"), "build", big, "--out", tmp_path / "data"], text=True,
        capture_output=True, env=sluicelib.environment(), timeout=sluicelib.DEADLINE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000)))
    assert done.returncode == 1 and "File too large" in done.stderr, done
    assert toollib.tree(tmp_path / "data") == before


def test_builds_at_the_same_time(make_config, tmp_path):
    configs = [make_config({"cdn": toollib.DOMAIN.replace("ttl: 30", f"ttl: {ttl}")}, name=f"c{ttl}")
               for ttl in range(1, 12)]
    running = [subprocess.Popen([sluicelib.program("sluice"), "build", c, "--out", tmp_path / "data"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                env=sluicelib.environment()) for c in configs]
    for process in running:
        _, stderr = process.communicate(timeout=sluicelib.DEADLINE)
        assert process.returncode == 0, stderr
    manifest = toollib.manifest(tmp_path / "data")
    assert manifest["zones"][0]["serial"] == len(configs)  # none was lost
    assert len(list((tmp_path / "data/builds").iterdir())) == 8
    assert {p.name for p in pathlib.Path(tmp_path / "data").iterdir()} == {"builds", "current", "lock"}
