# SPDX-License-Identifier: Apache-2.0
"""`sluice sync verify`: what name servers answer against the model, with our server, PowerDNS and Knot."""
import collections
import json
import random

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

import crosslib
import fakedns
import ns1sim
import pdnslib
import route53sim
import sluicelib
import test_sync_rfc2136 as rfc2136

ZONE = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns1.e.test., ns2.e.test.]
providers: [%s]
records:
  ns1: {A: [192.0.2.53]}
  ns2: {A: [192.0.2.54]}
  www: {A: [192.0.2.80, 192.0.2.81], TXT: ["a ; b"], CAA: ["0 issue \\"ca.example\\""]}
  far: {NS: [ns.far.e.test.]}
  ns.far: {A: [192.0.2.55]}
  "*.w": {TXT: ["any"]}
  "@": {MX: ["10 mail.example.net."]}
"""
DOMAIN = """\
ttl: 30
endpoints: {one: [192.0.2.1, 192.0.2.11, "2001:db8::1"], two: [192.0.2.2, "2001:db8::2"], spare: [192.0.2.3, "2001:db8::3"]}
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  eu: {one: 1, two: 2}
  ca-qc: {two: 1}
  192.0.2.200/29: {spare: 1}
providers: {dns-b: {allow_loss: [geo, status, priority, weight]}}
"""
SEVERAL = """\
ttl: 30
answers: 2
endpoints: {one: 192.0.2.1, two: 192.0.2.2, three: 192.0.2.3, four: 192.0.2.4}
regions: {global: {one: 4, two: 2, three: 1, four: 1}}
providers: {dns-b: {allow_loss: [geo, status, priority, weight]}}
"""
HOSTS = """\
ttl: 30
endpoints: {one: a.example.net., two: b.example.net.}
regions: {global: {one: 3, two: 1}, af: {two: 1}}
providers: {dns-b: {allow_loss: [geo, status, priority, weight]}}
"""
WILD = """\
ttl: 20
endpoints: {one: 192.0.2.5, two: 192.0.2.6}
regions: {global: {one: 1, two: 1}}
providers: {dns-b: {allow_loss: [geo, status, priority, weight]}}
"""
GEO = sluicelib.REPO / "tests/geo/test-city.mmdb"
DRAWS = "300"  # of shares that are right
MANY = "1000"  # of shares that are off, by a quarter: fewer than 1 in 10^9 times that is not seen


class World:
    """One zone at our server, PowerDNS and Knot."""

    def __init__(self, folder, names="sluice, dns-a, dns-b"):
        self.folder, self.names = folder, names
        self.pdns = pdnslib.Pdns(folder / "pdns")
        self.pdns.make_zone()
        self.knot = rfc2136.Knot(folder / "knot")
        for name, text in (("key", pdnslib.KEY), ("tsig", ":".join((rfc2136.KEY.algorithm, rfc2136.KEY.name, rfc2136.KEY.secret)))):
            (folder / name).write_text(text, encoding="ascii")
            (folder / name).chmod(0o600)
        self.write()
        data = sluicelib.build(folder / "config", folder / "data")
        self.server = sluicelib.Server(data, geo=GEO)
        self.settings = folder / "sluice.yaml"
        self.settings.write_text(
            f"data: {data}\ncontrol: {self.server.control}\ngeo: {GEO}\nsecrets:\n"
            f"  dns-a: {{file: {folder}/key}}\n  dns-b: {{file: {folder}/tsig}}\n", encoding="ascii")

    def write(self, domain=DOMAIN, zone=ZONE, servers=None, **more):
        servers = servers or f"127.0.0.1@{self.pdns.port}"
        sluicelib.write_tree(self.folder / "config", {
            "defaults.yaml": "default_zone: e.test\nproviders:\n"
                             f"  dns-a: {{type: powerdns, url: \"{self.pdns.url}\", secret: dns-a, servers: [{servers}]}}\n"
                             f"  dns-b: {{type: rfc2136, address: 127.0.0.1@{self.knot.port}, secret: dns-b}}\n",
            "e.test/zone.yaml": zone % self.names, "e.test/cdn/domain.yaml": domain,
            "e.test/many/domain.yaml": SEVERAL, "e.test/hosts/domain.yaml": HOSTS,
            "e.test/_wildcard.s/domain.yaml": WILD, **more})

    def run(self, command, *options, status=0):
        return sluicelib.sluice("sync", command, "--config", self.folder / "config", "--settings", self.settings,
                                *options, status=status)

    def apply(self):
        self.run("apply", "--yes", "--allow-ns-change", "--provider", "dns-a,dns-b")

    def verify(self, *options, draws=DRAWS, status=0):
        return json.loads(self.run("verify", "--draws", draws, "--json", *options, status=status).stdout)

    def close(self):
        self.server.kill()
        self.pdns.close()
        self.knot.close()


@pytest.fixture
def world(tmp_path):
    out = World(tmp_path)
    out.apply()
    yield out
    out.close()


def lines(out, verdict=None, **wanted):
    return [line for line in out["lines"] if verdict in (None, line["verdict"])
            and all(line[k] == v for k, v in wanted.items())]


def test_three_providers_as_the_model_says(world):
    out = world.verify()
    assert out["differ"] == out["silent"] == out["skipped"] == 0, lines(out, "differs")
    ours = lines(out, provider="sluice", name="cdn.e.test.", type="A")
    assert {line["region"] for line in ours} == {"global", "eu", "ca-qc", "192.0.2.200/29"}
    glob = lines(out, provider="dns-a", name="cdn.e.test.", type="A", region="global")[0]
    assert glob["expected"] == {"192.0.2.1 192.0.2.11": 0.75, "192.0.2.2": 0.25}
    assert glob["draws"] == int(DRAWS) and glob["p"] > 1e-9
    assert lines(out, provider="dns-a", name="*.s.e.test.", type="A")[0]["expected"] == {"192.0.2.5": 0.5, "192.0.2.6": 0.5}
    # What the provider has lost is compared with what was declared: the default answer.
    knot = lines(out, provider="dns-b", name="cdn.e.test.", type="A")
    assert [line["expected"] for line in knot] == [{"192.0.2.1 192.0.2.11 192.0.2.2": 1.0}]
    # A type that is not offered is no data, a delegation is a referral, what is below it is not asked for.
    assert lines(out, provider="dns-a", name="many.e.test.", type="AAAA")[0]["expected"] == {"no data": 1.0}
    assert lines(out, provider="dns-b", name="far.e.test.", type="NS") and not lines(out, name="ns.far.e.test.")
    text = world.run("verify", "cdn", "--draws", "100").stdout
    assert "not one user" in text and max(len(line) for line in text.splitlines()) <= 80


def edit_weights(world, name, rdtype, old, new):
    """Another weight in the LUA record, by hand."""
    rrset = world.pdns.rrset(name, "LUA")
    contents = [record["content"] for record in rrset["records"]]
    edited = [c.replace(old, new) if c.startswith(f"{rdtype} ") else c for c in contents]
    assert edited != contents, contents
    world.pdns.put(name, "LUA", edited)


def test_a_weight_that_was_changed_by_hand(world):
    edit_weights(world, "cdn.e.test.", "A", "{1, 3}", "{1, 1}")
    out = world.verify("cdn", "--provider", "dns-a", draws=MANY, status=3)
    assert [(line["type"], line["region"]) for line in lines(out, "differs")] == [("A", "global")]
    line = lines(out, "differs")[0]
    assert line["expected"]["192.0.2.2"] == 0.25 and 0.3 < line["observed"]["192.0.2.2"] < 0.7
    assert line["p"] < 1e-9 and line["place"] and line["server"] == f"127.0.0.1@{world.pdns.port}"
    # Plain records and TTLs: more than one name differs, each is told.
    world.pdns.put("www.e.test.", "A", ["192.0.2.80"], ttl=3600)
    world.pdns.put("w.w.e.test.", "TXT", ['"other"'], ttl=3600)
    world.pdns.put("e.test.", "MX", ["10 mail.example.net."], ttl=86400)
    out = world.verify("e.test", "--provider", "dns-a", draws="100", status=3)
    plain = {line["name"] + line["type"]: line["text"] for line in lines(out, "differs") if not line["steered"]}
    assert plain == {"www.e.test.A": "other values",
                     "e.test.MX": "its TTL is 86400, above the 3600 of the configuration"}
    text = world.run("verify", "e.test", "--provider", "dns-a", "--draws", "100", status=3).stdout
    assert "~ www.e.test. A: DIFFERS (other values): 192.0.2.80, 192.0.2.81 ->" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_region_that_is_missing(world):
    world.write(DOMAIN.replace("  eu: {one: 1, two: 2}\n", ""))
    world.run("apply", "--yes", "--provider", "dns-a")
    world.write()
    out = world.verify("cdn", "--provider", "dns-a", status=3)
    assert {(line["type"], line["region"]) for line in lines(out, "differs")} == {("A", "eu"), ("AAAA", "eu")}
    assert all("those of region global" in line["text"] for line in lines(out, "differs"))
    assert all(line["place"].startswith("100.69.0.0/24, 2001:db8:10") for line in lines(out, "differs"))


def test_a_stale_copy(world, tmp_path):
    """A second name server of the provider that was not changed for a while."""
    world.write(DOMAIN.replace("192.0.2.2,", "192.0.2.66,"), ZONE.replace("192.0.2.80", "192.0.2.88"))
    stale = f"127.0.0.1@{world.server.port}"  # ours serves the configuration of before
    world.run("apply", "--yes", "--provider", "dns-a")
    world.write(DOMAIN.replace("192.0.2.2,", "192.0.2.66,"), ZONE.replace("192.0.2.80", "192.0.2.88"),
                servers=f"127.0.0.1@{world.pdns.port}, {stale}")
    out = world.verify("--provider", "dns-a", draws="100", status=3)
    assert {line["server"] for line in lines(out, "differs")} == {stale}
    assert {"www.e.test.", "cdn.e.test."} == {line["name"] for line in lines(out, "differs")}
    text = lines(out, "differs", name="cdn.e.test.", type="A", region="ca-qc")[0]
    assert text["p"] == 0 and text["observed"] == {"192.0.2.66": 0.0, "192.0.2.2": 1.0}


def authoritative(query, *records, **options):
    options["flags"] = options.get("flags", 0) | dns.flags.AA
    return [fakedns.reply(query, *records, **options)]


def other_id(wire):
    return bytes([wire[0] ^ 1]) + wire[1:]


SOA = "e.test. 60 IN SOA ns1.e.test. hostmaster.e.test. 1 7200 900 1209600 60"
TRUNCATED = lambda query, _: authoritative(query, flags=dns.flags.TC)  # noqa: E731
FAULTS = {
    "garbage": (dict(udp=lambda query, _: [b"\xff" * 40]), "did not fit the question"),
    "half": (dict(udp=lambda query, _: [w[:-5] for w in authoritative(query, SOA)]), "no DNS message"),
    "other id": (dict(udp=lambda query, _: [other_id(w) for w in authoritative(query, SOA)]), "did not fit the question"),
    "other question": (dict(udp=lambda query, _: authoritative(sluicelib.make_query("f.test.", "SOA"), SOA)), "no answer"),
    "silent": (dict(udp=lambda query, _: []), "no answer"),
    "truncated": (dict(udp=TRUNCATED, tcp=TRUNCATED), "truncated by TCP as well"),
    "truncated without TCP": (dict(udp=TRUNCATED), "no answer by TCP"),
    "refused": (dict(udp=lambda query, _: [fakedns.reply(query, rcode=dns.rcode.REFUSED)]), "it answers REFUSED"),
    "servfail": (dict(udp=lambda query, _: [fakedns.reply(query, rcode=dns.rcode.SERVFAIL)]), "it answers SERVFAIL"),
    "lame": (dict(udp=lambda query, _: [fakedns.reply(query, SOA)]), "not authoritative"),
    "nxdomain": (dict(udp=lambda query, _: authoritative(query, rcode=dns.rcode.NXDOMAIN)), "no SOA record"),
}


def test_servers_that_do_not_answer_as_they_should(world):
    """Each is seen as what it is, by one line, and the good one beside them is still asked."""
    fakes = {name: fakedns.FakeDNS(**how) for name, (how, _) in FAULTS.items()}
    try:
        servers = [f"127.0.0.1@{fake.port}" for fake in fakes.values()]
        dead = sluicelib.Port()
        servers += [f"127.0.0.1@{dead.number}", "no-such-host.invalid", f"127.0.0.1@{world.pdns.port}"]
        out = world.verify("many", "--provider", "dns-a", "--timeout", "1000", "--server", ",".join(servers), draws="100", status=3)
        for name, fake in fakes.items():
            mine = lines(out, server=f"127.0.0.1@{fake.port}")
            assert [line["verdict"] for line in mine] == ["silent"] and FAULTS[name][1] in mine[0]["text"], (name, mine)
        assert "refused" in lines(out, server=f"127.0.0.1@{dead.number}")[0]["text"].lower()
        assert "no address" in lines(out, server="no-such-host.invalid")[0]["text"]
        good = lines(out, server=f"127.0.0.1@{world.pdns.port}")
        assert len(good) == 2 and {line["verdict"] for line in good} == {"same"}
        assert out["silent"] == len(fakes) + 2
        dead.close()
    finally:
        for fake in fakes.values():
            fake.close()


def test_answers_by_tcp_and_lost_ones(tmp_path, world):
    """A server that truncates all, one that loses messages, and one that stops."""
    lost = collections.Counter()

    def answer(query, _):
        name, rdtype = query.question[0].name.to_text(), query.question[0].rdtype
        reply = world.pdns.ask(name, rdtype, options=query.options)
        reply.id = query.id
        return [reply.to_wire(max_size=65535)]

    def lossy(query, number):
        """Every fifth is lost, but none three times."""
        lost[query.id] += number % 5 == 0
        return [] if number % 5 == 0 and lost[query.id] < 3 else answer(query, number)

    def stopping(query, number):
        return answer(query, number) if number <= 12 else []

    few = ["hosts", "--provider", "dns-a", "--timeout", "800"]
    with fakedns.FakeDNS(udp=TRUNCATED, tcp=answer) as by_tcp:
        assert world.verify(*few, "--server", f"127.0.0.1@{by_tcp.port}", draws="100")["differ"] == 0
        assert sum(protocol == "tcp" for protocol, _ in by_tcp.queries) >= 200
    with fakedns.FakeDNS(udp=lossy) as server:
        assert world.verify(*few, "--server", f"127.0.0.1@{server.port}", draws="100")["same"] == 2
    with fakedns.FakeDNS(udp=stopping) as server:
        out = world.verify(*few, "--server", f"127.0.0.1@{server.port}", draws="100", status=3)
        assert "silent" in {line["verdict"] for line in out["lines"]}


def test_no_place_is_told(world, tmp_path):
    """Without a location database only networks and the rest of the world can be asked for."""
    world.settings.write_text(world.settings.read_text(encoding="ascii").replace(f"geo: {GEO}\n", ""), encoding="ascii")
    out = world.verify("cdn", "--provider", "sluice", status=3)
    assert {line["region"] for line in lines(out, "skipped")} == {"eu", "ca-qc"}
    assert all("--geo" in line["text"] for line in lines(out, "skipped"))
    assert world.verify("cdn", "--provider", "sluice", "--geo", GEO)["skipped"] == 0
    done = world.run("verify", "cdn", "--geo", tmp_path / "missing", status=1)
    assert "missing" in done.stderr


def test_one_that_takes_no_notice_of_client_subnets(world):
    def blind(query, _):
        question = query.question[0]
        reply = world.pdns.ask(question.name.to_text(), question.rdtype, ecs="203.0.113.224/27")
        reply.id = query.id
        reply.use_edns(0)
        return [reply.to_wire()]

    with fakedns.FakeDNS(udp=blind) as server:
        out = world.verify("cdn", "--provider", "dns-a", "--server", f"127.0.0.1@{server.port}", draws="200", status=3)
    assert out["differ"] == 0 and "client subnets" in lines(out, "skipped")[0]["text"]


def test_facts_in_force_are_the_model(tmp_path):
    """Weights of now and disabled endpoints, not those of the configuration (only our server tells them)."""
    world = World(tmp_path, names="sluice, dns-a")
    try:
        world.run("apply", "--yes", "--allow-ns-change", "--provider", "dns-a")
        world.server.sluice("endpoints", "set", "cdn[global]", "one=1", "two=1", status=None)
        out = world.verify("cdn", "--provider", "sluice")
        assert lines(out, region="global", type="A")[0]["expected"] == {"192.0.2.1 192.0.2.11": 0.5, "192.0.2.2": 0.5}
        out = world.verify("cdn", "--provider", "dns-a", draws=MANY, status=3)  # nobody told it
        assert {line["region"] for line in lines(out, "differs")} == {"global"}
        world.server.sluice("endpoints", "disable", "cdn", "one", status=None)
        out = world.verify("cdn", "--provider", "sluice")
        assert lines(out, region="eu", type="A")[0]["expected"] == {"192.0.2.2": 1.0}
        # What is down leaves the answers; where all is down, all stay.
        world.server.sluice("endpoints", "enable", "cdn", "one", status=None)
        world.server.sluice("health", "override", "cdn", "two", "down", status=None)
        out = world.verify("cdn", "--provider", "sluice")
        assert lines(out, region="eu", type="A")[0]["expected"] == {"192.0.2.1 192.0.2.11": 1.0}
        assert lines(out, region="ca-qc", type="AAAA")[0]["expected"] == {"2001:db8::2": 1.0}
    finally:
        world.close()


@pytest.mark.parametrize("options, says", [
    (["--draws", "5"], "--draws"), (["--draws", "x"], "--draws"), (["--timeout", "0"], "--timeout"),
    (["--server", "a,,b"], "--server"), (["--git", "x"], "--commit")])
def test_wrong_usage(tmp_path, options, says):
    done = sluicelib.sluice("sync", "verify", *options, status=2)
    assert says in done.stderr and len(done.stderr.splitlines()) <= 2


def test_servers_of_a_provider_are_checked(tmp_path):
    for text, says in (("[a b]", "servers"), ("[]", "servers"), ("192.0.2.53@99999", "servers")):
        sluicelib.write_tree(tmp_path, {"defaults.yaml": f"providers: {{x: {{type: ns1, secret: s, servers: {text}}}}}\n"})
        done = sluicelib.sluice("check", tmp_path, status=1)
        assert says in done.stdout + done.stderr, done
    sluicelib.write_tree(tmp_path, {"defaults.yaml": "providers: {x: {type: ns1, secret: s, servers: [192.0.2.53@5353, \"2001:db8::53\", ns1.example.net.]}}\n"})
    sluicelib.sluice("check", tmp_path)


# ---- providers that only simulators stand for: their evaluation, behind a name server ---------------


class Front:
    """A name server that draws from the shares that `shares(name, type, place)` gives, {set of values: chance}."""

    def __init__(self, shares, apex="e.test."):
        self.shares, self.apex, self.random = shares, apex, random.Random(6)
        self.server = fakedns.FakeDNS(udp=self.answer)
        self.text = f"127.0.0.1@{self.server.port}"

    def answer(self, query, _):
        question = query.question[0]
        name, rdtype = question.name.to_text(), dns.rdatatype.to_text(question.rdtype)
        ecs = next((o for o in query.options if isinstance(o, dns.edns.ECSOption)), None)
        if (name, rdtype) == (self.apex, "SOA"):
            return authoritative(query, SOA)
        shares = self.shares(name, rdtype, crosslib.place(ecs.address if ecs else "198.51.100.200"))
        values = self.random.choices(list(shares), [float(s) for s in shares.values()])[0] if shares else ()
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.AA
        if values:
            reply.answer.append(dns.rrset.from_text_list(name, 30, "IN", rdtype, list(values)))
        if ecs:
            reply.use_edns(0, options=[dns.edns.ECSOption(ecs.address, ecs.srclen, ecs.srclen)])
        return [reply.to_wire()]


PLACES = """\
ttl: 30
endpoints: {one: [192.0.2.1, 192.0.2.11], two: 192.0.2.2, spare: 192.0.2.3}
regions:
  global: [{one: 3000, two: 1000}, {spare: 1}]
  eu: {one: 1, two: 2}
  us-ny: {two: 1, spare: 4}
  ca-qc: {spare: 1}
  192.0.2.200/29: {spare: 1}
