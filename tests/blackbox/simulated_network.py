# SPDX-License-Identifier: Apache-2.0
"""For route53_network.py and ns1_network.py: a zone moves between PowerDNS and a provider that is simulated,
with name servers that answer what the simulator holds."""
import random
import socket
import threading

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

import migrate_network
import serverlib
import sluicelib


def take_place(kind, addresses, names):
    """The provider "dns-KIND" with its name servers, instead of any other that is simulated."""
    for table, value in ((migrate_network.ADDRESSES, addresses), (migrate_network.NAMES, names),
                         (migrate_network.PROVIDER, f"dns-{kind}")):
        for other in ("r53", "ns1"):
            table.pop(other, None)
        table[kind] = value


class NameServers:
    """Answers from all zones of the simulator, by UDP and TCP.  The heir says what is there."""

    def __init__(self, sim, addresses):
        self.sim, self.sockets = sim, []
        self.random = random.Random(1)
        for address in addresses:
            for kind, serve in ((socket.SOCK_DGRAM, self.datagrams), (socket.SOCK_STREAM, self.streams)):
                sock = socket.socket(socket.AF_INET, kind)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((address, 53))
                if kind == socket.SOCK_STREAM:
                    sock.listen()
                self.sockets.append(sock)
                threading.Thread(target=serve, args=(sock,), daemon=True).start()

    def datagrams(self, sock):
        while True:
            wire, peer = sock.recvfrom(4096)
            sock.sendto(self.answer(wire), peer)

    def streams(self, sock):
        while True:
            client, _ = sock.accept()
            threading.Thread(target=self.stream, args=(client,), daemon=True).start()

    def stream(self, client):
        with client:
            try:
                while wire := sluicelib.read_message(client):
                    reply = self.answer(wire)
                    client.sendall(len(reply).to_bytes(2, "big") + reply)
            except OSError:
                pass  # a killed client

    def zones(self):
        """Name of a zone, with the final dot -> (its SOA record, the names in it)."""
        raise NotImplementedError

    def answers(self, zone, name, rdtype):
        """What can be answered: values -> chance, and the TTL."""
        raise NotImplementedError

    def answer(self, wire):
        query = dns.message.from_wire(wire)
        reply = dns.message.make_response(query)
        question = query.question[0]
        name, rdtype = question.name.to_text().lower(), dns.rdatatype.to_text(question.rdtype)
        with self.sim.lock:
            zones = self.zones()
            zone = next((z for z in zones if f".{name}".endswith(f".{z}")), None)
            if zone is None:
                reply.set_rcode(dns.rcode.REFUSED)
                return reply.to_wire()
            reply.flags |= dns.flags.AA
            soa, owners = zones[zone]
            chances, ttl = self.answers(zone, name, rdtype)
            if chances:
                values = self.random.choices(list(chances), [float(c) for c in chances.values()])[0]
                reply.answer.append(dns.rrset.from_text(name, ttl, "IN", rdtype, *values))
            elif (name, rdtype) == (zone, "SOA"):
                reply.answer.append(dns.rrset.from_text(zone, 1, "IN", "SOA", soa))
            else:
                reply.authority.append(dns.rrset.from_text(zone, 1, "IN", "SOA", soa))
                if name != zone and not any(f".{owner}".endswith(f".{name}") for owner in owners):
                    reply.set_rcode(dns.rcode.NXDOMAIN)
        return reply.to_wire()


class World(migrate_network.World):
    """The heir has KIND, SECRET and SETTINGS (of the provider), sets `sim`, and can make_zone(NAME)."""

    def __init__(self, folder, at):
        if self.KIND in at:
            self.sim.make_zone(self.zone)
        super().__init__(folder, at=at, kinds=("pdns",))

    def secrets(self):
        super().secrets()
        path = self.folder / f"{self.KIND}-key"
        path.write_text(self.SECRET, encoding="ascii")
        path.chmod(0o600)
        with open(self.folder / "sluice.yaml", "a", encoding="ascii") as settings:
            settings.write(f"  {self.KIND}: {{file: {path}}}\n")

    def write(self, **options):
        super().write(**options)
        with open(self.folder / "config/defaults.yaml", "a", encoding="ascii") as defaults:
            defaults.write(f"  dns-{self.KIND}: {{{self.SETTINGS}, url: '{self.sim.url}', secret: {self.KIND}}}\n")

    def has_zone(self):
        return migrate_network.ZONE in self.name_servers.zones()

    def close(self):
        super().close()
        self.sim.close()


def main(world):
    """`to` or `from` the simulator."""
    def move(folder, source, target):
        with world(folder, (source,)) as moving:
            assert moving.has_zone() == (source == world.KIND)
            with moving.asking() as asking:
                done = moving.start(source, target)
                migrate_network.check_moved(moving, source, target)
                before = asking.count
                serverlib.wait_for(lambda: asking.count > before + 100, "questions after the move")
            print(done.stdout)
            assert moving.state()["phase"] == "done" and moving.has_zone()

    migrate_network.SCENARIOS = {"to": lambda folder: move(folder, "pdns", world.KIND),
                                 "from": lambda folder: move(folder, world.KIND, "pdns")}
    migrate_network.main()
