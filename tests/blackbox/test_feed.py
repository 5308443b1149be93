# SPDX-License-Identifier: Apache-2.0
"""The server and a health feed that does all sorts of things."""
import os
import signal
import subprocess
import sys
import time

import pytest

import feedlib
import reportlib
import serverlib
import sluicelib
from feedlib import DOWN, OPEN, UP, Feed, answers, line, subject, wait_answers, wait_health
from reportlib import BT, SE, US

PAIR = 'ttl: 0\nendpoints: {a: ["192.0.2.1", "2001:db8::1"], b: ["192.0.2.2", "2001:db8::2"]}\n' \
       "regions: {global: [{a: 1}, {b: 1}]}\n"
NAME = "cdn.example.com."
A, B = "192.0.2.1", "192.0.2.2"
ONE, TWO = (NAME, "a"), (NAME, "b")


@pytest.fixture
def feed(tmp_path):
    with Feed(tmp_path / "feed", [subject(1, [ONE], UP, UP), subject(2, [TWO], UP, UP)]) as running:
        yield running


@pytest.fixture
def serve(make_config, start, tmp_path):
    def run(*options, domains=None, **keywords):
        domains = domains or {"cdn": PAIR}
        return start(make_config(domains), "--health", tmp_path / "feed", *options, **keywords)
    return run


def test_snapshot_and_changes(feed, serve):
    feed.subjects[1].update(v4=DOWN)
    server = serve()
    wait_health(server, connected=True, subjects=2, targets=2, served=2, error=None)
    wait_answers(server, NAME, [B])
    feed.change(1, UP, UP)
    wait_answers(server, NAME, [A])
    feed.change(2, DOWN, DOWN)
    feed.change(1, DOWN, DOWN)
    wait_answers(server, NAME, [A])  # all down: as if all were up
    feed.change(2, UP, UP)
    wait_answers(server, NAME, [B])


def test_a_subject_changes_all_its_targets(feed, serve):
    domains = {f"d{i}": PAIR for i in range(30)}
    feed.subjects = {7: subject(7, [(f"d{i}.example.com.", "a") for i in range(30)], UP, UP)}
    server = serve(domains=domains)
    wait_health(server, connected=True, served=30)
    feed.change(7, DOWN, UP)
    for i in range(30):
        wait_answers(server, f"d{i}.example.com.", [B])
        wait_answers(server, f"d{i}.example.com.", ["2001:db8::1"], "AAAA")


def test_not_decided_keeps_what_was_known(feed, serve, tmp_path):
    server = serve("--state", tmp_path / "state")
    wait_health(server, connected=True)
    feed.change(1, DOWN, DOWN)
    wait_answers(server, NAME, [B])
    feed.change(1, OPEN, OPEN)
    feed.subjects = {8: subject(8, [ONE], OPEN, OPEN)}
    feed.drop()
    wait_health(server, connected=True, subjects=1)
    assert answers(server, NAME) == {B}
    server.stop()
    server = sluicelib.Server(server.data, "--health", feed.path, "--state", tmp_path / "state")
    with server:
        assert answers(server, NAME) == {B}  # from the first answer on
        wait_health(server, connected=True)
        assert answers(server, NAME) == {B}
        feed.change(8, UP, UP)
        wait_answers(server, NAME, [A])


def test_what_is_not_checked_any_more_is_up(feed, serve):
    feed.subjects[1].update(v4=DOWN, v6=DOWN)
    server = serve()
    wait_answers(server, NAME, [B])
    feed.reset([subject(2, [TWO], UP, UP)])
    wait_answers(server, NAME, [A])


def test_b76_families_apart(feed, serve):
    server = serve()
    wait_health(server, connected=True)
    feed.change(1, UP, DOWN)
    wait_answers(server, NAME, ["2001:db8::2"], "AAAA")
    assert answers(server, NAME) == {A}
    feed.change(1, DOWN, UP)
    wait_answers(server, NAME, ["2001:db8::1"], "AAAA")
    wait_answers(server, NAME, [B])


