# SPDX-License-Identifier: Apache-2.0
"""Checker and server are killed, stopped and restarted at random while queries are asked.

Bounded in the suite; SLUICE_CHAOS_SECONDS=300 goes on for so long, SLUICE_CHAOS_SEED=N takes another
course.
"""
import contextlib
import datetime
import json
import os
import random
import signal
import socket
import struct
import textwrap
import threading
import time

import healthlib
import sluicelib
from alertslib import Webhook
from healthlib import Endpoint, Healthd, wait_answers, wait_for

SECONDS = float(os.environ.get("SLUICE_CHAOS_SECONDS", "12"))
SEED = int(os.environ.get("SLUICE_CHAOS_SEED", "1"))
NAME = "cdn.example.com"
P1, P2 = "127.0.0.11", "127.0.0.12"
KEY = f"sluice|failover|{NAME}|global|A"
# A refused connection is noticed at once; a busy machine must not make a timeout of an answer.
CHECK = "interval: 700ms, timeout: 700ms, rise: 2, fall: 2"


class Load:
    """Asks for a name all the time, one question after the other, and counts what is not answered."""

    def __init__(self, port):
        self.wire = sluicelib.make_query(NAME, edns=False).to_wire()[2:]
        self.port = port
        self.asked = self.excused = 0
        self.lost = []  # (seconds since the start, which question)
        self.wrong = set()
        self.outages = 0  # odd: the server is not there
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def outage(self):
        """While the server was killed and is not there again."""
        self.outages += 1
        yield
        self.outages += 1

    def _run(self):
        start = time.monotonic()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", self.port))
            sock.settimeout(0.2)
            while not self._stop.wait(0.002):
                self.asked += 1
                outages = self.outages
                if self._ask(sock, self.asked & 0xffff, outages):
                    continue
                if outages % 2 or self.outages != outages:
                    self.excused += 1
                else:
                    self.lost.append((round(time.monotonic() - start, 2), self.asked))

    def _ask(self, sock, number, outages):
        end = time.monotonic() + sluicelib.DEADLINE / 2
        with contextlib.suppress(ConnectionRefusedError):
            sock.send(struct.pack("!H", number) + self.wire)
        while time.monotonic() < end:
            try:
                reply = sock.recv(512)
            except (TimeoutError, ConnectionRefusedError):
                if outages % 2 or self.outages != outages:
                    return False
                continue
            if struct.unpack("!H", reply[:2])[0] == number:
                if socket.inet_ntoa(reply[-4:]) not in (P1, P2):
                    self.wrong.add(reply.hex())
                return True
        return False

    def stop(self):
        self._stop.set()
        self._thread.join(sluicelib.DEADLINE)


class Chaos:
    """The two programs, and what happens to them."""

    def __init__(self, data, settings, port, rng):
        self.data, self.settings, self.port, self.rng = data, settings, port, rng
        self.done = []
        self.address = "127.0.0.1"
        self.healthd = Healthd(data, "-c", settings)
        self.server = self._start_server()
        self.load = Load(port)

    def _start_server(self):
        server = sluicelib.Process(
            sluicelib.program("sluiced"), "--data", self.data, "--listen", f"127.0.0.1@{self.port}", "--threads", "2",
            "--control", f"{self.data}.sock", "--health", f"{self.data}.feed", "--state", f"{self.data}.state")
        server.wait_log(r"\bready\b")
        return server

    def ask(self, name, rdtype="A"):
        return sluicelib.ask(self.address, self.port, name, rdtype)

    def kill_healthd(self):
        self.healthd.kill()
        self.healthd.check_sanitizers()
        time.sleep(self.rng.uniform(0, 0.6))
        self.healthd = Healthd(self.data, "-c", self.settings)

    def restart_healthd(self):
        self.healthd.stop()
        self.healthd = Healthd(self.data, "-c", self.settings)

    def kill_server(self):
        with self.load.outage():
            self.server.kill()
            self.server.check_sanitizers()
            self.server = self._start_server()

    def restart_server(self):
        with self.load.outage():
            self.server.stop()
            self.server = self._start_server()

    def _pause(self, process):
        process.signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.05, 1.5))
        process.signal(signal.SIGCONT)

    def pause_healthd(self):
        self._pause(self.healthd)

    def pause_server(self):
        self._pause(self.server)

    def both(self):
        self.healthd.kill()
        self.kill_server()
        self.healthd = Healthd(self.data, "-c", self.settings)

    def act(self):
        """Something happens, at some time."""
        time.sleep(self.rng.uniform(0, 0.7))
        what = self.rng.choice([self.kill_healthd, self.kill_server, self.pause_healthd, self.pause_server,
                                self.restart_healthd, self.restart_server, self.both])
        self.done.append(f"{datetime.datetime.utcnow():%H:%M:%S.%f} {what.__name__}")
        what()

    def stop(self):
        self.load.stop()
        self.healthd.stop()
        self.server.stop()

    def kill(self):
        self.load.stop()
        self.healthd.kill()
        self.server.kill()
        print(self.healthd.log, self.server.log, self.done)


