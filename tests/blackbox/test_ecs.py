# SPDX-License-Identifier: Apache-2.0
"""EDNS Client Subnet (RFC 7871): what is echoed, which scope, which errors."""
import struct

import dns.edns
import dns.flags
import dns.message
import pytest

import sluicelib
from sluicelib import ecs_of, rcode, rdata

# From 127.0.0.1 and ::1, where the tests ask from, `here` answers.
DOMAIN = """\
ttl: 20
endpoints:
  rest: [192.0.2.1, "2001:db8::1"]
  net: [192.0.2.2, "2001:db8::2"]
  half: [192.0.2.3, "2001:db8::3"]
  here: [192.0.2.4, "2001:db8::4"]
regions:
  global: {rest: 1}
  "192.0.2.0/24": {net: 1}
  "2001:db8:1::/48": {net: 1}
  "198.51.100.128/25": {half: 1}
  "127.0.0.0/8": {here: 1}
  "::1/128": {here: 1}
"""
FORMERR = "FORMERR"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("ecs")
    files = sluicelib.config_files({
        "cdn": DOMAIN,
        "subnet": DOMAIN + "draw_per: subnet\n",
        "flat": "ttl: 20\nendpoints: {one: 192.0.2.9}\nregions: {global: {one: 1}}\n",
        "flatnet": "ttl: 20\nendpoints: {one: 192.0.2.9}\nregions: {global: {one: 1}}\ndraw_per: subnet\n",
    }, records="www: {A: [192.0.2.80]}\nalias: {CNAME: cdn.example.com.}\n")
    data = sluicelib.build(sluicelib.write_tree(root / "config", files), root / "data")
    with sluicelib.Server(data, addresses=("127.0.0.1", "::1")) as running:
        yield running


@pytest.mark.parametrize("client, answer, scope", [
    ("192.0.2.7/32", "192.0.2.2", 24),       # the region is a /24, its neighbour is another region
    ("192.0.2.0/24", "192.0.2.2", 24),
    ("192.0.2.0/28", "192.0.2.2", 24),
    ("192.0.0.0/16", "192.0.2.1", 23),       # zero-filled 192.0.0.0: global; 192.0.2.0/23 is the first that differs
    ("198.51.100.200/32", "192.0.2.3", 25),
    ("198.51.100.1/32", "192.0.2.1", 25),    # the other half
    ("10.0.0.0/8", "192.0.2.1", 2),          # 0.0.0.0/1 holds 127.0.0.0/8
    ("203.0.113.0/24", "192.0.2.1", 5),      # 192.0.0.0/4 holds 192.0.2.0/24
    ("130.0.0.0/8", "192.0.2.1", 2),
    ("127.9.9.9/32", "192.0.2.4", 8),
])
def test_ipv4(server, client, answer, scope):
    reply = server.ask("cdn.example.com.", "A", ecs=client)
    assert rdata(reply) == [answer]
    address, bits = client.split("/")
    assert ecs_of(reply) == (address, int(bits), scope)


@pytest.mark.parametrize("client, answer, scope", [
    ("2001:db8:1::/48", "2001:db8::2", 48),
    ("2001:db8:1:2::/64", "2001:db8::2", 48),
    ("2001:db8:0::/48", "2001:db8::1", 48),
    ("2001:db8:8000::/33", "2001:db8::1", 33),
    ("fd00::/8", "2001:db8::1", 1),
])
def test_ipv6(server, client, answer, scope):
    reply = server.ask("cdn.example.com.", "AAAA", ecs=client)
    assert rdata(reply) == [answer]
    address, bits = client.split("/")
    assert ecs_of(reply)[1:] == (int(bits), scope)


def test_mapped_ipv6_counts_as_ipv4(server):
    reply = server.ask("cdn.example.com.", "A", ecs="::ffff:192.0.2.7/128")
    assert rdata(reply) == ["192.0.2.2"]
    assert ecs_of(reply)[1:] == (128, 24 + 96)


def test_without_ecs_the_source_decides(server):
    reply = server.ask("cdn.example.com.", "A")
    assert rdata(reply) == ["192.0.2.4"] and ecs_of(reply) is None
    reply = server.ask("cdn.example.com.", "A", edns=False)
    assert rdata(reply) == ["192.0.2.4"] and reply.edns == -1
    assert rdata(server.ask("cdn.example.com.", "AAAA", address="::1")) == ["2001:db8::4"]


