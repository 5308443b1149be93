# SPDX-License-Identifier: Apache-2.0
"""Random models of steered domains, and what they answer by the four layers.

The reference here is written from the description of the layers alone and shares no code with the
programs; test_cross_provider.py first checks it against the worked decisions of tests/vectors.
Beside the model's answers it gives those of each kind of provider *by its declared losses*: the
same rules on what such a provider is told and knows.
"""
import dataclasses
import fractions
import functools
import ipaddress
import itertools
import json
import random

import sluicelib

ZONE = "e.test"
GEO = sluicelib.REPO / "tests/geo"
LAYERS = ("geo", "status", "priority", "weight")


# ---- where clients are ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Place:
    """A client: its address and what location data say of it (lower case, None: unknown)."""
    address: object
    continent: str = None
    country: str = None
    subdivision: str = None   # first level, "ca-qc"
    subdivision2: str = None
    asn: int = None


def best_network(items, address):
    return max((i for i in items if address in i["net"]), key=lambda i: i["net"].prefixlen, default={})


@functools.lru_cache
def location_data(name):
    items = json.loads((GEO / name).read_text(encoding="utf-8"))
    return [dict(i, net=ipaddress.ip_network(i["net"])) for i in items]


@functools.lru_cache(maxsize=None)
def place(address, registered=True, second=True, as_numbers=True):
    """The client at an address; without what a provider's location data do not tell."""
    address = ipaddress.ip_address(address)
    address = getattr(address, "ipv4_mapped", None) or address
    item = best_network(location_data("locations.json"), address)
    continent, country = item.get("continent"), item.get("country")
    if registered and not country:
        country = item.get("registered_country")
        # The only country of the data without a continent, by the table of continents.
        continent = continent or {"GB": "EU", None: None}[country]
    first, other = item.get("subdivision"), item.get("subdivision2") if second else None
    return Place(address, continent and continent.lower(), country and country.lower(),
                 first and f"{country}-{first}".lower(), other and f"{country}-{other}".lower(),
                 best_network(location_data("asns.json"), address).get("asn") if as_numbers else None)


def canonical_atom(text):
    """Short spellings as `kind:value`."""
    text = text.lower()
    if text == "global" or text.startswith(("continent:", "country:", "subdivision:", "asn:", "net:")):
        return text
    if "/" in text:
        return f"net:{text}"
    if text in ("af", "an", "as", "eu", "na", "oc", "sa"):
        return f"continent:{text}"
    return f"country:{text}" if len(text) == 2 else f"subdivision:{text}"


@functools.lru_cache(maxsize=None)
def rank(atom, client):
    """How specific the atom is for this client; None if it does not match."""
    kind, _, value = atom.partition(":")
    if kind == "net":
        net = ipaddress.ip_network(value)
        return (6, net.prefixlen) if net.version == client.address.version and client.address in net else None
    holds = {"asn": client.asn is not None and value == str(client.asn), "continent": value == client.continent,
             "country": value == client.country, "global": True,
             "subdivision": value in (client.subdivision, client.subdivision2)}[kind]
    order = {"asn": 5, "subdivision": 4 if value == client.subdivision2 else 3, "country": 2, "continent": 1, "global": 0}
    return (order[kind], 0) if holds else None


# ---- models -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def of_type(values, rtype):
    """Those of the addresses or host names that are record data of a type; sorted, each once."""
    if rtype == "CNAME":
        return [v for v in values if v.endswith(".")]
    found = [ipaddress.ip_address(v) for v in values if not v.endswith(".")]
    return sorted({str(a) for a in found if a.version == {"A": 4, "AAAA": 6}[rtype]})


