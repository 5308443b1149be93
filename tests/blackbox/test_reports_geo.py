# SPDX-License-Identifier: Apache-2.0
"""Faults that were reported of other servers: where a client is, and what that decides."""
import collections
import itertools
import socket
import struct

import dns.edns
import dns.message
import pytest

import reportlib
import sluicelib
from reportlib import BT, EUROPE6, GB, GI, NORWAY, NOWHERE, PH, REGISTERED, SE, US, all_from, health
from sluicelib import ecs_of, rcode, rdata

ATOMS = ["89.160.0.0/16", "89.160.20.112/28", "se", "eu"]
ORDERS = list(itertools.permutations(ATOMS))
PLACE = {"89.160.20.112/28": "192.0.2.28", "89.160.0.0/16": "192.0.2.16", "se": "192.0.2.46", "eu": "192.0.2.3",
         "global": "192.0.2.1"}


def in_order(atoms):
    """A domain whose regions are written in this order."""
    endpoints = {f"e{i}": PLACE[atom] for i, atom in enumerate([*atoms, "global"])}
    regions = {atom: {f"e{i}": 1} for i, atom in enumerate([*atoms, "global"])}
    return reportlib.domain(endpoints, regions)


DOMAINS = {f"order{i}": in_order(order) for i, order in enumerate(ORDERS)}
DOMAINS["levels"] = reportlib.domain(
    {"e1": "192.0.2.11", "e2": "192.0.2.12", "u1": "192.0.2.13", "g1": "192.0.2.14"},
    {"eu": [{"e1": 1}, {"e2": 1}], "us": {"u1": 1}, "global": {"g1": 1}})
DOMAINS["countries"] = reportlib.domain(
    {"gb": "192.0.2.21", "us": "192.0.2.22", "se": "192.0.2.23", "de": "192.0.2.24", "as": "192.0.2.25",
     "no": "192.0.2.27", "eu": "192.0.2.29", "rest": "192.0.2.26"},
    {"gb": {"gb": 1}, "us": {"us": 1}, "se": {"se": 1}, "de": {"de": 1}, "as": {"as": 1}, "no": {"no": 1},
     "eu": {"eu": 1}, "global": {"rest": 1}})
DOMAINS["here"] = reportlib.domain(
    {"rest": ["192.0.2.31", "2001:db8::31"], "here": ["192.0.2.32", "2001:db8::32"], "se": ["192.0.2.33", "2001:db8::33"]},
    {"global": {"rest": 1}, "127.0.0.0/8": {"here": 1}, "se": {"se": 1}})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports-geo")
    with reportlib.serve(folder, DOMAINS, geo=reportlib.make_mmdb(folder), addresses=("127.0.0.1", "::1")) as running:
        yield running


def test_b03_all_unhealthy_does_not_widen_the_answer(server):
    name = "levels.example.com."
    clients = {SE: "192.0.2.11", US: "192.0.2.13", BT: "192.0.2.14"}
    for states in ({}, dict.fromkeys(("e1", "e2", "u1", "g1"), "down")):
        health(server, name, **states)
        for client, answer in clients.items():
            all_from(server, name, {answer}, count=1000, ecs=client)
    health(server, name, **dict.fromkeys(("e1", "e2", "u1", "g1"), "auto"))


def test_b23_ipv4_client_where_all_addresses_are_served(tmp_path):
    files = sluicelib.config_files({"here": DOMAINS["here"]})
    data = sluicelib.build(sluicelib.write_tree(tmp_path / "config", files), tmp_path / "data")
    assert reportlib.in_own_network("both_families", data) == ["127.0.0.1 192.0.2.32", "::1 192.0.2.31"]


def test_b23_mapped_ecs_is_the_ipv4_client(server):
    reply = server.ask("here.example.com.", ecs="::ffff:89.160.20.112/124")
    assert rdata(reply) == ["192.0.2.33"]
    plain = server.ask("here.example.com.", ecs="89.160.20.112/28")
    assert rdata(plain) == rdata(reply)
    assert ecs_of(reply)[1:] == (124, 96 + ecs_of(plain)[2])


