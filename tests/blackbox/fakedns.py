# SPDX-License-Identifier: Apache-2.0
"""DNS servers that answer as a test wants, over UDP and TCP of one port of 127.0.0.0/8 or ::1."""
import socket
import struct
import threading

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

import sluicelib

SILENCE = ()


def reply(query, *records, rcode=dns.rcode.NOERROR, flags=0):
    """The octets of a reply; records as in a master file ("www.example.com. 0 IN A 192.0.2.1")."""
    message = dns.message.make_response(query)
    message.set_rcode(rcode)
    message.flags |= flags
    for record in records:
        name, ttl, rdclass, rdtype, data = record.split(" ", 4)
        message.answer.append(dns.rrset.from_text(name, int(ttl), rdclass, rdtype, data))
    return message.to_wire(max_size=65535)


class FakeDNS:
    """Answers with what `udp(query, number)` and `tcp(query, number)` give: a list of wires, of which
    each is sent.  `queries` holds (protocol, message) as they came."""

    def __init__(self, udp=None, tcp=None, address="127.0.0.1"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.answer = {"udp": udp, "tcp": tcp}
        self.queries = []
        self.reserved = sluicelib.Port(address)  # on all addresses, so that nothing listens on the others
        self.port = self.reserved.number
        self.udp = socket.socket(family, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.udp.bind((address, self.port))
        self.tcp = socket.socket(family, socket.SOCK_STREAM)
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind((address, self.port))
        if tcp:
            self.tcp.listen(16)
        self.threads = [threading.Thread(target=self._serve_udp, daemon=True)]
        if tcp:
            self.threads.append(threading.Thread(target=self._serve_tcp, daemon=True))
        for thread in self.threads:
            thread.start()

    def _wires(self, protocol, wire):
        query = dns.message.from_wire(wire)
        self.queries.append((protocol, query))
        return self.answer[protocol](query, len(self.queries)) if self.answer[protocol] else SILENCE

    def _serve_udp(self):
        while True:
            try:
                wire, peer = self.udp.recvfrom(65535)
            except OSError:
                return
            if wire == b"":
                return
            for answer in self._wires("udp", wire):
                if callable(answer):
                    answer(peer)
                else:
                    self.udp.sendto(answer, peer)

    def _serve_tcp(self):
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                while len(length := stream.read(2)) == 2:
                    if not self._answer_tcp(connection, stream.read(struct.unpack("!H", length)[0])):
                        break

    def _answer_tcp(self, connection, wire):
        """True if the connection stays open: all that was given were messages."""
        answers = self._wires("tcp", wire)
        try:
            for answer in answers:
                if callable(answer):
                    answer(connection)
                else:
                    connection.sendall(struct.pack("!H", len(answer)) + answer)
        except OSError:
            return False
        return not any(callable(answer) for answer in answers)

    def close(self):
        family = self.udp.family
        with socket.socket(family, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", self.udp.getsockname()[:2])
        self.threads[0].join()
        self.udp.close()
        if self.answer["tcp"]:
            sluicelib.stop_accepting(self.tcp, self.threads[1])
        else:
            self.tcp.close()
        self.reserved.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