def test_what_is_known_of_an_endpoint(feed, serve):
    feed.subjects = {1: subject(1, [ONE], DOWN, None)}
    server = serve()
    wait_health(server, connected=True)
    known = {(h["endpoint"], h["family"]): h
             for h in sluicelib.control(server.control, "domain", domain=NAME)["domain"]["health"]}
    one = known["a", 4]
    assert (one["state"], one["checked"], one["since"], one["why"]) == ("down", True, DOWN[1], DOWN[2])
    assert (known["a", 6]["state"], known["a", 6]["checked"]) == ("unknown", False)
    assert (known["b", 4]["state"], known["b", 4]["checked"], known["b", 4]["why"]) == ("unknown", False, None)


# ---- the same rules, with health from the feed ---------------------------------------------------

REGIONS = reportlib.domain({"e1": "192.0.2.11", "e2": "192.0.2.12", "u1": "192.0.2.21", "g1": "192.0.2.31"},
                           {"eu": [{"e1": 1}, {"e2": 1}], "us": {"u1": 1}, "global": {"g1": 1}})
ZERO = reportlib.domain({"a": "192.0.2.1", "b": "192.0.2.2", "c": "192.0.2.3"}, {"global": {"a": 100, "b": 0, "c": 0}})
LEVELS = reportlib.domain({f"p{i}{w}": f"192.0.2.{i}{n}" for i in (1, 2, 3) for n, w in enumerate("ab")},
                          {"global": [{f"p{i}{w}": 1 for w in "ab"} for i in (1, 2, 3)]})


def each(name, endpoints):
    return [subject(i, [(name, endpoint)], UP, None) for i, endpoint in enumerate(endpoints)]


def test_b03_all_down_in_the_feed_is_as_all_up(feed, serve, tmp_path):
    feed.subjects = {s["id"]: s for s in each("www.example.com.", ["e1", "e2", "u1", "g1"])}
    server = serve(domains={"www": REGIONS}, geo=reportlib.make_mmdb(tmp_path))
    expected = {SE: {"192.0.2.11"}, US: {"192.0.2.21"}, BT: {"192.0.2.31"}}

    def check():
        for client, addresses in expected.items():
            reportlib.all_from(server, "www.example.com.", addresses, ecs=client)

    wait_health(server, connected=True)
    check()
    for i in range(4):
        feed.change(i, DOWN)
    feed.change(0, UP)
    wait_answers(server, "www.example.com.", {"192.0.2.31"})
    feed.change(0, DOWN)
    wait_applied(server, "www.example.com.", "down", {"e1", "e2", "u1", "g1"})
    check()


def wait_applied(server, name, state, endpoints):
    """Waits until just these endpoints of a domain are in this state."""
    def found():
        reply = sluicelib.control(server.control, "domain", domain=name)
        return {h["endpoint"] for h in reply["domain"]["health"] if h["state"] == state}
    serverlib.wait_for(lambda: found() == endpoints, lambda: f"{state}: {endpoints}, but {found()}")


def test_b04_zero_weights_and_the_feed(feed, serve):
    name, a, b, c = "www.example.com.", "192.0.2.1", "192.0.2.2", "192.0.2.3"
    feed.subjects = {s["id"]: s for s in each(name, "abc")}
    server = serve(domains={"www": ZERO})
    wait_health(server, connected=True)
    assert answers(server, name) == {a}
    for number, verdict, down, expected in ((0, DOWN, {"a"}, {b, c}), (1, DOWN, {"a", "b"}, {c}),
                                            (2, DOWN, {"a", "b", "c"}, {a}), (0, UP, {"b", "c"}, {a})):
        feed.change(number, verdict)
        wait_applied(server, name, "down", down)
        assert answers(server, name, count=60) == expected, (number, verdict)


