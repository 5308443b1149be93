# SPDX-License-Identifier: Apache-2.0
"""Probes of type https: certificates, handshakes that go wrong, what is sent as SNI."""
import ssl
import types

import pytest

from certlib import Authority, issue, self_signed, server_context
from peerlib import Peer, endless, hang, ok, reply, reset
from probelib import measured, probe, probes, settings

NO_TLS = "the peer does not speak TLS"


@pytest.fixture(name="certs", scope="module")
def _certs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certs")
    ours, theirs = Authority(folder / "ours"), Authority(folder / "theirs")
    host = ("cdn.example.com", "DNS:cdn.example.com")
    return types.SimpleNamespace(
        ca=ours.cert, other_ca=theirs.cert, folder=folder,
        good=issue(ours, *host),
        wildcard=issue(ours, "wildcard", "DNS:*.example.com"),
        address=issue(ours, "address", "IP:127.0.0.1", "IP:::1"),
        expired=issue(ours, "expired", "DNS:cdn.example.com", dates=("20200101000000Z", "20210203000000Z")),
        future=issue(ours, "future", "DNS:cdn.example.com", dates=("20980405000000Z", "20991231000000Z")),
        unknown=issue(theirs, *host),
        self_signed=self_signed(folder, "cdn.example.com"),
        old_name=issue(ours, "name-in-cn-only"))


def verdict(pem, ca, target="127.0.0.1", host="cdn.example.com", address="127.0.0.1", behave=reply(ok()), **more):
    with Peer(behave, address=address, context=server_context(pem)) as peer:
        more.update({"host": host} if host else {})
        more.update({"ca_file": str(ca)} if ca else {})
        result = probe(settings("https", timeout=30000, port=peer.port, **more), target)
    assert not result["own_fault"]
    return result["ok"], result["reason"]


# ---- certificates --------------------------------------------------------------------------------


def test_good(certs):
    assert verdict(certs.good, certs.ca) == (True, "status 200")
    assert verdict(certs.wildcard, certs.ca) == (True, "status 200")


@pytest.mark.parametrize("name, reason", [
    ("expired", "certificate expired on 2021-02-03"),
    ("future", "certificate is not valid before 2098-04-05"),
    ("self_signed", "certificate not trusted: self-signed"),
    ("unknown", "certificate not trusted: unknown authority, or an intermediate certificate is not sent"),
    ("address", "certificate is not for cdn.example.com"),
    ("old_name", "certificate is not for cdn.example.com"),
])
def test_refused_certificate(certs, name, reason):
    assert verdict(getattr(certs, name), certs.ca) == (False, reason)
    assert verdict(getattr(certs, name), certs.ca, verify=False) == (True, "status 200")


def test_the_systems_authorities_by_default(certs):
    """A test CA is not among them."""
    good, reason = verdict(certs.good, None)
    assert not good and reason.startswith("certificate not trusted: unknown authority"), reason


def test_own_authority_excludes_the_others(certs):
    assert verdict(certs.good, certs.other_ca)[0] is False
    assert verdict(certs.unknown, certs.other_ca)[0] is True


def test_certificate_for_an_address(certs):
    assert verdict(certs.address, certs.ca, host=None) == (True, "status 200")
    assert verdict(certs.address, certs.ca, host=None, target="::1", address="::1") == (True, "status 200")
    assert verdict(certs.good, certs.ca, host=None) == (False, "certificate is not for 127.0.0.1")
    assert verdict(certs.good, certs.ca, host=None, target="::1", address="::1") == (
        False, "certificate is not for ::1")


def test_sni_and_host_header(certs):
    names = []
    with Peer(reply(ok()), context=server_context(certs.good, names)) as peer:
        for host in ("cdn.example.com", "cdn.example.com:8443", None):
            more = {"host": host} if host else {"verify": False}
            result = probe(settings("https", port=peer.port, ca_file=str(certs.ca), **more), "127.0.0.1")
            assert result["ok"], result
    assert names == ["cdn.example.com", "cdn.example.com", None]  # RFC 6066 section 3: no addresses
    assert [r.split("Host: ")[1].split("\r\n")[0] for r in peer.requests] == [
        f"cdn.example.com:{peer.port}", "cdn.example.com:8443", f"127.0.0.1:{peer.port}"]


