# SPDX-License-Identifier: Apache-2.0
"""Probes of type http against peers that do all sorts of things (reports B72, B76, B114)."""
import gzip

import pytest

import peerlib
import sluicelib
from fakedns import FakeDNS, reply as dns_reply
from peerlib import Peer, drip, endless, hang, ok, reply, reset
from probelib import measured, probe, probes, settings

LINE = b"HTTP/1.1 200 OK\r\n"
CHUNKED = LINE + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = LINE + b"Content-Length: 10000000000\r\n\r\n"
LIMIT = 65536
NOT_HTTP = "the peer does not speak HTTP"
NOT_IN_64K = "status 200, but the expected text is not in the first 64 KiB of the body"
MANY_HEADERS = "more than 64 KiB of headers"


def verdict(behave, target="127.0.0.1", kind="http", **more):
    with Peer(behave) as peer:
        result = probe(settings(kind, **{"timeout": 30000, "port": peer.port, **more}), target)
    assert not result["own_fault"]
    return result["ok"], result["reason"]


def request(**more):
    """What a probe sends."""
    with Peer(reply(ok())) as peer:
        result = probe(settings("http", port=peer.port, **more), "127.0.0.1")
        assert result["ok"], result
    head, _, _ = peer.requests[0].partition("\r\n\r\n")
    line, *headers = head.split("\r\n")
    return line, headers, peer.port


# ---- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status, expected, good", [
    ("200 OK", [[200, 299]], True),
    ("204 No Content", [[200, 299]], True),
    ("301 Moved", [[200, 299], [301, 301]], True),
    ("302 Found", [[200, 299], [301, 301]], False),
    ("503 Sorry", [[200, 299]], False),
    ("999 Odd", [[200, 299]], False),
])
def test_status(status, expected, good):
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n".encode()
    text = "200-299, 301" if len(expected) > 1 else "200-299"
    reason = f"status {status[:3]}" + ("" if good else f", expected {text}")
    assert verdict(reply(answer), expect={"status": expected}) == (good, reason)


def test_a_wrong_status_is_enough():
    """The body is not waited for."""
    assert verdict(reply(b"HTTP/1.1 503 Sorry\r\nContent-Length: 10\r\n\r\n", hang)) == (
        False, "status 503, expected 200-299")


