# SPDX-License-Identifier: Apache-2.0
"""PowerDNS as a provider, with the real server: what is read, written, answered and refused.

Shares are measured with a false alarm below 1e-9 each (tests/blackbox/stats.py).
"""
import http.server
import json
import re
import socket
import threading

import dns.query
import pytest

import pdnslib
import serverlib
import sluicelib
import stats
from pdnslib import ZONE, domain, once

CDN = f"cdn.{ZONE}"
GLOBAL = {"global": (["global"], [{"one": 3, "two": 1}, {"spare": 1}])}
THREE = {"one": ["192.0.2.1", "2001:db8::1"], "two": ["192.0.2.2", "2001:db8::2"],
         "spare": ["192.0.2.3", "2001:db8::3"]}
ALL = ("read", "compile", "apply", "decompile")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    pdns = pdnslib.Pdns(tmp_path_factory.mktemp("pdns"))
    yield pdns
    pdns.close()


@pytest.fixture
def server(shared):
    """The server with a fresh zone."""
    shared.api("DELETE", f"/zones/{ZONE}")
    shared.make_zone()
    return shared


def seen(out, key):
    return next((o for o in out["seen"] if o["key"] == key), None)


def a_record(name, *values, ttl=60):
    return {"name": name, "type": "A", "ttl": ttl, "values": list(values)}


# ---- the fence ------------------------------------------------------------------------------------


def test_fence(server):
    atoms = {"global": ["global"], "eu": ["continent:eu"], "na": ["continent:na"], "us": ["country:us"],
             "ca-qc": ["subdivision:ca-qc"], "us-ca": ["subdivision:us-ca"], "namibia": ["country:na"],
             "as1": ["asn:64500"], "net": ["net:198.51.100.16/28", "net:2001:db8:100:1::/64"],
             "inner": ["net:198.51.100.20/32"]}
    endpoints = {n: [f"192.0.2.{i}", f"2001:db8:a::{i}"] for i, n in enumerate(atoms, 1)}
    regions = {n: (a, [{n: 1}]) for n, a in atoms.items()}
    once(server, *ALL, domains=[domain(regions, endpoints)])
    at = {f"192.0.2.{i}": n for i, n in enumerate(atoms, 1)}
    for client, region in {
            "198.51.100.20/32": "inner",          # the longer of two nets
            "198.51.100.21/32": "net",            # a net beats the AS number
            "198.51.100.7/32": "as1",             # an AS number beats the subdivision
            "198.51.100.100/32": "ca-qc", "198.51.100.190/32": "na", "192.0.2.9/32": "us",
            "192.0.2.70/32": "us-ca",             # California, not Canada
            "203.0.113.40/32": "namibia",         # not North America
            "203.0.113.100/32": "eu", "203.0.113.130/32": "global", "10.0.0.0/8": "global",
            "::ffff:198.51.100.20/128": "inner",  # a mapped address is an IPv4 one
            "2001:db8:100:1::5/128": "net", "2001:db8:102::/48": "us", "2001:db8:fff::/48": "global"}.items():
        reply = server.ask(CDN, "A", ecs=client)
        assert [at[a] for a in sluicelib.rdata(reply)] == [region], client
    assert sluicelib.rdata(server.ask(CDN, "AAAA", ecs="198.51.100.20/32")) == ["2001:db8:a::10"]


def test_scope_is_the_clients_prefix(server):
    """As the fidelity report says: never the coarsest, never finer than asked."""
    regions = {"global": (["global"], [{"one": 1}]), "half": (["net:198.51.100.128/25"], [{"two": 1}])}
    once(server, *ALL, domains=[domain(regions, THREE)])
    for client, scope in {"198.51.100.0/24": 24, "198.51.100.200/32": 32, "10.0.0.0/8": 8}.items():
        assert sluicelib.ecs_of(server.ask(CDN, "A", ecs=client))[2] == scope


# ---- draws ----------------------------------------------------------------------------------------


