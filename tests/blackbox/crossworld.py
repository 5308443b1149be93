# SPDX-License-Identifier: Apache-2.0
"""All providers with the same zone of a few models, what happens to them at run time, and what they answer:
for test_cross_provider.py."""
import collections
import itertools
import json
import random
import socket
import struct
import time

import dns.message
import pytest

import clocklib
import crossends
import crosslib
import crossmodels
import feedlib
import ns1sim
import pdnslib
import route53sim
import serverlib
import sluicelib
import statelib
import stats
from test_sync_rfc2136 import KEY, Bind, Knot

ZONE = crosslib.ZONE
DRAWS = 500
UNLIKELY, TRIES = 1e-4, 5
WINDOW = 64     # queries on their way
ASKED = 2       # times at each place, where shares are not measured
NEAR = 1e-9     # of exact chances
HOUR = 3600

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
KINDS = {"sluice": crosslib.Sluice, "pdns": crosslib.Powerdns, "r53": crosslib.Route53, "ns1": crosslib.Ns1,
         "knot": crosslib.Static, "bind": crosslib.Static}
STATIC_ONLY = ["knot", "bind"]
STATIC = [("www", "A", ["192.0.2.80", "192.0.2.81"]), ("www", "AAAA", ["2001:db8::80"]), ("www", "TXT", ['"a ; b"']),
          ("alias", "CNAME", ["www.e.test."]), ("@", "MX", ["10 mail.example.net."])]


def own_health(model):
    """Settings `health:` of the providers: those that can check do so in most worlds."""
    rng = random.Random(f"own {model.name}/68")
    check = rng.choice(["own"] * 4 + ["none"])
    return {"pdns": check, "r53": check, "ns1": rng.choice(["own", "none"]), "knot": "own", "bind": "none"}


