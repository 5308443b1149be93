# SPDX-License-Identifier: Apache-2.0
"""`sluice sync import`: there and back for each kind of provider, and what cannot be imported."""
import base64
import hashlib
import json
import os
import shutil

import pytest

import importlab
import sluicelib
import toollib

ZONE = importlab.ZONE
SIMPLE = {"ttl": 3600, "soa": {"mname": "ns1.e.test.", "rname": "hostmaster.e.test."}, "ns": ["ns1.e.test.", "ns2.example.net."],
          "providers": ["dns-a"], "records": {"ns1": {"A": ["192.0.2.53"]}, "www": {"A": ["192.0.2.80"], "TXT": ["a ; b"]}}}
CDN = {"ttl": 30, "endpoints": {"one": "192.0.2.1", "two": "192.0.2.2", "spare": "192.0.2.3"},
       "regions": {"global": [{"one": 3, "two": 1}, {"spare": 1}], "eu": {"two": 1}}}


@pytest.fixture
def make(tmp_path):
    worlds = []

    def one(kind, **more):
        worlds.append(importlab.World(tmp_path, kind, **more))
        return worlds[-1]
    yield one
    for world in worlds:
        world.close()


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def missed(out):
    return {(u["name"], u["type"]): u["why"] for u in out["unmodelled"]}


# ---- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", importlab.KINDS)
def test_there_and_back(make, tmp_path, kind, seed):
    """What was applied is imported as the same model, and nothing is planned for it."""
    world = make(kind)
    zone, domains, zonefile, regions = importlab.configuration(seed, world.target)
    world.write(zone, domains, zonefile, regions=regions)
    world.apply()
    out = world.imports()
    assert out["unmodelled"] == [] and out["errors"] == [], out
    assert out["domains"] == len(domains) and not [n for n in out["notes"] if "made up" in n]
    sluicelib.sluice("check", world.new)
    assert world.plan(config=world.new) == []
    old_records, old = importlab.built(world.config, tmp_path / "data-old")
    new_records, new = importlab.built(world.new, tmp_path / "data-new")
    assert old_records == new_records and len(old_records) > 20
    assert {n: importlab.canonical(d) for n, d in old.items()} == {n: importlab.canonical(d) for n, d in new.items()}
    for name in old:
        for client in importlab.CLIENTS[:2]:
            name = name.replace("*", "x")
            assert importlab.explain(world.config, name, client) == importlab.explain(world.new, name, client)


@pytest.mark.parametrize("seed", [4, 5])
def test_there_and_back_of_our_own_server(tmp_path, seed):
    zone, domains, zonefile, regions = importlab.configuration(seed, importlab.Target)
    zone["providers"] = ["sluice"]
    config, new = tmp_path / "config", tmp_path / "new"
    sluicelib.write_tree(config, {
        "defaults.yaml": importlab.dump({"default_zone": ZONE, "regions": regions}),
        f"{ZONE}/zone.yaml": importlab.dump(zone), f"{ZONE}/more.zone": zonefile,
        **{f"{ZONE}/{name}/domain.yaml": importlab.dump(d) for name, d in domains.items()}})
    with sluicelib.Server(sluicelib.build(config, tmp_path / "data")) as server:
        out = json.loads(server.sluice("sync", "import", "sluice", ZONE, "--out", new, "--json").stdout)
        assert out["unmodelled"] == [] and out["domains"] == 4
        sluicelib.sluice("check", new)
        plan = server.sluice("sync", "plan", "--config", new, "--json").stdout
        assert json.loads(plan)["items"] == []
    old_records, old = importlab.built(config, tmp_path / "data-old")
    new_records, now = importlab.built(new, tmp_path / "data-new")
    assert old_records == new_records
    assert {n: importlab.canonical(d) for n, d in old.items()} == {n: importlab.canonical(d) for n, d in now.items()}
    assert (tmp_path / "data-old/current/zones/e.test.zone").read_text() == (
        tmp_path / "data-new/current/zones/e.test.zone").read_text()  # the SOA as well


