# SPDX-License-Identifier: Apache-2.0
"""Random models at every provider: the distribution of answers is the model's, or the declared loss.

Each test makes a zone of a few models (crosslib.py), brings our server, a real PowerDNS, Knot and
BIND and the simulators of Route 53 and NS1 level with `sluice sync`, and asks all of them from every
place of the location data: as configured, then after changes at run time.  Simulators tell exact
chances; servers are sampled.

The same models each time: SLUICE_MODELS=500 takes more of them, SLUICE_MODELS=120-121 those with
these numbers.  A failure prints the domain.yaml, which can be made smaller by hand.

False alarms: a share is wrong only if TRIES samples in a row are each less likely than UNLIKELY.
With cells of five expected and more the chi-square approximation is not ten times too strict, so
that one share fails by chance less than once in (10 * UNLIKELY) ** -TRIES = 1e15 times; 500 models
have less than 1e5 shares.  What may not be answered at all is no matter of chance.
"""
import collections
import itertools
import json
import os
import re
import socket
import struct
import time

import dns.message
import pytest

import crosslib
import ns1sim
import pdnslib
import route53sim
import sluicelib
import statelib
import stats
from test_sync_rfc2136 import KEY, Bind, Knot
from test_vectors import CASES

ZONE = crosslib.ZONE
PHASES = 3
DRAWS = 500
UNLIKELY, TRIES = 1e-4, 5
WINDOW = 64     # queries on their way
ASKED = 2       # times at each place, where shares are not measured
NEAR = 1e-9     # of exact chances


def numbers():
    """The groups of models: lists of numbers."""
    first, _, last = os.environ.get("SLUICE_MODELS", "0-15").rpartition("-")
    first, last = (int(first), int(last)) if first else (0, int(last) - 1)
    size = 4 if last - first < 20 else 10
    return [list(range(i, min(i + size, last + 1))) for i in range(first, last + 1, size)]


# ---- the reference ----------------------------------------------------------------------------------


def model_of(case):
    """A worked decision as a model; its domain.yaml is of a simple form."""
    def block(name):
        return re.findall(r"^  (.*)$", re.search(rf"^{name}:\n((?:  .*\n)+)", case["domain"], re.M).group(1), re.M)

    def level(text):
        return {k.strip('"'): int(w) for k, w in re.findall(r"([^\s{,]+): (\d+)", text)}
    endpoints, regions, region = {}, {}, None
    for name, value in (line.split(": ", 1) for line in block("endpoints")):
        found = re.findall(r"[0-9a-f]*[:.][0-9a-f:.]+", value)
        endpoints[name.strip('"')] = value if value.endswith(".example.net.") else found
    for line in block("regions"):
        head = re.match(r'("[^"]*"|[^\s"]+?):(?: (.*))?$', line)
        if line.startswith("  - "):
            regions[region].append(level(line))
        else:
            region = head.group(1).strip('"')
            regions[region] = [level(head.group(2))] if head.group(2) else []
    types = re.search(r"^types: \[(.*)\]$", case["domain"], re.M)
    return crosslib.Model(f"c{case['id']}", endpoints, regions, named=case["regions"],
                          types=types.group(1).split(", ") if types else None)


def test_the_reference_decides_as_worked():
    """All 400 worked decisions, by the evaluator that everything below relies on."""
    for case in CASES:
        model = model_of(case)
        facts = crosslib.Facts(manual={e: False for e in case["disabled"]},
                               down={(e, family) for e in case["down"] for family in (4, 6)})
        expect = case["expect"]
        region = crosslib.fence(model, crosslib.place(case["client"]))
        assert region == expect["region"], case["id"]
        rtype = "CNAME" if model.offered() == ["CNAME"] else case["type"]
        if expect.get("nodata"):
            assert rtype not in model.offered(), case["id"]
            continue
        decision = crosslib.decide(model, facts, region, rtype)
        assert (decision.level, decision.rule != "up") == (expect["level"], expect["fallback"]), case["id"]
        chances = crosslib.draws(decision.weights, 1)
        assert {min(k): float(p) for k, p in chances.items()} == pytest.approx(expect["answers"], rel=1e-12), case["id"]


