# SPDX-License-Identifier: Apache-2.0
"""Random models of steered domains with what happens to them, for test_cross_provider.py; and what has to be
among them."""
import ipaddress
import random

import crosslib
from crosslib import STATES, Facts, Model, decide, location_data, measured, place, rank

# ---- random models ----------------------------------------------------------------------------------
WORLD = [  # atoms of one part of the world, so that they often overlap
    ["na", "us", "us-ny", "us-ca", "us-tx", "asn:64502", "192.0.2.0/24", "192.0.2.0/25", "192.0.2.16/28"],
    ["na", "ca", "ca-qc", "ca-on", "asn:64500", "asn:64501", "198.51.100.0/24", "198.51.100.0/26", "2001:db8:100::/40"],
    ["eu", "de", "de-be", "fr", "no", "gb", "gb-eng", "gb-wbk", "203.0.113.64/26", "203.0.113.96/28"],
    ["as", "jp", "jp-13", "in", "in-ka", "country:sa", "country:af", "asn:4200000000", "100.64.0.0/11"],
    ["af", "country:na", "sa", "br", "br-sp", "oc", "country:as", "au", "au-nsw", "an", "aq", "203.0.113.0/24"],
]
WEIGHTS = [0, 0, 1, 1, 7, 7, 100, 255, 256, 1000, 65535]
PORT = 8053        # of checks that probe (and the one above)
BODY = "all is well"
STRAY = ["198.18.0.9", "2001:db8:ffff::9"]  # in no place


