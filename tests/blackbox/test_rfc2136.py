# SPDX-License-Identifier: Apache-2.0
"""The RFC 2136 provider: real Knot and BIND, and servers that do as they should not."""
import json
import os
import pty
import socket
import threading

import dns.message
import dns.rrset
import pytest

import primaries
import sluicelib
import test_sync_rfc2136 as base
from test_sync_rfc2136 import DOMAIN, KEY, KINDS, World, held

HOSTS = "ttl: 30\nendpoints: {one: x.example.net., two: y.example.net.}\nregions: {global: {one: 1, two: 2}}\n"
BOTH = ("ttl: 30\nendpoints: {one: [192.0.2.1, \"2001:db8::1\"], two: [192.0.2.2, \"2001:db8::2\"]}\n"
        "regions: {global: {one: 1, two: 1}}\n")


@pytest.fixture(params=KINDS)
def world(tmp_path, request):
    out = World(tmp_path, [request.param])
    out.target = out.targets[request.param]
    yield out
    out.close()


def once(port, *steps, zone="e.test.", key=KEY, deadline=20000, status=0, **more):
    """Uses the provider without sync around it."""
    done = sluicelib.run(sluicelib.BUILD / "tests/providers/provider_once", stdin=json.dumps(dict({
        "settings": {"type": "rfc2136", "address": f"127.0.0.1@{port}", "secret": "tsig"}, "zone": zone,
        "key": f"{key.algorithm}:{key.name}:{key.secret}", "deadline": deadline, "do": steps}, **more)))
    assert done.returncode == status, done.stdout + done.stderr
    assert key.secret not in done.stdout + done.stderr
    return json.loads(done.stdout)


# ---- real servers ---------------------------------------------------------------------------------


def test_a_and_aaaa_then_a_host_name_and_back(world):
    """B82, complaint 30: addresses to a CNAME and back, each in one update."""
    world.write(domain=BOTH)
    world.apply("--allow-ns-change")
    target = world.target
    assert target.ask("cdn.e.test") == ["192.0.2.1", "192.0.2.2"]
    assert target.ask("cdn.e.test", "AAAA") == ["2001:db8::1", "2001:db8::2"]
    world.write(domain=HOSTS)
    world.apply()
    assert target.ask("cdn.e.test", "CNAME") == ["y.example.net."]
    assert world.sync("plan")["items"] == []
    world.write(domain=BOTH)
    world.apply()
    assert target.ask("cdn.e.test", "AAAA") == ["2001:db8::1", "2001:db8::2"]
    assert target.ask("cdn.e.test", "CNAME") == []
    assert world.sync("drift")["items"] == []


def apply_on_terminal(world, between):
    """`sync apply`; `between` is called while it waits for the answer.  Exit status and output."""
    pid, fd = pty.fork()
    if pid == 0:
        program = sluicelib.program("sluice")
        os.execve(program, [program, "sync", "apply", "--allow-ns-change", "--config", str(world.folder / "config"),
                            "--settings", str(world.folder / "sluice.yaml"), "--socket", str(world.folder / "none")],
                  sluicelib.environment())
    seen = b""
    while b"(yes or no)" not in seen:
        seen += os.read(fd, 65536)
    between()
    os.write(fd, b"yes\n")
    try:
        while part := os.read(fd, 65536):
            seen += part
    except OSError:
        pass  # the end of a terminal
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    return status, seen.decode()