def test_every_class_appears():
    """All layers with their fallbacks, kinds of endpoints and places are among the models of a plain run."""
    seen = set()
    for number in range(16):
        model, phases = crosslib.make(number, PHASES)
        for facts in phases:
            seen |= crosslib.classes(model, facts)
    assert not crosslib.NEEDED - seen


# ---- the providers ----------------------------------------------------------------------------------

ZONE_YAML = """\
ttl: 3600
soa: {mname: ns1.e.test., rname: hostmaster.e.test., refresh: 7200, retry: 900, expire: 1209600, minimum: 60}
ns: [ns-1.awsdns-01.org., ns-2.awsdns-02.com.]
providers: [sluice, pdns, r53, ns1, knot, bind]
records:
  www: {A: [192.0.2.80, 192.0.2.81], AAAA: ["2001:db8::80"], TXT: ["a ; b"]}
  "*.wild": {TXT: ["star"]}
  alias: {CNAME: www.e.test.}
  "@": {MX: ["10 mail.example.net."], CAA: ["0 issue \\"ca.example.net\\""]}
"""
LOSING = ["pdns", "r53", "ns1", "knot", "bind"]
KINDS = {"sluice": crosslib.Sluice(), "pdns": crosslib.Powerdns(), "r53": crosslib.Route53(), "ns1": crosslib.Ns1(),
         "knot": crosslib.Static(), "bind": crosslib.Static()}
STATIC_ONLY = ["knot", "bind"]
STATIC = [("www", "A", ["192.0.2.80", "192.0.2.81"]), ("www", "AAAA", ["2001:db8::80"]), ("www", "TXT", ['"a ; b"']),
          ("alias", "CNAME", ["www.e.test."]), ("@", "MX", ["10 mail.example.net."])]