def test_without_anything_steered(make):
    world = make("powerdns")
    world.write(SIMPLE)
    world.apply()
    done = world.run("import", "dns-a", "E.Test.", "--out", world.new)
    assert "0 steered names" in done.stdout and "not imported:" not in done.stdout
    assert files(world.new) == ["defaults.yaml", "e.test/zone.yaml"]
    assert world.plan(config=world.new) == []


# ---- what cannot be modelled ------------------------------------------------------------------------


def test_C03_foreign_weighted_sets_never_become_a_plain_one(make):
    world = make("route53")
    world.write(SIMPLE, {"cdn": CDN})
    world.apply()
    sim = world.target.server

    def weighted(name, identifier, value, weight, more=""):
        sim.put_xml(f"<S><Name>{name}</Name><Type>A</Type><SetIdentifier>{identifier}</SetIdentifier><Weight>{weight}</Weight>"
                    f"<TTL>60</TTL><ResourceRecords><ResourceRecord><Value>{value}</Value></ResourceRecord></ResourceRecords>{more}</S>")
    weighted("split.e.test.", "blue", "192.0.2.71", 3)
    weighted("split.e.test.", "green", "192.0.2.72", 1)
    sim.put_xml("<S><Name>geo.e.test.</Name><Type>A</Type><SetIdentifier>fr</SetIdentifier><GeoLocation><CountryCode>FR</CountryCode>"
                "</GeoLocation><TTL>60</TTL><ResourceRecords><ResourceRecord><Value>192.0.2.73</Value></ResourceRecord></ResourceRecords></S>")
    out = world.imports(status=3)
    assert out["domains"] == 1
    items = [(u["name"], u["type"], u["part"]) for u in out["unmodelled"]]
    assert items == [("geo.e.test.", "A", False), ("split.e.test.", "A", False), ("split.e.test.", "A", False)]
    assert "geolocation" in out["unmodelled"][0]["why"]
    assert {u["why"].rsplit(" ", 1)[1] for u in out["unmodelled"][1:]} == {"blue", "green"}
    text = "".join(p.read_text(encoding="utf-8") for p in world.new.rglob("*.yaml"))
    assert "192.0.2.7" not in text
    done = world.run("import", "dns-a", ZONE, "--out", "-", status=3)
    assert "not imported: 3" in done.stdout and "split.e.test. A: a weighted record set" in done.stdout
    # One more of somebody else in a group of ours changes its shares: the name is not ours any more.
    weighted("_st-global-p1.cdn.e.test.", "extra", "192.0.2.74", 9)
    out = world.imports(status=3, out=world.folder / "again")
    assert out["domains"] == 0 and "cdn.e.test." in {u["name"] for u in out["unmodelled"]}


def test_edits_by_hand_at_route53(make):
    """Also those that keep the form: what is there must be what the domain compiles to."""
    world = make("route53")
    world.write(SIMPLE, {"cdn": dict(CDN, regions={"global": [{"one": 3, "two": 1}, {"one": 1, "spare": 1}]})})
    world.apply()
    one = [s for s in world.target.server.sets.values() if s.name == "_st-global-p2.cdn.e.test." and "192.0.2.1" in s.values]
    one[0].values = ["192.0.2.99"]
    out = world.imports(status=3)
    assert [(u["name"], u["type"], u["part"]) for u in out["unmodelled"]] == [("cdn.e.test.", "A", True)]
    assert "sync plan" in out["unmodelled"][0]["why"]
    assert {i["domain"] for i in world.plan(config=world.new)} == {"cdn.e.test."}