class Maker:
    NETS = "10", "2001:db8:e"  # where endpoints are
    SEED = 68                  # with which every class below is among the first models

    def __init__(self, number):
        self.rng = random.Random(f"cross-provider {number}/{self.SEED}")
        self.number = number
        self.hosts = number % 8 == 3 or self.rng.random() < 0.06
        self.kinds = self.rng.choice([["4"], ["4"], ["6"], ["46"], ["46"], ["4", "46"], ["4", "6", "46"]])
        self.several = self.rng.random() < 0.35
        self.plain = number % 8 == 5  # no regions, no second level, all weights alike

    def addresses(self, i):
        kind = self.rng.choice(self.kinds)
        count = self.rng.choice([1, 2, 3]) if self.several else 1
        shared = self.rng.random() < 0.08  # with the endpoint before
        i -= shared and i > 0
        v4, v6 = self.NETS
        out = [f"{v4}.{self.number % 250}.{i + 1}.{k + 1}" for k in range(count) if "4" in kind]
        v6 = f"{v6}:{self.number % 250:x}::{i:x}"
        return out + [str(ipaddress.ip_address(f"{v6}{k + 1:x}")) for k in range(count) if "6" in kind]

    def endpoints(self):
        count = self.rng.randint(2 if self.hosts else 1, 6)
        if self.hosts:
            return {f"e{i}": f"h{i}.m{self.number}.example.net." for i in range(count)}
        return {f"e{i}": self.addresses(i) for i in range(count)}

    def weight_list(self):
        """All alike, all zero, or anything."""
        chance = self.rng.random()
        return [0] if chance < 0.12 else [7] if self.plain else [self.rng.choice(WEIGHTS)] if chance < 0.25 else WEIGHTS

    def level(self, model):
        names = list(model.endpoints)
        offered = model.offered()
        while True:
            chosen = self.rng.sample(names, self.rng.randint(1, min(len(names), 5)))
            if all(any(model.values(e, t) for e in chosen) for t in offered):
                break
        weights = self.weight_list()
        return {e: self.rng.choice(weights) for e in chosen}

    def levels(self, model):
        return [self.level(model) for _ in range(1 if self.plain else self.rng.choice([1, 2, 2, 3, 3]))]

    def region_atoms(self):
        """{name: atoms or None}; no atom twice."""
        part = WORLD[self.number % len(WORLD)]
        other = [a for p in WORLD for a in p if a not in part]
        free = self.rng.sample(part, len(part)) if self.rng.random() < 0.75 else self.rng.sample(other, len(other))
        out = {}
        for i in range(0 if self.plain else self.rng.choice([0, 1, 2, 2, 3, 4] if self.number % 5 == 3 else [1, 2, 3, 4, 4])):
            if self.rng.random() < 0.25:
                out[f"area{self.number}.{i}"] = [free.pop() for _ in range(self.rng.choice([1, 2, 3])) if free]
            elif free:
                out[free.pop()] = None
        return {name: atoms for name, atoms in out.items() if atoms is None or atoms}

    def make(self):
        rng = self.rng
        names = [f"m{self.number}"] * 6 + [f"_wildcard.m{self.number}"] + ["@"]
        name = rng.choice(names)
        if self.hosts and name == "@":
            name = names[0]
        model = Model(name, self.endpoints(), {}, ttl=rng.choice([1, 30, 300]))
        if len(model.offered()) > 1 and rng.random() < 0.25:
            model.types = [rng.choice(model.offered())]
        places = self.region_atoms()
        order = rng.sample([*places, "global"], len(places) + 1)
        model.regions = {region: self.levels(model) for region in order}
        model.named = {region: atoms for region, atoms in places.items() if atoms}
        if len(model.endpoints) > 1 and rng.random() < 0.3:
            model.disabled = tuple(rng.sample(list(model.endpoints), rng.choice([1, 1, 2])))
        if not self.hosts and rng.random() < 0.25:
            model.answers = rng.randint(2, 3)
        model.draw_per = rng.choice(["query"] * 4 + ["subnet"])
        model.health = {"type": "tcp", "port": 80} if rng.random() < 0.6 else None
        return model

    def facts(self, model):
        """One of several kinds of bad days."""
        rng = self.rng
        names = list(model.endpoints)
        facts = Facts()
        for endpoint in names:
            if rng.random() < 0.12:
                facts.manual[endpoint] = rng.random() < 0.4
        self.measure(model, facts)
        if rng.random() < 0.12:
            facts.manual = {endpoint: False for endpoint in names}
        for region, levels in model.regions.items():
            for number, level in enumerate(levels, 1):
                for endpoint in level:
                    if rng.random() < 0.12:
                        facts.weights[region, number, endpoint] = rng.choice(WEIGHTS)
        keys = [("weight", *key) for key in facts.weights] + [("status", e) for e in facts.manual]
        facts.timed = {key for key in keys + [("health", *key) for key in facts.forced] if rng.random() < 0.3}
        return facts

    def measure(self, model, facts):
        """Who is down: by checks, or where there are none (and sometimes against them) as set by hand."""
        rng = self.rng
        names = list(model.endpoints)
        sick = rng.choice([[], rng.sample(names, 1), rng.sample(names, (len(names) + 1) // 2), names])
        for endpoint in names:
            families = model.families(endpoint)
            found = [family for family in families if endpoint in sick and rng.random() > 0.1]
            if model.health:
                facts.down |= {(endpoint, family) for family in found}
            else:
                facts.forced |= {(endpoint, family): False for family in found}
            if rng.random() < 0.12:
                facts.forced |= {(endpoint, family): rng.random() < 0.5 for family in families}


class OwnMaker(Maker):
    """For providers that check by themselves: endpoints are on this machine, and can be up, down or odd."""
    NETS = "127", "2001:db8:f"
    SEED = 1287

    def address_check(self):
        """Settings of a check of addresses: mostly what LUA records can do."""
        web = {"type": "http", "port": PORT, "path": f"/m{self.number}"}
        tcp = {"type": "tcp", "port": PORT}
        return self.rng.choice([tcp] * 4 + [web, web, dict(web, host="www.example.net")] +
                               [dict(web, expect={"body": BODY}), {"type": "icmp"}, None])

    def make(self):
        rng = self.rng
        model = super().make()
        model.health = self.address_check()
        if model.health:
            model.health |= {"interval": "30s", "timeout": "20s"}
        if model.health and "port" in model.health and rng.random() < 0.1:
            model.checks[rng.choice(list(model.endpoints))] = {"port": PORT + 1}
        return model

    def measure(self, model, facts):
        rng = self.rng
        places = [p for e in model.endpoints for p in model.places(e)]
        names = list(model.endpoints)
        sick = rng.choice([[], rng.sample(names, 1), rng.sample(names, (len(names) + 1) // 2), names, names])
        odd = STATES[1:] if model.health and model.health["type"] == "http" else STATES[1:2]
        some = rng.random() < 0.3  # of an endpoint's addresses
        facts.states = {p: rng.choice(odd) for e in sick for p in model.places(e) if not some or rng.random() < 0.6}
        assert set(facts.states) <= set(places)
        facts.down = measured(model, facts.states)
        for endpoint in names:
            if rng.random() < 0.06:
                facts.forced |= {(endpoint, family): rng.random() < 0.5 for family in model.families(endpoint)}


def make(number, phases, maker=Maker):
    """The model with this number, and its facts: none in the first phase."""
    maker = maker(number)
    model = maker.make()
    return model, [Facts()] + [maker.facts(model) for _ in range(phases - 1)]


def clients(model):
    """Addresses in each network of the location data and of the model, and in none."""
    known = [i["net"] for i in location_data("locations.json")]
    nets = [i["net"] for i in location_data("asns.json")]
    nets += [ipaddress.ip_network(a[4:]) for region in model.regions for a in model.atoms(region) if a.startswith("net:")]
    found = {str(net[5]) for net in known + nets} | {str(net[net.num_addresses // 2 + 1]) for net in nets}
    return sorted(found) + STRAY


# ---- classes that have to appear --------------------------------------------------------------------


def classes(model, facts):
    """Names of what occurs in a model with its facts, as its clients see it."""
    out = {f"answers {min(model.answers, 2)}", f"draw_per {model.draw_per}", f"types {' '.join(model.offered())}",
           f"regions {len(model.regions)}", "apex" if model.name == "@" else "wildcard" if "_w" in model.name else "name"}
    out |= {"health checks"} if model.health else set()
    out |= {f"by hand {'up' if up else 'down'}" for key, up in facts.forced.items() if up != (key not in facts.down)}
    out |= {f"timed {key[0]}" for key in facts.timed}
    out |= {"types restricted"} if model.types else set()
    out |= {"override of a weight"} if facts.weights else set()
    out |= {f"by hand {value}" for value in facts.manual.values()}
    out |= {"enabled: false"} if model.disabled else set()
    out |= {"named region"} if model.named else set()
    for rtype in model.offered():
        if any(len(model.values(e, rtype)) > 1 for e in model.endpoints):
            out.add("several addresses")
        for region in model.regions:
            decision = decide(model, facts, region, rtype)
            levels = len(model.regions[region])
            for rule in ("as if healthy", "not disabled"):
                if decide(model, facts, region, rtype, without=rule).weights != decision.weights:
                    out.add(f"without the rule {rule} it would be another answer")
            out |= {f"rule {decision.rule}", f"level {decision.level} of {levels}", f"drawn from {min(len(decision.weights), 3)}"}
            level = model.regions[region][decision.level - 1]
            in_force = [facts.weights.get((region, decision.level, e), w) for e, w in level.items() if model.values(e, rtype)]
            out |= {f"weight {w}" for w in in_force}
            out |= {"all weights 0"} if not any(in_force) else {"some weights 0"} if 0 in in_force else set()
            out |= {"weights to scale"} if max(in_force) > 255 and len(decision.weights) > 1 else set()
    for address in clients(model):
        client = place(address)
        ranks = sorted((r, region) for region in model.regions for a in model.atoms(region)
                       if (r := rank(a, client)) is not None)
        kinds = ("global", "continent", "country", "subdivision", "subdivision 2", "asn", "net")
        names = [kinds[r[0]] for r, _ in ranks]
        out.add(f"fence {names[-1]}")
        if len(ranks) > 1 and ranks[-1][1] != ranks[-2][1]:
            out.add(f"{names[-1]} before {names[-2]}")
        if len({region for _, region in ranks}) > 2:
            out.add("three regions match")
    return out


NEEDED = {
    "answers 1", "answers 2", "draw_per query", "draw_per subnet", "types A", "types AAAA", "types A AAAA", "types CNAME",
    "types restricted", "regions 1", "regions 2", "regions 3", "regions 4", "regions 5", "apex", "wildcard", "name",
    "health checks", "override of a weight", "by hand True", "by hand False", "enabled: false", "named region",
    "several addresses", "rule up", "rule as if healthy", "rule not disabled", "rule any", "level 1 of 1", "level 1 of 2",
    "level 2 of 2", "level 1 of 3", "level 2 of 3", "level 3 of 3", "drawn from 1", "drawn from 2", "drawn from 3",
    "weight 0", "weight 1", "weight 7", "weight 255", "weight 256", "weight 1000", "weight 65535", "all weights 0",
    "some weights 0", "weights to scale", "fence global", "fence continent", "fence country", "fence subdivision",
    "fence subdivision 2", "fence asn", "fence net", "three regions match", "net before net", "net before asn",
    "asn before subdivision", "subdivision 2 before subdivision", "subdivision before country", "country before continent",
    "continent before global", "without the rule as if healthy it would be another answer",
    "without the rule not disabled it would be another answer", "by hand up", "by hand down", "timed weight", "timed status",
    "timed health"}


def own_classes(model, facts):
    """The same of models whose providers check by themselves."""
    check = model.health
    kind = check["type"] + (" for a body" if "expect" in check else "") if check else "none"
    out = {f"checks {kind}", f"checks {'of several kinds' if model.checks else 'alike'}"}
    out |= {f"{kind} {state}" for state in facts.states.values()}
    none = Facts(weights=facts.weights, manual=facts.manual)
    for provider in (crosslib.Powerdns("own"), crosslib.Route53("own")):
        name, told = type(provider).__name__, provider.told(model, facts)
        for rtype in model.offered():
            for region in model.regions:
                found, otherwise, true = (decide(model, f, region, rtype) for f in (told, none, facts))
                out |= {f"{name} {rtype} other endpoints"} if found.weights != otherwise.weights else set()
                out |= {f"{name} {rtype} another level"} if found.level > otherwise.level else set()
                out |= {f"{name} {rtype} all down"} if found.rule == "as if healthy" else set()
                out |= {f"{name} finds something else"} if found.weights != true.weights else set()
    return out


NEEDED_OWN = {
    "checks none", "checks tcp", "checks http", "checks http for a body", "checks icmp", "checks alike", "checks of several kinds",
    "tcp refused", "http refused", "http wrong body", "http 302", "http 503", "http for a body wrong body",
    "Powerdns A other endpoints", "Powerdns A another level", "Powerdns A all down", "Powerdns AAAA other endpoints",
    "Powerdns AAAA another level", "Powerdns AAAA all down", "Powerdns finds something else", "Route53 A other endpoints",
    "Route53 A another level", "Route53 A all down", "Route53 AAAA other endpoints", "Route53 AAAA another level",
    "Route53 AAAA all down", "Route53 CNAME other endpoints", "Route53 CNAME another level",
    "Route53 finds something else"}
