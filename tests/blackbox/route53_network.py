# SPDX-License-Identifier: Apache-2.0
"""Run as migrate_network.py, by test_simulated_migrate.py: a zone moves between PowerDNS and Route 53, that
is its simulator with name servers that answer what it holds.  Arguments: the scenario, an empty folder."""
import route53sim
import simulated_network
from migrate_network import ZONE

ADDRESSES, NAMES = ("127.0.6.1", "127.0.6.2"), ("ns1.r53.example.", "ns2.r53.example.")
simulated_network.take_place("r53", ADDRESSES, NAMES)
route53sim.SERVERS[:] = NAMES


class NameServers(simulated_network.NameServers):
    def zones(self):
        return {z.name: (z.sets[(z.name, "SOA", None)].values[0], [s.name for s in z.sets.values()])
                for z in self.sim.zones.values()}

    def answers(self, zone, name, rdtype):
        return self.sim.answer(name, rdtype, (None, None, None)), 1

    def sets_of(self, name, rdtype):
        name = route53sim.canonical_name(name)
        return [s for z in self.sim.zones.values() for s in z.sets.values() if (s.name, s.type) == (name, rdtype)]


class World(simulated_network.World):
    KIND, SECRET, SETTINGS, zone = "r53", route53sim.CREDENTIALS, "type: route53, health: none", ZONE

    def __init__(self, folder, at):
        self.sim = route53sim.Route53("elsewhere.example.")
        self.name_servers = NameServers(self.sim, ADDRESSES)
        self.sim.of = self.name_servers.sets_of
        super().__init__(folder, at)


if __name__ == "__main__":
    simulated_network.main(World)