def test_B29_certificate_by_server_name(certs):
    """A server whose certificate is good for one name only, and expired for all others."""
    good, seen = server_context(certs.good), []

    def choose(sock, name, _context):
        seen.append(name)
        if name == "cdn.example.com":
            sock.context = good
    context = server_context(certs.expired)
    context.sni_callback = choose
    for address in ("127.0.0.11", "::1"):
        with Peer(reply(ok()), address=address, context=context) as peer:
            check = settings("https", port=peer.port, ca_file=str(certs.ca))
            result = probe({**check, "host": "cdn.example.com"}, address)
            assert (result["ok"], result["reason"]) == (True, "status 200")
            result = probe({**check, "host": "cdn.example.com", "verify": False}, address)
            assert result["ok"]
            result = probe(check, address)
            assert (result["ok"], result["reason"]) == (False, "certificate expired on 2021-02-03")
            result = probe({**check, "verify": False}, address)
            assert result["ok"]
        bare = f"[{address}]" if ":" in address else address
        assert [r.split("Host: ")[1].split("\r\n")[0] for r in peer.requests] == [
            f"{host}:{peer.port}" for host in ("cdn.example.com", "cdn.example.com", bare)]
    assert seen == ["cdn.example.com", "cdn.example.com", None, None] * 2


def test_host_name_endpoint(certs):
    """Its own name is SNI, Host and what the certificate must be for."""
    with Peer(reply(ok()), context=server_context(certs.good)) as peer:
        check = settings("https", port=peer.port, ca_file=str(certs.ca))
        result = probe(check, "localhost")  # ::1 refuses, which tells less
    assert (result["ok"], result["reason"]) == (
        False, "none of 2 addresses; 127.0.0.1: certificate is not for localhost")


def test_ca_file_problems(certs, tmp_path):
    empty, missing = tmp_path / "empty.pem", tmp_path / "missing.pem"
    empty.write_text("nothing\n", encoding="ascii")
    assert verdict(certs.good, empty) == (False, f"ca_file: no certificate in {empty}")
    good, reason = verdict(certs.good, missing)
    assert not good and reason.startswith("ca_file: ") and "No such file" in reason
    good, reason = verdict(certs.good, "/dev/zero")
    assert not good and reason.startswith("ca_file: ")


def test_ca_file_that_changes(certs, tmp_path):
    """Read again at once; what cannot be read leaves what was read before."""
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(certs.ca.read_bytes())
    then = iter([b"-----BEGIN CERTIFICATE-----\nhalf writ", certs.other_ca.read_bytes()])

    def behave(peer, sock):
        ca_file.write_bytes(next(then))
        reply(ok())(peer, sock)
    with Peer(behave, context=server_context(certs.good)) as peer:
        check = settings("https", port=peer.port, host="cdn.example.com", ca_file=str(ca_file))
        results = probes(check, ["127.0.0.1"], "--rounds", "3")
    assert [r["ok"] for r in results] == [True, True, False]
    assert results[2]["reason"].startswith("certificate not trusted: unknown authority")


def test_every_probe_is_a_full_handshake(certs):
    reused = []

    def behave(peer, sock):
        reused.append(sock.session_reused)
        reply(ok())(peer, sock)
    with Peer(behave, context=server_context(certs.good)) as peer:
        check = settings("https", port=peer.port, host="cdn.example.com", ca_file=str(certs.ca))
        results = probes(check, ["127.0.0.1"], "--rounds", "5")
    assert [r["ok"] for r in results] == [True] * 5
    assert reused == [False] * 5


def test_phases(certs):
    with Peer(reply(ok()), context=server_context(certs.good)) as peer:
        check = settings("https", port=peer.port, host="cdn.example.com", ca_file=str(certs.ca))
        phases = probe(check, "127.0.0.1")["phases"]
    assert all(phases[name] >= 0 for name in ("connect", "tls", "send", "first", "all"))
    assert sum(phases[name] for name in ("connect", "tls", "send", "first")) <= phases["all"]
    assert phases["tls"] > 0


# ---- handshakes that go wrong --------------------------------------------------------------------


def banner(octets):
    def behave(peer, sock):
        sock.sendall(octets)
        hang(peer, sock)
    return behave


def hello_then(then):
    def behave(peer, sock):
        sock.recv(65536)
        then(peer, sock)
    return behave