providers: {dns-a: {allow_loss: [geo, weight]}}
"""
SIMULATED = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns1.e.test.]
providers: [dns-a]
"""


class Simulated:
    """One steered name at a provider that is a simulator."""

    def __init__(self, folder, kind, url, key, front):
        self.folder = folder
        (folder / "key").write_text(key, encoding="ascii")
        (folder / "key").chmod(0o600)
        (folder / "sluice.yaml").write_text(f"geo: {GEO}\nsecrets: {{dns-a: {{file: {folder}/key}}}}\n", encoding="ascii")
        self.defaults = ("default_zone: e.test\nproviders:\n"
                         f"  dns-a: {{type: {kind}, url: \"{url}\", secret: dns-a, health: pushed, servers: [{front.text}]}}\n")
        self.write()
        self.run("apply", "--yes", "--allow-ns-change")

    def write(self, domain=PLACES):
        sluicelib.write_tree(self.folder / "config", {
            "defaults.yaml": self.defaults, "e.test/zone.yaml": SIMULATED, "e.test/cdn/domain.yaml": domain})

    def run(self, command, *options, status=0):
        return sluicelib.sluice("sync", command, "--config", self.folder / "config", "--settings",
                                self.folder / "sluice.yaml", "--socket", self.folder / "none", *options, status=status)

    def verify(self, draws=DRAWS, status=0):
        return json.loads(self.run("verify", "cdn", "--draws", draws, "--json", status=status).stdout)