class World:
    """All providers, and a configuration with some models."""

    def __init__(self, folder, models):
        self.folder, self.models = folder, models
        self.facts = {}    # what is set at run time: key -> change
        self.closing = []
        self.pdns = self.keep(pdnslib.Pdns(folder / "pdns"))
        self.pdns.make_zone(f"{ZONE}.")
        self.r53 = self.keep(route53sim.Route53(f"{ZONE}."))
        self.r53.sets[(f"{ZONE}.", "NS", None)].ttl = 3600
        self.ns1 = self.keep(ns1sim.Simulator())
        self.ns1.make_zone(ZONE)
        self.knot, self.bind = self.keep(Knot(folder / "knot")), self.keep(Bind(folder / "bind"))
        self.write()
        data = sluicelib.build(folder / "config", folder / "data")
        self.server = sluicelib.Server(data, geo=crosslib.GEO / "test-city.mmdb", asn=folder / "pdns/asn.mmdb")
        self.settings = folder / "sluice.yaml"
        self.settings.write_text(f"data: {data}\ncontrol: {self.server.control}\nsecrets:\n" + "".join(
            f"  {name}: {{file: {folder}/key-{name}}}\n" for name in self.secrets), encoding="ascii")

    def keep(self, thing):
        self.closing.append(thing)
        return thing

    def write(self):
        self.secrets = {"pdns": pdnslib.KEY, "r53": route53sim.CREDENTIALS, "ns1": ns1sim.KEY,
                        "tsig": f"{KEY.algorithm}:{KEY.name}:{KEY.secret}"}
        for name, text in self.secrets.items():
            (self.folder / f"key-{name}").write_text(text, encoding="ascii")
            (self.folder / f"key-{name}").chmod(0o600)
        regions = {name: atoms for model in self.models for name, atoms in model.named.items()}
        defaults = f"default_zone: {ZONE}\nregions: {json.dumps(regions)}\nproviders:\n" + "".join(
            f"  {name}: {{type: {kind}, secret: {secret or name}, {where}}}\n" for name, kind, secret, where in (
                ("pdns", "powerdns", "", f'url: "{self.pdns.url}", health: pushed'),
                ("r53", "route53", "", f'url: "{self.r53.url}", health: pushed'),
                ("ns1", "ns1", "", f'url: "{self.ns1.url}", health: pushed'),
                ("knot", "rfc2136", "tsig", f"address: 127.0.0.1@{self.knot.port}"),
                ("bind", "rfc2136", "tsig", f"address: 127.0.0.1@{self.bind.port}")))
        beside = "".join(f"  {m.name}: {{TXT: [\"beside {m.name}\"]}}\n" for m in self.beside())
        files = {"defaults.yaml": defaults, f"{ZONE}/zone.yaml": ZONE_YAML + beside}
        files.update({f"{ZONE}/{m.name}/domain.yaml": m.yaml(LOSING) for m in self.models})
        sluicelib.write_tree(self.folder / "config", files)

    def beside(self):
        """Models with a static record of their name."""
        return [m for m in self.models if m.name.startswith("m") and m.offered() != ["CNAME"]]

    def sync(self, command, *options, status=0):
        done = sluicelib.sluice("sync", command, "--config", self.folder / "config", "--settings", self.settings,
                                "--socket", self.server.control, *options, "--json", status=status)
        return json.loads(done.stdout)

    def writes(self):
        """What changes with every request that writes."""
        serials = {name: sluicelib.ask("127.0.0.1", self.ports()[name], ZONE, "SOA").answer[0][0].serial
                   for name in ("knot", "bind")}
        return {"pdns": self.pdns.serial(f"{ZONE}."), "r53": len(self.r53.writes),
                "ns1": sum(method != "GET" for method, _ in self.ns1.requests), **serials}

    def set(self, facts):
        """Brings what is set at run time from the last phase to this one: {model name: Facts}."""
        wanted = {}
        for model in self.models:
            mine, owner = facts[model.name], model.owner
            for (region, level, endpoint), value in mine.weights.items():
                wanted[owner, region, level, endpoint] = statelib.weight(endpoint, value, region, level, owner)
            for endpoint, enabled in mine.manual.items():
                wanted[owner, "status", endpoint] = statelib.status(endpoint, 1 if enabled else 2, owner)
            for endpoint, family in mine.down:
                wanted[owner, "health", endpoint, family] = statelib.health(endpoint, 2, family, owner)
        drops = [{"op": "drop", **{k: v for k, v in self.facts[key].items() if k not in ("op", "value")}}
                 for key in self.facts if key not in wanted]
        sets = [change for key, change in wanted.items() if self.facts.get(key) != change]
        if drops or sets:
            reply = statelib.commit(self.server.control, drops + sets)
            assert reply["ok"], reply
        self.facts = wanted

    def ports(self):
        return {"sluice": self.server.port, "pdns": self.pdns.port, "knot": self.knot.port, "bind": self.bind.port}

    def close(self):
        for thing in self.closing:
            thing.close()
        self.server.kill()


# ---- asking -----------------------------------------------------------------------------------------


def ecs_of(address):
    return f"{address}/{128 if ':' in address else 32}"


def exchange(port, wires):
    """Sends all queries, some at a time, and again what is not answered; returns the replies in their order."""
    replies = [None] * len(wires)
    waiting, sent, end = set(), 0, time.monotonic() + sluicelib.DEADLINE
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        sock.settimeout(1.0)
        while sent < len(wires) or waiting:
            while sent < len(wires) and len(waiting) < WINDOW:
                sock.send(struct.pack("!H", sent) + wires[sent][2:])
                waiting.add(sent)
                sent += 1
            try:
                reply = sock.recv(4096)
            except TimeoutError:
                assert time.monotonic() < end, f"port {port} does not answer"
                for number in waiting:
                    sock.send(struct.pack("!H", number) + wires[number][2:])
                continue
            number = struct.unpack("!H", reply[:2])[0]
            if number in waiting:
                waiting.remove(number)
                replies[number] = reply[2:]
    return replies