@pytest.mark.parametrize("stale", [
    lambda m: m.replace("www", 60, "A", "192.0.2.99"),     # another value
    lambda m: m.add("www", 3600, "A", "192.0.2.99"),       # one more value
    lambda m: m.delete("www", "A"),                        # gone
    lambda m: m.add("fresh", 60, "A", "192.0.2.99"),       # there before us
    lambda m: m.add("fresh", 60, "CNAME", "www.e.test."),  # would swallow the new record
], ids=["changed", "grown", "deleted", "created", "shadowed"])
def test_a_concurrent_writer_wins(world, stale):
    """What was seen is expected: a change in between stops the update, and nothing of it is done."""
    world.apply("--allow-ns-change")
    zone = (world.folder / "config/e.test/zone.yaml")
    zone.write_text(zone.read_text().replace("A: [192.0.2.80]", "A: [192.0.2.81]")
                    + "  fresh: {A: [192.0.2.7]}\n  next: {A: [192.0.2.8]}\n")
    status, text = apply_on_terminal(world, lambda: world.target.update(stale))
    assert status == 1, text
    assert "somebody changed e.test. meanwhile" in text or "the plan is not the one that was seen" in text, text
    assert world.target.ask("next.e.test") == [] and "192.0.2.81" not in world.target.ask("www.e.test")
    # The next plan sees what is there.
    world.apply("--take-over")
    assert world.target.ask("next.e.test") == ["192.0.2.8"] and world.target.ask("www.e.test") == ["192.0.2.81"]
    assert world.sync("plan")["items"] == []


def test_records_are_expected_as_they_were_read(world):
    """Names in data keep the case that somebody gave them; what is compared is not what is sent."""
    world.target.update(lambda m: m.add("e.test.", 77, "MX", "5 MiXed.Example.NET."))
    out = world.apply("--allow-ns-change", status=3)
    assert held(out) == ["e.test./MX"]
    world.apply("--take-over")
    assert world.target.ask("e.test", "MX") == ["10 mail.example.net."]
    assert world.sync("plan")["items"] == []


@pytest.mark.parametrize("servers", [["ns1.e.test.", "ns2.e.test."], ["ns2.e.test."]], ids=["two", "one"])
def test_the_ttl_of_the_apex_ns(world, servers):
    zone = (world.folder / "config/e.test/zone.yaml")
    zone.write_text(zone.read_text().replace("[ns1.e.test., ns2.e.test.]", f"[{', '.join(servers)}]"))
    world.apply("--allow-ns-change")
    zone.write_text(zone.read_text().replace("ttl: 3600", "ttl: 1800"))
    world.apply("--allow-ns-change")
    assert world.target.ask("e.test", "NS") == servers
    assert world.sync("plan")["items"] == []


def test_a_zone_that_is_not_there(world):
    out = once(world.target.port, "read", zone="gone.test.", status=1)
    assert out["error"]["failure"] == "gone" and "gone.test." in out["error"]["text"]


def test_servers_are_those_that_are_asked(world):
    assert once(world.target.port, "servers")["servers"] == [f"127.0.0.1@{world.target.port}"]


class ReadOnlyKnot(base.Knot):
    def write(self, name, text):
        return super().write(name, text.replace("[transfer, update]", "transfer"))


class ReadOnlyBind(base.Bind):
    def write(self, name, text):
        return super().write(name, text.replace(f"allow-update {{ key {KEY.name}; }};", ""))


@pytest.mark.parametrize("kind", [ReadOnlyKnot, ReadOnlyBind])
def test_a_key_that_may_not_write(tmp_path, kind):
    target = kind(tmp_path / "server")
    try:
        out = once(target.port, "read", "compile", "apply", status=1,
                   static=[{"name": "new.e.test.", "type": "A", "ttl": 60, "values": ["192.0.2.1"]}])
        assert out["error"]["failure"] == "denied" and out["done"] == 0, out
        assert target.ask("new.e.test") == []
    finally:
        target.close()


def steer(folder, domain):
    """The document of a domain, as the build has it."""
    config = sluicelib.config_files({"cdn": domain})
    sluicelib.write_tree(folder / "config", config)
    sluicelib.build(folder / "config", folder / "data")
    lines = (folder / "data/current/domains.json").read_text(encoding="utf-8").splitlines()
    return next(d["steer"] for d in map(json.loads, lines) if d and "steer" in d)


DOWN = {"manual": 0, "health4": 2, "health6": 2}
UP = {"manual": 0, "health4": 1, "health6": 1}


