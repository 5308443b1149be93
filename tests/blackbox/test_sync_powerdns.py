# SPDX-License-Identifier: Apache-2.0
"""`sluice sync` with a real PowerDNS: from the configuration to the answers."""
import collections
import json
import os
import pty

import pytest

import pdnslib
import sluicelib

ZONE = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns1.e.test., ns2.e.test.]
providers: [dns-a]
records:
  ns1: {A: [192.0.2.53]}
  ns2: {A: [192.0.2.54]}
  www: {A: [192.0.2.80], AAAA: ["2001:db8::80"], TXT: ["a ; b"]}
  "@": {MX: ["10 mail.example.net."]}
"""
DOMAIN = """\
ttl: 30
endpoints: {one: 192.0.2.1, two: 192.0.2.2, spare: 192.0.2.3}
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  192.0.2.128/25: {two: 1}
"""


class World:
    """A configuration, a PowerDNS and the machine's settings."""

    def __init__(self, folder):
        self.folder = folder
        self.pdns = pdnslib.Pdns(folder / "pdns")
        self.pdns.make_zone()
        (folder / "key").write_text(pdnslib.KEY, encoding="ascii")
        (folder / "key").chmod(0o600)
        (folder / "sluice.yaml").write_text(f"secrets: {{dns-a: {{file: {folder}/key}}}}\n", encoding="ascii")
        self.write()

    def write(self, domain=DOMAIN, zone=ZONE, url=None, more=""):
        (self.folder / "config/e.test/cdn/domain.yaml").unlink(missing_ok=True)
        sluicelib.write_tree(self.folder / "config", {
            "defaults.yaml": "default_zone: e.test\nproviders:\n"
                             f"  dns-a: {{type: powerdns, url: \"{url or self.pdns.url}\", secret: dns-a, health: pushed}}\n" + more,
            "e.test/zone.yaml": zone, **({"e.test/cdn/domain.yaml": domain} if domain else {})})

    def options(self):
        return ["--config", self.folder / "config", "--settings", self.folder / "sluice.yaml",
                "--socket", self.folder / "no-server"]

    def sync(self, command, *options, status=0):
        done = sluicelib.sluice("sync", command, *self.options(), *options, "--json", status=status,
                                timeout=3 * sluicelib.DEADLINE)
        assert pdnslib.KEY not in done.stdout + done.stderr
        return json.loads(done.stdout)

    def text(self, command, *options, status=0):
        done = sluicelib.sluice("sync", command, *self.options(), *options, status=status)
        assert pdnslib.KEY not in done.stdout + done.stderr
        return done.stdout

    def apply(self, *options, status=0):
        return self.sync("apply", "--yes", *options, status=status)


@pytest.fixture
def world(tmp_path):
    out = World(tmp_path)
    yield out
    out.pdns.close()


def keys(out, op=None):
    return [i["key"] for i in out["items"] if op in (None, i["op"])]


def test_from_nothing_to_answers_and_then_nothing(world):
    before = world.pdns.serial()
    plan = world.sync("plan", status=3)
    assert world.pdns.serial() == before  # a plan writes nothing
    held = [i["key"] for i in plan["items"] if i["held"]]
    assert held == ["e.test./NS"]
    out = world.apply("--allow-ns-change")
    target = out["providers"][0]
    assert target["state"] == "applied" and target["seen"] == target["asked"] > 5, out
    assert sluicelib.rdata(world.pdns.ask("www.e.test", "AAAA")) == ["2001:db8::80"]
    assert sluicelib.rdata(world.pdns.ask("e.test", "NS")) == ["ns1.e.test.", "ns2.e.test."]
    assert sluicelib.rdata(world.pdns.ask("cdn.e.test", ecs="192.0.2.200/32")) == ["192.0.2.2"]
    counts = world.pdns.draws("cdn.e.test", 400)
    assert set(counts) == {"192.0.2.1", "192.0.2.2"} and counts["192.0.2.1"] > counts["192.0.2.2"]
    # The second run plans nothing, writes nothing and makes no new serial.
    serial = world.pdns.serial()
    assert world.sync("plan")["items"] == []
    assert world.apply()["providers"][0]["asked"] == 0
    assert world.sync("drift")["items"] == []
    assert world.pdns.serial() == serial