def sample(port, wanted):
    """wanted: (question, how often); the Counter of answers (frozenset of values) for each; none may be empty."""
    wires = [wire for question, count in wanted for wire in [question.wire()] * count]
    replies = iter(exchange(port, wires))
    out = []
    for question, count in wanted:
        counts = collections.Counter()
        for reply, times in collections.Counter(itertools.islice(replies, count)).items():
            message = dns.message.from_wire(b"\0\0" + reply)
            assert sluicelib.rcode(message) == "NOERROR" and message.answer, question.tell(message.to_text())
            counts[frozenset(sluicelib.rdata(message))] += times
        out.append(counts)
    return out


def ns1_client(address):
    seen = crosslib.Ns1.client(address)

    def upper(text):
        return text and text.upper()
    state = seen.subdivision and seen.subdivision[3:]
    return ns1sim.Client(address, upper(seen.country), upper(seen.continent), upper(state), seen.asn)


def ns1_answers(world, model, rtype, address):
    record = world.ns1.zones[ZONE][model.owner.rstrip("."), rtype]
    shares = ns1sim.shares(record, ns1_client(address), world.ns1.feed_values())
    return {frozenset(values.split()): p for values, p in shares.items()}


def r53_answers(world, model, rtype, address):
    seen = crosslib.Route53.client(address)
    state = seen.subdivision and seen.subdivision[3:]
    place = tuple(part and part.upper() for part in (seen.continent, seen.country, state))
    return {frozenset(values): p for values, p in world.r53.answer(model.owner, rtype, place).items()}


# ---- one model, at one provider ---------------------------------------------------------------------


class Answers:
    """What a model is answered with its facts: computed once for each region."""

    def __init__(self, model, facts):
        self.model, self.facts, self.known = model, facts, {}

    def of(self, kind, region, rtype):
        key = (type(kind), region, rtype)
        if key not in self.known:
            self.known[key] = kind.answers(self.model, self.facts, region, rtype)
        return self.known[key]


class Question:
    """What is asked, and what is to be answered."""

    def __init__(self, provider, answers, fidelity, rtype, client):
        kind = KINDS[provider]
        self.provider, self.model, self.facts = provider, answers.model, answers.facts
        self.fidelity, self.rtype, self.client = fidelity, rtype, client
        self.true_region = KINDS["sluice"].region(self.model, client)
        self.region = kind.region(self.model, client)
        self.truth = answers.of(KINDS["sluice"], self.true_region, rtype)
        self.expected = answers.of(kind, self.region, rtype)

    def wire(self):
        return sluicelib.make_query(self.model.question, self.rtype, ecs=ecs_of(self.client)).to_wire()

    def key(self):
        return self.provider, self.model.name, self.region, self.rtype, frozenset(self.expected.items())

    def grade(self, layer):
        return self.fidelity[layer]["grade"] if self.fidelity else "exact"

    def undeclared(self, observed):
        """What differs from the model without being declared; None: nothing does."""
        grades = {layer: self.grade(layer) for layer in crosslib.LAYERS}
        if observed.keys() == self.truth.keys() and all(abs(observed[k] - p) < NEAR for k, p in self.truth.items()):
            return None
        if self.region != self.true_region and grades["geo"] == "exact":
            return "another region"
        error = self.error(observed)
        others = [grades[layer] for layer in ("status", "priority", "weight")]
        if self.region == self.true_region and set(others) == {"exact"}:
            # Static records hold all endpoints at once: equal if what clients take from it is.
            if self.provider not in STATIC_ONLY or error > NEAR:
                return f"an error of {error} at a layer that is called exact"
        declared = sum(f.get("error", 0) for f in self.fidelity.values())
        if "lost" not in grades.values() and error > declared + NEAR:
            return f"an error of {error}, and {declared} is declared"
        return None

    def error(self, observed):
        """The largest error of a share: of what clients take, or of an endpoint's answers."""
        if self.provider in STATIC_ONLY:
            return crosslib.difference(crosslib.traffic(observed), crosslib.traffic(self.truth))
        return max(crosslib.difference(crosslib.traffic(observed), crosslib.traffic(self.truth)),
                   crosslib.difference(*(crosslib.presence(self.model, self.rtype, d) for d in (observed, self.truth))))

    def tell(self, what, observed=None):
        def readable(distribution):
            return {" ".join(sorted(k)): float(p) for k, p in (distribution or {}).items()}
        return (f"\n{self.provider}, model {self.model.name}: {what}\n{self.model.yaml()}defaults: {self.model.named}\n"
                f"{self.facts}\n{self.rtype} from {self.client} (region {self.region}; truly {self.true_region})\n"
                f"model    {readable(self.truth)}\nexpected {readable(self.expected)}\nobserved {readable(observed)}\n"
                f"fidelity {json.dumps(self.fidelity)}\n")


