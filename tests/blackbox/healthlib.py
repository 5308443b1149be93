# SPDX-License-Identifier: Apache-2.0
"""What the tests of the checker share: sluice-healthd, alone or with sluiced, and endpoints that can be
stopped and started again."""
import contextlib
import json
import pathlib
import select
import socket
import threading
import time

import sluicelib
from sluicelib import wait_for

# Fast enough for a test, and slow enough that a busy machine does not fail a check by itself.
QUICK = "interval: 500ms, timeout: 500ms, rise: 2, fall: 2"
# Where the first verdict is enough (it comes as quickly): no machine is too slow for it.
CALM = "interval: 10s, timeout: 10s, rise: 1, fall: 1"


class Endpoint:
    """An HTTP server on one address that answers every request with `status`.

    stop() makes connections be refused, start() takes them again.  Arrivals are recorded in `times`
    (monotonic seconds).
    """

    def __init__(self, address, port, status=200, running=True):
        self.address, self.port, self.status = address, port, status
        self.times = []
        self._thread = self._wake = None
        if running:
            self.start()

    def start(self):
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.address, self.port))
        listener.listen(512)
        self._wake, theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, args=(listener, theirs), daemon=True)
        self._thread.start()

    def _serve(self, listener, wake):
        with listener, wake:
            while True:
                ready, _, _ = select.select([listener, wake], [], [])
                if wake in ready:
                    return
                peer, _ = listener.accept()
                self.times.append(time.monotonic())
                with peer:
                    self._answer(peer)

    def _answer(self, peer):
        with contextlib.suppress(OSError):
            peer.settimeout(5)
            request = b""
            while b"\r\n\r\n" not in request:
                part = peer.recv(4096)
                if not part:
                    return
                request += part
            peer.sendall(f"HTTP/1.1 {self.status} X\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".encode())
            peer.shutdown(socket.SHUT_WR)
            peer.recv(1)

    def stop(self):
        if self._thread:
            self._wake.close()
            self._thread.join(sluicelib.DEADLINE)
            self._thread = None

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.stop()


class Healthd(sluicelib.Process):
    """sluice-healthd; feed, control socket and state file are beside `data` unless told."""

    def __init__(self, data, *options, state=None, feed=None, wait=True, env=None):
        self.data = pathlib.Path(data)
        self.feed = str(feed or f"{self.data}.feed")
        self.control = f"{self.data}.health.sock"
        self.state = pathlib.Path(state or f"{self.data}.state.json")
        super().__init__(sluicelib.program("sluice-healthd"), "--data", self.data, "--feed", self.feed,
                         "--state", self.state, "--control", self.control, *options, env=env)
        if wait:
            self.wait_ready()

    def ask(self, command, **arguments):
        return sluicelib.control(self.control, command, **arguments)

    def status(self):
        return self.ask("status")

    def checks(self, **arguments):
        """{target: check}, for checks of different targets."""
        return {check["target"]: check for check in self.ask("checks", **arguments)["checks"]}

    def states(self):
        return {target: check["state"] for target, check in self.checks().items()}

    def wait_states(self, **wanted):
        """wait_states(**{"127.0.0.1": "up"}) waits until all of these are so."""
        wait_for(lambda: wanted.items() <= self.states().items(),
                 lambda: f"{wanted}, but there are {self.states()}; log:\n{self.log}")

    def wait_why(self, target, reason):
        """Waits until this is the reason of a check's state; a busy machine may give others in between."""
        wait_for(lambda: self.checks()[target]["why"] == reason,
                 lambda: f"{target} is `{reason}`, but it is {self.checks()[target]}; log:\n{self.log}")

    def sluice(self, *args, status=0, **options):
        return sluicelib.sluice("health", *args, "--socket", self.control, status=status, **options)


def answers(server, name, rdtype="A"):
    return set(sluicelib.rdata(server.ask(name, rdtype)))


def wait_answers(server, name, wanted, rdtype="A"):
    """Waits until a name is answered with exactly these addresses."""
    wait_for(lambda: answers(server, name, rdtype) == set(wanted),
             lambda: f"{name} is {wanted}, but it is {answers(server, name, rdtype)}")


def saved(path):
    """{target: state} of a state file."""
    return {row[0]: row[4] for row in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["checks"]}


def health(port, more=QUICK, kind="http"):
    return f"health: {{type: {kind}, port: {port}, {more}}}\n"


def levels(port, *endpoints, more=QUICK, ttl=0):
    """A domain.yaml in which each endpoint, "name: addresses", is a level of its own."""
    names = [e.partition(":")[0] for e in endpoints]
    return (f"ttl: {ttl}\nendpoints: {{{', '.join(endpoints)}}}\n"
            f"regions: {{global: [{', '.join(f'{{{n}: 1}}' for n in names)}]}}\n" + health(port, more))