def pages(hook):
    """What a receiver has, that drops what it has seen already (the same id): (action, key)."""
    seen = {}
    for request in list(hook.requests):
        event = request[2]
        seen.setdefault(event["id"], (event["action"], event["key"]))
    return list(seen.values())


def of(hook, action):
    return pages(hook).count((action, KEY))


def test_chaos(tmp_path, make_config):
    rng = random.Random(SEED)
    hook = Webhook("127.0.0.9")
    with a_port() as endpoint_port, a_port() as port:
        domain = (healthlib.levels(endpoint_port, f"p1: {P1}", f"p2: {P2}", more=CHECK)
                  + "alerts: {on: [failover, all-down, recovered], page: true, to: [hook]}\n")
        routes = {"hook": {"format": "json", "url": hook.url}}
        config = make_config({"cdn": domain}, defaults=f"default_zone: example.com\nalerts: {json.dumps(routes)}\n")
        data = sluicelib.build(config, tmp_path / "data")
        settings = tmp_path / "sluice.yaml"
        settings.write_text(textwrap.dedent(f"""\
            healthd: {{spool: {tmp_path}/spool, webhook-allow: [127.0.0.9], alert-window: 100ms, alert-quiet: 10ms}}
            """), encoding="utf-8")
        with Endpoint(P1, endpoint_port) as p1, Endpoint(P2, endpoint_port):
            chaos = Chaos(data, settings, port, rng)
            try:
                rounds = go(chaos, hook, p1)
            except BaseException:
                chaos.kill()
                raise
            chaos.stop()
            finish(chaos, hook, rounds)
    hook.close()


def go(chaos, hook, p1):
    """Outages of p1, each with things that happen meanwhile; returns how many there were."""
    end = time.monotonic() + SECONDS
    rounds = 0
    chaos.healthd.wait_states(**{P1: "up", P2: "up"})
    wait_answers(chaos, NAME, [P1])
    while time.monotonic() < end:
        rounds += 1
        p1.stop()
        chaos.done.append(f"{datetime.datetime.utcnow():%H:%M:%S.%f} p1 is down")
        for _ in range(chaos.rng.randint(1, 2)):
            chaos.act()
        wait_for(lambda: of(hook, "trigger") >= rounds, f"page {rounds}: {chaos.done}")
        wait_answers(chaos, NAME, [P2])
        p1.start()
        chaos.done.append(f"{datetime.datetime.utcnow():%H:%M:%S.%f} p1 is up")
        for _ in range(chaos.rng.randint(1, 2)):
            chaos.act()
        wait_for(lambda: of(hook, "resolve") >= rounds, f"end of page {rounds}: {chaos.done}")
        wait_answers(chaos, NAME, [P1])
    chaos.healthd.wait_states(**{P1: "up", P2: "up"})
    wait_answers(chaos, NAME, [P1])
    return rounds


def finish(chaos, hook, rounds):
    load = chaos.load
    print(f"{rounds} outages, {load.asked} questions, {load.excused} while the server was killed; {chaos.done}")
    assert not load.lost, f"not answered: {load.lost}; {chaos.done}"
    assert not load.wrong and load.asked > load.excused
    failovers = [action for action, key in pages(hook) if key == KEY]
    assert failovers == ["trigger", "resolve"] * rounds, "\n".join(
        [*chaos.done, *(json.dumps(request[2]) for request in hook.requests)])


@contextlib.contextmanager
def a_port():
    reserved = sluicelib.Port()
    yield reserved.number
    reserved.close()