@dataclasses.dataclass
class Model:
    name: str                     # as its folder is called: "m0", "@", "_wildcard.m1"
    endpoints: dict               # name -> list of addresses, or a host name
    regions: dict                 # name as spelled -> list of levels {endpoint: weight}
    named: dict = dataclasses.field(default_factory=dict)  # regions of defaults.yaml -> atoms
    disabled: tuple = ()
    types: list = None
    ttl: int = 30
    answers: int = 1
    draw_per: str = "query"
    health: bool = False

    @property
    def owner(self):
        if self.name == "@":
            return f"{ZONE}."
        return f"{self.name.replace('_wildcard', '*')}.{ZONE}."

    @property
    def question(self):
        return self.owner.replace("*", "any")

    def atoms(self, region):
        return [canonical_atom(a) for a in self.named.get(region, [region])]

    def values(self, endpoint, rtype):
        """Record data of an endpoint."""
        where = self.endpoints[endpoint]
        return of_type((where,) if isinstance(where, str) else tuple(where), rtype)

    def offered(self):
        have = [t for t in ("A", "AAAA", "CNAME") if any(self.values(e, t) for e in self.endpoints)]
        return [t for t in have if not self.types or t in self.types]

    def yaml(self, losses=()):
        lines = [f"ttl: {self.ttl}", "endpoints:"]
        for name, where in self.endpoints.items():
            key = "host" if isinstance(where, str) else "addresses"
            text = json.dumps({key: where, "enabled": False}) if name in self.disabled else json.dumps(where)
            lines.append(f"  {name}: {text}")
        lines.append("regions:")
        for name, levels in self.regions.items():
            lines.append(f"  {json.dumps(name)}:")
            lines += [f"    - {json.dumps(level)}" for level in levels]
        if self.types:
            lines.append(f"types: {json.dumps(self.types)}")
        if self.answers > 1:
            lines.append(f"answers: {self.answers}")
        if self.draw_per != "query":
            lines.append(f"draw_per: {self.draw_per}")
        if self.health:
            lines.append("health: {type: tcp, port: 80}")
        if losses:
            lines.append("providers:")
            lines += [f"  {p}: {{allow_loss: [geo, status, priority, weight]}}" for p in losses]
        return "\n".join(lines) + "\n"


@dataclasses.dataclass
class Facts:
    """What was set at run time."""
    weights: dict = dataclasses.field(default_factory=dict)  # (region, level from 1, endpoint) -> weight
    manual: dict = dataclasses.field(default_factory=dict)   # endpoint -> True (enabled) or False
    down: set = dataclasses.field(default_factory=set)       # (endpoint, 4 or 6)


# ---- the four layers --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Decision:
    region: str
    level: int
    rule: str      # "up", or which fallback
    weights: tuple  # of ((endpoint, weight), ...): what is drawn from


def fence(model, client, atoms=None):
    """Layer 1.  atoms: of a region, as a provider knows them."""
    atoms = atoms or model.atoms
    found = [(rank(atom, client), region) for region in model.regions for atom in atoms(region)
             if rank(atom, client) is not None]
    return max(found)[1]


def is_unhealthy(facts, endpoint, rtype):
    families = {"A": (4,), "AAAA": (6,), "CNAME": (4, 6)}[rtype]
    return all((endpoint, family) in facts.down for family in families)


def decide(model, facts, region, rtype, without=None):
    """Layers 2 to 4, but for the draw itself.  without: a rule of layer 2 that is left out, to see if it matters."""
    levels = model.regions[region]
    entries = [(number, endpoint, facts.weights.get((region, number, endpoint), weight))
               for number, level in enumerate(levels, 1) for endpoint, weight in level.items()
               if model.values(endpoint, rtype)]

    def is_disabled(e):
        return not facts.manual.get(e[1], e[1] not in model.disabled)

    def is_drained(e):
        return e[2] == 0 and e[0] < len(levels)

    rules = [("up", lambda e: not (is_disabled(e) or is_drained(e) or is_unhealthy(facts, e[1], rtype))),
             ("as if healthy", lambda e: not (is_disabled(e) or is_drained(e))),
             ("not disabled", lambda e: not is_disabled(e)),
             ("any", lambda e: True)]
    rule, left = next((name, found) for name, test in rules
                      if name != without and (found := [e for e in entries if test(e)]))
    best = min(e[0] for e in left)
    left = [e for e in left if e[0] == best]
    left = [e for e in left if e[2] > 0] or [(number, endpoint, 1) for number, endpoint, _ in left]
    return Decision(region, best, rule, tuple((endpoint, weight) for _, endpoint, weight in left))


