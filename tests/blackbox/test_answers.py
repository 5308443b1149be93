# SPDX-License-Identifier: Apache-2.0
"""What each kind of name answers on the wire."""
import dns.flags
import pytest

import sluicelib
from sluicelib import rcode, rdata, records

RECORDS = """\
"@": {MX: ["10 mail.example.com."], TXT: ["v=spf1 -all"]}
ns1: {A: [192.0.2.53]}
www: {A: [192.0.2.80, 192.0.2.81], AAAA: ["2001:db8::80"]}
"*.wild": {A: [192.0.2.90], MX: ["5 www.example.com."]}
exact.wild: {TXT: ["here"]}
deep.ent.wild: {A: [192.0.2.91]}
a.b.c: {A: [192.0.2.92]}
one: {CNAME: two.example.com.}
two: {CNAME: www.example.com.}
dangling: {CNAME: nowhere.example.com.}
outside: {CNAME: www.example.net.}
across: {CNAME: www.example.org.}
across-nx: {CNAME: nowhere.example.org.}
into: {CNAME: steered.example.com.}
into-wild: {CNAME: x.wild.example.com.}
loop1: {CNAME: loop2.example.com.}
loop2: {CNAME: loop1.example.com.}
sub: {NS: [ns.sub.example.com., ns.example.net.]}
ns.sub: {A: [192.0.2.54], AAAA: ["2001:db8::54"]}
to-sub: {CNAME: x.sub.example.com.}
old: {DNAME: longer-than-before.example.com.}
tree: {DNAME: example.org.}
steered: {TXT: ["beside"]}
"""
STEERED = """\
ttl: 20
endpoints:
  one: [192.0.2.1, 192.0.2.2, "2001:db8::1"]
regions:
  global: {one: 1}
"""
ORG = {"example.org/zone.yaml": sluicelib.ZONE + "records:\n  www: {A: [203.0.113.80]}\n"
                                                 "  to-com: {CNAME: one.example.com.}\n"}