def shares(server, expected, draws=1500, **options):
    counts = server.draws(CDN, draws, **options)
    assert stats.shares_p(counts, expected, draws) > 1e-9, (counts, expected)


def test_weights_and_levels(server):
    out = once(server, *ALL, domains=[domain(GLOBAL, THREE)])
    assert out["done"] == out["changes"] == 2
    shares(server, {"192.0.2.1": 0.75, "192.0.2.2": 0.25})
    shares(server, {"2001:db8::1": 0.75, "2001:db8::2": 0.25}, rdtype="AAAA")
    assert server.rrset(CDN, "LUA")["ttl"] == 30
    # Other types are no data.
    reply = server.ask(CDN, "TXT")
    assert sluicelib.rcode(reply) == "NOERROR" and not reply.answer


@pytest.mark.parametrize("facts, expected", [
    ({"weights": [-1, 9, -1]}, {"192.0.2.1": 0.25, "192.0.2.2": 0.75}),
    ({"weights": [0, 0, -1]}, {"192.0.2.3": 1.0}),                                       # drained: the next level
    ({"weights": [1, 0, -1], "status": {"one": (0, 2)}}, {"192.0.2.3": 1.0}),
    ({"status": {"one": (0, 2), "two": (0, 2)}}, {"192.0.2.3": 1.0}),
    ({"status": {"one": (0, 2), "two": (0, 2), "spare": (0, 2)}}, {"192.0.2.1": 0.75, "192.0.2.2": 0.25}),
    ({"status": {"one": (2, 0), "two": (0, 2), "spare": (0, 2)}}, {"192.0.2.2": 1.0}),   # disabled stays out
    ({"status": {"one": (2, 0), "two": (2, 0), "spare": (2, 0)}}, {"192.0.2.1": 0.75, "192.0.2.2": 0.25}),
    ({"weights": [0, 0, 0], "status": {"spare": (2, 0)}}, {"192.0.2.1": 0.5, "192.0.2.2": 0.5}),  # drained, but left
])
def test_facts(server, facts, expected):
    names = list(THREE)
    status = [dict(zip(("manual", "health4"), facts.get("status", {}).get(n, (0, 0)))) for n in names]
    once(server, *ALL, domains=[domain(GLOBAL, THREE, status=status, **{k: v for k, v in facts.items() if k == "weights"})])
    shares(server, expected, draws=600)


def test_all_zero_weights_are_equal_shares(server):
    once(server, *ALL, domains=[domain({"global": (["global"], [{"one": 0, "two": 0, "spare": 0}])}, THREE)])
    shares(server, {f"192.0.2.{i}": 1 / 3 for i in (1, 2, 3)})


def test_several_answers(server):
    """Without replacement, equal addresses once."""
    endpoints = {"one": ["192.0.2.1", "192.0.2.9"], "two": ["192.0.2.2"], "spare": ["192.0.2.9", "192.0.2.3"]}
    once(server, *ALL, domains=[domain({"global": (["global"], [{"one": 2, "two": 1, "spare": 1}])}, endpoints, answers=2)])
    # one first (1/2), then half and half; the other two first (1/4 each), then 2:1.
    both = 1 / 4 + 1 / 4 * 2 / 3
    shares(server, {"192.0.2.1 192.0.2.2 192.0.2.9": both, "192.0.2.1 192.0.2.3 192.0.2.9": both,
                    "192.0.2.2 192.0.2.3 192.0.2.9": 1 - 2 * both})


def test_host_names(server):
    hosts = {"a": "a.example.net.", "b": "we\\.ird\\'\\]\\]\\\"x.example.net.", "c": "\\000\\255.example.net."}
    out = once(server, *ALL, domains=[domain({"global": (["global"], [{"a": 1, "b": 1, "c": 2}])}, hosts)])
    answers = server.draws(CDN, 200, rdtype="AAAA")
    assert len(answers) == 3 and "a.example.net." in answers, answers
    assert {e["host"] for e in out["documents"][CDN]["endpoints"]} >= {"a.example.net.", "\\000\\255.example.net."}