@pytest.mark.parametrize("answer, good, reason", [
    (b"HTTP/1.0 200 OK\r\n\r\nhello", True, "status 200"),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + ok(), True, "status 200"),
    (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + ok(), True, "status 200"),
    (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", False, "closed by the peer after status 101"),
    (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", True, "status 200"),
    (CHUNKED + b"5\r\nhe", False, "closed by the peer in the middle of the body"),
    (CHUNKED + b"zz\r\nhello", False, "the body's chunks are malformed"),
    (LINE + b"Content-Length: 10\r\n\r\nabc", False, "closed by the peer in the middle of the body"),
    (LINE + b"X: y\r\n", False, "closed by the peer in the middle of the headers"),
    (b"HTTP/1.1 20", False, "closed by the peer without a response"),
    (b"", False, "closed by the peer without a response"),
    (b"<html>HTTP/0.9</html>", False, NOT_HTTP),
    (bytes(range(256)) * 10, False, NOT_HTTP),
    (b"HTTP/2 200\r\n\r\n", False, "the peer answers in another version of HTTP than 1"),
    (b"HTTP/1.1 abc\r\n\r\n", False, NOT_HTTP),
    (LINE + b"X: a\0b\r\n\r\n", False, NOT_HTTP + " as it should"),
    (LINE + b"Content-Length: -5\r\n\r\n", False, NOT_HTTP + " as it should"),
    (b"\x15\x03\x01\0\2\2\x46", False, NOT_HTTP),
], ids=str)
def test_answer(answer, good, reason):
    assert verdict(reply(answer)) == (good, reason)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n"], ids=str)
def test_no_body_is_waited_for_where_none_comes(answer):
    assert verdict(reply(answer, hang), expect={"status": [[200, 399]]})[0]


@pytest.mark.parametrize("banner", [b"SSH-2.0-OpenSSH_9.2p1\r\n", b"220 mail.example.com ESMTP\r\n"], ids=str)
def test_another_protocol(banner):
    def behave(peer, sock):
        sock.sendall(banner)
        hang(peer, sock)
    assert verdict(behave) == (False, NOT_HTTP)


def test_refused():
    reserved = sluicelib.Port()
    result = probe(settings("http", port=reserved.number), "127.0.0.1")
    reserved.close()
    assert (result["ok"], result["reason"]) == (False, "connect refused")
    assert result["phases"]["connect"] is None


def test_reset():
    for first in (b"", LINE, LINE + b"Content-Length: 9\r\n\r\nabc"):
        good, reason = verdict(reply(first, reset))
        assert not good and reason.startswith("connection reset "), reason
    good, reason = verdict(reset)
    assert not good and reason.startswith("connection reset "), reason


HANGS = {
    "127.0.0.2": (hang, "waiting for the response"),
    "127.0.0.3": (reply(b"", hang), "waiting for the response"),
    "127.0.0.4": (reply(b"HTTP/1.1 20", hang), "reading the headers"),
    "127.0.0.5": (reply(LINE + b"X: y\r\n", hang), "reading the headers"),
    "127.0.0.6": (reply(b"HTTP/1.1 102 Processing\r\n\r\n", hang), "reading the headers"),
    "127.0.0.7": (reply(LINE + b"Content-Length: 9\r\n\r\n", hang), "reading the body"),
    "127.0.0.8": (reply(LINE + b"Content-Length: 9\r\n\r\nabc", hang), "reading the body"),
    "127.0.0.9": (reply(CHUNKED + b"5\r\nabc", hang), "reading the body"),
    "127.0.0.10": (reply(b"HTTP/1.0 200 OK\r\n\r\nhello", hang), "reading the body"),
    "127.0.0.11": (reply(LINE, drip(b"X: aaaa\r\n")), "reading the headers"),
    "127.0.0.12": (reply(LONG, drip(b"a")), "reading the body"),
}


def test_hang_at_each_phase(request_peers):
    """A reason for each; waiting takes no CPU."""
    peers = request_peers({address: behave for address, (behave, _) in HANGS.items()})
    results, usage = measured(settings("http", timeout=2500, port=peers), HANGS)
    assert {r["target"]: r["reason"] for r in results} == {
        address: f"timeout in {phase}" for address, (_, phase) in HANGS.items()}
    assert not any(r["ok"] for r in results)
    assert usage["cpu_us"] < 1_500_000


@pytest.fixture(name="request_peers")
def _request_peers():
    """Peers at several addresses and one port."""
    peers = []

    def start(behaviours):
        addresses = iter(behaviours.items())
        address, behave = next(addresses)
        first = Peer(behave, address=address)
        peers.append(first)
        peers.extend(Peer(behave, address=address, port=first.port) for address, behave in addresses)
        for peer in peers:
            peer.__enter__()
        return first.port
    yield start
    for peer in peers:
        peer.released.set()
    for peer in peers:
        peer.__exit__()


# ---- the request ---------------------------------------------------------------------------------


def test_request():
    line, headers, port = request(path="/ping?a=b&c=%20")
    assert line == "GET /ping?a=b&c=%20 HTTP/1.1"
    assert f"Host: 127.0.0.1:{port}" in headers
    names = [h.partition(":")[0].lower() for h in headers]
    assert sorted(names) == ["accept", "connection", "host", "user-agent"]  # no Accept-Encoding, no cookies


def test_path_is_sent_as_it_is():
    assert request(path="/a/../b//c#d")[0] == "GET /a/../b//c%23d HTTP/1.1"


def test_host_and_headers():
    _, headers, port = request(host="cdn.example.com",
                               headers={"X-Probe": "1", "Authorization": "Bearer x", "X-None": ""})
    assert f"Host: cdn.example.com:{port}" in headers
    assert {"X-Probe: 1", "Authorization: Bearer x", "X-None:"} <= set(headers)


def test_host_header_wins():
    _, headers, _ = request(host="cdn.example.com", headers={"host": "other.example.com"})
    assert [h for h in headers if h.lower().startswith("host:")] == ["Host: other.example.com"]


@pytest.mark.parametrize("host, sent", [
    ("cdn.example.com", "cdn.example.com:PORT"),
    ("cdn.example.com:443", "cdn.example.com:443"),
    ("[::1]", "[::1]:PORT"),
    ("[::1]:8443", "[::1]:8443"),
    ("2001:db8::1", "[2001:db8::1]:PORT"),
    ("192.0.2.1", "192.0.2.1:PORT"),
])
def test_B29_host_with_and_without_port(host, sent):
    _, headers, port = request(host=host)
    assert f"Host: {sent}".replace("PORT", str(port)) in headers


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "OPTIONS"])
def test_method(method):
    line, headers, _ = request(method=method)
    assert line == f"{method} / HTTP/1.1"
    assert ("Content-Length: 0" in headers) == (method in ("POST", "PUT"))


