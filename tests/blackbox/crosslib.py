# SPDX-License-Identifier: Apache-2.0
"""Models of steered domains (crossmodels.py makes random ones), and what they answer by the four layers.

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
    health: dict = None           # the domain's check
    checks: dict = dataclasses.field(default_factory=dict)  # endpoint -> what is another in its own

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

    def check(self, endpoint):
        """Settings of the check of an endpoint; None: it has none."""
        return self.health and {**self.health, **self.checks.get(endpoint, {})}

    def places(self, endpoint):
        """Its addresses, or its host name, as they are written."""
        where = self.endpoints[endpoint]
        return [where] if isinstance(where, str) else where

    def families(self, endpoint):
        """{4 or 6: places of this family}; a host name is in both."""
        places = self.places(endpoint)
        if isinstance(self.endpoints[endpoint], str):
            return {4: places, 6: places}
        return {family: found for family in (4, 6) if (found := [p for p in places if (":" in p) == (family == 6)])}

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
            more = {"enabled": False} if name in self.disabled else {}
            more |= {"health": self.checks[name]} if name in self.checks else {}
            key = "host" if isinstance(where, str) else "addresses"
            lines.append(f"  {name}: {json.dumps({key: where, **more} if more else where)}")
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
            lines.append(f"health: {json.dumps(self.health)}")
        if losses:
            lines.append("providers:")
            lines += [f"  {p}: {{allow_loss: [geo, status, priority, weight]}}" for p in losses]
        return "\n".join(lines) + "\n"


@dataclasses.dataclass
class Facts:
    """What was set at run time, and what checks found."""
    weights: dict = dataclasses.field(default_factory=dict)  # (region, level from 1, endpoint) -> weight
    manual: dict = dataclasses.field(default_factory=dict)   # endpoint -> True (enabled) or False
    forced: dict = dataclasses.field(default_factory=dict)   # (endpoint, 4 or 6) -> True (up) or False, whatever is measured
    down: set = dataclasses.field(default_factory=set)       # (endpoint, 4 or 6), as measured
    states: dict = dataclasses.field(default_factory=dict)   # address or host name -> how it is (STATES), if not "up"
    timed: set = dataclasses.field(default_factory=set)      # keys of what ends by itself before the next phase


# How an endpoint's address can be: nobody listens; or what is answered to HTTP.
STATES = ("up", "refused", "wrong body", "302", "503")


def is_good(check, state):
    """What our checker finds, with settings that accept 200 to 299."""
    if check["type"].startswith("http"):
        return state == "up" or state == "wrong body" and "body" not in check.get("expect", {})
    return state != "refused"


def measured(model, states):
    """(endpoint, family) that our checker calls down: where no address is good."""
    return {(endpoint, family) for endpoint in model.endpoints if (check := model.check(endpoint))
            for family, places in model.families(endpoint).items()
            if not any(is_good(check, states.get(place, "up")) for place in places)}


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
    return not any(facts.forced.get((endpoint, family), (endpoint, family) not in facts.down) for family in families)


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
    """Our own server; and what all kinds have in common.

    health: of the provider, "pushed", "own" or "none".
    """

    def __init__(self, health="pushed"):
        self.health = health

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

    def told(self, model, facts):
        """The facts that it goes by."""
        if self.health == "pushed":
            return facts
        down = self.finds(model, facts.states) if self.health == "own" else set()
        return Facts(weights=facts.weights, manual=facts.manual, down=down)

    @staticmethod
    def finds(model, states):
        """(endpoint, family) that its own checks call down."""
        return set()

    def answers(self, model, facts, region, rtype):
        return answers(model, self.told(model, facts), region, rtype)

    def grades(self, model, facts):
        """What is to be declared, so that nothing is called lost that is not; without what is open."""
        return {layer: "exact" for layer in LAYERS}

    def status_grade(self, model, facts):
        if self.health == "pushed":
            return "exact"
        if not model.health:  # what is set by hand has no check that could find it
            return "exact" if all(facts.forced.values()) else "approximate"
        return self.own_grade(model, facts) if self.health == "own" else "lost"

    @staticmethod
    def own_grade(model, facts):
        return "lost"


class Elsewhere(Sluice):
    """What kinds with steering have in common: location data of their own."""

    def grades(self, model, facts):
        atoms = [a for region in model.regions for a in model.atoms(region)]
        places = any(a.startswith(("continent:", "country:", "subdivision:")) for a in atoms)
        geo = "lost" if not all(map(self.knows, atoms)) else "approximate" if places else "exact"
        return {"geo": geo, "status": self.status_grade(model, facts), "priority": "exact",
                "weight": self.weight_grade(model, facts)}

    @staticmethod
    def weight_grade(model, facts):
        return "exact"


class Powerdns(Elsewhere):
    """No registered country, no second subdivision.  Checks all endpoints alike, by tcp, or by http for status 200 (with
    the domain's name as the host, which a wildcard has not)."""

    @staticmethod
    def client(address):
        return place(address, registered=False, second=False)

    @staticmethod
    def can_check(model):
        checks = [model.check(e) for e in model.endpoints]
        nameless = checks[0]["type"] == "http" and "host" not in checks[0] and model.owner.startswith("*.")
        return ("CNAME" not in model.offered() and checks[0]["type"] in ("tcp", "http") and "expect" not in checks[0] and not nameless
                and all(check == checks[0] for check in checks))

    @classmethod
    def finds(cls, model, states):
        return measured(model, states) if model.health and cls.can_check(model) else set()

    def own_grade(self, model, facts):
        return "approximate" if self.can_check(model) else "lost"


class Route53(Elsewhere):
    """No networks, AS numbers, subdivisions but of the US; one endpoint in an answer.  Checks the first address of an
    endpoint, by http for 200 to 399."""

    @staticmethod
    def client(address):
        return place(address, registered=False, second=False)

    @staticmethod
    def knows(atom):
        return not atom.startswith(("net:", "asn:")) and (not atom.startswith("subdivision:") or atom[12:15] == "us-")

    @staticmethod
    def probe(config, states):
        """What a probe finds, by the settings of the health check."""
        state = states.get(config.get("IPAddress") or config["FullyQualifiedDomainName"] + ".", "up")
        if config["Type"] == "TCP":
            return state != "refused"
        return state == "up" or state in ("wrong body", "302") and not config["Type"].endswith("STR_MATCH")

    @staticmethod
    def can_check(model, check):
        """Not by icmp, nor host names by another name."""
        return check["type"] != "icmp" and not ("host" in check and "CNAME" in model.offered())

    @classmethod
    def finds(cls, model, states):
        down = set()
        for endpoint in model.endpoints:
            check = model.check(endpoint)
            if not check or not cls.can_check(model, check):
                continue
            body = "_STR_MATCH" if "expect" in check else ""
            for family, places in model.families(endpoint).items():
                if not cls.probe({"Type": check["type"].upper() + body, "IPAddress": places[0]}, states):
                    down.add((endpoint, family))
        return down

    def own_grade(self, model, facts):
        """Endpoints that are never drawn need no check."""
        checked = any(decide(model, self.told(model, facts), region, rtype).rule in ("up", "as if healthy")
                      for region in model.regions if self.atoms(model, region) for rtype in model.offered())
        return "exact" if not checked else "approximate" if self.can_check(model, model.health) else "lost"

    def answers(self, model, facts, region, rtype):
        return answers(model, self.told(model, facts), region, rtype, count=1)

    @staticmethod
    def weight_grade(model, facts):
        levels = [level for levels in model.regions.values() for level in levels]
        weights = [w for level in levels for w in level.values()] + list(facts.weights.values())
        if model.answers > 1 and max(map(len, levels)) > 1:
            return "lost"
        return "exact" if max(weights) <= 255 else None


class Ns1(Elsewhere):
    """No subdivisions but of the US and Canada; draws single addresses.  No checks of its own."""

    @staticmethod
    def client(address):
        return place(address, registered=False, second=False)

    @staticmethod
    def knows(atom):
        return not atom.startswith("subdivision:") or atom[12:15] in ("us-", "ca-")

    def answers(self, model, facts, region, rtype):
        items = []
        for endpoint, weight in decide(model, self.told(model, facts), region, rtype).weights:
            values = model.values(endpoint, rtype)
            items += [((endpoint, value), fractions.Fraction(weight, len(values))) for value in values]
        return merge(draws(items, model.answers), lambda item: [item[1]])

    @staticmethod
    def weight_grade(model, facts):
        if all(len(model.values(e, t)) <= 1 for e in model.endpoints for t in model.offered()):
            return "exact" if model.draw_per == "query" else "approximate"
        return "lost" if model.answers > 1 else "approximate"


class Static(Sluice):
    """One answer for all: level 1 of `global`.  No checks of its own."""

    @staticmethod
    def region(model, address):
        return "global"

    def answers(self, model, facts, region, rtype):
        told = self.told(model, facts)
        level = {e: told.weights.get(("global", 1, e), w) for e, w in model.regions["global"][0].items()
                 if model.values(e, rtype)}
        enabled = {e for e in level if told.manual.get(e, e not in model.disabled)}
        weighing = [e for e in level if level[e] > 0 and e in enabled]
        chosen = [e for e in weighing if not is_unhealthy(told, e, rtype)] or weighing or list(level)
        if rtype == "CNAME":
            chosen = [max(chosen, key=lambda e: level[e])]  # the first on a tie
        return {frozenset(v for e in chosen for v in model.values(e, rtype)): fractions.Fraction(1)}

    def grades(self, model, facts):
        known = facts.down or facts.forced or model.health
        return {"geo": "lost" if len(model.regions) > 1 else "exact",
                "status": None if self.health == "pushed" and known else self.status_grade(model, facts),
                "priority": "lost" if any(len(levels) > 1 for levels in model.regions.values()) else "exact", "weight": None}