def test_names_of_the_configuration_cannot_leave_their_place(server):
    evil = "a']]return{'6.6.6.6'}--\""
    regions = {"global": (["global"], [{evil: 1}]), "]]--\"os.exit()": (["continent:eu"], [{evil: 1}])}
    out = once(server, *ALL, domains=[domain(regions, {evil: ["192.0.2.66"]})])
    assert out["documents"][CDN]["endpoints"][0]["name"] == evil
    for client in ("10.0.0.0/8", "203.0.113.100/32"):
        assert sluicelib.rdata(server.ask(CDN, ecs=client)) == ["192.0.2.66"]


def test_a_large_domain(server):
    endpoints = {f"e{i}": [f"10.0.{i // 250}.{i % 250 + 1}"] for i in range(1500)}
    regions = {"global": (["global"], [{n: 1 for n in endpoints}])}
    out = once(server, *ALL, domains=[domain(regions, endpoints)])
    assert "too large to say" in out["documents"][CDN]
    assert sum(server.draws(CDN, 20).values()) == 20
    assert once(server, *ALL, domains=[domain(regions, endpoints)])["changes"] == 0
    endpoints.update({f"f{i}": [f"10.1.{i // 250}.{i % 250 + 1}"] for i in range(1500)})
    regions = {"global": (["global"], [{n: 1 for n in endpoints}])}
    out = once(server, *ALL, domains=[domain(regions, endpoints)], status=1)
    assert out["error"]["failure"] == "refused" and CDN in out["error"]["text"]


# ---- reading and writing --------------------------------------------------------------------------


def test_in_sync_writes_nothing(server):
    domains, static = [domain(GLOBAL, THREE)], [a_record(f"www.{ZONE}", "192.0.2.80")]
    first = once(server, *ALL, domains=domains, static=static)
    assert first["changes"] == 3
    assert seen(first, f"www.{ZONE}/A")["owner"] == seen(first, f"{CDN}/A")["owner"] == "sluice"
    serial = server.serial()
    again = once(server, *ALL, domains=domains, static=static)
    assert again["changes"] == 0 and server.serial() == serial
    # All changes of a zone are one PATCH: one serial.
    out = once(server, *ALL, domains=[domain(GLOBAL, THREE, ttl=60)], static=[])
    assert out["changes"] == 3 and seen(out, f"www.{ZONE}/A") is None
    assert server.serial() == serial + 1


def test_only_one_type_changes(server):
    once(server, *ALL, domains=[domain(GLOBAL, THREE)])
    more = dict(THREE, one=["192.0.2.1", "2001:db8::99"])
    out = once(server, *ALL, domains=[domain(GLOBAL, more)])
    # The model is in the record of the first type, so both change; an AAAA by itself would too.
    assert out["changes"] == 2
    shares(server, {"2001:db8::99": 0.75, "2001:db8::2": 0.25}, draws=400, rdtype="AAAA")
    out = once(server, *ALL, domains=[domain(GLOBAL, {n: a[:1] for n, a in more.items()})])
    assert [r["content"][:2] for r in server.rrset(CDN, "LUA")["records"]] == ["A "]
    assert not server.ask(CDN, "AAAA").answer


def test_type_switches(server):
    """Static, steered addresses, steered host names and back; never two answers side by side."""
    static = [a_record(CDN, "192.0.2.80", "192.0.2.81")]
    once(server, *ALL, static=static)
    serial = server.serial()
    out = once(server, *ALL, domains=[domain(GLOBAL, THREE)])
    assert server.serial() == serial + 1 and server.rrset(CDN, "A") is None
    assert seen(out, f"{CDN}/A")["domain"] == CDN
    assert set(server.draws(CDN, 50)) <= {"192.0.2.1", "192.0.2.2"}
    once(server, *ALL, domains=[domain({"global": (["global"], [{"h": 1}])}, {"h": "h.example.net."})])
    assert sluicelib.rdata(server.ask(CDN)) == ["h.example.net."]
    once(server, *ALL, static=[{"name": CDN, "type": "CNAME", "ttl": 5, "values": ["x.example.net."]}])
    assert server.rrset(CDN, "LUA") is None
    once(server, *ALL, static=static)
    assert sorted(sluicelib.rdata(server.ask(CDN))) == ["192.0.2.80", "192.0.2.81"]
    assert server.serial() == serial + 4
    assert server.rrset(CDN, "CNAME") is None