def test_route53_and_what_it_has_lost(tmp_path):
    sim = route53sim.Route53()

    def shares(name, rdtype, place):
        state = place.subdivision.partition("-")[2].upper() if place.subdivision else None
        return sim.answer(name, rdtype, ((place.continent or "").upper(), (place.country or "").upper(), state))

    front = Front(shares)
    try:
        world = Simulated(tmp_path, "route53", sim.url, route53sim.CREDENTIALS, front)
        out = world.verify(status=3)  # networks and provinces of Canada are lost there: skipped, and told
        assert out["differ"] == out["silent"] == 0
        assert {line["region"] for line in lines(out, "skipped")} == {"ca-qc", "192.0.2.200/29"}
        assert all("as declared" in line["text"] for line in lines(out, "skipped"))
        # Weights above 255 are scaled there: 3 to 1 in any case.
        assert lines(out, "same", region="global")[0]["observed"].keys() == {"192.0.2.1 192.0.2.11", "192.0.2.2"}
        # `answers: 2` is one endpoint in each answer.
        world.write(PLACES.replace("ttl: 30", "ttl: 30\nanswers: 2"))
        world.run("apply", "--yes")
        assert world.verify(status=3)["differ"] == 0
        # What differs is seen: the weights of before.
        world.write(PLACES.replace("{one: 1, two: 2}", "{one: 2, two: 1}"))
        assert {line["region"] for line in lines(world.verify(MANY, status=3), "differs")} == {"eu"}
    finally:
        front.server.close()
        sim.close()


