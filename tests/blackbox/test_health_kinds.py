# SPDX-License-Identifier: Apache-2.0
"""sluice-healthd with each kind of check, and the reasons that it gives for failures of each kind."""
import json
import os
import pwd
import re
import socket

import dns.rcode
import pytest

import healthlib
import peerlib
import probelib
import sluicelib
from certlib import issue, server_context
from fakedns import FakeDNS, SILENCE, reply
from healthlib import Endpoint, Healthd, wait_answers
from reportlib import in_own_network
from test_probe_exec import processes, wait_for
from tlslib import Authority

QUICK = healthlib.QUICK
A = "www.example.com. 0 IN A 192.0.2.1"


def domain(*endpoints, health):
    names = [e.partition(":")[0] for e in endpoints]
    return (f"ttl: 0\nendpoints: {{{', '.join(endpoints)}}}\n"
            f"regions: {{global: [{', '.join(f'{{{n}: 1}}' for n in names)}]}}\nhealth: {{{health}, {QUICK}}}\n")


@pytest.fixture
def both(tmp_path, make_config, start):
    running = []

    def run(domains, *options):
        data = sluicelib.build(make_config(domains), tmp_path / "data")
        server = start(data, "--health", f"{data}.feed")
        healthd = Healthd(data, *options)
        running.append(healthd)
        return server, healthd

    yield run
    for healthd in running:
        healthd.stop()


def machine(tmp_path, **programs):
    """A settings file with programs of exec checks, as the user who runs the test."""
    path = tmp_path / "sluice.yaml"
    user = pwd.getpwuid(os.geteuid()).pw_name
    path.write_text(json.dumps({"healthd": {"run-as": user},
                                "checks": {name: {"command": argv} for name, argv in programs.items()}}),
                    encoding="utf-8")
    return "-c", path


def test_dns(both):
    """B74: it is up for what the check states, and for nothing else."""
    rcodes = {"127.0.0.31": dns.rcode.NOERROR, "127.0.0.32": dns.rcode.NOERROR}
    with FakeDNS(lambda q, _: [reply(q, A, rcode=rcodes["127.0.0.31"])], address="127.0.0.31") as one:
        health = f"type: dns, port: {one.port}, name: www.example.com., expect: {{data: 192.0.2.1}}"
        server, healthd = both({"ns": domain("a: 127.0.0.31", "b: 127.0.0.32", health=health)})
        healthd.wait_states(**{"127.0.0.31": "up", "127.0.0.32": "down"})
        wait_answers(server, "ns.example.com", ["127.0.0.31"])
        healthd.wait_why("127.0.0.31", "expected data of type A came")
        healthd.wait_why("127.0.0.32", "port unreachable")
        rcodes["127.0.0.31"] = dns.rcode.SERVFAIL
        healthd.wait_states(**{"127.0.0.31": "down"})
        healthd.wait_why("127.0.0.31", "rcode SERVFAIL, expected NOERROR")
        rcodes["127.0.0.31"] = dns.rcode.NOERROR
        healthd.wait_states(**{"127.0.0.31": "up"})


def test_exec(both, tmp_path):
    """The program finds the endpoint in its environment; its exit status decides."""
    good = tmp_path / "good"
    good.write_text("127.0.0.41\n", encoding="ascii")
    options = machine(tmp_path, mine=["/bin/sh", "-c", f'grep -qx "$SLUICE_ADDRESS" {good} || exit 3'])
    server, healthd = both({"cdn": domain("a: 127.0.0.41", "b: 127.0.0.42", health="type: exec, check: mine")},
                           *options)
    healthd.wait_states(**{"127.0.0.41": "up", "127.0.0.42": "down"})
    wait_answers(server, "cdn.example.com", ["127.0.0.41"])
    healthd.wait_why("127.0.0.41", "exit status 0")
    healthd.wait_why("127.0.0.42", "exit status 3")
    good.write_text("127.0.0.42\n", encoding="ascii")
    wait_answers(server, "cdn.example.com", ["127.0.0.42"])
    good.write_text("", encoding="ascii")
    healthd.wait_states(**{"127.0.0.41": "down", "127.0.0.42": "down"})


def test_exec_that_this_machine_does_not_have(both, tmp_path):
    """B50: pushed configuration only names programs.  That this machine has none is no verdict."""
    server, healthd = both({"cdn": domain("a: 127.0.0.41", health="type: exec, check: mine")},
                           *machine(tmp_path, other=["/bin/true"]))
    healthd.wait_why("127.0.0.41", "no program `mine` in `checks:` of this machine's settings")
    assert healthd.states() == {"127.0.0.41": "unknown"}
    wait_answers(server, "cdn.example.com", ["127.0.0.41"])


def restarted(server):
    """The same server again, on the same port, which stays reserved."""
    sluicelib.Process.__init__(server, *server.argv)
    server.wait_log(r"\bready\b")
    return server


