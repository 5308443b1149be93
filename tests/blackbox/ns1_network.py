# SPDX-License-Identifier: Apache-2.0
"""Run as migrate_network.py, by test_simulated_migrate.py: a zone moves between PowerDNS and NS1, that is its
simulator with name servers that answer what it holds.  Arguments: the scenario, an empty folder."""
import ns1sim
import simulated_network
from migrate_network import ZONE

ADDRESSES, NAMES = ("127.0.7.1", "127.0.7.2"), ("ns1.ns1.example.", "ns2.ns1.example.")
simulated_network.take_place("ns1", ADDRESSES, NAMES)
SOA = "ns1.ns1.example. hostmaster.example. 1 3600 600 86400 1"


class Simulator(ns1sim.Simulator):
    """With name servers of the test's network."""

    def zone(self, method, zone, query, headers):
        reply = super().zone(method, zone, query, headers)
        if reply:
            reply.update(dns_servers=[n.rstrip(".") for n in NAMES], nx_ttl=1)
        return reply


def presentation(rdtype, value):
    """NS1 writes texts without quotes, and names without the final dot."""
    if rdtype == "TXT":
        return f'"{value}"'
    return f"{value}." if rdtype in ("NS", "MX", "CNAME") and not value.endswith(".") else value


class NameServers(simulated_network.NameServers):
    def zones(self):
        return {f"{zone}.": (SOA, [f"{owner}." for owner, _ in records]) for zone, records in self.sim.zones.items()}

    def answers(self, zone, name, rdtype):
        record = self.sim.zones[zone.rstrip(".")].get((name.rstrip("."), rdtype))
        if not record:
            return {}, 0
        if record["filters"]:
            chances = {(values,): p for values, p in ns1sim.shares(record, ns1sim.Client(), self.sim.feed_values()).items()}
        else:
            chances = {tuple(" ".join(map(str, a["answer"])) for a in record["answers"]): 1}
        return {tuple(presentation(rdtype, v) for v in values): p for values, p in chances.items()}, record["ttl"]


class World(simulated_network.World):
    KIND, SECRET, SETTINGS, zone = "ns1", ns1sim.KEY, "type: ns1", ZONE.rstrip(".")

    def __init__(self, folder, at):
        self.sim = Simulator()
        self.name_servers = NameServers(self.sim, ADDRESSES)
        super().__init__(folder, at)


if __name__ == "__main__":
    simulated_network.main(World)
