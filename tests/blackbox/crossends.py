# SPDX-License-Identifier: Apache-2.0
"""Real endpoints of random models, for providers that check by themselves.

They listen at their own addresses, so they need a network of their own (cross_network.py).  One more
name, the beacon, tells when such a provider has been through all of its checks.
"""
import selectors
import socket
import threading

import checkers_network
import crosslib
import serverlib
import sluicelib
from crossmodels import BODY, PORT

IPV6_FREEBIND = 78  # linux/in6.h
BEACON_UP, BEACON_DOWN = "127.255.0.1", "127.255.0.2"
BEACON = crosslib.Model("beacon", {"up": [BEACON_UP], "down": [BEACON_DOWN]}, {"global": [{"up": 1, "down": 1}]},
                        health={"type": "tcp", "port": PORT, "interval": "30s", "timeout": "20s"})
STATUS = {"up": ("200 OK", BODY), "wrong body": ("200 OK", "it is not"), "302": ("302 Found", ""),
          "503": ("503 Service Unavailable", "")}


class Endpoints:
    """Listens at all addresses of the models; answers HTTP as each is said to be, and anything else not at all."""

    def __init__(self, models):
        addresses = [a for m in models for e in m.endpoints for a in m.places(e) if not a.endswith(".")]
        self.states, self.listeners, self.addresses = {}, {}, sorted(set(addresses))
        self.accepted = 0  # connections to the beacon
        for number, address in enumerate(a for a in self.addresses if ":" in a):
            checkers_network.add_address(address, number)
        serverlib.raise_own_limit(4096)
        self.selector, self.lock, self.ended = selectors.DefaultSelector(), threading.Lock(), False
        self.listen(BEACON_UP)
        self.set({})
        threading.Thread(target=self.serve, daemon=True).start()

    def listen(self, address):
        listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in address:  # which the kernel may still be adding
            listener.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        listener.bind((address, PORT))
        listener.listen(128)
        listener.setblocking(False)
        self.listeners[address] = listener
        self.selector.register(listener, selectors.EVENT_READ, address)

    def set(self, states):
        """address -> crosslib.STATES; all others are up."""
        with self.lock:
            self.states = states
            for address in self.addresses:
                refused = states.get(address) == "refused"
                if refused and address in self.listeners:
                    listener = self.listeners.pop(address)
                    self.selector.unregister(listener)
                    listener.close()
                elif not refused and address not in self.listeners:
                    self.listen(address)

    def serve(self):
        while not self.ended:
            for key, _ in self.selector.select(0.05):
                with self.lock:
                    self.act(key.fileobj, key.data)

    def act(self, sock, address):
        try:
            if address in self.listeners and self.listeners[address] is sock:
                client, _ = sock.accept()
                client.setblocking(False)
                self.selector.register(client, selectors.EVENT_READ, address)
                self.accepted += address == BEACON_UP
                return
            if sock.recv(65536).startswith(b"GET "):
                status, body = STATUS[self.states.get(address, "up")]
                sock.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        except BlockingIOError:
            return
        except (OSError, KeyError):
            pass  # it is closed already
        if sock.fileno() >= 0 and sock is not self.listeners.get(address):
            self.selector.unregister(sock)
            sock.close()

    def begin(self, pdns):
        """All that PowerDNS is to check has been asked for; tells how many connections mean that it has done so."""
        pdns.ask(f"beacon.{crosslib.ZONE}.")
        # A round that is under way, one that began after this, and the begin of another one.
        return self.accepted + 3

    def wait(self, accepted):
        serverlib.wait_for(lambda: self.accepted >= accepted, "rounds of checks", 2 * sluicelib.DEADLINE)

    def close(self):
        self.ended = True
        for listener in self.listeners.values():
            listener.close()