class World:
    """All providers, and a configuration with some models.

    own: providers check by themselves, in the own network of cross_network.py.
    """

    def __init__(self, folder, models, own=False):
        self.folder, self.models, self.own = folder, models, own
        self.health = own_health(models[0]) if own else dict.fromkeys(LOSING, "pushed")
        self.kinds = {name: kind(self.health.get(name, "pushed")) for name, kind in KINDS.items()}
        self.facts = {}    # what is set at run time: key -> change
        self.moved = 0     # seconds by which the server's clock was moved
        self.counts = collections.Counter()
        self.closing = []
        self.open_providers()
        self.write()
        data = sluicelib.build(folder / "config", folder / "data")
        self.feed = self.keep(feedlib.Feed(folder / "feed", self.subjects()))
        with pytest.MonkeyPatch.context() as patch:
            self.clock = clocklib.WallClock(folder, patch)
            self.server = sluicelib.Server(data, "--health", self.feed.path, geo=crosslib.GEO / "test-city.mmdb",
                                           asn=folder / "pdns/asn.mmdb")
        self.settings = folder / "sluice.yaml"
        self.settings.write_text(f"data: {data}\ncontrol: {self.server.control}\nsecrets:\n" + "".join(
            f"  {name}: {{file: {folder}/key-{name}}}\n" for name in self.secrets), encoding="ascii")

    def open_providers(self):
        folder = self.folder
        self.pdns = self.keep(pdnslib.Pdns(folder / "pdns"))
        self.pdns.make_zone(f"{ZONE}.")
        self.r53 = self.keep(route53sim.Route53(f"{ZONE}."))
        self.r53.sets[(f"{ZONE}.", "NS", None)].ttl = 3600
        self.ns1 = self.keep(ns1sim.Simulator())
        self.ns1.make_zone(ZONE)
        self.knot, self.bind = self.keep(Knot(folder / "knot")), self.keep(Bind(folder / "bind"))
        self.endpoints = self.keep(crossends.Endpoints(self.models)) if self.own else None

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
            f"  {name}: {{type: {kind}, secret: {secret or name}, health: {self.health[name]}, {where}}}\n"
            for name, kind, secret, where in (
                ("pdns", "powerdns", "", f'url: "{self.pdns.url}"'),
                ("r53", "route53", "", f'url: "{self.r53.url}"'),
                ("ns1", "ns1", "", f'url: "{self.ns1.url}"'),
                ("knot", "rfc2136", "tsig", f"address: 127.0.0.1@{self.knot.port}"),
                ("bind", "rfc2136", "tsig", f"address: 127.0.0.1@{self.bind.port}")))
        beside = "".join(f"  {m.name}: {{TXT: [\"beside {m.name}\"]}}\n" for m in self.beside())
        files = {"defaults.yaml": defaults, f"{ZONE}/zone.yaml": ZONE_YAML + beside}
        files.update({f"{ZONE}/{m.name}/domain.yaml": m.yaml(LOSING) for m in self.models})
        if self.own:
            files[f"{ZONE}/beacon/domain.yaml"] = crossends.BEACON.yaml(LOSING)
        sluicelib.write_tree(self.folder / "config", files)

    def beside(self):
        """Models with a static record of their name."""
        return [m for m in self.models if m.name.startswith("m") and m.offered() != ["CNAME"]]

    def sync(self, command, *options, status=0):
        done = sluicelib.sluice("sync", command, "--config", self.folder / "config", "--settings", self.settings,
                                "--socket", self.server.control, *options, "--json", status=status,
                                timeout=3 * sluicelib.DEADLINE)
        return json.loads(done.stdout)

    def writes(self):
        """What changes with every request that writes."""
        serials = {name: sluicelib.ask("127.0.0.1", self.ports()[name], ZONE, "SOA").answer[0][0].serial
                   for name in ("knot", "bind")}
        return {"pdns": self.pdns.serial(f"{ZONE}."), "r53": len(self.r53.writes),
                "ns1": sum(method != "GET" for method, _ in self.ns1.requests), **serials}

    # ---- what happens at run time ----

    def checked(self):
        """All (model, endpoint) with a check, in the order of the feed's ids."""
        return [(model, endpoint) for model in self.models for endpoint in model.endpoints if model.check(endpoint)]

    def subjects(self):
        """Each second check has not decided yet: that counts as up."""
        return [feedlib.subject(i, [(model.owner, endpoint)],
                                **{f"v{family}": (feedlib.OPEN, feedlib.UP)[i % 2] for family in model.families(endpoint)})
                for i, (model, endpoint) in enumerate(self.checked())]

    def tell(self, facts):
        """What the checker finds, until the server has it all."""
        if not any(f.down for f in facts.values()) and not any(
                feedlib.DOWN in (s["v4"], s["v6"]) for s in self.feed.subjects.values()):
            return
        wanted = {}
        for i, (model, endpoint) in enumerate(self.checked()):
            down = facts[model.name].down
            verdicts = {family: feedlib.DOWN if (endpoint, family) in down else feedlib.UP for family in model.families(endpoint)}
            wanted |= {(model.owner, endpoint, family): verdict[0] for family, verdict in verdicts.items()}
            self.feed.change(i, **{f"v{family}": verdict for family, verdict in verdicts.items()})
        serverlib.wait_for(lambda: wanted.items() <= self.known().items(), "what the checker told")

    def known(self):
        """(owner, endpoint, family) -> the state that was measured."""
        return {(model.owner, h["endpoint"], h["family"]): h["state"] for model in self.models
                for h in statelib.domain(self.server.control, model.owner)["health"]}

    def expire(self):
        """What was set for a time ends."""
        ending = {key for key, change in self.facts.items() if "expires_at" in change}
        if not ending:
            return
        self.moved += 2 * HOUR
        self.clock.shift(self.moved)
        self.facts = {key: change for key, change in self.facts.items() if key not in ending}
        serverlib.wait_for(lambda: sluicelib.control(self.server.control, "status")["override_count"] == len(self.facts),
                           "the end of what was set for a time")

    def wanted(self, model, facts):
        """Key -> the change that sets what is set of a model."""
        out = {("weight", *key): statelib.weight(key[2], value, key[0], key[1], model.owner)
               for key, value in facts.weights.items()}
        out |= {("status", endpoint): statelib.status(endpoint, 1 if enabled else 2, model.owner)
                for endpoint, enabled in facts.manual.items()}
        out |= {("health", *key): statelib.health(key[0], 1 if up else 2, key[1], model.owner) for key, up in facts.forced.items()}
        until = {"expires_at": int(time.time()) + self.moved + HOUR}
        return {(model.owner, *key): change | (until if key in facts.timed else {}) for key, change in out.items()}

    def set(self, facts):
        """Brings what is set at run time from the last phase to this one: {model name: Facts}."""
        self.expire()
        wanted = {}
        for model in self.models:
            wanted |= self.wanted(model, facts[model.name])
        drops = [{"op": "drop", **{k: v for k, v in self.facts[key].items() if k not in ("op", "value")}}
                 for key in self.facts if key not in wanted]
        sets = [change for key, change in wanted.items() if self.facts.get(key) != change]
        if drops or sets:
            reply = statelib.commit(self.server.control, drops + sets)
            assert reply["ok"], reply
        self.facts = wanted
        self.tell(facts)
        if self.own:
            states = {place: state for f in facts.values() for place, state in f.states.items()}
            self.endpoints.set(states)
            self.r53.probe = lambda config: crosslib.Route53.probe(config, states)

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
    """Sends all queries, some at a time, and again what is not answered; returns the replies in their order.  However
    many they are, there is time as long as answers come."""
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
                end = time.monotonic() + sluicelib.DEADLINE
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

    def __init__(self, world, model, facts):
        self.kinds, self.model, self.facts, self.known = world.kinds, model, facts, {}

    def of(self, provider, region, rtype):
        key = (provider, region, rtype)
        if key not in self.known:
            self.known[key] = self.kinds[provider].answers(self.model, self.facts, region, rtype)
        return self.known[key]


