# SPDX-License-Identifier: Apache-2.0
"""Cookies, rate limiting, class CH: as a client sees them, and what the counters say."""
import socket
import struct

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest

import sluicelib
from sluicelib import rcode, rdata

DOMAIN = {"cdn": "ttl: 20\nendpoints: {one: 192.0.2.9}\nregions: {global: {one: 1}}\n"}
RECORDS = 'www: {A: [192.0.2.80]}\n"*.wild": {A: [192.0.2.81]}\nsub: {NS: [ns.other.test.]}\n'
CLIENT = bytes(range(8))
SECRET = "000102030405060708090a0b0c0d0e0f"
OTHER = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"


@pytest.fixture
def serve(tmp_path):
    """serve(settings) starts a server with these settings; stopped at the end."""
    data = sluicelib.build(
        sluicelib.write_tree(tmp_path / "config", sluicelib.config_files(DOMAIN, records=RECORDS)), tmp_path / "data")
    running = []

    def start(settings, *options):
        path = tmp_path / f"sluice{len(running)}.yaml"
        path.write_text(settings)
        server = sluicelib.Server(data, "-c", str(path), *options, threads=1,
                                  control=str(tmp_path / f"control{len(running)}"))
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()


def cookie_query(cookie):
    return sluicelib.make_query("www.example.com.", options=[dns.edns.GenericOption(10, cookie)])


def cookie_of(reply):
    return next((o.data for o in reply.options if o.otype == 10), None)


def ask_with_cookie(server, cookie):
    return sluicelib.udp(cookie_query(cookie), server.address, server.port)


def counters(server):
    return sluicelib.control(server.control, "status")["counters"]


