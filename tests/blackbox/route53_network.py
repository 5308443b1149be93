# SPDX-License-Identifier: Apache-2.0
"""Run as migrate_network.py, by test_route53_migrate.py: a zone moves between PowerDNS and Route 53, that
is its simulator with name servers that answer what it holds.  Arguments: the scenario, an empty folder."""
import random
import socket
import threading

import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset

import migrate_network
import route53sim
import serverlib

ADDRESSES, NAMES = ("127.0.6.1", "127.0.6.2"), ("ns1.r53.example.", "ns2.r53.example.")
migrate_network.ADDRESSES["r53"], migrate_network.NAMES["r53"] = ADDRESSES, NAMES
migrate_network.PROVIDER["r53"] = "dns-r53"
route53sim.SERVERS[:] = NAMES


class NameServers:
    """Answers from all zones of the simulator, by UDP and TCP."""

    def __init__(self, sim, addresses=ADDRESSES):
        self.sim, self.sockets = sim, []
        self.random = random.Random(1)
        for address in addresses:
            for kind, serve in ((socket.SOCK_DGRAM, self.datagrams), (socket.SOCK_STREAM, self.streams)):
                sock = socket.socket(socket.AF_INET, kind)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((address, 53))
                self.sockets.append(sock)
                threading.Thread(target=serve, args=(sock,), daemon=True).start()

    def sets_of(self, name, rdtype):
        name = route53sim.canonical_name(name)
        return [s for z in self.sim.zones.values() for s in z.sets.values() if (s.name, s.type) == (name, rdtype)]

    def datagrams(self, sock):
        while True:
            wire, peer = sock.recvfrom(4096)
            sock.sendto(self.answer(wire), peer)

    def streams(self, sock):
        sock.listen()
        while True:
            client, _ = sock.accept()
            with client:
                size = client.recv(2, socket.MSG_WAITALL)
                wire = client.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
                reply = self.answer(wire)
                client.sendall(len(reply).to_bytes(2, "big") + reply)

    def answer(self, wire):
        query = dns.message.from_wire(wire)
        reply = dns.message.make_response(query)
        question = query.question[0]
        name, rdtype = question.name.to_text().lower(), dns.rdatatype.to_text(question.rdtype)
        with self.sim.lock:
            zone = next((z for z in self.sim.zones.values() if ("." + name).endswith("." + z.name)), None)
            if zone is None:
                reply.set_rcode(dns.rcode.REFUSED)
                return reply.to_wire()
            reply.flags |= dns.flags.AA
            chances = self.sim.answer(name, rdtype, (None, None, None))
            if chances:
                values = self.random.choices(list(chances), [float(c) for c in chances.values()])[0]
                reply.answer.append(dns.rrset.from_text(name, 1, "IN", rdtype, *values))
            else:
                apex = zone.sets[(zone.name, "SOA", None)]
                reply.authority.append(dns.rrset.from_text(zone.name, 1, "IN", "SOA", *apex.values))
                if not any(("." + s.name).endswith("." + name) for s in zone.sets.values()):
                    reply.set_rcode(dns.rcode.NXDOMAIN)
        return reply.to_wire()


class World(migrate_network.World):
    def __init__(self, folder, at):
        self.sim = route53sim.Route53("elsewhere.example.")
        self.name_servers = NameServers(self.sim)
        self.sim.of = self.name_servers.sets_of
        if "r53" in at:
            self.sim.make_zone(migrate_network.ZONE)
        super().__init__(folder, at=at, kinds=("pdns",))

    def secrets(self):
        super().secrets()
        (self.folder / "r53-key").write_text(route53sim.CREDENTIALS, encoding="ascii")
        (self.folder / "r53-key").chmod(0o600)
        with open(self.folder / "sluice.yaml", "a", encoding="ascii") as settings:
            settings.write(f"  r53: {{file: {self.folder}/r53-key}}\n")

    def write(self, **options):
        super().write(**options)
        with open(self.folder / "config/defaults.yaml", "a", encoding="ascii") as defaults:
            defaults.write(f"  dns-r53: {{type: route53, url: '{self.sim.url}', secret: r53, health: none}}\n")

    def has_zone(self):
        return migrate_network.ZONE in [z.name for z in self.sim.zones.values()]

    def close(self):
        super().close()
        self.sim.close()


def move(folder, source, target):
    with World(folder, (source,)) as world:
        assert world.has_zone() == (source == "r53")
        with world.asking() as asking:
            done = world.start(source, target)
            migrate_network.check_moved(world, source, target)
            before = asking.count
            serverlib.wait_for(lambda: asking.count > before + 100, "questions after the move")
        print(done.stdout)
        assert world.state()["phase"] == "done" and world.has_zone()
        return done.stdout


SCENARIOS = {"to": lambda folder: move(folder, "pdns", "r53"), "from": lambda folder: move(folder, "r53", "pdns")}

if __name__ == "__main__":
    migrate_network.SCENARIOS = SCENARIOS
    migrate_network.main()
