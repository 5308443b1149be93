# SPDX-License-Identifier: Apache-2.0
"""Faults of DNS lookups: proxies before name servers, by UDP and TCP.

`Lookups` decides what happens to each question of all proxies that share it; the repetitions of a question meet the
same.  What can happen:
  lost           the first datagram is; the repetition gets its answer
  late           the first answer comes with that of the repetition
  stray          answers to something else come first, with what is wrong in them
  tc             truncated; by TCP it is whole
  (These do no harm: a client that asks properly does not even notice.)
  silent         no answer by UDP at all
  tc-tc, tc-reset, tc-cut, tc-silent, tc-garbage   truncated, and by TCP: truncated as well, the connection ends ...
  SERVFAIL, REFUSED, NOTIMP
  garbage        no DNS message
  empty          "there is no such record", authoritatively
  lame           nothing, and not authoritatively
  upward         a referral to the root servers
  old            the answer that the first such question got"""
import collections
import socket
import struct
import threading

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

import faultlib
import sluicelib

HARMLESS = ("lost", "late", "stray", "tc")
SLOW = ("silent", "tc-silent", "lost", "late")
QUICK = ("SERVFAIL", "old", "garbage", "REFUSED", "tc", "upward", "lame", "tc-reset", "stray", "empty", "tc-cut", "NOTIMP", "tc-tc",
         "tc-garbage")
ALL = QUICK + SLOW


class Lookups:
    """decide(label, name, rdtype): the fault of a new question, or None."""

    def __init__(self):
        self.lock = threading.Lock()
        self.decide = lambda label, name, rdtype: None
        self.count, self.met = 0, []  # of this run: (label, name, rdtype, mode)
        self.fates, self.first = {}, {}
        self.asked = {}  # octets of a question -> (name, rdtype)

    def begin(self, decide):
        with self.lock:
            self.decide, self.count, self.met = decide, 0, []
            self.fates.clear()

    def meet(self, label, wire, tcp):
        """(mode, which repetition of the question, a list for what is held back)."""
        if wire[12:] not in self.asked:
            question = dns.message.from_wire(wire).question[0]
            self.asked[wire[12:]] = question.name.to_text().lower(), dns.rdatatype.to_text(question.rdtype)
        name, rdtype = self.asked[wire[12:]]
        key = label, wire[:2], name, rdtype
        with self.lock:
            if key not in self.fates:
                self.count += 1
                mode = self.decide(label, name, rdtype)
                self.fates[key] = [mode, collections.Counter(), []]
                if mode:
                    self.met.append((label, name, rdtype, mode))
            fate = self.fates[key]
            fate[1][tcp] += 1
            return fate[0], fate[1][tcp], fate[2]


class Proxy:
    """Before one name server; `address`: of its own, port 53 ("" : any port of 127.0.0.1)."""

    def __init__(self, label, target, lookups, address=""):
        self.label, self.target, self.lookups = label, (target, 53), lookups
        self.reserved = None if address else sluicelib.Port()
        self.listen = (address, 53) if address else (faultlib.HOST, self.reserved.number)
        self.text = f"{self.listen[0]}@{self.listen[1]}"
        self.streams = socket.create_server(self.listen)
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(self.listen)
        self.open, self.peers = True, {}
        self.up = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.up.connect(self.target)
        for run in (self.accept, self.receive, self.hand_back):
            threading.Thread(target=run, daemon=True).start()

    def close(self):
        self.open = False
        self.streams.shutdown(socket.SHUT_RDWR)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", self.listen)

    def receive(self):
        while True:
            wire, peer = self.datagrams.recvfrom(65535)
            if not self.open:
                return
            fate = self.lookups.meet(self.label, wire, False)
            if fate[0] is None and (self.label, wire[12:]) in self.lookups.first:
                self.peers[wire[:2]] = peer
                self.send_up(wire)
            else:
                threading.Thread(target=self.answer_datagram, args=(wire, peer, *fate), daemon=True).start()

    def send_up(self, wire):
        try:
            self.up.send(wire)
        except OSError:
            pass  # it does not listen; this is lost

    def hand_back(self):
        """Answers to what met no fault."""
        while self.open:
            try:
                reply = self.up.recv(65535)
            except OSError:
                continue  # the same
            peer = self.peers.pop(reply[:2], None)
            if peer:
                self.datagrams.sendto(reply, peer)

    def accept(self):
        while True:
            try:
                client, _ = self.streams.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def upstream(self, wire):
        """What the name server answers, by UDP."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(5)
            sock.connect(self.target)
            sock.send(wire)
            return sock.recv(65535)

    def made(self, query, mode):
        """Answers that need no name server."""
        reply = dns.message.make_response(query)
        if mode in ("SERVFAIL", "REFUSED", "NOTIMP"):
            reply.set_rcode(dns.rcode.from_text(mode))
        elif mode == "empty":
            reply.flags |= dns.flags.AA
        elif mode == "upward":
            reply.authority.append(dns.rrset.from_text(".", 3600, "IN", "NS", "a.root-servers.net."))
        elif mode.startswith("tc"):
            reply.flags |= dns.flags.TC
        wire = reply.to_wire()
        return wire[:12] + b"\xff" * 40 if mode == "garbage" else wire

    @staticmethod
    def strays(query):
        """Of another question, of another ID, and of no reply at all."""
        other = dns.message.make_query("stray.example.", query.question[0].rdtype)
        other.id = query.id
        reply = dns.message.make_response(other)
        reply.flags |= dns.flags.AA
        wrong = dns.message.make_response(query)
        wrong.set_rcode(dns.rcode.SERVFAIL)
        wrong.id = query.id ^ 1
        return [reply.to_wire(), wrong.to_wire(), query.to_wire(), b"x"]

    def answer_datagram(self, wire, peer, mode, number, held):
        query = dns.message.from_wire(wire)
        if mode == "silent" or (mode == "lost" and number == 1):
            return
        if mode in ("empty", "lame", "upward", "garbage", "SERVFAIL", "REFUSED", "NOTIMP") or (mode or "").startswith("tc"):
            self.datagrams.sendto(self.made(query, mode), peer)
            return
        key = self.label, wire[12:]
        try:
            reply = self.upstream(wire)
        except OSError:
            return
        with self.lookups.lock:
            first = self.lookups.first.setdefault(key, reply)
        if mode == "late" and number == 1:
            held.append(reply)
            return
        if mode == "old":
            reply = wire[:2] + first[2:]
        for datagram in (self.strays(query) if mode == "stray" else held) + [reply]:
            self.datagrams.sendto(datagram, peer)

    def serve(self, client):
        with client:
            client.settimeout(sluicelib.DEADLINE)
            try:
                while message := faultlib.read_message(client):
                    if not self.answer_stream(client, message):
                        return
            except OSError:
                pass

    def answer_stream(self, client, message):
        """False: the connection ends."""
        query = dns.message.from_wire(message[2:])
        mode, _, _ = self.lookups.meet(self.label, message[2:], True)
        if mode == "tc-reset":
            faultlib.reset_on_close(client)
            return False
        if mode == "tc-silent":
            faultlib.wait_for_end(client)
            return False
        if mode in ("tc-garbage", "tc-tc"):
            reply = self.made(query, mode[3:])
            client.sendall(struct.pack("!H", len(reply)) + reply)
            return True
        with socket.create_connection(self.target, sluicelib.DEADLINE) as upstream:
            upstream.sendall(message)
            reply = faultlib.read_message(upstream)
        client.sendall(reply[:len(reply) // 2] if mode == "tc-cut" else reply)
        return mode != "tc-cut"