NEGATIVE = ["example.com. 60 SOA ns1.example.net. hostmaster.example.net. 1 7200 900 1209600 60"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("answers")
    files = sluicelib.config_files({
        "steered": STEERED,
        "@": STEERED.replace("ttl: 20", "ttl: 21"),
        "_wildcard.any": STEERED.replace("ttl: 20", "ttl: 22"),
        "hosts": "ttl: 30\nendpoints: {a: www.example.net.}\nregions: {global: {a: 1}}\n",
        "own": "ttl: 31\nendpoints: {a: www.example.com.}\nregions: {global: {a: 1}}\n",
    }, records=RECORDS)
    files.update(ORG)
    data = sluicelib.build(sluicelib.write_tree(root / "config", files), root / "data")
    with sluicelib.Server(data) as running:
        yield running


def authoritative(reply):
    return bool(reply.flags & dns.flags.AA)


def test_positive(server):
    reply = server.ask("www.example.com.", "A")
    assert rcode(reply) == "NOERROR" and authoritative(reply)
    assert reply.flags & dns.flags.QR and not reply.flags & (dns.flags.RA | dns.flags.TC)
    assert records(reply) == ["www.example.com. 3600 A 192.0.2.80", "www.example.com. 3600 A 192.0.2.81"]
    assert rdata(server.ask("www.example.com.", "AAAA")) == ["2001:db8::80"]


def test_recursion_desired_is_copied(server):
    assert server.ask("www.example.com.", rd=True).flags & dns.flags.RD
    assert not server.ask("www.example.com.", rd=False).flags & dns.flags.RD


def test_case_of_the_question_is_kept(server):
    reply = server.ask("wWw.eXample.COM.", "A")
    assert reply.question[0].name.to_text() == "wWw.eXample.COM."
    assert reply.answer[0].name.to_text() == "wWw.eXample.COM."
    assert len(rdata(reply)) == 2


def test_apex(server):
    assert rdata(server.ask("example.com.", "NS")) == ["ns1.example.net.", "ns2.example.net."]
    assert rdata(server.ask("example.com.", "MX")) == ["10 mail.example.com."]
    assert rdata(server.ask("example.com.", "TXT")) == ['"v=spf1 -all"']
    soa = server.ask("example.com.", "SOA")
    assert records(soa) == ["example.com. 3600 SOA ns1.example.net. hostmaster.example.net. 1 7200 900 1209600 60"]


@pytest.mark.parametrize("name, rdtype", [
    ("www.example.com.", "MX"),            # another type
    ("b.c.example.com.", "A"),             # empty non-terminals
    ("c.example.com.", "TXT"),
    ("wild.example.com.", "A"),            # the wildcard's own parent
    ("ent.wild.example.com.", "A"),        # an empty non-terminal is not covered by the wildcard
    ("exact.wild.example.com.", "A"),      # nor is an existing name
    ("x.wild.example.com.", "AAAA"),       # the wildcard has no such type
    ("steered.example.com.", "MX"),        # neither offered nor static
    ("sub.example.com.", "DS"),            # the parent's side of a cut (RFC 4035 section 3.1.4.1)
])
def test_nodata(server, name, rdtype):
    reply = server.ask(name, rdtype)
    assert rcode(reply) == "NOERROR" and authoritative(reply)
    assert not reply.answer
    assert records(reply, "authority") == NEGATIVE


@pytest.mark.parametrize("name", [
    "nowhere.example.com.", "x.www.example.com.", "x.exact.wild.example.com.", "x.deep.ent.wild.example.com.",
    "y.ent.wild.example.com.", "x.a.b.c.example.com.", "x.steered.example.com.", "any.thing.nowhere.example.com.",
])
def test_nxdomain(server, name):
    reply = server.ask(name, "A")
    assert rcode(reply) == "NXDOMAIN" and authoritative(reply)
    assert not reply.answer
    assert records(reply, "authority") == NEGATIVE


@pytest.mark.parametrize("name", ["x.wild.example.com.", "x.y.wild.example.com.", "*.wild.example.com."])
def test_wildcard(server, name):
    assert records(server.ask(name, "A")) == [f"{name} 3600 A 192.0.2.90"]
    assert rdata(server.ask(name, "MX")) == ["5 www.example.com."]


@pytest.mark.parametrize("name", ["sub.example.com.", "x.sub.example.com.", "a.b.c.sub.example.com.",
                                  "ns.sub.example.com."])
def test_referral(server, name):
    reply = server.ask(name, "A")
    assert rcode(reply) == "NOERROR" and not authoritative(reply)
    assert not reply.answer
    assert records(reply, "authority") == ["sub.example.com. 3600 NS ns.example.net.",
                                           "sub.example.com. 3600 NS ns.sub.example.com."]
    assert records(reply, "additional") == ["ns.sub.example.com. 3600 A 192.0.2.54",
                                            "ns.sub.example.com. 3600 AAAA 2001:db8::54"]


def test_cname_chain(server):
    reply = server.ask("one.example.com.", "A")
    assert rcode(reply) == "NOERROR" and authoritative(reply)
    assert records(reply) == sorted([
        "one.example.com. 3600 CNAME two.example.com.", "two.example.com. 3600 CNAME www.example.com.",
        "www.example.com. 3600 A 192.0.2.80", "www.example.com. 3600 A 192.0.2.81"])
    assert records(server.ask("one.example.com.", "CNAME")) == ["one.example.com. 3600 CNAME two.example.com."]


def test_cname_to_no_data(server):
    reply = server.ask("one.example.com.", "MX")
    assert rcode(reply) == "NOERROR"
    assert rdata(reply, "CNAME") == ["two.example.com.", "www.example.com."]
    assert records(reply, "authority") == NEGATIVE


def test_cname_to_no_name(server):
    reply = server.ask("dangling.example.com.", "A")
    assert rcode(reply) == "NXDOMAIN"  # RFC 6604 section 3
    assert rdata(reply) == ["nowhere.example.com."]
    assert records(reply, "authority") == NEGATIVE


def test_cname_to_elsewhere(server):
    reply = server.ask("outside.example.com.", "A")
    assert rcode(reply) == "NOERROR"
    assert rdata(reply) == ["www.example.net."] and not reply.authority


def test_cname_to_wildcard(server):
    reply = server.ask("into-wild.example.com.", "A")
    assert records(reply) == ["into-wild.example.com. 3600 CNAME x.wild.example.com.",
                              "x.wild.example.com. 3600 A 192.0.2.90"]


def test_cname_across_zones(server):
    reply = server.ask("across.example.com.", "A")
    assert records(reply) == ["across.example.com. 3600 CNAME www.example.org.",
                              "www.example.org. 3600 A 203.0.113.80"]
    back = server.ask("to-com.example.org.", "A")
    assert rdata(back, "A") == ["192.0.2.80", "192.0.2.81"]
    assert rdata(back, "CNAME") == ["one.example.com.", "two.example.com.", "www.example.com."]


def test_cname_across_zones_to_no_name(server):
    reply = server.ask("across-nx.example.com.", "A")
    assert rcode(reply) == "NXDOMAIN"
    assert rdata(reply) == ["nowhere.example.org."]
    assert [r.split(" ")[0] for r in records(reply, "authority")] == ["example.org."]


def test_cname_into_steered(server):
    reply = server.ask("into.example.com.", "A")
    assert records(reply) == ["into.example.com. 3600 CNAME steered.example.com.",
                              "steered.example.com. 20 A 192.0.2.1", "steered.example.com. 20 A 192.0.2.2"]


def test_cname_loop_ends(server):
    reply = server.ask("loop1.example.com.", "A")
    assert rcode(reply) in ("NOERROR", "SERVFAIL")
    assert set(rdata(reply)) <= {"loop1.example.com.", "loop2.example.com."}


def test_cname_into_delegation(server):
    reply = server.ask("to-sub.example.com.", "A")
    assert rcode(reply) == "NOERROR"
    assert rdata(reply) == ["x.sub.example.com."]
    assert rdata(reply, "NS", "authority") == ["ns.example.net.", "ns.sub.example.com."]


def test_dname(server):
    reply = server.ask("x.tree.example.com.", "A")
    assert rcode(reply) == "NXDOMAIN"  # x.example.org does not exist
    reply = server.ask("www.tree.example.com.", "A")
    assert rcode(reply) == "NOERROR" and authoritative(reply)
    assert records(reply) == sorted([
        "tree.example.com. 3600 DNAME example.org.",
        "www.tree.example.com. 3600 CNAME www.example.org.", "www.example.org. 3600 A 203.0.113.80"])
    own = server.ask("tree.example.com.", "DNAME")
    assert records(own) == ["tree.example.com. 3600 DNAME example.org."]
    assert rcode(server.ask("tree.example.com.", "A")) == "NOERROR"


def test_dname_too_long(server):
    label = "a" * 63
    name = f"{label}.{label}.{label}.{'b' * 42}.old.example.com."
    reply = server.ask(name, "A")
    assert rcode(reply) == "YXDOMAIN"  # RFC 6672 section 2.2
    assert rdata(reply, "DNAME") == ["longer-than-before.example.com."]


@pytest.mark.parametrize("name", ["example.net.", "com.", ".", "xexample.com.", "www.example.com.evil.test."])
def test_refused_outside(server, name):
    reply = server.ask(name, "A")
    assert rcode(reply) == "REFUSED" and not authoritative(reply)
    assert not (reply.answer or reply.authority or reply.additional)


def test_steered(server):
    assert records(server.ask("steered.example.com.", "A")) == [
        "steered.example.com. 20 A 192.0.2.1", "steered.example.com. 20 A 192.0.2.2"]
    assert records(server.ask("steered.example.com.", "AAAA")) == ["steered.example.com. 20 AAAA 2001:db8::1"]
    assert records(server.ask("steered.example.com.", "TXT")) == ['steered.example.com. 3600 TXT "beside"']


def test_steered_apex(server):
    assert records(server.ask("example.com.", "A")) == ["example.com. 21 A 192.0.2.1", "example.com. 21 A 192.0.2.2"]
    assert rdata(server.ask("example.com.", "MX")) == ["10 mail.example.com."]


def test_steered_wildcard(server):
    for name in ("x.any.example.com.", "x.y.any.example.com.", "*.any.example.com."):
        assert records(server.ask(name, "A")) == [f"{name} 22 A 192.0.2.1", f"{name} 22 A 192.0.2.2"]
    nodata = server.ask("x.any.example.com.", "MX")
    assert rcode(nodata) == "NOERROR" and records(nodata, "authority") == NEGATIVE


@pytest.mark.parametrize("rdtype", ["A", "AAAA", "TXT", "CNAME", "HTTPS"])
def test_steered_host_answers_every_type(server, rdtype):
    reply = server.ask("hosts.example.com.", rdtype)
    assert rcode(reply) == "NOERROR"
    assert records(reply) == ["hosts.example.com. 30 CNAME www.example.net."]
    assert not reply.authority


def test_steered_host_in_our_zones(server):
    reply = server.ask("own.example.com.", "A")
    assert records(reply) == sorted([
        "own.example.com. 31 CNAME www.example.com.",
        "www.example.com. 3600 A 192.0.2.80", "www.example.com. 3600 A 192.0.2.81"])
    assert records(server.ask("own.example.com.", "CNAME")) == ["own.example.com. 31 CNAME www.example.com."]


@pytest.mark.parametrize("name", ["www.example.com.", "nowhere.example.com.", "steered.example.com.",
                                  "x.sub.example.com.", "one.example.com.", "www.tree.example.com."])
def test_same_over_tcp(server, name):
    over_udp, over_tcp = server.ask(name, "A"), server.ask(name, "A", tcp=True)
    assert rcode(over_udp) == rcode(over_tcp)
    for section in ("answer", "authority", "additional"):
        assert records(over_udp, section) == records(over_tcp, section)