def test_b23_6to4_is_where_the_database_places_it(server):
    """This database repeats the IPv4 tree below 2002::/16, as MaxMind's do: 2002:59a0:1471::/48 is Sweden."""
    reply = server.ask("here.example.com.", "AAAA", ecs="2002:59a0:1471::/48")
    assert rdata(reply) == ["2001:db8::33"]
    assert rdata(server.ask("here.example.com.", "AAAA", ecs="2001:db8:ffff::/48")) == ["2001:db8::31"]


@pytest.mark.parametrize("client, atom", [("89.160.20.113", "89.160.20.112/28"), ("89.160.20.129", "89.160.0.0/16"),
                                          (GB, "eu"), (BT, "global")])
def test_b25_most_specific_wins_in_every_order_of_writing(server, client, atom):
    for i, order in enumerate(ORDERS):
        assert rdata(server.ask(f"order{i}.example.com.", ecs=client)) == [PLACE[atom]], order


@pytest.mark.parametrize("regions, said", [
    ({"office": {"a": 1}, "192.0.2.0/24": {"b": 1}}, "192.0.2.0/24"),
    ({"nordic": {"a": 1}, "se": {"b": 1}}, "se"),
    ({"europe": {"a": 1}, "eu": {"b": 1}}, "eu"),
])
def test_b25_the_same_atom_in_two_regions_is_refused(tmp_path, regions, said):
    files = sluicelib.config_files(
        {"www": reportlib.domain({"a": "192.0.2.1", "b": "192.0.2.2"}, {"global": {"a": 1}, **regions})},
        defaults="default_zone: example.com\nregions: {office: [192.0.2.0/24], nordic: [SE, DK], europe: [continent:eu]}\n")
    done = sluicelib.sluice("check", sluicelib.write_tree(tmp_path / "config", files), status=1)
    assert said in done.stderr.lower()


def test_b25_host_bits_in_a_net_are_refused(tmp_path):
    files = sluicelib.config_files(
        {"www": reportlib.domain({"a": "192.0.2.1"}, {"global": {"a": 1}, "89.160.20.113/28": {"a": 1}})})
    done = sluicelib.sluice("check", sluicelib.write_tree(tmp_path / "config", files), status=1)
    assert "host bits are set" in done.stderr


def ecs_option(family, source, scope, address):
    return dns.edns.GenericOption(8, struct.pack("!HBB", family, source, scope) + address)


@pytest.mark.parametrize("option", [ecs_option(0, 0, 0, b""), ecs_option(1, 0, 0, b""), ecs_option(2, 0, 0, b"")],
                         ids=["family 0", "IPv4", "IPv6"])
def test_b45_privacy_query_is_answered(server, option):
    query = sluicelib.make_query("here.example.com.", options=[option])
    raw = sluicelib.exchange(server.address, server.port, query.to_wire())
    assert raw[3] & 15 == 0 and raw[7] == 1 and bytes([192, 0, 2, 32]) in raw  # placed by the packet's address
    assert raw.endswith(struct.pack("!HH", 8, 4) + option.data)


MALFORMED = {
    "IPv4 /33": [ecs_option(1, 33, 0, b"\x59\xa0\x14\x71\0")],
    "IPv6 /129": [ecs_option(2, 129, 0, b"\x2a" * 17)],
    "family 3": [ecs_option(3, 24, 0, b"\x59\xa0\x14")],
    "one octet more": [ecs_option(1, 24, 0, b"\x59\xa0\x14\x71")],
    "one octet less": [ecs_option(1, 24, 0, b"\x59\xa0")],
    "host bits": [ecs_option(1, 20, 0, b"\x59\xa0\x14")],
    "no octet": [dns.edns.GenericOption(8, b"")],
    "three octets": [dns.edns.GenericOption(8, b"\0\1\x18")],
    "two options": [ecs_option(1, 24, 0, b"\x59\xa0\x14")] * 2,
    "scope in a query": [ecs_option(1, 24, 24, b"\x59\xa0\x14")],
    "500 octets": [dns.edns.GenericOption(8, b"\0\1\x18\0" + b"\x59" * 496)],
}