def flood(server, names):
    """(answered, truncated, silent) of one query for each name, without cookies, all sent at once.  Whoever has no
    reply when that to a last query comes, which has a cookie and so no limit, gets none."""
    over_tcp = server.ask("www.example.com.", tcp=True, options=[dns.edns.GenericOption(10, CLIENT)])
    last = cookie_query(cookie_of(over_tcp))
    last.id = len(names)
    seen = [0, 0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(sluicelib.DEADLINE)
        sock.connect((server.address, server.port))
        for number, name in enumerate(names):
            sock.send(struct.pack("!H", number) + sluicelib.make_query(name, edns=False).to_wire()[2:])
        sock.send(last.to_wire())
        while True:
            number, flags = struct.unpack("!HH", sock.recv(4096)[:4])
            if number == last.id:
                return *seen, len(names) - sum(seen)
            seen[1 if flags & dns.flags.TC else 0] += 1


def test_a_server_cookie_comes_back_and_is_accepted(serve):
    server = serve("cookies: on\n")
    cookie = cookie_of(ask_with_cookie(server, CLIENT))
    assert len(cookie) == 24 and cookie[:8] == CLIENT and cookie[8] == 1
    again = ask_with_cookie(server, cookie)
    assert cookie_of(again) == cookie and rdata(again) == ["192.0.2.80"]
    seen = counters(server)
    assert seen["cookie_new"] == 1 and seen["cookie_valid"] == 1 and seen["cookie_bad"] == 0


def test_no_cookie_unasked_and_none_when_off(serve):
    assert cookie_of(serve("cookies: on\n").ask("www.example.com.")) is None
    assert cookie_of(ask_with_cookie(serve("cookies: off\n"), CLIENT)) is None


def test_servers_that_share_a_file_accept_each_others_cookies(serve, tmp_path):
    secrets = tmp_path / "secrets"
    secrets.write_text(SECRET + "\n")
    one, two = serve(f"cookie-secrets: {secrets}\n"), serve(f"cookie-secrets: {secrets}\n")
    cookie = cookie_of(ask_with_cookie(one, CLIENT))
    assert cookie_of(ask_with_cookie(two, cookie)) == cookie
    assert counters(two)["cookie_valid"] == 1


def test_a_secret_rolls_over_by_reload(serve, tmp_path):
    secrets = tmp_path / "secrets"
    secrets.write_text(SECRET + "\n")
    server = serve(f"cookie-secrets: {secrets}\n")
    cookie = cookie_of(ask_with_cookie(server, CLIENT))
    secrets.write_text(OTHER + "\n" + SECRET + "\n")
    server.reload()
    fresh = cookie_of(ask_with_cookie(server, cookie))
    assert fresh != cookie and counters(server)["cookie_valid"] == 1  # the old one still counts
    secrets.write_text("not hex\n")
    since = server.mark()
    server.reload()
    server.wait_log("the old cookie secrets stay in use", since=since)
    assert cookie_of(ask_with_cookie(server, fresh)) == fresh
    secrets.write_text(OTHER + "\n")
    server.reload()
    ask_with_cookie(server, cookie)
    assert counters(server)["cookie_bad"] == 1


@pytest.mark.parametrize("settings, message", [
    ("cookies: maybe\n", "neither `on` nor `off`"),
    ("cookie-secrets: /nonexistent/secrets\n", "/nonexistent/secrets"),
    ("rate-limit: 7\n", ":1:13: `rate-limit` must be a map"),
    ("rate-limit: {answer: 7}\n", ":1:14: unknown key `answer` in `rate-limit` (did you mean `answers`?)"),
    ("rate-limit: {answers: 0}\n", ":1:23: `answers` must be a number from 1"),
    ("rate-limit: {answers: 010}\n", "`answers` must be a number"),
    ("rate-limit: {table: 1000}\n", "`table` must be a power of two"),
    ("rate-limit: {exempt: [192.0.2.1/24]}\n", ":1:23: "),
])
def test_bad_settings_are_refused_in_one_line(tmp_path, make_config, settings, message):
    data = sluicelib.build(make_config(DOMAIN), tmp_path / "data")
    path = tmp_path / "sluice.yaml"
    path.write_text(settings)
    port = sluicelib.Port()
    done = sluicelib.run(sluicelib.program("sluiced"), "-c", path, "--data", data, "--listen",
                         f"127.0.0.1@{port.number}")
    port.close()
    assert done.returncode == 1 and message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_rate_limit_drops_and_slips(serve):
    server = serve("rate-limit: {answers: 1, nxdomain: 1, errors: 1, slip: 2}\n")
    # Made-up names below a wildcard are one answer, whatever the clock does meanwhile: at 1 a second
    # these queries, sent at once, cannot get more than a few through.
    answered, slipped, silent = flood(server, [f"x{i}.wild.example.com." for i in range(10)])
    assert 1 <= answered <= 6 and slipped >= 1 and silent >= 1
    answered, slipped, silent = flood(server, [f"nx{i}.example.com." for i in range(10)])
    assert 1 <= answered <= 6 and slipped >= 1 and silent >= 1
    assert flood(server, ["www.example.com."]) == (1, 0, 0)  # another name is another answer
    seen = counters(server)
    assert seen["rate_dropped"] >= 2 and seen["rate_slipped"] >= 2


def test_rate_limit_spares_cookies_tcp_and_exempt_networks(serve):
    server = serve("rate-limit: {answers: 1, slip: 0}\n")
    cookie = cookie_of(ask_with_cookie(server, CLIENT))
    for _ in range(20):
        assert rdata(ask_with_cookie(server, cookie)) == ["192.0.2.80"]
        assert rdata(server.ask("www.example.com.", tcp=True)) == ["192.0.2.80"]
    assert counters(server)["rate_dropped"] == 0
    exempt = serve("rate-limit: {answers: 1, slip: 0, exempt: [127.0.0.0/8]}\n")
    assert flood(exempt, ["www.example.com."] * 20) == (20, 0, 0)


def test_a_slipped_response_is_whole_and_has_opt(serve):
    server = serve("rate-limit: {answers: 1, slip: 1}\n")
    for _ in range(100):
        reply = server.ask("www.example.com.")
        assert reply.edns == 0 and rcode(reply) == "NOERROR"
        if reply.flags & dns.flags.TC:
            assert not reply.answer and not reply.authority and reply.flags & dns.flags.AA
            return
    pytest.fail("a hundred like responses and none was limited")


def test_class_ch_says_what_the_settings_give(serve):
    plain = serve("cookies: on\n")
    assert rcode(plain.ask("version.bind.", "TXT", qclass="CH")) == "REFUSED"
    named = serve('chaos-version: "one two"\nchaos-id: ns7\n')
    for name, text in (("version.bind.", '"one two"'), ("version.server.", '"one two"'), ("id.server.", '"ns7"'),
                       ("hostname.bind.", '"ns7"')):
        assert rdata(named.ask(name, "TXT", qclass="CH")) == [text]
    assert rcode(named.ask("other.bind.", "TXT", qclass="CH")) == "REFUSED"


@pytest.mark.parametrize("tcp", [False, True])
def test_keepalive_only_over_tcp(serve, tcp):
    server = serve("tcp-idle: 7\n")
    query = sluicelib.make_query("www.example.com.", options=[dns.edns.GenericOption(11, b"")])
    wire = query.to_wire()
    raw = (sluicelib.exchange_tcp if tcp else sluicelib.exchange)(server.address, server.port, wire)
    reply = dns.message.from_wire(raw)
    got = [o.data for o in reply.options if o.otype == 11]
    assert got == ([struct.pack("!H", 70)] if tcp else [])


def test_extended_error_outside_our_zones(serve):
    reply = serve("cookies: on\n").ask("www.elsewhere.test.")
    assert rcode(reply) == "REFUSED"
    assert [int(o.code) for o in reply.options if o.otype == 15] == [20]
