# SPDX-License-Identifier: Apache-2.0
"""Run as migrate_network.py, by test_ns1_migrate.py: a zone moves between PowerDNS and NS1, that is its
simulator with name servers that answer what it holds.  Arguments: the scenario, an empty folder."""
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

import migrate_network
import ns1sim
import route53_network
import serverlib

ADDRESSES, NAMES = ("127.0.7.1", "127.0.7.2"), ("ns1.ns1.example.", "ns2.ns1.example.")
for _old in (migrate_network.ADDRESSES, migrate_network.NAMES):
    _old.pop("r53")
migrate_network.ADDRESSES["ns1"], migrate_network.NAMES["ns1"] = ADDRESSES, NAMES
migrate_network.PROVIDER["ns1"] = "dns-ns1"
SOA = "ns1.ns1.example. hostmaster.example. 1 3600 600 86400 1"


class Simulator(ns1sim.Simulator):
    """With name servers of the test's network."""

    def zone(self, method, zone, query, headers):
        reply = super().zone(method, zone, query, headers)
        if reply:
            reply.update(dns_servers=[n.rstrip(".") for n in NAMES], nx_ttl=1)
        return reply


class NameServers(route53_network.NameServers):
    def chances(self, record):
        if record["filters"]:
            return ns1sim.shares(record, ns1sim.Client(), self.sim.feed_values())
        return {tuple(" ".join(map(str, a["answer"])) for a in record["answers"]): 1}

    def answer(self, wire):
        query = dns.message.from_wire(wire)
        reply = dns.message.make_response(query)
        name, rdtype = query.question[0].name.to_text().lower(), dns.rdatatype.to_text(query.question[0].rdtype)
        with self.sim.lock:
            zone = next((z for z in self.sim.zones if f".{name}".endswith(f".{z}.")), None)
            if zone is None:
                reply.set_rcode(dns.rcode.REFUSED)
                return reply.to_wire()
            reply.flags |= dns.flags.AA
            records = self.sim.zones[zone]
            record = records.get((name.rstrip("."), rdtype))
            soa = dns.rrset.from_text(f"{zone}.", 1, "IN", "SOA", SOA)
            if record:
                chances = self.chances(record)
                values = self.random.choices(list(chances), [float(c) for c in chances.values()])[0]
                values = [values] if isinstance(values, str) else values
                reply.answer.append(dns.rrset.from_text(name, record["ttl"], "IN", rdtype, *self.presentation(rdtype, values)))
            elif (name, rdtype) == (f"{zone}.", "SOA"):
                reply.answer.append(soa)
            else:
                reply.authority.append(soa)
                if name != f"{zone}." and not any(f".{owner}.".endswith(f".{name}") for owner, _ in records):
                    reply.set_rcode(dns.rcode.NXDOMAIN)
        return reply.to_wire()

    @staticmethod
    def presentation(rdtype, values):
        """NS1 writes texts without quotes, and names without the final dot."""
        if rdtype == "TXT":
            return [f'"{v}"' for v in values]
        return [f"{v}." if rdtype in ("NS", "MX", "CNAME") and not v.endswith(".") else v for v in values]


class World(migrate_network.World):
    def __init__(self, folder, at):
        self.sim = Simulator()
        self.name_servers = NameServers(self.sim, ADDRESSES)
        if "ns1" in at:
            self.sim.make_zone(migrate_network.ZONE.rstrip("."))
        super().__init__(folder, at=at, kinds=("pdns",))

    def secrets(self):
        super().secrets()
        (self.folder / "ns1-key").write_text(ns1sim.KEY, encoding="ascii")
        (self.folder / "ns1-key").chmod(0o600)
        with open(self.folder / "sluice.yaml", "a", encoding="ascii") as settings:
            settings.write(f"  ns1: {{file: {self.folder}/ns1-key}}\n")

    def write(self, **options):
        super().write(**options)
        with open(self.folder / "config/defaults.yaml", "a", encoding="ascii") as defaults:
            defaults.write(f"  dns-ns1: {{type: ns1, url: '{self.sim.url}', secret: ns1}}\n")

    def has_zone(self):
        return migrate_network.ZONE.rstrip(".") in self.sim.zones

    def close(self):
        super().close()
        self.sim.close()


def move(folder, source, target):
    with World(folder, (source,)) as world:
        assert world.has_zone() == (source == "ns1")
        with world.asking() as asking:
            done = world.start(source, target)
            migrate_network.check_moved(world, source, target)
            before = asking.count
            serverlib.wait_for(lambda: asking.count > before + 100, "questions after the move")
        print(done.stdout)
        assert world.state()["phase"] == "done" and world.has_zone()


SCENARIOS = {"to": lambda folder: move(folder, "pdns", "ns1"), "from": lambda folder: move(folder, "ns1", "pdns")}

if __name__ == "__main__":
    migrate_network.SCENARIOS = SCENARIOS
    migrate_network.main()