def test_B31_restart_binds_at_once_while_a_program_hangs(tmp_path, make_config):
    """What the checker runs holds neither its sockets nor the server's."""
    seconds = f"61.{os.getpid()}"
    options = machine(tmp_path, hang=["/bin/sleep", seconds])
    health = domain("a: 127.0.0.41", health="type: exec, check: hang")
    config = make_config({"cdn": health.replace(QUICK, "interval: 2s, timeout: 2s")})
    data = sluicelib.build(config, tmp_path / "data")
    server = sluicelib.Server(data, "--health", f"{data}.feed")
    for _ in range(2):
        healthd = Healthd(data, *options)
        wait_for(lambda: processes(seconds))
        sluicelib.Process.kill(server)  # its port stays reserved for the next
        healthd.kill()
        server = restarted(server)
        wait_for(lambda: not processes(seconds))
    with Healthd(data, *options):
        pass
    server.kill()


def test_icmp():
    assert in_own_network("", "", script="icmp_health_network.py") == [
        "up: echo reply", "down: network unreachable", "up: echo reply"]


# ---- reasons -------------------------------------------------------------------------------------


def full(peer):
    """A listener whose backlog is full: nothing answers a SYN any more."""
    peer.listen(0)
    clients = []
    for _ in range(3):
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        client.setblocking(False)
        client.connect_ex(peer.getsockname())
        clients.append(client)
    return clients


def test_reasons_of_failures(tmp_path, make_config):
    """Endpoints fail in eleven ways; `sluice health --json` says precisely how."""
    authority = Authority(tmp_path / "ca")
    old = issue(authority, "cdn.example.com", "DNS:cdn.example.com", dates=("20200101000000Z", "20200102000000Z"))
    other = issue(authority, "other.example.com", "DNS:other.example.com")
    free = sluicelib.Port()
    with peerlib.Peer(lambda p, s: (p.read_request(s), p.released.wait()), "127.0.0.52") as hangs, \
            peerlib.Peer(peerlib.reply(b"HTTP/1.1 503 X\r\n\r\n"), "127.0.0.53") as bad, \
            peerlib.Peer(lambda p, s: s.recv(1), "127.0.0.54", context=server_context(old)) as expired, \
            peerlib.Peer(lambda p, s: s.recv(1), "127.0.0.55", context=server_context(other)) as wrong, \
            peerlib.Peer(lambda p, s: s.sendall(b"550 no\r\n"), "127.0.0.56") as smtp, \
            FakeDNS(lambda q, _: [reply(q, rcode=dns.rcode.REFUSED)], address="127.0.0.57") as refusing, \
            FakeDNS(lambda *_: SILENCE, address="127.0.0.58") as silent, \
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as hole, \
            FakeDNS(lambda q, _: [reply(q, rcode=dns.rcode.NXDOMAIN)]) as resolver:
        hole.bind(("127.0.0.60", 0))
        clients = full(hole)
        tls = f"host: cdn.example.com, ca_file: {authority.cert}"
        expected = {
            "127.0.0.51": (f"type: http, port: {free.number}", "connect refused"),
            "127.0.0.52": (f"type: http, port: {hangs.port}", "timeout in (waiting for the )?response"),
            "127.0.0.53": (f"type: http, port: {bad.port}", "status 503, expected 200-299"),
            "127.0.0.54": (f"type: https, port: {expired.port}, {tls}", "certificate expired on 2020-01-02"),
            "127.0.0.55": (f"type: https, port: {wrong.port}, {tls}", "certificate is not for cdn.example.com"),
            "127.0.0.56": (f"type: tcp, port: {smtp.port}, expect: {{data: '220 '}}",
                           "closed by the peer before the expected text came"),
            "127.0.0.57": (f"type: dns, port: {refusing.port}, name: a.example.", "rcode REFUSED, expected NOERROR"),
            "127.0.0.58": (f"type: dns, port: {silent.port}, name: a.example.", "timeout in waiting for the answer"),
            "127.0.0.59": ("type: exec, check: three", "exit status 3"),
            "127.0.0.60": (f"type: tcp, port: {hole.getsockname()[1]}", "timeout in connect"),
        }
        domains = {f"d{a.rpartition('.')[2]}": domain(f"a: {a}", health=h) for a, (h, _) in expected.items()}
        domains["named"] = domain("a: web.example.net.", health="type: tcp, port: 80")
        data = sluicelib.build(make_config(domains), tmp_path / "data")
        with Healthd(data, *machine(tmp_path, three=["/bin/sh", "-c", "exit 3"]),
                     "--resolver", f"127.0.0.1@{resolver.port}") as healthd:
            healthd.wait_states(**{a: "down" for a in (*expected, "web.example.net")})
            # A busy machine may give another reason now and then, "timeout in connect".
            wait_for(lambda: not others(reasons(healthd), expected), lambda: others(reasons(healthd), expected))
            assert reasons(healthd).keys() == expected.keys() | {"web.example.net"}
        for client in clients:
            client.close()
    free.close()


def reasons(healthd):
    return {check["target"]: check["why"] for check in json.loads(healthd.sluice("--json").stdout)["checks"]}


def others(seen, expected):
    """What has another reason than expected."""
    wanted = {"web.example.net": "no such name", **{target: reason for target, (_, reason) in expected.items()}}
    return {target: seen.get(target) for target, reason in wanted.items() if not re.match(reason, seen.get(target) or "")}