def test_foreign_records_stay(server):
    comment = {"comments": [{"content": "do not touch", "account": "ops"}]}
    server.put(f"hand.{ZONE}", "LUA", ["A \";return {'192.0.2.99'}\""], **comment)
    server.put(f"www.{ZONE}", "A", ["192.0.2.80"], **comment)
    server.put(f"odd.{ZONE}", "ALIAS", ["x.example.net."])
    out = once(server, *ALL, domains=[domain(GLOBAL, THREE)])
    hand = seen(out, f"hand.{ZONE}/A")
    assert hand["opaque"] and hand["owner"] is None and hand["domain"] == hand["name"]
    assert "by hand" in out["documents"][f"hand.{ZONE}"]
    assert not seen(out, f"www.{ZONE}/A")["opaque"] and seen(out, f"odd.{ZONE}/ALIAS")["opaque"]
    # Taken over: ours now, and the comment is still there.
    once(server, *ALL, domains=[domain(GLOBAL, THREE)], static=[a_record(f"www.{ZONE}", "192.0.2.81")])
    accounts = [c["account"] for c in server.rrset(f"www.{ZONE}", "A")["comments"]]
    assert sorted(accounts) == ["ops", "sluice"]
    assert server.rrset(f"hand.{ZONE}", "LUA")["comments"][0]["account"] == "ops"


def test_another_owner(server):
    once(server, *ALL, domains=[domain(GLOBAL, THREE)], marker="team-a")
    out = once(server, "read", marker="team-b")
    assert {o["owner"] for o in out["read"] if o["domain"]} == {"team-a"}


def test_an_edit_by_hand_is_seen_and_undone(server):
    once(server, *ALL, domains=[domain(GLOBAL, THREE)])
    rrset = server.rrset(CDN, "LUA")
    good = [r["content"] for r in rrset["records"]]
    for bad in (good[0].replace("{1, 3}", "{1, 4}"), good[0].replace("sluice 1", "sluice 2"),
                good[0].replace("192.0.2.1'", "192.0.2.7'"), good[0] + " \"x\"", good[0][:200] + '"'):
        assert bad != good[0]
        server.put(CDN, "LUA", [bad, good[1]])
        out = once(server, "read", "decompile")
        item = next(o for o in out["read"] if o["key"] == f"{CDN}/A")
        assert item["opaque"] and "by hand" in out["documents"][CDN], bad
        out = once(server, *ALL, domains=[domain(GLOBAL, THREE)])
        assert out["changes"] == 1
        assert [r["content"] for r in server.rrset(CDN, "LUA")["records"]] != [bad, good[1]]
        assert not seen(out, f"{CDN}/A")["opaque"]
    # A record beside ours, or a disabled one, is drift too.
    server.put(CDN, "LUA", [*good, "A \"'192.0.2.200'\""])
    assert next(o for o in once(server, "read")["read"] if o["key"] == f"{CDN}/A")["opaque"]
    once(server, *ALL, domains=[domain(GLOBAL, THREE)])
    assert sorted(r["content"] for r in server.rrset(CDN, "LUA")["records"]) == sorted(good)
    server.put(CDN, "LUA", good, records=[{"content": c, "disabled": True} for c in good])
    assert once(server, *ALL, domains=[domain(GLOBAL, THREE)])["changes"] == 2
    assert set(server.draws(CDN, 20)) <= {"192.0.2.1", "192.0.2.2"}