def test_plan_shows_shares_and_values(world):
    world.apply("--allow-ns-change")
    world.write(DOMAIN.replace("one: 3", "one: 1"), ZONE.replace("192.0.2.80", "192.0.2.81"))
    text = world.text("plan")
    assert "global           one                        75.0 % -> 50.0 %" in text
    assert "~ www.e.test. A: 192.0.2.80 (ttl 3600) -> 192.0.2.81 (ttl 3600)" in text
    assert "0 to create, 2 to update, 0 to delete" in text
    digest = text.splitlines()[-1].removeprefix("digest: ")
    world.text("apply", "--digest", digest)
    assert sluicelib.rdata(world.pdns.ask("www.e.test")) == ["192.0.2.81"]


def test_drift_after_an_edit_by_hand(world):
    world.apply("--allow-ns-change")
    world.pdns.put("www.e.test.", "A", ["192.0.2.99"], ttl=3600)
    out = world.sync("drift", status=3)
    assert keys(out) == ["www.e.test./A"]
    assert out["items"][0]["old"]["values"] == ["192.0.2.99"]
    record = world.pdns.rrset("cdn.e.test.", "LUA")["records"][0]["content"]
    world.pdns.put("cdn.e.test.", "LUA", [record.replace("192.0.2.1", "192.0.2.9")])
    out = world.sync("drift", status=3)
    assert "cdn.e.test." in {i["domain"] for i in out["items"]}
    world.apply()
    assert world.sync("drift")["items"] == []


def test_foreign_records_stay(world):
    """Complaints 17, 18, 19, 20: what others made is kept and told."""
    world.pdns.put("theirs.e.test.", "A", ["192.0.2.66"])
    world.pdns.put("e.test.", "TXT", ['"verify=1"'])
    world.pdns.put("www.e.test.", "A", ["192.0.2.67"])
    out = world.apply("--allow-ns-change", status=3)
    assert {k["key"] for k in out["providers"][0]["kept"]} == {"theirs.e.test./A", "e.test./TXT"}
    assert [i["key"] for i in out["items"] if i["held"]] == ["www.e.test./A"]
    assert sluicelib.rdata(world.pdns.ask("www.e.test")) == ["192.0.2.67"]
    assert "theirs.e.test. A" in world.text("plan", status=3)
    world.apply("--take-over")
    assert sluicelib.rdata(world.pdns.ask("www.e.test")) == ["192.0.2.80"]
    assert sluicelib.rdata(world.pdns.ask("theirs.e.test")) == ["192.0.2.66"]
    assert sluicelib.rdata(world.pdns.ask("e.test", "TXT")) == ['"verify=1"']


def test_deletes_and_the_last_steered_name(world):
    world.apply("--allow-ns-change")
    world.write(None, ZONE.replace(', TXT: ["a ; b"]', ""))
    out = world.apply(status=3)
    assert [i["key"] for i in out["items"] if i["op"] == "delete" and not i["held"]] == ["www.e.test./TXT"]
    assert world.pdns.ask("cdn.e.test").answer
    world.apply("--allow-last")
    assert not world.pdns.ask("cdn.e.test").answer
    assert world.sync("plan")["items"] == []


def test_large_changes_need_consent(world):
    names = "".join(f"  n{i}: {{A: [192.0.2.{i}]}}\n" for i in range(1, 20))
    world.write(zone=ZONE + names)
    world.apply("--allow-ns-change")
    world.write(zone=ZONE)
    out = world.apply(status=3)
    assert len(keys(out, "delete")) == 19 and out["providers"][0]["held"] == 19
    assert world.pdns.ask("n1.e.test").answer
    world.apply("--allow-large")
    assert not world.pdns.ask("n1.e.test").answer


@pytest.mark.parametrize("before, after", [
    (DOMAIN, "ttl: 30\nendpoints: {one: x.example.net.}\nregions: {global: {one: 1}}\n"),
    ("ttl: 30\nendpoints: {one: x.example.net.}\nregions: {global: {one: 1}}\n", DOMAIN),
    (None, DOMAIN)])