class Question:
    """What is asked, and what is to be answered."""

    def __init__(self, provider, answers, fidelity, rtype, client):
        kinds = answers.kinds
        self.provider, self.model, self.facts = provider, answers.model, answers.facts
        self.health = kinds[provider].health
        self.fidelity, self.rtype, self.client = fidelity, rtype, client
        self.true_region = kinds["sluice"].region(self.model, client)
        self.region = kinds[provider].region(self.model, client)
        self.truth = answers.of("sluice", self.true_region, rtype)
        self.expected = answers.of(provider, self.region, rtype)

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
        return (f"\n{self.provider} (health: {self.health}), model {self.model.name}: {what}\n{self.model.yaml()}defaults: {self.model.named}\n"
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
    world.counts["exact chances"] += 1
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


def check_sampled(world, provider, questions, measured):
    """A real server: shares once for each region, type and distribution, elsewhere what can be answered."""
    port = world.ports()[provider]
    wanted, problems = [], []
    for question in questions:
        key = question.key()
        several = len(question.expected) > 1
        wanted.append((question, 1 if not several else ASKED if key in measured else DRAWS))
        measured.add(key)
    world.counts["draws"] += sum(draws for _, draws in wanted)
    world.counts["shares"] += sum(draws == DRAWS for _, draws in wanted)
    for (question, draws), counts in zip(wanted, sample(port, wanted)):
        for _ in range(TRIES - 1):
            if are_right(counts, question.expected) or not set(counts) <= set(question.expected):
                break
            counts = sample(port, [(question, draws)])[0]
        right = are_right(counts, question.expected)
        wrong = question.undeclared(question.expected) if right else "not what is expected"
        problems += [question.tell(wrong, {k: n / draws for k, n in counts.items()})] if wrong else []
    return problems


def questions_of(world, provider, answers, fidelity):
    """Of one model, from each place."""
    return [Question(provider, answers, fidelity, rtype, client)
            for client, rtype in itertools.product(crossmodels.clients(answers.model), answers.model.offered())]


def check_model(world, provider, questions, measured):
    """Problems of one model at a provider."""
    if provider in ("r53", "ns1"):
        return [problem for q in questions if (problem := check_simulated(world, q))]
    problems = []
    if provider in STATIC_ONLY:  # one answer for all: asked once, and compared for each place
        problems = [q.tell(wrong) for q in questions if (wrong := q.undeclared(q.expected))]
        questions = questions[:len(questions[0].model.offered())]
    return problems + check_sampled(world, provider, questions, measured)


def check_models(world, facts, fidelity, measured):
    """Problems of all models at all providers.  PowerDNS comes last: its own checks begin with the first query."""
    asked = {}
    for model in world.models:
        answers = Answers(world, model, facts[model.name])
        for provider in world.kinds:
            asked[model.name, provider] = questions_of(world, provider, answers, fidelity[provider][model.owner])
    checking = world.own and world.health["pdns"] == "own"
    if checking:
        sample(world.pdns.port, [(q, 1) for (_, provider), questions in asked.items() if provider == "pdns" for q in questions])
        rounds = world.endpoints.begin(world.pdns)
    problems = []
    for key in sorted(asked, key=lambda key: key[1] == "pdns"):
        if checking and key[1] == "pdns":
            world.endpoints.wait(rounds)
            checking = False
        problems += check_model(world, key[1], asked[key], measured)[:5]
    return problems


def check_declared(world, model, facts, fidelity):
    """Nothing is called less than it is."""
    for provider, kind in world.kinds.items():
        layers = fidelity[provider][model.owner]
        for layer, grade in kind.grades(model, facts).items():
            assert grade in (None, layers[layer]["grade"]), (provider, layer, layers, model.yaml(), facts)


def check_dig(world, model, facts):
    """By dig too, with the subnet of a client."""
    rtype, client = model.offered()[0], "198.51.100.5"
    done = sluicelib.run("dig", "@127.0.0.1", "-p", world.pdns.port, f"+subnet={client}/32", "+short", "+norecurse",
                         model.question, rtype)
    kind = world.kinds["pdns"]
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


def check_group(world, made):
    """made: [(model, [facts of each phase])].  Raises with what is wrong; counts what was compared."""
    measured = set()
    for phase in range(len(made[0][1])):
        facts = {model.name: phases[phase] for model, phases in made}
        fidelity = bring_level(world, facts)
        for model in world.models:
            check_declared(world, model, facts[model.name], fidelity)
        problems = check_models(world, facts, fidelity, measured)
        assert not problems, f"phase {phase}, {len(problems)} problems" + "".join(problems[:8])
        for model in world.models:
            check_dig(world, model, facts[model.name])
            check_other_types(world, model)
        check_static(world)
    print(f"{len(made)} models:", ", ".join(f"{count} {what}" for what, count in sorted(world.counts.items())))