def test_b62_one_level_and_b108_failback(feed, serve):
    name = "www.example.com."
    feed.subjects = {s["id"]: s for s in each(name, ["p1a", "p1b", "p2a", "p2b", "p3a", "p3b"])}
    server = serve(domains={"www": LEVELS})
    wait_health(server, connected=True)
    for up in (1, 0, 2, 4, 3, 7, 5, 6, 1):  # which levels have a healthy member
        for level in range(3):
            feed.change(2 * level, UP if up >> level & 1 else DOWN)
            feed.change(2 * level + 1, DOWN)
        wait_applied(server, name, "up", {f"p{level + 1}a" for level in range(3) if up >> level & 1})
        best = next((level for level in range(3) if up >> level & 1), None)
        expected = {f"192.0.2.{best + 1}0"} if best is not None else {"192.0.2.10", "192.0.2.11"}
        assert answers(server, name, count=60) == expected, up


# ---- what goes wrong -----------------------------------------------------------------------------


def test_no_checker_at_the_start(feed, serve):
    feed.stop()
    server = serve()
    server.wait_log("the health checker at .* is lost: .*serving by the last known status")
    now = feedlib.health(server)
    assert not now["connected"] and now["age"] is None and not now["stale"] and now["error"]
    assert "no checker is connected" in server.sluice("status").stdout
    feed.start()
    wait_health(server, connected=True, error=None)
    server.wait_log("the health checker at .* is there: 2 checks of 2 endpoints")


def test_the_checker_dies_and_comes_back(feed, serve):
    server = serve()
    wait_health(server, connected=True)
    feed.change(1, DOWN, DOWN)
    wait_answers(server, NAME, [B])
    feed.stop()
    server.wait_log("is lost: it has ended the connection")
    now = wait_health(server, connected=False)
    assert isinstance(now["age"], int) and now["error"]
    assert "NO checker is connected" in server.sluice("status").stdout
    assert answers(server, NAME) == {B}
    feed.subjects[1].update(v4=UP)
    feed.start()
    wait_answers(server, NAME, [A])
    wait_health(server, connected=True)


def test_silence_is_said_and_changes_nothing(feed, serve):
    """A checker that hangs keeps its connection: only the missing heartbeats tell."""
    server = serve()
    wait_health(server, connected=True)
    feed.change(1, DOWN, DOWN)
    wait_answers(server, NAME, [B])
    feed.greeting = b""  # nor does it say anything to who connects again
    feed.hush()
    server.wait_log("is lost: it is silent")
    wait_health(server, connected=False)
    assert answers(server, NAME) == {B}
    feed.greeting = None
    feed.beating = True
    feed.drop()
    wait_health(server, connected=True)
    assert answers(server, NAME) == {B}