def is_near(question, observed):
    """The simulated chances are the expected ones; scaled weights within what is declared."""
    bound = NEAR
    if question.provider == "r53" and question.grade("weight") != "exact":
        bound += question.fidelity["weight"]["error"]  # 1 where lost: what is answered at all still counts
    expected = question.expected
    return (observed.keys() == expected.keys() and abs(sum(observed.values()) - 1) < NEAR and
            all(p > 0 and abs(p - expected[k]) < bound for k, p in observed.items()))


def check_simulated(world, question):
    ask = r53_answers if question.provider == "r53" else ns1_answers
    observed = ask(world, question.model, question.rtype, question.client)
    if not is_near(question, observed):
        return question.tell("not what is expected", observed)
    wrong = question.undeclared(observed)
    return wrong and question.tell(wrong, observed)


def are_right(counts, expected):
    """Only what is expected was answered; of many draws, as often as is likely."""
    draws = sum(counts.values())
    if not set(counts) <= set(expected):
        return False
    return draws < DRAWS or stats.shares_p(counts, {k: float(p) for k, p in expected.items()}, draws) >= UNLIKELY


def check_sampled(port, questions, measured):
    """A real server: shares once for each region, type and distribution, elsewhere what can be answered."""
    wanted, problems = [], []
    for question in questions:
        key = question.key()
        several = len(question.expected) > 1
        wanted.append((question, 1 if not several else ASKED if key in measured else DRAWS))
        measured.add(key)
    for (question, draws), counts in zip(wanted, sample(port, wanted)):
        for _ in range(TRIES - 1):
            if are_right(counts, question.expected) or not set(counts) <= set(question.expected):
                break
            counts = sample(port, [(question, draws)])[0]
        right = are_right(counts, question.expected)
        wrong = question.undeclared(question.expected) if right else "not what is expected"
        problems += [question.tell(wrong, {k: n / draws for k, n in counts.items()})] if wrong else []
    return problems


def check_model(world, model, facts, fidelity, measured):
    """Problems of one model at all providers, from each place."""
    problems = []
    answers = Answers(model, facts)
    for provider in KINDS:
        questions = [Question(provider, answers, fidelity[provider], rtype, client)
                     for client, rtype in itertools.product(crosslib.clients(model), model.offered())]
        if provider in ("r53", "ns1"):
            problems += [problem for q in questions if (problem := check_simulated(world, q))]
            continue
        if provider in STATIC_ONLY:  # one answer for all: asked once, and compared for each place
            problems += [q.tell(wrong) for q in questions if (wrong := q.undeclared(q.expected))]
            questions = questions[:len(model.offered())]
        problems += check_sampled(world.ports()[provider], questions, measured)
    return problems[:5]


def check_declared(model, facts, fidelity):
    """Nothing is called less than it is."""
    for provider, layers in fidelity.items():
        for layer, grade in KINDS[provider].grades(model, facts).items():
            assert grade in (None, layers[layer]["grade"]), (provider, layer, layers, model.yaml(), facts)