def test_foreign_records_of_powerdns(make):
    world = make("powerdns")
    pdns = world.target.server
    world.write(SIMPLE, {"cdn": CDN, "own": CDN})
    world.apply()
    pdns.put("lua.e.test.", "LUA", ['A "ifportup(443, {\'192.0.2.1\'})"'])
    pdns.put("text.e.test.", "LUA", ['TXT "os.date()"'])
    pdns.put("theirs.e.test.", "A", ["192.0.2.66"])
    pdns.put("cdn.e.test.", "TXT", ['"beside"'])
    record = pdns.rrset("own.e.test.", "LUA")["records"][0]["content"]
    pdns.put("own.e.test.", "LUA", [record.replace("192.0.2.1", "192.0.2.9")])
    status, text = pdns.api("PATCH", "/zones/e.test.", {"rrsets": [{
        "name": "half.e.test.", "type": "A", "ttl": 60, "changetype": "REPLACE",
        "records": [{"content": "192.0.2.5", "disabled": False}, {"content": "192.0.2.6", "disabled": True}]}]})
    assert status == 204, text
    out = world.imports(status=3)
    assert out["domains"] == 1 and not any(u["part"] for u in out["unmodelled"])
    assert set(missed(out)) == {("lua.e.test.", "A"), ("text.e.test.", "TXT"), ("own.e.test.", "A"), ("half.e.test.", "A")}
    assert "LUA" in missed(out)["lua.e.test.", "A"] and "disabled" in missed(out)["half.e.test.", "A"]
    zone = (world.new / "e.test/zone.yaml").read_text(encoding="utf-8")
    assert "theirs" in zone and "beside" in zone and "half" not in zone
    assert any("without our mark" in n for n in out["notes"])


def test_foreign_chains_of_ns1(make):
    world = make("ns1")
    world.write(SIMPLE, {"cdn": CDN})
    world.apply()
    sim = world.target.server
    sim.put("theirs.e.test", "A", [["192.0.2.66"], ["192.0.2.67"]], filters=[{"filter": "weighted_shuffle", "config": {}}])
    sim.zones[ZONE]["cdn.e.test", "A"]["answers"][0]["meta"]["weight"] = 77
    out = world.imports(status=3)
    assert set(missed(out)) == {("theirs.e.test.", "A"), ("cdn.e.test.", "A")}
    assert out["domains"] == 0 and not (world.new / "e.test/cdn").exists()


def test_a_steered_name_behind_plain_records(make):
    """By dynamic updates only the default answer is there, and that is said."""
    world = make("knot")
    loss = {"dns-a": {"allow_loss": ["geo", "priority", "weight"]}}
    world.write(SIMPLE, {"cdn": dict(CDN, providers=loss)})
    world.apply()
    out = world.imports(status=3)
    assert [(u["name"], u["type"], u["part"]) for u in out["unmodelled"]] == [("cdn.e.test.", "A", True)]
    assert "192.0.2.1" in (world.new / "e.test/zone.yaml").read_text(encoding="utf-8")


# ---- hostile zones -----------------------------------------------------------------------------------


def test_names_never_leave_the_directory(make, tmp_path):
    """Steered names that look like paths, or like the files beside them."""
    world = make("route53")
    world.write(SIMPLE)
    world.apply()
    sim = world.target.server
    hostile = ["\\056\\056\\057x", "a\\057b", "zone.yaml", "static.zone", "_wildcard", "x._wildcard", "\\056\\056", "sp\\040ace", "ok",
               "*.w", "_wildcard.w", "w.*", "back\\134slash"]
    for name in hostile:
        full = f"{name}.e.test."
        helper = f"_st-global-p1.{full.replace('*', '_any')}"
        sim.put_xml(f"<S><Name>{full}</Name><Type>A</Type><SetIdentifier>sluice global global</SetIdentifier><GeoLocation>"
                    f"<CountryCode>*</CountryCode></GeoLocation><AliasTarget><HostedZoneId>Z</HostedZoneId><DNSName>{helper}</DNSName>"
                    "<EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget></S>")
        sim.put_xml(f"<S><Name>{helper}</Name><Type>A</Type><SetIdentifier>sluice one</SetIdentifier><Weight>1</Weight><TTL>30</TTL>"
                    "<ResourceRecords><ResourceRecord><Value>192.0.2.1</Value></ResourceRecord></ResourceRecords></S>")
    sim.put("\\056\\056\\057static.e.test.", "A", ["192.0.2.9"], ttl=3600)
    before = files(tmp_path)
    out = world.imports(status=3)
    assert set(files(tmp_path)) - set(before) == {f"new/{f}" for f in files(world.new)}
    there = {p.parent.name for p in world.new.rglob("domain.yaml")}
    assert {"ok", "_wildcard.w", "static.zone"} <= there and there <= {"ok", "_wildcard.w", "static.zone", "_any.w"}
    assert {"zone.yaml.e.test.", "_wildcard.e.test."} <= {u["name"] for u in out["unmodelled"]}
    assert out["domains"] == len(there)
    sluicelib.sluice("check", world.new)