GARBAGE = {
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "zeros": b"\0" * 5000 + b"\n",
    "binary": bytes(range(256)) * 40 + b"\n",
    "no hello": line("begin", seq=1),
    "other format": line("hello", format=2, session="x", beat=1),
    "deep": b"[" * 5000 + b"\n",
    "number": b"17\n",
    "empty line": b"\n",
    "half a snapshot": line("hello", format=1, session="x", beat=1) + line("begin", seq=1) + line("change", seq=2, id=1),
    "target": line("hello", format=1, session="x", beat=1) + line("begin", seq=1)
              + line("subject", id=1, targets=[["no dot", "a"]], v4=None, v6=None),
    "not UTF-8": b'{"t":"\xff\xfe"}\n',
    "escapes": b"\x1b[2J\x1b[31mred\n",
    "huge number": b'{"t":"hello","format":' + b"9" * 400 + b"}\n",
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_at_the_connection(kind, feed, serve):
    server = serve()
    wait_health(server, connected=True)
    feed.change(1, DOWN, DOWN)
    wait_answers(server, NAME, [B])
    feed.greeting = GARBAGE[kind]
    before = feed.accepted
    feed.drop()
    feed.wait_accepted(before + 2)  # it tries again
    wait_health(server, connected=False)
    assert answers(server, NAME) == {B}
    assert "\x1b" not in server.sluice("status").stdout
    feed.greeting = None
    wait_health(server, connected=True)
    feed.change(1, UP, UP)
    wait_answers(server, NAME, [A])


@pytest.mark.parametrize("octets", [b"garbage\n", b"\xff\n", b'{"t":"change","seq":1,"id":99,"v4":null,"v6":null}\n',
                                    line("change", seq=7, id=1, v4=UP, v6=UP), line("beat", seq=7),
                                    line("hello", format=1, session="y", beat=1), line("end", seq=0)],
                         ids=["text", "binary", "unknown subject", "gap", "gap in a heartbeat", "second hello", "end"])
def test_garbage_in_the_middle(octets, feed, serve):
    """The connection is given up, what is known stays, and a snapshot puts all right again."""
    server = serve()
    wait_health(server, connected=True)
    feed.change(1, DOWN, DOWN)
    wait_answers(server, NAME, [B])
    before = feed.accepted
    feed.send(octets)
    server.wait_log("is lost: ")
    feed.wait_accepted(before + 1)
    wait_health(server, connected=True)
    assert answers(server, NAME) == {B}


def test_a_change_that_was_missed_is_made_up(feed, serve):
    server = serve()
    wait_health(server, connected=True)
    feed.miss_change(1, DOWN, UP)
    wait_answers(server, NAME, [B])


def test_endless_line(feed, serve):
    server = serve()
    wait_health(server, connected=True)
    before = feed.accepted
    feed.send(b"x" * (1 << 20) + b"x" * 300000)
    server.wait_log("is lost: it sends an endless line")
    feed.wait_accepted(before + 1)
    wait_health(server, connected=True)


def test_one_octet_at_a_time(feed, serve):
    server = serve()
    wait_health(server, connected=True)
    feed.hush()
    feed.seq += 1
    for octet in line("change", seq=feed.seq, id=1, v4=DOWN, v6=DOWN):
        feed.send(bytes([octet]))
    wait_answers(server, NAME, [B])


def test_who_ends_at_once_is_asked_again_and_no_log_is_flooded(feed, serve):
    server = serve()
    wait_health(server, connected=True)
    feed.greeting = b"bye\n"
    before = feed.accepted
    feed.drop()
    feed.wait_accepted(before + 4)
    assert sum("is lost" in text for text in server.lines) <= 3  # ended, then always the same
    assert answers(server, NAME) == {A}


# ---- stale ---------------------------------------------------------------------------------------


def test_stale_health_counts_as_healthy_if_the_settings_say_so(feed, serve):
    server = serve("--health-stale", "1s")
    wait_health(server, connected=True)
    feed.change(1, DOWN, DOWN)
    wait_answers(server, NAME, [B])
    feed.stop()
    server.wait_log("no news of health for 1 s: all endpoints count as healthy")
    wait_answers(server, NAME, [A])
    assert wait_health(server, stale=True)["connected"] is False
    assert "ALL COUNT AS HEALTHY" in server.sluice("status").stdout
    server.sluice("health", "override", NAME, "a", "down")  # what is forced still holds
    wait_answers(server, NAME, [B])
    server.sluice("health", "override", NAME, "a", "auto")
    wait_answers(server, NAME, [A])
    server.reload()
    assert answers(server, NAME) == {A}
    feed.start()  # what was known was not forgotten
    wait_answers(server, NAME, [B])
    assert wait_health(server, connected=True)["stale"] is False


@pytest.mark.parametrize("text", ["10x", "-1", "", "1m30s", "99999999d", "m"])
def test_wrong_time(text, tmp_path):
    done = sluicelib.run(sluicelib.program("sluiced"), "--data", tmp_path, "--listen", "127.0.0.1@9",
                         "--health-stale", text)
    assert done.returncode == 2 and "--health-stale" in done.stderr


def test_path_that_is_too_long(tmp_path):
    done = sluicelib.run(sluicelib.program("sluiced"), "--data", tmp_path, "--listen", "127.0.0.1@9",
                         "--health", "/" + "x" * 120)
    assert done.returncode == 2 and "107 octets" in done.stderr


# ---- reloads -------------------------------------------------------------------------------------


def test_reload_while_connected(feed, serve, make_config, tmp_path):
    """What the checker told holds in the new build too, also of a domain that is new in it."""
    feed.subjects = {1: subject(1, [ONE, ("new.example.com.", "a")], DOWN, DOWN)}
    server = serve()
    wait_health(server, connected=True, targets=2, served=1)
    wait_answers(server, NAME, [B])
    sluicelib.build(make_config({"cdn": PAIR, "new": PAIR}, name="config2"), server.data)
    server.reload()
    assert feedlib.health(server)["served"] == 2
    assert answers(server, "new.example.com.") == {B} and answers(server, NAME) == {B}
    feed.change(1, UP, UP)
    wait_answers(server, NAME, [A])
    wait_answers(server, "new.example.com.", [A])
    sluicelib.build(make_config({"new": PAIR}, name="config3"), server.data)
    server.reload()
    feed.change(1, DOWN, DOWN)
    wait_answers(server, "new.example.com.", [B])
    assert feed.accepted == 1


def test_targets_that_the_server_does_not_have(feed, serve):
    feed.subjects = {1: subject(1, [("other.example.org.", "a"), ONE, (NAME, "zzz")], UP, UP)}
    server = serve()
    wait_health(server, connected=True, targets=3, served=1)
    feed.change(1, DOWN, DOWN)
    wait_answers(server, NAME, [B])


def test_two_servers_on_one_feed(feed, serve):
    servers = [serve(), serve()]
    for server in servers:
        wait_health(server, connected=True)
    feed.change(1, DOWN, DOWN)
    for server in servers:
        wait_answers(server, NAME, [B])


# ---- what the checker is told --------------------------------------------------------------------


def test_overrides_are_told(feed, serve):
    server = serve()
    wait_health(server, connected=True)

    def told():
        lists = [text["list"] for text in feed.lines if text["t"] == "overrides"]
        return sorted((o["kind"], o["domain"], o["endpoint"], o["family"], o["value"]) for o in lists[-1]) if lists else None

    down = [("health", NAME, "a", 4, 2), ("health", NAME, "a", 6, 2)]
    feed.wait(lambda: told() == [], "an empty list")
    server.sluice("health", "override", NAME, "a", "down")
    feed.wait(lambda: told() == down, "the override")
    feed.lines.clear()
    feed.drop()
    feed.wait(lambda: told() == down, "the override, at the next connection")
    server.sluice("health", "override", NAME, "a", "auto")
    feed.wait(lambda: told() == [], "an empty list")


# ---- a peer that is stopped ----------------------------------------------------------------------

PEER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from feedlib import *
feed = Feed(sys.argv[2], [subject(1, [("cdn.example.com.", "a")], DOWN, DOWN)])
print("listening", flush=True)
sys.stdin.read()
"""


def test_a_stopped_peer_is_lost_and_found(serve, tmp_path):
    """SIGSTOP: the kernel goes on to accept connections, and nothing comes."""
    argv = [sys.executable, "-c", PEER, os.path.dirname(os.path.abspath(__file__)), str(tmp_path / "feed")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        assert peer.stdout.readline() == "listening\n"
        server = serve()
        wait_health(server, connected=True)
        wait_answers(server, NAME, [B])
        peer.send_signal(signal.SIGSTOP)
        server.wait_log("is lost: it is silent")
        assert answers(server, NAME) == {B}
        peer.send_signal(signal.SIGCONT)
        wait_health(server, connected=True)
        peer.kill()
        server.wait_log("is lost: (it has ended the connection|connection reset by peer)")  # what was unread decides
        assert answers(server, NAME) == {B}


def test_a_stopped_server_reads_what_came_meanwhile(feed, serve):
    """After its own pause the server takes the checker not for silent: its lines wait in the socket."""
    server = serve()
    wait_health(server, connected=True)
    server.signal(signal.SIGSTOP)
    feed.change(1, DOWN, DOWN)
    time.sleep(6)  # longer than what counts as silence; nothing tells when a stopped process has missed it
    server.signal(signal.SIGCONT)
    wait_answers(server, NAME, [B])
    wait_health(server, connected=True)
    assert "is lost" not in server.log