def draws(weights, count):
    """Chances of the sets that `count` draws without replacement give: frozenset -> Fraction."""
    if count >= len(weights):
        return {frozenset(name for name, _ in weights): fractions.Fraction(1)}
    out = {}
    for order in itertools.permutations(weights, count):
        left = sum(weight for _, weight in weights)
        chance = fractions.Fraction(1)
        for _, weight in order:
            chance *= fractions.Fraction(weight, left)
            left -= weight
        key = frozenset(name for name, _ in order)
        out[key] = out.get(key, 0) + chance
    return out


def merge(distribution, values):
    """The same by record data: endpoints with equal addresses are one."""
    out = {}
    for names, chance in distribution.items():
        key = frozenset(v for name in names for v in values(name))
        out[key] = out.get(key, 0) + chance
    return out


def answers(model, facts, region, rtype, count=None):
    """What a client in the region is answered: frozenset of record data -> Fraction."""
    decision = decide(model, facts, region, rtype)
    return merge(draws(decision.weights, count or model.answers), lambda e: model.values(e, rtype))


# ---- what a provider answers by its declared losses -------------------------------------------------


def traffic(distribution):
    """Share of each value where clients take any one of an answer."""
    out = {}
    for values, chance in distribution.items():
        for value in values:
            out[value] = out.get(value, 0) + chance / len(values)
    return out


def presence(model, rtype, distribution):
    """Chance of each endpoint to be in an answer, with any of its values."""
    out = {}
    for endpoint in model.endpoints:
        mine = set(model.values(endpoint, rtype))
        out[endpoint] = sum(chance for values, chance in distribution.items() if mine & values)
    return out


def difference(one, other):
    return float(max(abs(one.get(v, 0) - other.get(v, 0)) for v in set(one) | set(other)))


class Sluice:
    """Our own server; and what all kinds have in common."""

    @staticmethod
    def client(address):
        return place(address)

    @staticmethod
    def knows(atom):
        return True

    def atoms(self, model, region):
        return [a for a in model.atoms(region) if self.knows(a)]

    def region(self, model, address):
        return fence(model, self.client(address), lambda region: self.atoms(model, region))

    @staticmethod
    def answers(model, facts, region, rtype):
        return answers(model, facts, region, rtype)

    def grades(self, model, facts):
        """What is to be declared, so that nothing is called lost that is not; without what is open."""
        return {layer: "exact" for layer in LAYERS}


class Elsewhere(Sluice):
    """What kinds with steering have in common: location data of their own."""

    def grades(self, model, facts):
        atoms = [a for region in model.regions for a in model.atoms(region)]
        places = any(a.startswith(("continent:", "country:", "subdivision:")) for a in atoms)
        geo = "lost" if not all(map(self.knows, atoms)) else "approximate" if places else "exact"
        return {"geo": geo, "status": "exact", "priority": "exact", "weight": self.weight_grade(model, facts)}

    @staticmethod
    def weight_grade(model, facts):
        return "exact"


class Powerdns(Elsewhere):
    """No registered country, no second subdivision."""

    @staticmethod
    def client(address):
        return place(address, registered=False, second=False)


class Route53(Elsewhere):
    """No networks, AS numbers, subdivisions but of the US; one endpoint in an answer."""

    @staticmethod
    def client(address):
        return place(address, registered=False, second=False)

    @staticmethod
    def knows(atom):
        return not atom.startswith(("net:", "asn:")) and (not atom.startswith("subdivision:") or atom[12:15] == "us-")

    @staticmethod
    def answers(model, facts, region, rtype):
        return answers(model, facts, region, rtype, count=1)

    @staticmethod
    def weight_grade(model, facts):
        levels = [level for levels in model.regions.values() for level in levels]
        weights = [w for level in levels for w in level.values()] + list(facts.weights.values())
        if model.answers > 1 and max(map(len, levels)) > 1:
            return "lost"
        return "exact" if max(weights) <= 255 else None


