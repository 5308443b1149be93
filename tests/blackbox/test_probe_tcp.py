# SPDX-License-Identifier: Apache-2.0
"""Probes of type tcp: connect, send, expect; peers that refuse, hang, reset, flood."""
import contextlib
import signal
import socket
import threading

import pytest

import reportlib
import sluicelib
from peerlib import Peer, drip, endless, hang, reset
from probelib import command, measured, probe, probes, settings

LIMIT = 65536
NOT_IN_64K = "the expected text is not in the first 64 KiB of what came"


def verdict(behave, target="127.0.0.1", address="127.0.0.1", timeout=30000, **more):
    with Peer(behave, address=address) as peer:
        result = probe(settings("tcp", timeout=timeout, port=peer.port, **more), target)
    assert not result["own_fault"]
    return result["ok"], result["reason"]


def say(octets, then=hang):
    def behave(peer, sock):
        sock.sendall(octets)
        then(peer, sock)
    return behave


def close(_peer, _sock):
    pass


def test_connect_is_enough():
    assert verdict(hang) == (True, "connected")
    assert verdict(hang, target="::1", address="::1") == (True, "connected")


def test_refused():
    reserved = sluicelib.Port()
    result = probe(settings("tcp", port=reserved.number), "127.0.0.1")
    reserved.close()
    assert (result["ok"], result["reason"]) == (False, "connect refused")


def network(scenario):
    return reportlib.in_own_network(scenario, "", "probe_network.py")


def test_no_connection_with_itself():
    """A closed port that the kernel itself may connect from (RFC 9293 section 3.5)."""
    assert network("with_itself") == ["tcp False connect refused", "http False the peer does not speak HTTP"]


def test_no_port_left_is_no_verdict():
    words = "this machine has no address or port left to connect from"
    assert network("no_port_left") == [f"tcp True {words}", f"http True {words}"]


def test_unreachable():
    assert network("unreachable") == ["tcp False network unreachable"] * 2 + ["http False network unreachable"] * 2


def test_hang_in_connect():
    """A listener whose queue is full does not answer."""
    with socket.socket() as listener, contextlib.ExitStack() as clients:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        check = settings("tcp", timeout=1500, port=listener.getsockname()[1])
        results, usage = measured(check, ["127.0.0.1"])
    assert [(r["ok"], r["reason"]) for r in results] == [(False, "timeout in connect")]
    assert usage["cpu_us"] < 1_000_000


@pytest.mark.parametrize("cut", range(5))
def test_expect(cut):
    octets = b"220 ready\r\n"

    def behave(peer, sock):
        sock.sendall(octets[:4 + cut])
        sock.sendall(octets[4 + cut:])
        hang(peer, sock)
    assert verdict(behave, expect={"data": "ready"}) == (True, "expected text came")


def test_send_and_expect():
    def behave(peer, sock):
        while b"\r\n" not in (part := sock.recv(100)):
            assert part
        sock.sendall(b"+PONG\r\n")
        hang(peer, sock)
    assert verdict(behave, send="PING\r\n", expect={"data": "+PONG"}) == (True, "expected text came")


def test_send_alone():
    assert verdict(hang, send="PING\r\n") == (True, "connected")


@pytest.mark.parametrize("behave, reason", [
    (close, "closed by the peer before the expected text came"),
    (say(b"220 busy\r\n", close), "closed by the peer before the expected text came (10 octets came)"),
    (reset, "connection reset "),  # in connect, if the peer is as quick
    (endless(bytes(range(256)) * 100), NOT_IN_64K),
    (endless(b"read"), NOT_IN_64K),
], ids=["close", "other-text", "reset", "garbage", "nearly"])
def test_expect_fails(behave, reason):
    good, got = verdict(behave, expect={"data": "ready"})
    assert not good
    assert got.startswith(reason)


@pytest.mark.parametrize("before, good", [(LIMIT - 5, True), (LIMIT - 4, False)])
def test_B72_text_at_the_border_of_64_KiB(before, good):
    assert verdict(say(b"-" * before + b"ready" + b"-" * 1000), expect={"data": "ready"})[0] is good


