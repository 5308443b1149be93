# SPDX-License-Identifier: Apache-2.0
"""`sluice sync` to real BIND and Knot, by dynamic updates with TSIG (RFC 2136)."""
import json
import pathlib

import dns.query
import dns.update
import pytest

import primaries
import secondaries
import serverlib
import sluicelib

ZONE = "e.test"
KEY = primaries.Key("sync-key")
CONFIG = """\
ttl: 3600
soa: {{mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}}
ns: [ns1.e.test., ns2.e.test.]
providers: [{providers}]
records:
  ns1: {{A: [192.0.2.53]}}
  ns2: {{A: [192.0.2.54]}}
  www: {{A: [192.0.2.80], TXT: ["a ; \\" b"], HTTPS: ["1 . alpn=h2"]}}
  "@": {{MX: ["10 Mail.Example.Net."]}}
{more}"""
DOMAIN = """\
ttl: 30
endpoints: {one: [192.0.2.1, "2001:db8::1"], two: 192.0.2.2, spare: 192.0.2.3}
types: [A]
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  192.0.2.128/25: {two: 1}
"""
LOSS = "providers: {%s: {allow_loss: [geo, status, priority, weight]}}\n"
START = """\
$ORIGIN e.test.
$TTL 300
@ IN SOA old. old. 7 3600 600 86400 60
@ IN NS old.example.net.
@ IN TXT "verify=1"
theirs IN A 192.0.2.66
"""


class Target:
    """A server with the zone, which the key may transfer and update."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.reserved = sluicelib.Port()
        self.port = self.reserved.number
        (self.folder / "zone").write_text(START, encoding="ascii")
        self.reserved_lock = self.reserved.lock
        self.process = self.start()
        serverlib.wait_for(lambda: self.is_there() or not self.process.alive(), "the zone")
        assert self.process.alive(), self.process.log

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="ascii")
        return self.folder / name

    def ask(self, name, rdtype="A"):
        return sluicelib.rdata(sluicelib.ask("127.0.0.1", self.port, name, rdtype))

    def serial(self, timeout=sluicelib.DEADLINE):
        return sluicelib.ask("127.0.0.1", self.port, ZONE, "SOA", timeout=timeout).answer[0][0].serial

    def is_there(self):
        """Whether it answers by now."""
        try:
            return self.serial(timeout=0.5) > 0
        except (OSError, IndexError, sluicelib.dns.exception.Timeout):
            return False

    def update(self, change):
        message = dns.update.UpdateMessage(ZONE, keyring=KEY.ring(), keyname=KEY.name, keyalgorithm=KEY.algorithm)
        change(message)
        assert dns.query.tcp(message, "127.0.0.1", sluicelib.DEADLINE, self.port).rcode() == 0

    def close(self):
        self.process.kill()
        self.reserved.close()


class Knot(Target):
    def start(self):
        (self.folder / "kdb").mkdir()
        return sluicelib.Process("knotd", "-c", self.write("knot.conf", f"""\
server:
    listen: 127.0.0.1@{self.port}
    rundir: {self.folder}
    pidfile: {self.folder}/pid
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
control:
    listen: {self.folder}/sock
log:
  - target: stderr
    any: info
database:
    storage: {self.folder}/kdb
key:
  - id: {KEY.name}
    algorithm: {KEY.algorithm}
    secret: {KEY.secret}
acl:
  - id: sync
    action: [transfer, update]
    key: {KEY.name}
zone:
  - domain: {ZONE}
    storage: {self.folder}
    file: zone
    acl: sync
    zonefile-sync: -1
"""), cwd=self.folder)


class Bind(Target):
    def start(self):
        return sluicelib.Process("named", "-4", "-g", "-n", "1", "-c", self.write("named.conf", f"""\