class Ns1(Elsewhere):
    """No subdivisions but of the US and Canada; draws single addresses."""

    @staticmethod
    def client(address):
        return place(address, registered=False, second=False)

    @staticmethod
    def knows(atom):
        return not atom.startswith("subdivision:") or atom[12:15] in ("us-", "ca-")

    @staticmethod
    def answers(model, facts, region, rtype):
        items = []
        for endpoint, weight in decide(model, facts, region, rtype).weights:
            values = model.values(endpoint, rtype)
            items += [((endpoint, value), fractions.Fraction(weight, len(values))) for value in values]
        return merge(draws(items, model.answers), lambda item: [item[1]])

    @staticmethod
    def weight_grade(model, facts):
        if all(len(model.values(e, t)) <= 1 for e in model.endpoints for t in model.offered()):
            return "exact" if model.draw_per == "query" else "approximate"
        return "lost" if model.answers > 1 else "approximate"


class Static(Sluice):
    """One answer for all: level 1 of `global`."""

    @staticmethod
    def region(model, address):
        return "global"

    @staticmethod
    def answers(model, facts, region, rtype):
        level = {e: facts.weights.get(("global", 1, e), w) for e, w in model.regions["global"][0].items()
                 if model.values(e, rtype)}
        enabled = {e for e in level if facts.manual.get(e, e not in model.disabled)}
        weighing = [e for e in level if level[e] > 0 and e in enabled]
        chosen = [e for e in weighing if not is_unhealthy(facts, e, rtype)] or weighing or list(level)
        if rtype == "CNAME":
            chosen = [max(chosen, key=lambda e: level[e])]  # the first on a tie
        return {frozenset(v for e in chosen for v in model.values(e, rtype)): fractions.Fraction(1)}

    def grades(self, model, facts):
        return {"geo": "lost" if len(model.regions) > 1 else "exact", "status": None if facts.down or model.health else "exact",
                "priority": "lost" if any(len(levels) > 1 for levels in model.regions.values()) else "exact", "weight": None}


# ---- random models ----------------------------------------------------------------------------------

WORLD = [  # atoms of one part of the world, so that they often overlap
    ["na", "us", "us-ny", "us-ca", "us-tx", "asn:64502", "192.0.2.0/24", "192.0.2.0/25", "192.0.2.16/28"],
    ["na", "ca", "ca-qc", "ca-on", "asn:64500", "asn:64501", "198.51.100.0/24", "198.51.100.0/26", "2001:db8:100::/40"],
    ["eu", "de", "de-be", "fr", "no", "gb", "gb-eng", "gb-wbk", "203.0.113.64/26", "203.0.113.96/28"],
    ["as", "jp", "jp-13", "in", "in-ka", "country:sa", "country:af", "asn:4200000000", "100.64.0.0/11"],
    ["af", "country:na", "sa", "br", "br-sp", "oc", "country:as", "au", "au-nsw", "an", "aq", "203.0.113.0/24"],
]
WEIGHTS = [0, 0, 1, 1, 7, 7, 100, 255, 256, 1000, 65535]
STRAY = ["198.18.0.9", "2001:db8:ffff::9"]  # in no place


class Maker:
    def __init__(self, number):
        self.rng = random.Random(f"cross-provider {number}/68")
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
        out = [f"10.{self.number % 250}.{i}.{k + 1}" for k in range(count) if "4" in kind]
        return out + [f"2001:db8:e:{self.number % 250:x}::{i:x}{k + 1:x}" for k in range(count) if "6" in kind]

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
        model.health = rng.random() < 0.6
        return model

    def facts(self, model):
        """One of several kinds of bad days."""
        rng = self.rng
        names = list(model.endpoints)
        facts = Facts()
        for endpoint in names:
            if rng.random() < 0.12:
                facts.manual[endpoint] = rng.random() < 0.4
        sick = rng.choice([[], rng.sample(names, 1), rng.sample(names, (len(names) + 1) // 2), names])
        for endpoint in sick:
            one = rng.choice([(4,), (6,)]) if rng.random() < 0.15 else (4, 6)
            facts.down |= {(endpoint, family) for family in one}
        if rng.random() < 0.12:
            facts.manual = {endpoint: False for endpoint in names}
        for region, levels in model.regions.items():
            for number, level in enumerate(levels, 1):
                for endpoint in level:
                    if rng.random() < 0.12:
                        facts.weights[region, number, endpoint] = rng.choice(WEIGHTS)
        return facts


def make(number, phases):
    """The model with this number, and its facts: none in the first phase."""
    maker = Maker(number)
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
    "without the rule not disabled it would be another answer"}