def forged(model, code="return {'192.0.2.1'}"):
    """The content of a LUA record as ours, whatever it says it was made from."""
    text = base64.b64encode(json.dumps(model).encode()).decode()
    words = " ".join(text[i:i + 60] for i in range(0, len(text), 60))
    digest = hashlib.sha256(f"A {words} {code}".encode()).hexdigest()[:32]
    parts = [""]
    for word in f";--[[ sluice 1 {digest} {words} ]] {code}".split(" "):
        parts = parts[:-1] + [f"{parts[-1]} {word}"] if len(parts[-1]) < 150 else [*parts, word]
    return "A " + " ".join(f'"{part.removeprefix(" ")}"' if i == 0 else f'"{part}"' for i, part in enumerate(parts))


def steer(name, endpoints=("one",), region="global", atoms=("global",), **more):
    return {"owner": f"{name}.e.test.", "ttl": 30, "answers": 1, "draw_per": "query", "types": ["A"],
            "endpoints": [{"name": e, "enabled": True, "addresses": ["192.0.2.1"]} for e in endpoints],
            "regions": [{"name": region, "atoms": list(atoms), "levels": [[[e, 1] for e in endpoints]]}], "down": {}, **more}


def test_forged_records(make, tmp_path):
    """The digest in our records guards against accidents only: what they say is checked as a configuration."""
    world = make("powerdns")
    pdns = world.target.server
    world.write(SIMPLE)
    world.apply()
    check = {"type": "tcp", "port": 22, "interval": 10000, "timeout": 3000, "rise": 2, "fall": 3}
    refused = {
        "star": steer("star", ["*x"]), "alias": steer("alias", ["&a", "!b", "#c", "@d", "%e", "[f", "g,h", "i:j"]),
        "path": steer("path", ["../../etc/passwd"]), "region": steer("region", region="../x"),
        "lying": steer("lying", region="eu", atoms=["global"]), "spaces": steer("spaces", ["a b"]),
        "other": steer("another"), "copy": steer("copy", down={"A": [7, None, "two"], "AAAA": {}, "B": 1}, types=["AAAA"]),
        "deep": steer("deep", check={"type": "tcp", "port": -1, "expect": [1], "interval": "x", "damping": 3}),
    }
    taken = {"fine": steer("fine"), "quoted": steer("quoted", ["no", "1e3", "0x10"]), "checked": steer("checked", check=check),
             "exec": steer("exec", check={"type": "exec", "check": "rm"})}
    for name, model in {**refused, **taken}.items():
        pdns.put(f"{name}.e.test.", "LUA", [forged(model)])
    before = files(tmp_path)
    out = world.imports(status=3)
    left_out = {u["name"] for u in out["unmodelled"] if not u["part"]}
    assert left_out == {f"{name}.e.test." for name in refused}, out
    # Their code is not what they say: that is told too.
    assert {u["name"] for u in out["unmodelled"] if u["part"]} == {f"{name}.e.test." for name in taken}
    assert set(files(tmp_path)) - set(before) == {f"new/{f}" for f in files(world.new)}
    assert {p.parent.name for p in world.new.rglob("domain.yaml")} == set(taken)
    sluicelib.sluice("check", world.new)
    assert "exec" not in (world.new / "e.test/exec/domain.yaml").read_text(encoding="utf-8")