@pytest.mark.parametrize("status, expected4, expected6", [
    ([DOWN, UP], ["192.0.2.2"], ["2001:db8::2"]),
    ([DOWN, DOWN], ["192.0.2.1", "192.0.2.2"], ["2001:db8::1", "2001:db8::2"]),
    ([dict(DOWN, health6=1), UP], ["192.0.2.2"], ["2001:db8::1", "2001:db8::2"]),
    ([dict(UP, manual=2), DOWN], ["192.0.2.2"], ["2001:db8::2"]),
    ([dict(UP, manual=2), dict(UP, manual=2)], ["192.0.2.1", "192.0.2.2"], ["2001:db8::1", "2001:db8::2"]),
], ids=["one down", "all down", "one family", "disabled before down", "all disabled"])
def test_pushed_health_never_leaves_nothing(tmp_path, status, expected4, expected6):
    document = steer(tmp_path, BOTH)
    port = sluicelib.Port()
    out = once(port.number, "compile", domains=[{"steer": document, "health": {}, "pushed": True, "status": status}])
    wanted = {o["type"]: o["body"]["values"] for o in out["wanted"]}
    assert wanted == {"A": expected4, "AAAA": expected6}
    assert out["fidelity"]["cdn.example.com."]["status"]["grade"] == "approx"
    # Health that is not pushed changes nothing, and is said to be lost.
    out = once(port.number, "compile", domains=[{"steer": document, "health": {}, "pushed": False}])
    assert out["fidelity"]["cdn.example.com."]["status"]["grade"] == "lost"
    port.close()


def test_weights_in_force_choose_the_records(tmp_path):
    """Complaint 4: level 1 of global, whatever the weights of others; 0 is not in the answer."""
    document = steer(tmp_path, DOMAIN)
    count = sum(len(level) for region in document["regions"] for level in region["levels"])
    port = sluicelib.Port()
    for weights, expected in (([-1] * count, ["192.0.2.1", "192.0.2.2"]), ([0] + [-1] * (count - 1), ["192.0.2.2"])):
        out = once(port.number, "compile", domains=[{"steer": document, "weights": weights}])
        assert [o["body"]["values"] for o in out["wanted"]] == [expected]
        assert out["fidelity"]["cdn.example.com."]["geo"]["grade"] == "lost"
    port.close()


# ---- servers that do as they should not -----------------------------------------------------------


