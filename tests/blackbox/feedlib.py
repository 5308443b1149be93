# SPDX-License-Identifier: Apache-2.0
"""A health feed (healthcheck/feed.h) that does as a test says, in the place of the checker."""
import json
import os
import socket
import threading
import time

import sluicelib
from sluicelib import rdata

UP = ["up", 1700000000, "status 200"]
DOWN = ["down", 1700000100, "connect refused"]
OPEN = ["unknown", 0, ""]


def line(kind, **members):
    return json.dumps({"t": kind, **members}).encode() + b"\n"


def subject(number, targets, v4=None, v6=None):
    return {"id": number, "targets": [list(target) for target in targets], "v4": v4, "v6": v6}


class Feed:
    """Listens at `path` from start() on; every connection gets `greeting`, by default a snapshot of
    `subjects` {id: subject()}."""

    def __init__(self, path, subjects=(), start=True):
        self.path = str(path)
        self.subjects = {s["id"]: s for s in subjects}
        self.seq = 0
        self.greeting = None  # bytes instead of a snapshot
        self.beating = True
        self.lines = []  # that subscribers sent
        self.accepted = 0
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._peers = []
        self._listener = None
        self._stop = threading.Event()
        self._beater = threading.Thread(target=self._beat, daemon=True)
        self._beater.start()
        if start:
            self.start()

    def start(self):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if os.path.exists(self.path):
            os.unlink(self.path)
        listener.bind(self.path)
        listener.listen(16)
        self._listener = listener
        self._thread = threading.Thread(target=self._accept, args=(listener,), daemon=True)
        self._thread.start()

    def stop(self):
        """As if the checker was killed: connections end, the socket's file stays."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener:
            sluicelib.stop_accepting(listener, self._thread)
        self.drop()

    def close(self):
        self._stop.set()
        self.stop()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def drop(self):
        """Ends all connections."""
        with self._lock:
            for peer in self._peers:
                try:
                    peer.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is closed already
                peer.close()
            self._peers = []

    # ---- telling ----

    def snapshot(self):
        return (line("begin", seq=self.seq) + b"".join(line("subject", **s) for s in self.subjects.values())
                + line("end", seq=self.seq))

    def send(self, octets):
        """To all that are connected."""
        with self._lock:
            for peer in list(self._peers):
                try:
                    peer.sendall(octets)
                except OSError:
                    self._peers.remove(peer)

    def change(self, number, v4=None, v6=None):
        with self._lock:
            self.seq += 1
            self.subjects[number].update(v4=v4, v6=v6)
            self.send(line("change", seq=self.seq, id=number, v4=v4, v6=v6))

    def reset(self, subjects):
        with self._lock:
            self.subjects = {s["id"]: s for s in subjects}
            self.send(self.snapshot())

    def miss_change(self, number, v4=None, v6=None):
        """A change that nobody hears of but by the next heartbeat."""
        with self._lock:
            self.seq += 1
            self.subjects[number].update(v4=v4, v6=v6)

    def hush(self):
        """No more heartbeats; none is under way when this returns."""
        with self._lock:
            self.beating = False

    def _beat(self):
        while not self._stop.wait(0.5):
            with self._lock:
                if self.beating:
                    self.send(line("beat", seq=self.seq))

    # ---- connections ----

    def _accept(self, listener):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                greeting = self.greeting
                if greeting is None:
                    greeting = line("hello", format=1, session="test", beat=500) + self.snapshot()
                try:
                    peer.sendall(greeting)
                except OSError:
                    pass
                self._peers.append(peer)
                self.accepted += 1
                self._news.notify_all()
            threading.Thread(target=self._read, args=(peer,), daemon=True).start()

    def _read(self, peer):
        try:
            with peer.makefile("rb") as stream:
                for text in stream:
                    with self._lock:
                        self.lines.append(json.loads(text))
                        self._news.notify_all()
        except (OSError, ValueError):
            pass

    def wait(self, condition, what="the server", timeout=sluicelib.DEADLINE):
        """Waits until condition() is true, which is looked at when something happens here."""
        with self._news:
            assert self._news.wait_for(condition, timeout), f"not within {timeout} s: {what}"

    def wait_accepted(self, count):
        self.wait(lambda: self.accepted >= count, f"{count} connections")


def answers(server, name, rdtype="A", count=20):
    """All data that come in `count` answers."""
    return {data for _ in range(count) for data in rdata(server.ask(name, rdtype))}


def wait_answers(server, name, expected, rdtype="A", timeout=sluicelib.DEADLINE):
    """Waits until the answers are of `expected` and nothing else."""
    end = time.monotonic() + timeout
    while answers(server, name, rdtype) != set(expected):
        assert time.monotonic() < end, f"{name} {rdtype}: {answers(server, name, rdtype)}, not {expected}"
        time.sleep(0.01)


def health(server):
    return sluicelib.control(server.control, "status")["health"]


def wait_health(server, timeout=sluicelib.DEADLINE, **wanted):
    """Waits until `status` says so of health, as in wait_health(server, connected=True)."""
    end = time.monotonic() + timeout
    while True:
        now = health(server)
        if all(now[key] == value for key, value in wanted.items()):
            return now
        assert time.monotonic() < end, f"{now}, not {wanted}"
        time.sleep(0.01)