def test_a_region_that_defaults_yaml_does_not_define(make):
    world = make("powerdns")
    regions = {"office": ["country:fr", "198.51.100.0/24"]}
    domain = dict(CDN, regions={"global": {"one": 1}, "office": {"two": 1}})
    world.write(SIMPLE, {"cdn": domain}, regions=regions)
    world.apply()
    for defined, status, text in (({}, 3, "office: [country:fr, net:198.51.100.0/24]"), ({"office": ["ca"]}, 3, "not what"),
                                  (regions, 0, None)):
        root = world.folder / f"root{status}{len(defined)}{len(str(defined))}"
        sluicelib.write_tree(root, {"defaults.yaml": importlab.dump(world.defaults(regions=defined))})
        out = world.imports(status=status, out=root)
        assert out["domains"] == (status == 0)
        if text:
            assert text in missed(out)["cdn.e.test.", "A"]
    assert world.plan(config=root) == []


def test_data_that_the_checker_refuses(make):
    """Below a cut and a DNAME, beside a CNAME: what cannot be in zone.yaml is in the master file, or named."""
    world = make("powerdns")
    pdns = world.target.server
    world.write(SIMPLE, {"cdn": CDN})
    world.apply()
    pdns.put("sub.e.test.", "NS", ["ns.example.net."])
    pdns.put("below.sub.e.test.", "TXT", ['"hidden"'])
    pdns.put("tree.e.test.", "DNAME", ["elsewhere.example.net."])
    for i in range(3):
        pdns.put(f"n{i}.tree.e.test.", "A", ["192.0.2.5"])
        pdns.put(f"n{i}.tree.e.test.", "TXT", ['"x"'])
    pdns.put("odd.e.test.", "TXT", ['"a" "b"'])
    out = world.imports(status=3)
    assert set(missed(out)) == {(f"n{i}.tree.e.test.", t) for i in range(3) for t in ("A", "TXT")}
    assert "DNAME" in missed(out)["n0.tree.e.test.", "A"]
    master = (world.new / "e.test/static.zone").read_text(encoding="utf-8")
    assert "hidden" in master and 'odd.e.test. 30 IN TXT "a" "b"' in master
    sluicelib.sluice("check", world.new)


def test_a_huge_zone(make):
    world = make("powerdns")
    pdns = world.target.server
    world.write(SIMPLE)
    world.apply()
    rrsets = [{"name": f"n{i}.e.test.", "type": "A", "ttl": 300, "changetype": "REPLACE",
               "records": [{"content": f"192.0.2.{i % 250}"}]} for i in range(10000)]
    for at in range(0, len(rrsets), 2500):
        assert pdns.api("PATCH", "/zones/e.test.", {"rrsets": rrsets[at:at + 2500]})[0] == 204
    out = world.imports()
    assert out["records"] > 10000 and files(world.new) == ["defaults.yaml", "e.test/zone.yaml"]
    assert world.plan(config=world.new) == []


def test_more_than_yaml_takes(tmp_path):
    """A file of YAML has a limit: the records are in the master file then."""
    zonefile = "".join(f'n{i} 60 IN TXT' + f' "{"x" * 255}"' * 8 + "\n" for i in range(1700))
    config = sluicelib.write_tree(tmp_path / "config", {
        "defaults.yaml": f"default_zone: {ZONE}\n", f"{ZONE}/more.zone": zonefile,
        f"{ZONE}/zone.yaml": importlab.dump(dict(SIMPLE, zonefile="more.zone", providers=["sluice"]))})
    with sluicelib.Server(sluicelib.build(config, tmp_path / "data")) as server:
        out = json.loads(server.sluice("sync", "import", "sluice", ZONE, "--out", tmp_path / "new", "--json").stdout)
        assert out["unmodelled"] == [] and out["records"] == 1705
        assert (tmp_path / "new/e.test/zone.yaml").stat().st_size < 1000
        plan = server.sluice("sync", "plan", "--config", tmp_path / "new", "--json").stdout
        assert json.loads(plan)["items"] == []