def test_changes_of_kind(world, before, after):
    """B82: plain to steered, addresses to a host name and back, each in one go."""
    static = ZONE + "  cdn: {A: [192.0.2.5]}\n"
    world.write(before, zone=ZONE if before else static)
    world.apply("--allow-ns-change")
    world.write(after)
    world.apply()
    assert world.sync("plan")["items"] == []
    answer = sluicelib.rdata(world.pdns.ask("cdn.e.test"))
    assert answer and (answer[0] == "x.example.net." or answer[0].startswith("192.0.2."))


def test_wrong_credentials_and_absent_server(world):
    (world.folder / "key").write_text("wrong", encoding="ascii")
    out = world.sync("plan", status=1)
    assert out["errors"][0]["failure"] == "denied" and "dns-a" in out["errors"][0]["error"]
    (world.folder / "key").chmod(0o644)
    out = world.sync("plan", status=1)
    assert "dns-a" in out["errors"][0]["error"] and "key" in out["errors"][0]["error"]


def test_a_zone_that_is_not_there(world):
    world.pdns.api("DELETE", "/zones/e.test.")
    out = world.sync("plan", status=1)
    assert out["errors"][0]["failure"] == "gone" and "e.test" in out["errors"][0]["error"]


def test_confirmation_on_a_terminal(world):
    for word, status in (("no\n", 1), ("yes\n", 0)):
        pid, fd = pty.fork()
        if pid == 0:
            program = sluicelib.program("sluice")
            os.execve(program, [program, "sync", "apply", "--allow-ns-change", *map(str, world.options())],
                      sluicelib.environment())
        seen = b""
        while b"(yes or no)" not in seen:
            seen += os.read(fd, 65536)
        os.write(fd, word.encode())
        try:
            while part := os.read(fd, 65536):
                seen += part
        except OSError:
            pass  # the end of a terminal
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status, seen.decode()
        os.close(fd)
        assert bool(world.pdns.ask("www.e.test").answer) == (status == 0)


def test_order_of_answers_of_many_types(world):
    counts = collections.Counter(i["type"] for i in world.sync("plan", status=3)["items"])
    assert counts["TXT"] == 1 and counts["MX"] == 1 and counts["AAAA"] == 1


def test_more_than_one_request_takes(world):
    """PowerDNS takes 2 MB at a time: all of the zone is there in the end, and seen."""
    names = "".join(f"  n{i}: {{A: [192.0.2.{i % 250}], TXT: [\"{'x' * 250} {i}\"]}}\n" for i in range(2000))
    world.write(zone=ZONE + names)
    out = world.apply("--allow-ns-change")
    assert out["providers"][0]["state"] == "applied" and out["providers"][0]["seen"] > 4000
    assert sluicelib.rdata(world.pdns.ask("n1999.e.test")) == ["192.0.2.249"]
    assert world.sync("plan")["items"] == []


def test_what_is_in_force_goes_to_providers(world):
    """Overrides of the running server; without it they are not undone by accident."""
    config, state = world.folder / "config", world.folder / "state"
    state.mkdir()
    settings = world.folder / "sluice.yaml"
    settings.write_text(settings.read_text(encoding="ascii") + f"state: {state}\n", encoding="ascii")
    with sluicelib.Server(sluicelib.build(config, world.folder / "data"), "--state", state) as server:
        options = ["--config", config, "--settings", settings]
        server.sluice("sync", "apply", *options, "--yes", "--allow-ns-change")
        assert set(world.pdns.draws("cdn.e.test", 200)) == {"192.0.2.1", "192.0.2.2"}
        server.sluice("endpoints", "set", "cdn[global]", "one=0", "two=7", status=None)
        server.sluice("sync", "apply", *options, "--yes")
        assert set(world.pdns.draws("cdn.e.test", 50)) == {"192.0.2.2"}
        server.sluice("endpoints", "disable", "cdn", "one", "two", status=None)
        server.sluice("sync", "apply", *options, "--yes")
        assert set(world.pdns.draws("cdn.e.test", 50)) == {"192.0.2.3"}
        assert json.loads(server.sluice("sync", "drift", *options, "--json").stdout)["note"] is None
    sluicelib.sluice("sync", "apply", *world.options(), "--yes")  # from the store that the server has left
    assert set(world.pdns.draws("cdn.e.test", 50)) == {"192.0.2.3"}