def test_B72_endless(monkeypatch):
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1:exitcode=99:quarantine_size_mb=1")
    with Peer(endless(b"a" * 65536)) as peer:
        check = settings("tcp", timeout=30000, port=peer.port, expect={"data": "ready"})
        results, usage = measured(check, ["127.0.0.1"], "--rounds", "20")
    assert not any(r["ok"] for r in results)
    assert usage["grown_kb"] < 10_000
    assert usage["cpu_us"] < 5_000_000


def test_hang_before_and_after_the_first_octets():
    with Peer(hang) as silent, Peer(say(b"220 "), address="127.0.0.2", port=silent.port) as begun, \
            Peer(drip(b"."), address="127.0.0.3", port=silent.port):
        check = settings("tcp", timeout=1500, port=silent.port, expect={"data": "ready"})
        results, usage = measured(check, ["127.0.0.1", "127.0.0.2", "127.0.0.3"])
        silent.released.set()
        begun.released.set()
    assert {r["reason"] for r in results} == {"timeout in waiting for the expected text"}
    assert usage["cpu_us"] < 1_000_000


def test_peer_that_never_reads():
    """More than fits into the buffers of both ends cannot be sent: the text is short enough."""
    assert verdict(hang, send="x" * 60000)[0]


@pytest.mark.parametrize("address", ["169.254.169.254", "::ffff:169.254.169.254", "::ffff:127.0.0.1",
                                     "0.0.0.0", "::", "224.0.0.1", "ff02::1", "fe80::1", "255.255.255.255"])
def test_B114_addresses_that_no_endpoint_has(address):
    """Also where a configuration holds them."""
    with Peer(hang) as peer:
        result = probe(settings("tcp", port=peer.port), address)
        assert peer.accepted == []
    assert (result["ok"], result["reason"]) == (False, "at this address there can be no endpoint; it is not probed")


def test_phases():
    with Peer(say(b"ready")) as peer:
        phases = probe(settings("tcp", port=peer.port, send="x", expect={"data": "ready"}), "127.0.0.1")["phases"]
    assert phases["tls"] is None and phases["resolve"] is None
    assert all(phases[name] >= 0 for name in ("connect", "send", "first", "all"))


@pytest.mark.parametrize("option", ["--cancel", "--quit"])
def test_cancelled_in_the_middle(option):
    with Peer(hang) as silent, Peer(drip(b"."), address="127.0.0.2", port=silent.port):
        check = settings("tcp", timeout=30000, port=silent.port, expect={"data": "ready"})
        assert probes(check, ["127.0.0.1", "127.0.0.2"], option, "200") == []
        silent.released.set()


@pytest.mark.parametrize("kind, phase", [("tcp", "waiting for the expected text"),
                                         ("http", "waiting for the response")])
def test_out_of_descriptors_is_no_verdict(kind, phase):
    """The checker's own lack says nothing about the peer."""
    with Peer(hang) as peer:
        check = settings(kind, port=peer.port, expect={"data": "ready"}, timeout=1500)
        results = probes(check, ["127.0.0.1"] * 60, prefix=["prlimit", "--nofile=40"])
    lacking = [r for r in results if r["own_fault"]]
    assert lacking and {r["reason"] for r in lacking} == {"this machine has no descriptors left"}
    assert {r["reason"] for r in results if not r["own_fault"]} == {f"timeout in {phase}"}


@pytest.mark.parametrize("ends", [True, False])
def test_stopped_for_longer_than_the_deadline(ends):
    """What is seen after the checker itself did not run is no failure: the probe begins anew."""
    first, stopped = threading.Event(), threading.Event()

    def behave(peer, sock):
        if len(peer.accepted) > 1:
            sock.sendall(b"ready")
            hang(peer, sock)
        else:
            first.set()
            stopped.wait(sluicelib.DEADLINE)
            if not ends:
                hang(peer, sock)

    with Peer(behave) as peer:
        check = settings("tcp", port=peer.port, expect={"data": "ready"}, timeout=2000)
        run = sluicelib.Process(*command(check), "127.0.0.1")
        assert first.wait(sluicelib.DEADLINE)
        run.signal(signal.SIGSTOP)
        stopped.set()
        threading.Event().wait(5)  # the time that it does not run
        run.signal(signal.SIGCONT)
        assert run.wait() == 0
        assert '"ok": true' in run.log
        assert len(peer.accepted) == 2