# ---- all or nothing ------------------------------------------------------------------------------------


def test_nothing_is_overwritten(make):
    world = make("ns1")
    world.write(SIMPLE, {"cdn": CDN})
    world.apply()
    before = {f: (world.config / f).read_bytes() for f in files(world.config)}
    count = len(world.target.server.requests)
    done = world.run("import", "dns-a", ZONE, status=1)
    assert "e.test is there already" in done.stderr and "--out" in done.stderr
    assert len(world.target.server.requests) == count  # not even asked
    assert before == {f: (world.config / f).read_bytes() for f in files(world.config)}
    # The zone is not there yet, defaults.yaml is: it stays as it is.
    (world.config / "e.test").rename(world.folder / "away")
    world.run("import", "dns-a", ZONE)
    assert (world.config / "defaults.yaml").read_bytes() == before["defaults.yaml"]
    assert world.plan() == []
    assert sorted(os.listdir(world.config)) == ["defaults.yaml", "e.test"]


def test_printed_and_not_written(make, tmp_path):
    world = make("ns1")
    world.write(SIMPLE, {"cdn": CDN})
    world.apply()
    before = files(tmp_path)
    for options in (["--out", "-"], ["--dry-run", "--out", world.new]):
        done = world.run("import", "dns-a", ZONE, *options)
        assert "# e.test/zone.yaml" in done.stdout and "# e.test/cdn/domain.yaml" in done.stdout
        assert "nothing was written" in done.stdout
    out = world.imports("--dry-run")
    assert {f["path"] for f in out["files"]} == {"defaults.yaml", "e.test/zone.yaml", "e.test/cdn/domain.yaml"}
    assert out["out"] is None and "providers: [dns-a]" in next(f["text"] for f in out["files"] if "zone" in f["path"])
    assert files(tmp_path) == before


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("errno", [None, 28])
def test_killed_and_starved_at_every_step(tmp_path, existing, errno):
    """kill -9 or a full disk at each call that changes files: the zone is there as a whole or not at all."""
    config = sluicelib.write_tree(tmp_path / "config", {
        "defaults.yaml": f"default_zone: {ZONE}\n", f"{ZONE}/more.zone": 'x 60 IN TXT "a" "b"\n', f"{ZONE}/cdn/domain.yaml": importlab.dump(CDN),
        f"{ZONE}/zone.yaml": importlab.dump(dict(SIMPLE, zonefile="more.zone", providers=["sluice"]))})
    with sluicelib.Server(sluicelib.build(config, tmp_path / "data")) as server:
        for at in range(1, 200):
            new = tmp_path / f"new{at}"
            if existing:
                new.mkdir()
            args = ["sync", "import", "sluice", ZONE, "--socket", server.control, "--out", new]
            done, reached = toollib.run_with_fault(at, args, tmp_path / "mark", errno)
            if not reached:
                assert done.returncode == 0
                break
            whole = ["cdn/domain.yaml", "static.zone", "zone.yaml"]
            assert not (new / ZONE).exists() or files(new / ZONE) == whole
            if errno and done.returncode:
                assert done.returncode == 1 and done.stderr
                assert not (new / ZONE).exists() and (not new.exists() or os.listdir(new) == [])
            if not (new / ZONE).exists():  # once more
                server.sluice("sync", "import", "sluice", ZONE, "--out", new)
            assert files(new / ZONE) == whole
            sluicelib.sluice("check", new)
            if len(os.listdir(new)) > 2:  # killed when all was done; the next import tidies up
                shutil.rmtree(new / ZONE)
                server.sluice("sync", "import", "sluice", ZONE, "--out", new)
            assert sorted(os.listdir(new)) == ["defaults.yaml", ZONE]
        assert 8 < at < 199
        assert not [n for n in os.listdir(tmp_path) if n.startswith(".sluice-import-")]