key {KEY.name} {{ algorithm {KEY.algorithm}; secret "{KEY.secret}"; }};
options {{ directory "{self.folder}"; listen-on port {self.port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
  recursion no; pid-file none; dnssec-validation no; session-keyfile "{self.folder}/session.key";
  empty-zones-enable no; notify no; }};
controls {{ }};
zone "{ZONE}" {{ type primary; file "{self.folder}/zone"; allow-transfer {{ key {KEY.name}; }};
  allow-update {{ key {KEY.name}; }}; check-integrity no; }};
"""), cwd=self.folder)


KINDS = {"knot": Knot, "bind": Bind}


class World:
    def __init__(self, folder, names):
        self.folder = folder
        self.targets = {name: KINDS[name](folder / name) for name in names}
        self.key(KEY)
        (folder / "sluice.yaml").write_text(f"secrets: {{tsig: {{file: {folder}/tsig}}}}\n", encoding="ascii")
        self.write()

    def key(self, key):
        (self.folder / "tsig").write_text(f"{key.algorithm}:{key.name}:{key.secret}\n", encoding="ascii")
        (self.folder / "tsig").chmod(0o600)

    def write(self, more="", domain=DOMAIN, loss=None):
        names = ", ".join(self.targets)
        allowed = "providers:\n" + "".join(f"  {n}: {{allow_loss: [geo, status, priority, weight]}}\n"
                                           for n in self.targets)
        defaults = "default_zone: e.test\nproviders:\n" + "".join(
            f"  {n}: {{type: rfc2136, address: 127.0.0.1@{t.port}, secret: tsig}}\n" for n, t in self.targets.items())
        sluicelib.write_tree(self.folder / "config", {
            "defaults.yaml": defaults, "e.test/zone.yaml": CONFIG.format(providers=names, more=more),
            "e.test/cdn/domain.yaml": domain + (allowed if loss is None else loss)})

    def sync(self, command, *options, status=0):
        done = sluicelib.sluice("sync", command, "--config", self.folder / "config", "--settings",
                                self.folder / "sluice.yaml", "--socket", self.folder / "none", "--json", *options,
                                status=status)
        assert KEY.secret not in done.stdout + done.stderr
        return json.loads(done.stdout)

    def apply(self, *options, status=0):
        return self.sync("apply", "--yes", *options, status=status)

    def close(self):
        for target in self.targets.values():
            target.close()


@pytest.fixture(params=KINDS)
def world(tmp_path, request):
    out = World(tmp_path, [request.param])
    out.target = out.targets[request.param]
    yield out
    out.close()


@pytest.fixture
def both(tmp_path):
    out = World(tmp_path, list(KINDS))
    yield out
    out.close()


def held(out):
    return [i["key"] for i in out["items"] if i["held"]]


def test_from_a_foreign_zone_to_in_sync(world):
    plan = world.sync("plan", status=3)
    assert world.target.serial() == 7 and held(plan) == ["e.test./NS"]
    out = world.apply("--allow-ns-change")
    assert out["providers"][0]["state"] == "applied", out
    assert {k["key"] for k in out["providers"][0]["kept"]} == {"e.test./TXT", "theirs.e.test./A"}
    target = world.target
    assert target.ask("e.test", "NS") == ["ns1.e.test.", "ns2.e.test."]
    assert target.ask("cdn.e.test") == ["192.0.2.1", "192.0.2.2"]  # the default answer: level 1 of global
    assert target.ask("www.e.test", "TXT") == ['"a ; \\" b"']
    assert target.ask("_sluice.cdn.e.test", "TXT") == ['"sluice owner=sluice types=A steered"']
    assert target.ask("theirs.e.test") == ["192.0.2.66"]
    # Nothing is left to do, and nothing is sent (complaint 40).
    serial = target.serial()
    assert world.sync("plan")["items"] == []
    world.apply()
    assert world.sync("drift")["items"] == [] and target.serial() == serial


def test_what_is_lost_needs_consent(world):
    """Complaint 6, B37: no steered name becomes a plain one by silence."""
    world.write(loss="")
    out = world.apply("--allow-ns-change", status=3)
    assert held(out) == ["cdn.e.test./A"]
    assert world.target.ask("cdn.e.test") == [] and world.target.ask("www.e.test") == ["192.0.2.80"]
    domain = out["providers"][0]["domains"]["cdn.e.test."]
    assert {k: v["grade"] for k, v in domain["fidelity"].items()} == {
        "geo": "lost", "status": "exact", "priority": "lost", "weight": "lost"}
    assert "geo would be lost" in domain["refused"]


def test_updates_deletes_and_types(world):
    world.apply("--allow-ns-change")
    world.write("  other: {CNAME: www.e.test.}\n", DOMAIN.replace("192.0.2.1,", "192.0.2.9,"))
    world.apply()
    assert world.target.ask("cdn.e.test") == ["192.0.2.2", "192.0.2.9"]
    assert "www.e.test." in world.target.ask("other.e.test", "CNAME")
    world.write("  other: {A: [192.0.2.7]}\n")
    world.apply()
    assert world.target.ask("other.e.test") == ["192.0.2.7"]
    world.write()
    world.apply()
    assert world.target.ask("other.e.test") == [] and world.target.ask("_sluice.other.e.test", "TXT") == []
    assert world.sync("drift")["items"] == []


def test_edits_by_hand_are_drift(world):
    world.apply("--allow-ns-change")
    world.target.update(lambda m: m.replace("www", 60, "A", "192.0.2.99"))
    out = world.sync("drift", status=3)
    assert [i["key"] for i in out["items"]] == ["www.e.test./A"]
    assert out["items"][0]["old"] == {"ttl": 60, "values": ["192.0.2.99"]}
    world.target.update(lambda m: m.add("new", 60, "A", "192.0.2.98"))
    world.apply()
    assert world.target.ask("www.e.test") == ["192.0.2.80"] and world.target.ask("new.e.test") == ["192.0.2.98"]


def test_a_zone_of_many_records(world):
    """More than one message; each is atomic, and the whole is read back."""
    names = "".join(f"  n{i}: {{A: [192.0.2.{i % 250}], TXT: [\"{'x' * 200}\"]}}\n" for i in range(300))
    world.write(names)
    out = world.apply("--allow-ns-change")
    assert out["providers"][0]["asked"] > 900
    assert world.target.ask("n299.e.test") == ["192.0.2.49"]
    assert world.sync("plan")["items"] == []
    records = secondaries.transfer(world.target.port, ZONE, key=TransferKey())
    assert len(records) > 900


class TransferKey:
    @staticmethod
    def options():
        return {"keyring": KEY.ring(), "keyname": KEY.name, "keyalgorithm": KEY.algorithm}


def test_wrong_key(world):
    world.key(primaries.Key("sync-key", seed=b"w" * 32))
    out = world.sync("plan", status=1)
    assert out["errors"][0]["failure"] == "denied" and "key" in out["errors"][0]["error"]
    world.key(primaries.Key("nobodys-key"))
    assert world.sync("plan", status=1)["errors"][0]["failure"] == "denied"
    (world.folder / "tsig").write_text("just-a-secret\n", encoding="ascii")
    out = world.sync("plan", status=1)
    assert "ALGORITHM:KEY-NAME:BASE64" in out["errors"][0]["error"]
    assert "just-a-secret" not in json.dumps(out)


def test_one_that_is_down_is_brought_level_later(both):
    both.apply("--allow-ns-change")
    both.targets["bind"].process.kill()
    both.write("  more: {A: [192.0.2.7]}\n")
    out = both.apply(status=3)
    assert [e["provider"] for e in out["errors"]] == ["bind"]
    assert both.targets["knot"].ask("more.e.test") == ["192.0.2.7"]
    both.targets["bind"].process = both.targets["bind"].start()
    serverlib.wait_for(both.targets["bind"].is_there, "BIND")
    assert [i["provider"] for i in both.sync("plan")["items"] if i["type"] == "A"] == ["bind"]
    both.apply()
    assert both.sync("drift")["items"] == []
    assert both.targets["bind"].ask("more.e.test") == ["192.0.2.7"]


def test_what_both_hold_is_the_same(both):
    both.apply("--allow-ns-change")

    def records(target):
        return [r for r in secondaries.transfer(target.port, ZONE, key=TransferKey()) if " SOA " not in r]

    assert records(both.targets["knot"]) == records(both.targets["bind"])