def test_head_has_no_body():
    assert verdict(reply(LINE + b"Content-Length: 1000\r\n\r\n", hang), method="HEAD") == (True, "status 200")


def test_environment_is_ignored(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n", encoding="ascii")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    monkeypatch.setenv("HOME", str(tmp_path))
    _, headers, _ = request()
    assert not any(h.startswith("Authorization") for h in headers)


def test_each_probe_connects():
    with Peer(reply(ok())) as peer:
        results = probes(settings("http", port=peer.port), ["127.0.0.1"], "--rounds", "5")
        assert [r["ok"] for r in results] == [True] * 5
        assert len(peer.accepted) == 5


def test_phases():
    with Peer(reply(ok())) as peer:
        phases = probe(settings("http", port=peer.port), "127.0.0.1")["phases"]
    assert phases["resolve"] is None and phases["tls"] is None
    assert all(phases[name] >= 0 for name in ("connect", "send", "first", "all"))
    assert sum(phases[name] for name in ("connect", "send", "first")) <= phases["all"]


# ---- the body ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_body_text(cut):
    """Also where it comes in two parts."""
    def behave(peer, sock):
        peer.read_request(sock)
        octets = ok(b"xxOKAYxx")
        at = octets.index(b"OKAY") + cut
        sock.sendall(octets[:at])
        sock.sendall(octets[at:])
        peerlib.finish(peer, sock)
    assert verdict(behave, expect={"body": "OKAY"}) == (True, "status 200")


def test_body_without_the_text():
    assert verdict(reply(ok(b"nothing")), expect={"body": "OKAY"}) == (
        False, "status 200, but the expected text is not in the body (7 octets)")


@pytest.mark.parametrize("before, good", [(0, True), (LIMIT - 4, True), (LIMIT - 3, False), (LIMIT, False),
                                          (100_000, False)])
def test_B72_text_at_the_border_of_64_KiB(before, good):
    body = b"-" * before + b"OKAY" + b"-" * 1000
    assert verdict(reply(ok(body)), expect={"body": "OKAY"}) == (good, "status 200" if good else NOT_IN_64K)


def test_B72_text_at_the_border_in_small_chunks():
    body = b"".join(b"3\r\n---\r\n" for _ in range((LIMIT - 4) // 3)) + b"4\r\nOKAY\r\n"
    assert verdict(reply(CHUNKED + body, hang), expect={"body": "OKAY"}) == (True, "status 200")


BOMB = gzip.compress(b"\0" * 100_000_000)
B72 = {
    "endless-chunked": (reply(CHUNKED, endless(b"10\r\n0123456789abcdef\r\n" * 100)), NOT_IN_64K),
    "10-GB": (reply(LONG, endless(b"a" * 65536)), NOT_IN_64K),
    "until-close": (reply(b"HTTP/1.0 200 OK\r\n\r\n", endless(b"a" * 65536)), NOT_IN_64K),
    "gzip-bomb": (reply(ok(BOMB, headers=["Content-Encoding: gzip"])), NOT_IN_64K),
    "gzip-bomb-in-transfer": (reply(LINE + b"Transfer-Encoding: gzip, chunked\r\n\r\n%x\r\n" % len(BOMB) + BOMB +
                                    b"\r\n0\r\n\r\n"), NOT_IN_64K),
    "1-MB-of-headers": (reply(LINE + b"X-Header: aaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 30000 + b"\r\n"), MANY_HEADERS),
    "endless-headers": (reply(LINE, endless(b"X-Header: aaaaaaaaaaaaaaaa\r\n" * 100)), MANY_HEADERS),
    "endless-header-line": (reply(LINE + b"X: ", endless(b"a" * 10000)), MANY_HEADERS),
    "endless-status-line": (reply(b"HTTP/1.1 200 ", endless(b"a" * 10000)), MANY_HEADERS),
    "endless-interim": (reply(b"", endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)), MANY_HEADERS),
    "endless-trailers": (reply(CHUNKED + b"0\r\n", endless(b"A: b\r\n" * 1000)), MANY_HEADERS),
    "endless-chunk-extension": (reply(CHUNKED + b"5;", endless(b"a" * 10000)), "more than 1 MiB came without an end"),
}


@pytest.mark.parametrize("name", B72)
def test_B72_endless(name, monkeypatch):
    """Cut at once, with a reason, and without that memory grows."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1:exitcode=99:quarantine_size_mb=1")
    behave, reason = B72[name]
    with Peer(behave) as peer:
        check = settings("http", timeout=30000, port=peer.port, expect={"body": "not there"})
        results, usage = measured(check, ["127.0.0.1"], "--rounds", "10")
    assert [(r["ok"], r["reason"]) for r in results] == [(False, reason)] * 10
    assert usage["grown_kb"] < 10_000
    assert usage["cpu_us"] < 5_000_000


def test_B72_an_endless_body_is_good_where_no_text_is_wanted():
    assert verdict(reply(LONG, endless(b"a" * 65536))) == (True, "status 200")


def test_B72_headers_below_the_limit():
    answer = LINE + b"X-Header: aaaaaaaaaaaaaaaaaaaa\r\n" * 2000 + b"Content-Length: 0\r\n\r\n"
    assert verdict(reply(answer)) == (True, "status 200")


def test_B72_long_header_lines_are_not_kept(monkeypatch):
    """60 KiB of headers in one line are taken, but not by 200 probes that wait for each other."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1:exitcode=99:quarantine_size_mb=1")
    answer = LINE + b"X: " + b"a" * 60000 + b"\r\nContent-Length: 0\r\n\r\n"
    with Peer(reply(answer)) as peer:
        check = settings("http", timeout=30000, port=peer.port)
        results, usage = measured(check, ["127.0.0.1"], "--rounds", "200")
    assert all(r["ok"] for r in results)
    assert usage["grown_kb"] < 10_000


def test_many_hostile_peers_at_once():
    """Two hundred connections that bring endless bodies: all end."""
    with Peer(reply(CHUNKED, endless(b"10\r\n0123456789abcdef\r\n" * 100))) as peer:
        results = probes(settings("http", timeout=60000, port=peer.port), ["127.0.0.1"] * 200)
    assert [r["ok"] for r in results] == [True] * 200


# ---- other addresses -----------------------------------------------------------------------------


def test_B76_families_have_verdicts_of_their_own():
    with Peer(reply(ok()), address="127.0.0.1") as peer:
        results = {r["target"]: r for r in probes(settings("http", port=peer.port), ["127.0.0.1", "::1"])}
    assert results["127.0.0.1"]["ok"]
    assert (results["::1"]["ok"], results["::1"]["reason"]) == (False, "connect refused")


@pytest.mark.parametrize("literal", ["::1", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::0.0.0.1"])
def test_B76_forms_of_an_address(literal):
    with Peer(reply(ok()), address="::1") as peer:
        assert probe(settings("http", port=peer.port), literal)["ok"]
    assert f"Host: [::1]:{peer.port}\r\n" in peer.requests[0]


@pytest.mark.parametrize("location", ["http://127.0.0.77/x", "http://[::ffff:127.0.0.77]/", "//127.0.0.77/",
                                      "http://0x7f00004d/", "http://localhost/x"])
@pytest.mark.parametrize("follow", [False, True])
def test_B114_redirects_reach_no_other_address(location, follow):
    """Not followed unless asked; then the other name or address is a Host header only."""
    def behave(peer, sock):
        head = peer.read_request(sock)
        where = location.replace("/x", f":{peer.port}/x") if "/x" in location else location
        sock.sendall(ok() if b"GET /x" in head else ok(status="302 Found", headers=[f"Location: {where}"]))
        peerlib.finish(peer, sock)
    with Peer(behave) as peer, Peer(reply(ok()), address="127.0.0.77", port=peer.port) as other:
        result = probe(settings("http", port=peer.port, follow_redirects=follow), "127.0.0.1")
        assert other.accepted == []
    if not follow:
        assert (result["ok"], result["reason"]) == (False, "status 302, expected 200-299")
        assert len(peer.requests) == 1
    elif "/x" in location:
        assert (result["ok"], result["reason"]) == (True, "status 200")
        host = location.split("/")[2]
        assert f"Host: {host}:{peer.port}" in peer.requests[1]
    else:
        assert not result["ok"]  # port 80 of the endpoint's own address


@pytest.mark.parametrize("location, reason", [
    ("ftp://127.0.0.1/", "redirect to another protocol than HTTP"),
    ("file:///etc/passwd", "redirect to another protocol than HTTP"),
    ("gopher://127.0.0.1/_x", "redirect to another protocol than HTTP"),
    ("http://[:::/", "redirect to what is no URL"),
    ("/again", "more than 5 redirects"),
])
def test_B114_redirects_that_lead_nowhere(location, reason):
    behave = reply(ok(status="302 Found", headers=[f"Location: {location}"]))
    assert verdict(behave, follow_redirects=True) == (False, reason)


def test_redirect_followed():
    def behave(peer, sock):
        head = peer.read_request(sock)
        sock.sendall(ok(b"there") if b"GET /there" in head else ok(status="301 Moved", headers=["Location: /there"]))
        peerlib.finish(peer, sock)
    assert verdict(behave, follow_redirects=True, expect={"body": "there"}) == (True, "status 200")


def test_B114_probes_at_the_same_time_are_kept_apart(request_peers):
    """Each connects to its own address, twice, also where others have connections to the same port."""
    heads = {}

    def at(address):
        heads[address] = []

        def behave(peer, sock):
            head = peer.read_request(sock)
            heads[address].append(head.split(b" ")[1])
            sock.sendall(ok() if b"/there" in head else ok(status="301 Moved", headers=["Location: /there"]))
            peerlib.finish(peer, sock)
        return behave
    addresses = [f"127.0.0.{i}" for i in range(2, 12)]
    port = request_peers({address: at(address) for address in addresses})
    results = probes(settings("http", port=port, follow_redirects=True), addresses, "--rounds", "20")
    assert len(results) == 200 and all(r["ok"] for r in results)
    for address in addresses:
        assert sorted(heads[address]) == [b"/"] * 20 + [b"/there"] * 20


def test_redirect_with_an_endless_body():
    answer = b"HTTP/1.1 302 Found\r\nLocation: /a\r\nContent-Length: 10000000000\r\n\r\n"
    good, _ = verdict(reply(answer, endless(b"a" * 65536)), follow_redirects=True)
    assert not good


@pytest.mark.parametrize("then, phase", [(hang, "waiting for the response"), (reply(LINE, hang), "reading the headers"),
                                         (reply(LINE + b"Content-Length: 9\r\n\r\n", hang), "reading the body")])
def test_hang_after_a_redirect(then, phase):
    def behave(peer, sock):
        if len(peer.accepted) > 1:
            then(peer, sock)
        reply(ok(status="302 Found", headers=["Location: /a"]))(peer, sock)
    assert verdict(behave, follow_redirects=True, timeout=2500) == (False, f"timeout in {phase}")


@pytest.mark.parametrize("host", ["a/b", "a@b", "[[", "a?b", "a#b", "%zz", ""])
def test_host_that_is_none(host):
    assert verdict(reply(ok()), host=host) == (False, "`host` is no name of a host")


def test_B114_a_name_is_resolved_once():
    """The second answer (another address) is never asked for."""
    answers = iter(["127.0.0.1", "127.0.0.77", "127.0.0.77"])

    def behave(query, _):
        if query.question[0].rdtype != 1:
            return [dns_reply(query)]
        return [dns_reply(query, f"cdn.example.com. 0 IN A {next(answers)}")]
    with FakeDNS(behave) as server, Peer(reply(ok())) as peer, \
            Peer(reply(ok()), address="127.0.0.77", port=peer.port) as other:
        check = settings("http", port=peer.port, timeout=30000)  # patience, so that no question is repeated
        result = probe(check, "cdn.example.com", "--resolver", f"127.0.0.1@{server.port}")
        assert result["ok"], result
        assert other.accepted == []
    assert f"Host: cdn.example.com:{peer.port}" in peer.requests[0]
    assert result["phases"]["resolve"] >= 0


@pytest.mark.parametrize("address", ["169.254.169.254", "0.0.0.0", "224.0.0.1"])
def test_B114_a_name_that_leads_to_forbidden_addresses(address):
    with FakeDNS(lambda query, _: [dns_reply(query, f"cdn.example.com. 0 IN A {address}")]
                 if query.question[0].rdtype == 1 else [dns_reply(query)]) as server:
        result = probe(settings("http"), "cdn.example.com", "--resolver", f"127.0.0.1@{server.port}")
    assert not result["ok"] and result["phases"]["connect"] is None
    assert address not in result["reason"]


def test_several_addresses_of_a_name(request_peers):
    """One after another, until one is good; if none is, it says so."""
    port = request_peers({"127.0.0.2": hang, "127.0.0.3": reply(ok(status="503 Sorry")), "127.0.0.4": reply(ok())})

    def answer(*addresses):
        return lambda query, _: [dns_reply(query, *(f"cdn.example.com. 0 IN A {a}" for a in addresses))] \
            if query.question[0].rdtype == 1 else [dns_reply(query)]

    def result(*addresses):
        with FakeDNS(answer(*addresses)) as server:
            return probe(settings("http", timeout=6000, port=port), "cdn.example.com", "--resolver",
                         f"127.0.0.1@{server.port}")
    assert result("127.0.0.2", "127.0.0.3", "127.0.0.4")["ok"]
    bad = result("127.0.0.3")
    assert (bad["ok"], bad["reason"]) == (False, "127.0.0.3: status 503, expected 200-299")
    worse = result("127.0.0.3", "127.0.0.5")
    assert not worse["ok"] and worse["reason"].startswith("none of 2 addresses; 127.0.0."), worse


def test_secrets_of_a_body_are_not_told():
    body = b"password=hunter2"
    for answer in (ok(body, status="500 hunter2"), ok(body), CHUNKED + b"hunter2\r\n", b"hunter2 hunter2\r\n"):
        _, reason = verdict(reply(answer), expect={"body": "never there"})
        assert "hunter2" not in reason


# ---- ending --------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--cancel", "--quit"])
def test_cancelled_in_the_middle(request_peers, option):
    """Nothing is left behind (probe_once counts descriptors; sanitizers, leaks)."""
    port = request_peers({address: behave for address, (behave, _) in HANGS.items()})
    assert probes(settings("http", timeout=30000, port=port), HANGS, option, "300") == []