def test_a_configuration_that_would_not_pass(make):
    """A zone that is there twice, once as part of its parent: refused, and nothing is written."""
    world = make("ns1")
    world.write(SIMPLE, {"cdn": CDN})
    world.apply()
    parent = {"soa": SIMPLE["soa"], "ns": ["ns1.example.net."], "records": {"www.e": {"TXT": ["x"]}}}
    root = sluicelib.write_tree(world.folder / "root", {
        "defaults.yaml": importlab.dump(world.defaults()), "test/zone.yaml": importlab.dump(parent)})
    before = files(root)
    done = world.run("import", "dns-a", ZONE, "--out", root, status=1)
    assert "test/zone.yaml" in done.stderr and "nothing was written" in done.stderr
    assert files(root) == before


# ---- errors ----------------------------------------------------------------------------------------------


def test_errors(make, tmp_path):
    world = make("powerdns")
    world.write()  # defaults.yaml alone
    assert "0 steered" in world.run("import", "dns-a", ZONE, "--out", tmp_path / "x").stdout
    before = files(tmp_path)
    out = world.imports(status=1, zone="other.test")
    assert out["errors"][0]["failure"] == "gone" and "other.test" in out["errors"][0]["error"]
    out = world.imports(status=1, provider="dns-b")
    assert "dns-b" in out["errors"][0]["error"] and "dns-a" in out["errors"][0]["error"]
    world.target.secret("wrong")
    out = world.imports(status=1)
    assert out["errors"][0]["failure"] == "denied" and "dns-a" in out["errors"][0]["error"]
    for zone, why in ((".", "zone"), ("a/b.test", "not allowed"), ("../x", "zone"), ("a..b", "empty")):
        done = world.run("import", "dns-a", zone, "--out", world.new, status=1)
        assert done.stderr.startswith("sluice: ") and len(done.stderr.splitlines()) == 1, (zone, why)
    (world.config / "defaults.yaml").write_text("providers: [\n", encoding="ascii")
    assert "defaults.yaml" in world.run("import", "dns-a", ZONE, "--out", world.new, status=1).stderr
    world.run("import", "dns-a", status=2)
    world.run("import", "dns-a", ZONE, "--git", "x", status=2)
    assert files(tmp_path) == before
    assert "sluice sync import dns-a" in sluicelib.sluice("sync", "import", "--help").stdout