def test_a_plain_record_beside_ours_is_told(server):
    once(server, *ALL, domains=[domain(GLOBAL, THREE)])
    server.put(CDN, "A", ["192.0.2.200"])
    out = once(server, "read", "decompile")
    keys = {o["key"]: o for o in out["read"]}
    assert keys[f"{CDN}/A/plain"]["owner"] is None and keys[f"{CDN}/A"]["domain"] == CDN
    assert isinstance(out["documents"][CDN], dict)


def test_a_refused_change_changes_nothing(server):
    once(server, *ALL, domains=[domain(GLOBAL, THREE)])
    serial = server.serial()
    server.put(f"x.{ZONE}", "CNAME", ["y.example.net."])
    out = once(server, *ALL, domains=[domain(GLOBAL, THREE, ttl=99)], static=[a_record(f"x.{ZONE}", "192.0.2.5")], status=1)
    assert out["error"]["failure"] == "refused" and "Conflicts" in out["error"]["text"]
    assert server.rrset(CDN, "LUA")["ttl"] == 30 and server.serial() == serial + 1


def test_zones(server):
    out = once(server, "create_zone", "read", zone="new.test.", status=0)
    assert [o["type"] for o in out["read"]] == ["SOA"]
    out = once(server, "create_zone", zone="new.test.", status=1)
    assert out["error"]["failure"] == "conflict" and "new.test." in out["error"]["text"]
    once(server, "delete_zone", zone="new.test.")
    out = once(server, "read", zone="new.test.", status=1)
    assert out["error"]["failure"] == "gone" and "new.test." in out["error"]["text"]
    assert once(server, "servers")["servers"] == [f"ns1.{ZONE}"]


def test_a_secondary_zone_is_not_written(server):
    status, text = server.api("POST", "/zones", {"name": "sec.test.", "kind": "Slave", "masters": ["127.0.0.9"]})
    assert status == 201, text
    out = once(server, "read", "compile", "apply", zone="sec.test.", static=[a_record("a.sec.test.", "192.0.2.1")], status=1)
    server.api("DELETE", "/zones/sec.test.")
    assert out["error"]["failure"] == "refused" and "secondary" in out["error"]["text"]


def test_reading_only(server):
    out = once(server, *ALL, domains=[domain(GLOBAL, THREE)], read_only=True, status=1)
    assert out["error"]["failure"] == "local" and server.rrset(CDN, "LUA") is None


def test_records_survive_a_zone_transfer(server):
    """A transfer holds Lua in strings of 255 octets: a secondary gets the code that was written."""
    endpoints = {f"e{i}": [f"10.0.0.{i + 1}"] for i in range(100)}
    once(server, *ALL, domains=[domain({"global": (["global"], [{n: 1 for n in endpoints}])}, endpoints)])
    content = server.rrset(CDN, "LUA")["records"][0]["content"]
    query = dns.query.xfr(pdnslib.HOST, ZONE, port=server.port, relativize=False, timeout=sluicelib.DEADLINE)
    wires = [rdata.to_wire() for message in query for rrset in message.answer
             if rrset.name.to_text() == CDN for rdata in rrset]
    assert len(wires) == 1
    strings, at = [], 2  # the type, then strings
    while at < len(wires[0]):
        strings.append(wires[0][at + 1:at + 1 + wires[0][at]].decode())
        at += 1 + wires[0][at]
    assert strings == re.findall('"([^"]*)"', content) and len(strings) > 5


