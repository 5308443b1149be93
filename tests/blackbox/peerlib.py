# SPDX-License-Identifier: Apache-2.0
"""Peers of probes that behave as they are told: a listener whose every connection is a function."""
import socket
import ssl
import struct
import threading

import sluicelib


class Peer:
    """Listens on a port of its own; `behave(sock)` runs in a thread for each connection, which is
    closed when it returns.  What the client sent first is in `.requests`, if `behave` reads it by
    read_request()."""

    def __init__(self, behave, address="127.0.0.1", context=None, port=None):
        self.behave, self.address, self.context = behave, address, context
        self.reserved = None if port else sluicelib.Port(address)
        self.port = port or self.reserved.number
        self.requests, self.accepted, self.hosts = [], [], []
        self.released = threading.Event()  # what a hanging peer waits for
        self.threads = []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((address, self.port))
        self.listener.listen(4096)
        self.acceptor = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self):
        self.acceptor.start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.listener.close()
        for thread in self.threads:
            thread.join(sluicelib.DEADLINE)
        if self.reserved:
            self.reserved.close()

    def _accept(self):
        while True:
            try:
                sock, source = self.listener.accept()
            except OSError:
                return
            self.accepted.append(source[0])
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, sock):
        try:
            with sock:
                sock.settimeout(sluicelib.DEADLINE)
                if self.context:
                    with self.context.wrap_socket(sock, server_side=True) as tls:
                        self.behave(self, tls)
                else:
                    self.behave(self, sock)
        except (OSError, ssl.SSLError):
            pass

    def read_request(self, sock):
        """The head of a request, and remembers it."""
        head = b""
        while b"\r\n\r\n" not in head:
            part = sock.recv(65536)
            if not part:
                break
            head += part
        self.requests.append(head.decode("latin-1"))
        return head


def reply(octets, then=None):
    """Answers each request with `octets`, then closes (or goes on with `then(peer, sock)`)."""
    def behave(peer, sock):
        peer.read_request(sock)
        sock.sendall(octets)
        if then:
            then(peer, sock)
        else:
            finish(peer, sock)
    return behave


def finish(_peer, sock):
    """Ends what is sent, and waits until the client has closed, so that nothing is lost by a reset."""
    if not isinstance(sock, ssl.SSLSocket):
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass


def ok(body=b"OK", status="200 OK", headers=()):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def hang(peer, _sock):
    """Neither sends nor closes until the test is over."""
    peer.released.wait(sluicelib.DEADLINE)


def reset(_peer, sock):
    """Closes with a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def endless(octets):
    """Sends the same for as long as the client takes it."""
    def behave(_peer, sock):
        while True:
            sock.sendall(octets)
    return behave


def drip(octets):
    """Sends octet by octet until the client goes away, ten in a second."""
    def behave(peer, sock):
        at = 0
        while not peer.released.wait(0.1):
            sock.sendall(octets[at % len(octets):][:1])
            at += 1
    return behave