def test_from_the_commit_of_the_current_build(make, tmp_path):
    world = make("ns1")
    world.write(SIMPLE, {"cdn": CDN})
    world.apply()
    for command in (["init", "-q", "-b", "main"], ["add", "."],
                    ["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "x"]):
        assert sluicelib.run("git", "-C", world.config, *command).returncode == 0
    sluicelib.sluice("build", "--git", world.config, "--commit", "main", "--out", tmp_path / "data")
    settings = world.folder / "sluice.yaml"
    settings.write_text(settings.read_text(encoding="ascii") +
                        f"data: {tmp_path}/data\ndeploy: {{repository: {world.config}, branch: main}}\n", encoding="ascii")
    sluicelib.sluice("sync", "import", "dns-a", ZONE, *world.options, "--out", world.new)
    assert world.plan(config=world.new) == []


# ---- health ------------------------------------------------------------------------------------------------


def checks(config, data):
    sluicelib.build(config, data)
    document = json.loads((data / "current/checks.json").read_text(encoding="utf-8"))
    return {d["domain"]: {name: e["health"] for name, e in d["endpoints"].items()} for d in document["domains"]}


@pytest.mark.parametrize("health", [
    {"type": "https", "path": "/up?a&b:%20c", "host": "www.example.net", "interval": "1500ms", "timeout": "1s", "rise": 3, "fall": 4},
    {"type": "tcp", "port": 22, "damping": {"changes": 5, "within": "10m", "hold": "90s"}}])
def test_checks_of_powerdns_come_back(make, tmp_path, health):
    world = make("powerdns")
    world.target.settings["health"] = "own"
    domain = dict(CDN, health=health, providers={"dns-a": {"allow_loss": ["status"]}})
    world.write(SIMPLE, {"cdn": domain})
    world.apply()
    out = world.imports()
    assert out["domains"] == 1 and {a["layer"] for a in out["approximate"]} >= {"status"}
    assert world.plan(config=world.new) == []
    assert checks(world.config, tmp_path / "data-old") == checks(world.new, tmp_path / "data-new")


def test_checks_of_route53_come_back(make, tmp_path):
    """As far as Route 53 keeps them; what all endpoints have in common is the domain's."""
    world = make("route53")
    world.target.settings["health"] = "own"
    endpoints = {"one": "192.0.2.1", "two": {"addresses": ["192.0.2.2"], "health": {"port": 8443}}, "spare": "192.0.2.3"}
    domain = dict(CDN, endpoints=endpoints, health={"type": "https", "path": "/up", "host": "www.example.net", "interval": "10s", "fall": 2})
    world.write(SIMPLE, {"cdn": domain})
    world.apply()
    world.imports()
    assert world.plan(config=world.new) == []
    old, new = checks(world.config, tmp_path / "data-old"), checks(world.new, tmp_path / "data-new")
    for name in endpoints:
        for key in ("type", "port", "path", "host", "interval", "fall"):
            assert old["cdn.e.test."][name][key] == new["cdn.e.test."][name][key]
    text = (world.new / "e.test/cdn/domain.yaml").read_text(encoding="utf-8")
    assert "two: {addresses: 192.0.2.2, health: {port: 8443}}" in text


def test_checks_of_our_own_server_come_back(tmp_path):
    health = {"type": "https", "path": "/up", "headers": {"X-Probe": "yes: #1", "Accept": "*/*"}, "interval": "1500ms", "timeout": "1s",
              "expect": {"status": ["200-204", 301], "body": "no"}, "follow_redirects": True, "method": "HEAD"}
    domains = {"cdn": dict(CDN, health=dict(health, method="GET")),
               "names": dict(CDN, health={"type": "dns", "name": "a.example.net.", "rrtype": "TXT", "expect": {"data": "ok"}}),
               "mixed": dict(CDN, health={"type": "tcp", "port": 22, "send": "hi\\n"},
                             endpoints={"one": {"addresses": ["192.0.2.1"], "health": {"type": "icmp", "rise": 5}},
                                        "two": "192.0.2.2", "spare": {"addresses": "192.0.2.3", "health": {"type": "exec", "check": "probe"}}})}
    del domains["mixed"]["health"]["send"]
    config, new = tmp_path / "config", tmp_path / "new"
    sluicelib.write_tree(config, {
        "defaults.yaml": importlab.dump({"default_zone": ZONE}),
        f"{ZONE}/zone.yaml": importlab.dump(dict(SIMPLE, providers=["sluice"])),
        **{f"{ZONE}/{name}/domain.yaml": importlab.dump(d) for name, d in domains.items()}})
    with sluicelib.Server(sluicelib.build(config, tmp_path / "data")) as server:
        out = json.loads(server.sluice("sync", "import", "sluice", ZONE, "--out", new, "--json").stdout)
    assert out["unmodelled"] == [] and out["domains"] == 3
    assert checks(config, tmp_path / "data-old") == checks(new, tmp_path / "data-new")


@pytest.mark.parametrize("kind", ["route53", "ns1"])
def test_pushed_health_is_named(make, kind):
    """What is checked is not kept there; a plan without it takes the checks away, which is said."""
    world = make(kind)
    world.write(SIMPLE, {"cdn": dict(CDN, health={"type": "icmp"}), "other": CDN})
    world.apply()
    out = world.imports(status=3)
    named = [u for u in out["unmodelled"] if u["part"]]
    if not named and kind == "route53":  # nothing has been pushed without a verdict
        pytest.fail(str(out))
    assert {u["name"] for u in named} == {"cdn.e.test."} == {u["name"] for u in out["unmodelled"]}
    assert "add `health:`" in named[0]["why"]
    assert {i["domain"] for i in world.plan(config=world.new, status=None)} == {"cdn.e.test."}