def check_dig(world, model, facts):
    """By dig too, with the subnet of a client."""
    rtype, client = model.offered()[0], "198.51.100.5"
    done = sluicelib.run("dig", "@127.0.0.1", "-p", world.pdns.port, f"+subnet={client}/32", "+short", "+norecurse",
                         model.question, rtype)
    kind = KINDS["pdns"]
    expected = kind.answers(model, facts, kind.region(model, client), rtype)
    assert frozenset(done.stdout.split()) in expected, (done.stdout, model.yaml(), facts)


def check_other_types(world, model):
    """A type that is neither offered nor static is NODATA."""
    for rtype in {"A", "AAAA"} - set(model.offered()):
        if "CNAME" not in model.offered():
            for port in world.ports().values():
                reply = sluicelib.ask("127.0.0.1", port, model.question, rtype)
                assert sluicelib.rcode(reply) == "NOERROR" and not reply.answer and reply.authority, reply


def check_static(world):
    items = STATIC + [(m.name, "TXT", [f'"beside {m.name}"']) for m in world.beside()]
    for label, rtype, values in items:
        name = ZONE if label == "@" else f"{label}.{ZONE}"
        for port in world.ports().values():
            reply = sluicelib.ask("127.0.0.1", port, name, rtype)
            assert sluicelib.rdata(reply, rtype) == values, (port, name, rtype)
        assert sorted(world.r53.of(name, rtype)[0].values) == values
        record = world.ns1.zones[ZONE][name, rtype]
        told = sorted(" ".join(str(part) for part in a["answer"]).rstrip(".") for a in record["answers"])
        assert told == [v.strip('"').rstrip(".") for v in values]


# ---- the property -----------------------------------------------------------------------------------


def group_of(numbers):
    """Models and their phases; only one can be at the apex."""
    made = [crosslib.make(number, PHASES) for number in numbers]
    apex = [model for model, _ in made if model.name == "@"]
    for model in apex[1:]:
        model.name = f"other{numbers[[m for m, _ in made].index(model)]}"
    return made


def bring_level(world, facts):
    """Plan, apply of this very plan, and nothing more to do.  Fidelity: provider -> domain -> layers."""
    world.set(facts)
    consents = ["--allow-ns-change", "--allow-large"]
    plan = world.sync("plan", *consents)
    assert not [i for i in plan["items"] if i["held"]], plan["items"]
    out = world.sync("apply", "--yes", "--digest", plan["digest"], *consents)
    assert not out["errors"] and {p["state"] for p in out["providers"]} == {"applied"}, out["errors"]
    before = world.writes()
    again = world.sync("apply", "--yes", *consents)
    assert again["items"] == [] and {p["asked"] for p in again["providers"]} == {0}, again["items"]
    assert world.writes() == before
    return {p["provider"]: {name: d["fidelity"] for name, d in p["domains"].items()} for p in plan["providers"]}


@pytest.fixture
def world_of(tmp_path):
    worlds = []

    def make(models):
        worlds.append(World(tmp_path, models))
        return worlds[-1]
    yield make
    for world in worlds:
        world.close()
        world.server.check_sanitizers()


@pytest.mark.parametrize("group", numbers(), ids=lambda g: f"{g[0]}-{g[-1]}")
def test_random_models_are_answered_alike(group, world_of):
    made = group_of(group)
    world = world_of([model for model, _ in made])
    measured = set()
    for phase in range(PHASES):
        facts = {model.name: phases[phase] for model, phases in made}
        fidelity = bring_level(world, facts)
        problems = []
        for model in world.models:
            mine = {p: fidelity[p][model.owner] for p in KINDS}
            check_declared(model, facts[model.name], mine)
            problems += check_model(world, model, facts[model.name], mine, measured)
        assert not problems, f"phase {phase}, {len(problems)} problems" + "".join(problems)
        for model in world.models:
            check_dig(world, model, facts[model.name])
            check_other_types(world, model)
        check_static(world)