def ecs_bytes(family, source, scope, address):
    return dns.edns.GenericOption(8, struct.pack("!HBB", family, source, scope) + address)


@pytest.mark.parametrize("family", [0, 1, 2])
def test_source_length_zero(server, family):
    """The client asks not to be placed: the packet's address decides (RFC 7871 section 7.1.2)."""
    query = sluicelib.make_query("cdn.example.com.", "A", options=[ecs_bytes(family, 0, 0, b"")])
    raw = sluicelib.exchange(server.address, server.port, query.to_wire())
    # dnspython knows no family 0, so the OPT is looked at as octets: it stands last.
    option = struct.pack("!HHHBB", 8, 4, family, 0, 0)
    assert raw.endswith(option)
    assert raw[3] & 15 == 0 and raw[7] == 1, "one answer"
    assert bytes([192, 0, 2, 4]) in raw


@pytest.mark.parametrize("option", [
    ecs_bytes(3, 24, 0, b"\x01\x02\x03"),           # unknown family
    ecs_bytes(0, 8, 0, b"\x01"),                    # family 0 with an address
    ecs_bytes(1, 24, 1, b"\xc0\x00\x02"),           # a scope in the query
    ecs_bytes(1, 24, 0, b"\xc0\x00"),               # too short
    ecs_bytes(1, 24, 0, b"\xc0\x00\x02\x00"),       # too long
    ecs_bytes(1, 33, 0, b"\xc0\x00\x02\x00\x00"),   # longer than an address
    ecs_bytes(2, 129, 0, b"\x20" * 17),
    ecs_bytes(1, 20, 0, b"\xc0\x00\x0f"),           # bits past the prefix
    ecs_bytes(1, 0, 0, b"\xc0"),                    # an address of no bits
    dns.edns.GenericOption(8, b"\x00\x01\x18"),     # not even whole
    dns.edns.GenericOption(8, b""),
], ids=lambda o: o.data.hex() or "empty")
def test_format_errors(server, option):
    for name in ("cdn.example.com.", "www.example.com."):
        reply = server.ask(name, "A", options=[option])
        assert rcode(reply) == FORMERR, name
        assert not reply.answer


def test_two_options(server):
    one = ecs_bytes(1, 24, 0, b"\xc0\x00\x02")
    assert rcode(server.ask("cdn.example.com.", "A", options=[one, one])) == FORMERR


@pytest.mark.parametrize("name, rdtype", [
    ("www.example.com.", "A"), ("www.example.com.", "AAAA"), ("nowhere.example.com.", "A"),
    ("cdn.example.com.", "MX"), ("flat.example.com.", "A"), ("example.com.", "SOA"),
])
def test_scope_zero_where_the_place_does_not_matter(server, name, rdtype):
    reply = server.ask(name, rdtype, ecs="192.0.2.0/24")
    assert ecs_of(reply) == ("192.0.2.0", 24, 0)


def test_scope_passes_through_an_alias(server):
    reply = server.ask("alias.example.com.", "A", ecs="192.0.2.0/24")
    assert rdata(reply, "A") == ["192.0.2.2"]
    assert ecs_of(reply) == ("192.0.2.0", 24, 24)


@pytest.mark.parametrize("name, client, scope", [
    ("subnet", "203.0.113.9/32", 24), ("subnet", "203.0.113.0/24", 24), ("subnet", "203.0.0.0/16", 16),
    ("subnet", "198.51.100.200/32", 25), ("subnet", "192.0.0.0/16", 23), ("flatnet", "203.0.113.9/32", 24),
    ("flatnet", "203.0.0.0/16", 16), ("subnet", "fd00::/64", 56), ("subnet", "fd00::/40", 40),
])
def test_draw_per_subnet(server, name, client, scope):
    reply = server.ask(f"{name}.example.com.", "A", ecs=client)
    assert ecs_of(reply)[2] == scope


def test_refused_name_with_ecs(server):
    reply = server.ask("www.example.net.", "A", ecs="192.0.2.0/24")
    assert rcode(reply) == "REFUSED"


def test_over_tcp(server):
    reply = server.ask("cdn.example.com.", "A", ecs="192.0.2.0/24", tcp=True)
    assert rdata(reply) == ["192.0.2.2"] and ecs_of(reply) == ("192.0.2.0", 24, 24)