class Scripted:
    """Answers each request over TCP as `answer(query, socket)` does; closes when that returns."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                length = int.from_bytes(sluicelib.receive(sock, 2), "big")
                wire = sluicelib.receive(sock, length)
                query = dns.message.from_wire(wire, keyring=KEY.ring())
                self.answer(query, sock)

    def close(self):
        sluicelib.stop_accepting(self.listener, self.thread)


def send(sock, wire):
    sock.sendall(len(wire).to_bytes(2, "big") + wire)


def zone_answer(query, *texts, rcode=0):
    reply = dns.message.make_response(query)
    reply.set_rcode(rcode)
    for text in texts:
        name, ttl, rdtype, data = text.split(" ", 3)
        reply.answer.append(dns.rrset.from_text(name, int(ttl), "IN", rdtype, data))
    return reply


SOA = "e.test. 300 SOA ns. host. 1 3600 600 86400 60"
WWW = "www.e.test. 60 A 192.0.2.1"


def rcode(number):
    return lambda query, sock: send(sock, zone_answer(query, rcode=number).to_wire())


def cut_transfer(query, sock):
    send(sock, zone_answer(query, SOA, WWW).to_wire())


def unsigned(query, sock):
    reply = zone_answer(query, SOA, WWW, SOA)
    reply.tsig = None
    reply.keyring = None
    send(sock, reply.to_wire(want_shuffle=False))


def forged(query, sock):
    wire = bytearray(zone_answer(query, SOA, WWW, SOA).to_wire())
    wire[60] ^= 1
    send(sock, bytes(wire))


def other_id(query, sock):
    query.id ^= 1
    send(sock, zone_answer(query, SOA, WWW).to_wire())


@pytest.mark.parametrize("answer, failure, words", [
    (cut_transfer, "garbage", "cut off"),
    (unsigned, "garbage", "not signed"),
    (forged, "denied", "signature"),
    (other_id, "garbage", "no answer to our request"),
    (lambda query, sock: send(sock, b"HTTP/1.0 400 Bad Request\r\n"), "garbage", "`address`"),
    (lambda query, sock: send(sock, b""), "garbage", "`address`"),
    (lambda query, sock: sock.sendall(b"\xff\xff" + b"x" * 100), "unreachable", "closed"),
    (lambda query, sock: None, "unreachable", "closed"),
    (rcode(2), "unreachable", "log"),
    (rcode(5), "denied", "allow-transfer"),
    (rcode(9), "gone", "create it"),
    (rcode(4), "refused", "NOTIMP"),
    (rcode(1), "refused", "FORMERR"),
    (rcode(7), "garbage", "RCODE 7"),
])
def test_wrong_answers_to_a_transfer(answer, failure, words):
    server = Scripted(answer)
    out = once(server.port, "read", status=1)
    server.close()
    assert out["error"]["failure"] == failure and words in out["error"]["text"], out
    assert "dns-x" in out["error"]["text"]


def test_no_answer_in_time():
    held_open = []
    server = Scripted(lambda query, sock: held_open.append(socket.socket(fileno=os.dup(sock.fileno()))))
    out = once(server.port, "read", deadline=300, status=1)
    server.close()
    assert out["error"]["failure"] == "unreachable" and "in time" in out["error"]["text"]


def whole_zone(query, sock):
    reply = dns.message.make_response(query)
    for text in (SOA, WWW):
        name, ttl, rdtype, data = text.split(" ", 3)
        reply.answer.append(dns.rrset.from_text(name, int(ttl), "IN", rdtype, data))
    reply.find_rrset(reply.answer, dns.name.from_text("e.test."), 1, dns.rdatatype.SOA, create=True, force_unique=True
                     ).update(dns.rrset.from_text("e.test.", 300, "IN", "SOA", SOA.split(" ", 3)[3]))
    send(sock, reply.to_wire())


@pytest.mark.parametrize("answer, failure, words", [
    (lambda query, sock: None, "unreachable", "may be done or not"),
    (rcode(2), "unreachable", "SERVFAIL"),
    (rcode(4), "refused", "dynamic updates"),
    (rcode(5), "denied", "update-policy"),
    (rcode(6), "conflict", "plan again"),
    (rcode(7), "conflict", "plan again"),
    (rcode(8), "conflict", "plan again"),
    (rcode(9), "gone", "create it"),
    (rcode(10), "refused", "NOTZONE"),
])
def test_wrong_answers_to_an_update(answer, failure, words):
    updates = []

    def act(query, sock):
        if query.opcode() != 5:
            return whole_zone(query, sock)
        updates.append(query)
        return answer(query, sock)

    server = Scripted(act)
    out = once(server.port, "read", "compile", "apply", status=1,
               static=[{"name": "new.e.test.", "type": "A", "ttl": 60, "values": ["192.0.2.1"]}])
    server.close()
    assert out["error"]["failure"] == failure and words in out["error"]["text"], out
    assert out["done"] == 0 and len(updates) == 1


def test_nothing_is_written_when_only_reading():
    """Complaint 15: what only plans sends no update."""
    seen = []

    def act(query, sock):
        seen.append(query.opcode())
        whole_zone(query, sock)

    server = Scripted(act)
    out = once(server.port, "read", "compile", "apply", status=1, read_only=True,
               static=[{"name": "new.e.test.", "type": "A", "ttl": 60, "values": ["192.0.2.1"]}])
    server.close()
    assert out["error"]["failure"] == "local" and seen == [0]


@pytest.mark.parametrize("key, words", [
    (primaries.Key("k", "hmac-nothing"), "hmac-nothing"),
    (primaries.Key("k..k"), "k..k"),
])
def test_keys_that_are_none(key, words):
    out = once(1, "read", key=key, status=1)
    assert out["error"]["failure"] == "local" and words in out["error"]["text"], out