@pytest.mark.parametrize("kind", MALFORMED)
@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_b45_malformed_ecs_is_a_format_error(server, kind, tcp):
    reply = server.ask("here.example.com.", options=MALFORMED[kind], tcp=tcp)
    assert rcode(reply) == "FORMERR" and len(reply.question) == 1 and not reply.answer
    assert rdata(server.ask("here.example.com.", ecs=SE)) == ["192.0.2.33"]


@pytest.mark.parametrize("client, answer", [
    (GB, "192.0.2.21"),          # registered in the US
    (SE, "192.0.2.23"),          # registered in DE
    (BT, "192.0.2.25"),          # has no region of its own: Asia
    (PH, "192.0.2.25"),          # represents the US, which does not count
    (REGISTERED, "192.0.2.22"),  # registered_country alone counts as the country (spec/steering.md)
    (GI, "192.0.2.29"), (NOWHERE, "192.0.2.26"), (NORWAY, "192.0.2.27"), (EUROPE6, "192.0.2.29"),
])
def test_b59_country_and_not_who_registered_or_is_represented(server, client, answer):
    assert rdata(server.ask("countries.example.com.", ecs=client)) == [answer]


def test_b104_answers_of_one_client_never_reach_another(server):
    """5000 questions of three clients, mixed over 8 sockets, then after each change of facts."""
    name = "levels.example.com."
    clients = [SE, US, NOWHERE]
    right = {SE: "192.0.2.11", US: "192.0.2.13", NOWHERE: "192.0.2.14"}
    wires = {c: sluicelib.make_query(name, ecs=c).to_wire()[2:] for c in clients}
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(8)]
    try:
        for sock in socks:
            sock.settimeout(sluicelib.DEADLINE)
            sock.connect((server.address, server.port))
        seen = collections.Counter()
        for number in range(0, 5000, len(socks)):
            for i, sock in enumerate(socks):
                sock.send(struct.pack("!H", number + i) + wires[clients[(number + i) % 3]])
            for i, sock in enumerate(socks):
                client = clients[(number + i) % 3]
                reply = dns.message.from_wire(sock.recv(4096))
                assert reply.id == number + i and rdata(reply) == [right[client]]
                assert ecs_of(reply)[0] == client and ecs_of(reply)[1] == 32
                seen[client] += 1
        assert sum(seen.values()) == 5000
    finally:
        for sock in socks:
            sock.close()
    health(server, name, e1="down")
    all_from(server, name, {"192.0.2.12"}, count=500, ecs=SE)
    all_from(server, name, {"192.0.2.13"}, count=500, ecs=US)
    health(server, name, e1="auto")
    all_from(server, name, {"192.0.2.11"}, count=500, ecs=SE)


@pytest.mark.parametrize("useless", ["10.0.0.0/8", "192.168.1.0/24", "127.0.0.1/32", "fe80::/64", "100.64.0.0/10"])
def test_b110_useless_ecs_address_is_taken_as_it_is(server, useless):
    """It counts as any other network: what no atom matches is global, wherever the packet comes from."""
    reply = server.ask("here.example.com.", ecs=useless)
    assert rdata(reply) == ["192.0.2.32" if useless.startswith("127.") else "192.0.2.31"]
    assert ecs_of(reply)[2] >= 1
    for _ in range(20):
        again = server.ask("here.example.com.", ecs=useless)
        assert rdata(again) == rdata(reply) and ecs_of(again) == ecs_of(reply)