@pytest.mark.parametrize("behave, reason", [
    (banner(b"HTTP/1.1 400 Bad Request\r\n\r\n"), NO_TLS),
    (banner(b"SSH-2.0-OpenSSH_9.2p1\r\n"), NO_TLS),
    (endless(bytes(range(256)) * 10), NO_TLS),
    (hello_then(lambda peer, sock: None), "closed by the peer in TLS handshake"),
    (hello_then(reset), "connection reset in TLS handshake"),
    (hello_then(banner(b"\x15\x03\x03\0\2\2\x28")), "TLS refused by the peer (alert 40, handshake failure)"),
    (hello_then(banner(b"\x15\x03\x03\0\2\2\x70")), "TLS refused by the peer (alert 112, unrecognized name)"),
    (endless(b"\x16\x03\x03\x40\0" + b"a" * 16384), "TLS handshake failed: unexpected message"),
], ids=["http", "ssh", "garbage", "close", "reset", "alert-40", "alert-112", "endless"])
def test_handshake_fails(behave, reason):
    with Peer(behave) as peer:
        result = probe(settings("https", timeout=30000, port=peer.port), "127.0.0.1")
    assert (result["ok"], result["reason"]) == (False, reason)


def test_tls_on_a_port_of_http(certs):
    """The reverse: a probe of type http of a peer that speaks TLS."""
    with Peer(reply(ok()), context=server_context(certs.good)) as peer:
        result = probe(settings("http", timeout=30000, port=peer.port), "127.0.0.1")
    assert not result["ok"]
    assert result["reason"] in ("the peer does not speak HTTP", "closed by the peer without a response",
                                "connection reset before the response")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_are_refused(certs):
    context = server_context(certs.good)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with Peer(reply(ok()), context=context) as peer:
        result = probe(settings("https", timeout=30000, port=peer.port, verify=False), "127.0.0.1")
    assert not result["ok"]
    assert "TLS" in result["reason"] and "alert 70" in result["reason"]


def test_hang_in_the_handshake(certs):
    """A reason of its own, in each step; waiting takes no CPU."""
    with Peer(hang) as silent, Peer(hang, address="127.0.0.2", port=silent.port, context=server_context(certs.good)), \
            Peer(reply(b"", hang), address="127.0.0.3", port=silent.port, context=server_context(certs.good)):
        check = settings("https", timeout=2500, port=silent.port, verify=False)
        results, usage = measured(check, ["127.0.0.1", "127.0.0.2", "127.0.0.3"])
        silent.released.set()
    assert {r["target"]: r["reason"] for r in results} == {
        "127.0.0.1": "timeout in TLS handshake",
        "127.0.0.2": "timeout in waiting for the response",
        "127.0.0.3": "timeout in waiting for the response"}
    assert usage["cpu_us"] < 1_500_000


def test_B72_endless_body_over_tls(certs, monkeypatch):
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1:exitcode=99:quarantine_size_mb=1")
    behave = reply(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", endless(b"a" * 65536))
    with Peer(behave, context=server_context(certs.good)) as peer:
        check = settings("https", timeout=30000, port=peer.port, verify=False, expect={"body": "not there"})
        results, usage = measured(check, ["127.0.0.1"], "--rounds", "10")
    assert {r["reason"] for r in results} == {
        "status 200, but the expected text is not in the first 64 KiB of the body"}
    assert usage["grown_kb"] < 10_000


# ---- redirects -----------------------------------------------------------------------------------


def redirect(where):
    return reply(ok(status="302 Found", headers=[f"Location: {where}"]))


def test_B114_https_is_not_left_for_http(certs):
    with Peer(reply(ok())) as plain, Peer(redirect(f"http://127.0.0.1:{plain.port}/"),
                                          context=server_context(certs.good)) as peer:
        check = settings("https", port=peer.port, host="cdn.example.com", ca_file=str(certs.ca), follow_redirects=True)
        result = probe(check, "127.0.0.1")
        assert plain.accepted == []
    assert (result["ok"], result["reason"]) == (False, "redirect to another protocol than HTTP")


def test_B114_the_other_name_is_verified_too(certs):
    with Peer(redirect("https://other.example.net/"), context=server_context(certs.good)) as peer:
        peer.behave = redirect(f"https://other.example.net:{peer.port}/")
        check = settings("https", port=peer.port, host="cdn.example.com", ca_file=str(certs.ca), follow_redirects=True)
        result = probe(check, "127.0.0.1")
    assert (result["ok"], result["reason"]) == (False, "certificate is not for the host that the redirect names")


def test_redirect_from_http_to_https_is_verified(certs):
    """By the system's authorities: `ca_file` and `verify` are of https."""
    with Peer(reply(ok()), context=server_context(certs.good)) as tls, \
            Peer(redirect(f"https://cdn.example.com:{tls.port}/")) as peer:
        result = probe(settings("http", port=peer.port, follow_redirects=True), "127.0.0.1")
    assert not result["ok"] and result["reason"].startswith("certificate not trusted"), result