def test_a_large_zone(server):
    """More than the server takes in one request: few requests, all of it, and then nothing more."""
    static = [a_record(f"host-number-{i}.{ZONE}", f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}") for i in range(10000)]
    serial = server.serial()
    out = once(server, "read", "compile", "apply", static=static)
    assert out["changes"] == out["done"] == 10000 and len([o for o in out["seen"] if o["type"] != "SOA"]) == 10001
    assert server.serial() <= serial + 4
    assert once(server, "read", "compile", "apply", static=static)["changes"] == 0


# ---- what goes wrong ------------------------------------------------------------------------------


def test_a_wrong_key(server):
    out = once(server, "read", key="wrong-key", status=1)
    assert out["error"]["failure"] == "denied"
    assert "api-key" in out["error"]["text"] and "wrong-key" not in out["error"]["text"]


def test_a_zone_that_vanishes(server):
    server.api("DELETE", f"/zones/{ZONE}")
    out = once(server, *ALL, domains=[domain(GLOBAL, THREE)], status=1)
    assert out["error"]["failure"] == "gone"
    assert out["error"]["text"].startswith("dns-x: zone e.test. is not there")


def test_nobody_there():
    port = sluicelib.Port()
    out = once(f"http://127.0.0.1:{port.number}", "read", deadline=300, status=1)
    port.close()
    assert out["error"]["failure"] == "unreachable" and out["error"]["text"].startswith("dns-x: zone e.test.")


@pytest.mark.parametrize("fault", ["refused", "lost", "cut", 500, 429])
@pytest.mark.parametrize("first", [1, 2, 3])
def test_faults_at_every_request(server, first, fault):
    """The requests are: the zone, the settings, the change.  Whatever fails from one of them on, the
    name is never empty, others' records stay, nothing half-applied is told as done, and the next run
    brings all level."""
    server.put(f"hand.{ZONE}", "A", ["192.0.2.99"])
    once(server, *ALL, domains=[domain(GLOBAL, THREE)])
    wanted = [domain({"global": (["global"], [{"spare": 1}])}, THREE), domain(GLOBAL, THREE, name="more")]
    before = server.rrset(CDN, "LUA")
    proxy = pdnslib.Faulty(server, first, fault)
    out = once(proxy.url, *ALL, domains=wanted, deadline=2500, status=1)
    proxy.close()
    assert out["error"]["failure"] == ("throttled" if fault == 429 else "unreachable"), out["error"]
    assert out["error"]["text"].startswith(f"dns-x: zone {ZONE}") or fault == 429
    written = first > 1 and fault in ("lost", "cut")
    # A reply without a body cannot be cut: then it is the reading afterwards that fails.
    assert out.get("done", 0) == (4 if written and fault == "cut" else 0)
    assert (server.rrset(CDN, "LUA") == before) is not written
    assert sluicelib.rdata(server.ask(CDN))
    out = once(server, *ALL, domains=wanted)
    assert out["changes"] == (0 if written else 4)
    assert {o["key"] for o in out["seen"] if o["owner"]} == {
        f"{n}.{ZONE}/{t}" for n in ("cdn", "more") for t in ("A", "AAAA")}
    assert sluicelib.rdata(server.ask(CDN)) == ["192.0.2.3"]
    assert sluicelib.rdata(server.ask(f"hand.{ZONE}")) == ["192.0.2.99"]


ZONE_JSON = {"name": ZONE, "kind": "Native", "rrsets": [
    {"name": f"www.{ZONE}", "type": "A", "ttl": 5, "records": [{"content": "192.0.2.1", "disabled": False}], "comments": []}]}


def broken(**changes):
    return json.dumps({**ZONE_JSON, "rrsets": [{**ZONE_JSON["rrsets"][0], **changes}]})


@pytest.mark.parametrize("body", [
    "<html>welcome</html>", "", "[]", "{}", "null", json.dumps(ZONE_JSON)[:-5], json.dumps({**ZONE_JSON, "name": "other."}),
    json.dumps({**ZONE_JSON, "rrsets": 5}), json.dumps({**ZONE_JSON, "rrsets": [5]}), broken(ttl=-1), broken(ttl="x"),
    broken(name="www.elsewhere."), broken(name=5), broken(type="A" * 300), broken(records=[{}]), broken(records="x"),
    json.dumps({**ZONE_JSON, "rrsets": ZONE_JSON["rrsets"] * 2}), "\0\0", "[" * 100000,
], ids=range(19))
def test_replies_that_are_none(body):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        out = once(f"http://127.0.0.1:{web.server_address[1]}", "read", status=1)
        web.shutdown()
    assert out["error"]["failure"] == "garbage", out
    assert ZONE in out["error"]["text"] and "`url`" in out["error"]["text"]


# ---- servers that are set up otherwise, native checks -----------------------------------------------


EU = {"global": (["global"], [{"one": 1}]), "eu": (["continent:eu"], [{"two": 1}])}


def test_without_lua_records(tmp_path):
    pdns = pdnslib.Pdns(tmp_path / "pdns", settings="enable-lua-records=no")
    try:
        pdns.make_zone()
        out = once(pdns, *ALL, domains=[domain(EU, THREE)])
        geo = out["fidelity"][CDN]["geo"]
        assert geo["grade"] == "lost" and "enable-lua-records" in geo["why"]
        assert sluicelib.rdata(pdns.ask(CDN, ecs="203.0.113.100/32")) == ["192.0.2.1"]
        out = once(pdns, "compile", "apply", domains=[domain(EU, THREE)], status=1)
        assert out["error"]["failure"] == "refused" and "enable-lua-records" in out["error"]["text"]
    finally:
        pdns.close()


def test_without_places_or_client_subnets(tmp_path):
    pdns = pdnslib.Pdns(tmp_path / "pdns", settings="launch=gsqlite3\nedns-subnet-processing=no")
    try:
        pdns.make_zone()
        nets = {"global": (["global"], [{"one": 1}]), "net": (["net:10.0.0.0/8"], [{"two": 1}])}
        out = once(pdns, "read", "compile", domains=[domain(EU, THREE), domain(nets, THREE, name="nets"),
                                                     domain(GLOBAL, THREE, name="flat")])
        geo = {n: f["geo"] for n, f in out["fidelity"].items()}
        assert geo[CDN]["grade"] == "lost" and "geoip-database-files" in geo[CDN]["why"]
        assert geo[f"nets.{ZONE}"]["grade"] == "approx" and "edns-subnet-processing" in geo[f"nets.{ZONE}"]["why"]
        assert geo[f"flat.{ZONE}"]["grade"] == "exact"
    finally:
        pdns.close()


class Listener:
    """Accepts connections to `address` while it is up, however many checks there are."""

    def __init__(self, address, port, family=socket.AF_INET):
        self.socket = socket.socket(family)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((address, port))
        self.socket.listen(64)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                self.socket.accept()[0].close()
            except OSError:
                return

    def close(self):
        sluicelib.stop_accepting(self.socket, self.thread)


def test_checks_of_its_own(server):
    """Faithful after the first checks: levels, fallback inside of the fence, drained and disabled ones."""
    port = sluicelib.Port()
    number = port.number
    names = {"one": "127.0.0.21", "two": "127.0.0.22", "spare": "127.0.0.23", "off": "127.0.0.24"}
    up = {n: Listener(a, number) for n, a in names.items()}
    check = {"type": "tcp", "port": number, "timeout": 1000, "interval": 5000, "rise": 1, "fall": 1}
    regions = {"global": (["global"], [{"one": 3, "two": 1, "off": 5}, {"spare": 0}])}
    endpoints = {n: ([a], n != "off") for n, a in names.items()}
    once(server, *ALL, domains=[domain(regions, endpoints, pushed=False, health={n: check for n in names})])

    def answered(*addresses):
        wanted = set(addresses)
        serverlib.wait_for(lambda: set(server.draws(CDN, 30)) == wanted, wanted)

    answered(names["one"], names["two"])
    shares(server, {names["one"]: 0.75, names["two"]: 0.25}, draws=400)
    up.pop("one").close()
    answered(names["two"])
    up.pop("two").close()
    answered(names["spare"])
    up.pop("spare").close()
    answered(names["one"], names["two"])  # all down: as if all were up
    for listener in up.values():
        listener.close()
    port.close()


@pytest.mark.parametrize("changes, word", [
    ({"one": None}, "all endpoints"), ({"one": {"port": 99}}, "alike"), ({"*": {"send": "x"}}, "says"),
    ({"*": {"type": "icmp"}}, "only check tcp"), ({"*": {"type": "http", "path": "/", "expect": {"status": [[204, 204]]}}}, "status 200"),
])
def test_checks_that_it_cannot_do_are_told(server, changes, word):
    health = {n: {"type": "tcp", "port": 443, "timeout": 1000} for n in THREE}
    for name, change in changes.items():
        for key in (THREE if name == "*" else [name]):
            health[key] = dict(health[key], **change) if change else None
    out = once(server, "compile", domains=[domain(GLOBAL, THREE, pushed=False, health=health)])
    status = out["fidelity"][CDN]["status"]
    assert status["grade"] == "lost" and word in status["why"]


def web_check(**more):
    return {"type": "http", "path": "/", "method": "GET", "timeout": 1500, "host": "cdn.example.org", "headers": {},
            "follow_redirects": False, "expect": {"status": [[200, 299]]}, **more}


def test_a_check_by_http(server):
    """The request goes to each address, with the host of the check; another status is down."""
    asked = set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.add((self.path, self.headers["Host"].split(":")[0]))
            self.send_response(200 if self.connection.getsockname()[0] != "127.0.0.31" else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    port = sluicelib.Port()
    addresses = ["127.0.0.31", "127.0.0.32", "127.0.0.33"]
    webs = [http.server.ThreadingHTTPServer((a, port.number), Handler) for a in addresses]
    for web in webs:
        threading.Thread(target=web.serve_forever, daemon=True).start()
    check = web_check(port=port.number, path="/health?x=1")
    once(server, *ALL, domains=[domain(GLOBAL, {n: [a] for n, a in zip(THREE, addresses)}, pushed=False,
                                       health={n: check for n in THREE})])
    serverlib.wait_for(lambda: set(server.draws(CDN, 20)) == {"127.0.0.32"}, "the address that is up")
    for web in webs:
        web.shutdown()
        web.server_close()
    port.close()
    assert asked == {("/health?x=1", "cdn.example.org")}


@pytest.mark.parametrize("check, grade", [
    ({"type": "http", "host": None}, "lost"), ({"type": "http"}, "approx"), ({"type": "tcp"}, "approx"),
])
def test_a_wildcard_is_no_host(server, check, grade):
    """An URL with `*` is down for ever: then all would count as up, whoever is."""
    if check["type"] == "tcp":
        check = {"type": "tcp", "port": 443, "timeout": 1000}
    else:
        check = {k: v for k, v in web_check(port=8080, **check).items() if v is not None}
    out = once(server, "compile", domains=[domain(GLOBAL, THREE, name="*.w", pushed=False, health={n: check for n in THREE})])
    status = out["fidelity"][f"*.w.{ZONE}"]["status"]
    assert status["grade"] == grade
    assert ("set the check's host" in status["why"]) == (grade == "lost")


def test_a_check_of_ipv6(server):
    port = sluicelib.Port("::1")
    listener = Listener("::1", port.number, socket.AF_INET6)
    check = {"type": "tcp", "port": port.number, "timeout": 1000}
    once(server, *ALL, domains=[domain({"global": (["global"], [{"gone": 9, "here": 1}])},
                                       {"gone": ["2001:db8::1"], "here": ["::1"]}, pushed=False,
                                       health={"gone": check, "here": check})])
    serverlib.wait_for(lambda: set(server.draws(CDN, 20, rdtype="AAAA")) == {"::1"}, "the address that is up")
    listener.close()
    port.close()


def test_an_url_cannot_leave_its_place(server):
    health = {n: web_check(port=8080, path="/it's]]\"\\ok") for n in THREE}
    out = once(server, *ALL, domains=[domain(GLOBAL, THREE, pushed=False, health=health)])
    assert out["fidelity"][CDN]["status"]["grade"] == "approx"
    assert "ifurlup(" in out["wanted"][0]["body"]["lua"]
    assert set(server.draws(CDN, 50)) <= {"192.0.2.1", "192.0.2.2"}