def test_ns1_gives_one_address_at_a_time(tmp_path):
    sim = ns1sim.Simulator()
    sim.make_zone()

    def shares(name, rdtype, place):
        record = sim.zones["e.test"].get((name.rstrip("."), rdtype))
        if not record:
            return {}
        client = ns1sim.Client(place.address, (place.country or "").upper(), (place.continent or "").upper(),
                               place.subdivision.partition("-")[2].upper() if place.subdivision else None)
        return {tuple(values.split(" ")): chance
                for values, chance in ns1sim.shares(record, client, sim.feed_values()).items()}

    front = Front(shares)
    try:
        world = Simulated(tmp_path, "ns1", sim.url, ns1sim.KEY, front)
        out = world.verify()
        assert out["differ"] == out["silent"] == out["skipped"] == 0 and out["same"] == 6
        assert len(lines(out, region="global")[0]["observed"]) == 2
        # An answer is one of the endpoint's addresses, and still its weight must be right.
        for answer in sim.zones["e.test"][("cdn.e.test", "A")]["answers"]:
            if answer["answer"] == ["192.0.2.2"]:
                answer["meta"]["weight"] *= 5
        assert {line["region"] for line in lines(world.verify(MANY, status=3), "differs")} == {"global", "eu", "us-ny"}
    finally:
        front.server.close()
        sim.close()
