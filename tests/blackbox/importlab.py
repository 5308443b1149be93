# SPDX-License-Identifier: Apache-2.0
"""What `sluice sync import` reads from: each kind of provider with one zone, and configurations made by chance."""
import json
import random

import ns1sim
import pdnslib
import route53sim
import sluicelib
import test_sync_rfc2136

ZONE = "e.test"
GEO = sluicelib.REPO / "tests/geo/test-city.mmdb"
CLIENTS = ["192.0.2.200", "198.51.100.7", "203.0.113.5", "2001:db8:1::9"]
# Names and texts that YAML, master files and file systems have their own ideas about.
OWNERS = ["www", "no", "1e3", "0x10", "y", "*", "*.w", "_sip._tcp", "a/b", "x\\032y",
          "back\\\\slash", "semi\\;colon", "dot\\.ted", "at\\@sign", "null", "true", "a_b", "\\~tilde", "long-" + "x" * 58]
TEXTS = ["v=spf1 -all", 'say "so"', "it's", "a ; b", "no", "1e3", "0x10", "~", ": ", "a: b", "#", "# x", "*x", "&x", "!x", "@",
         "%", " lead", "trail ", "\\", "\\065", "tab\there", "grüße", "日本", "\U0001f600", "x" * 255, "y" * 256, "z" * 700]


# ---- providers ----------------------------------------------------------------------------------


class Target:
    """One provider: `settings` as in defaults.yaml, and what it cannot do."""
    name = "dns-a"
    regions = ["eu", "ca", "us-ny", "asn:64500", "192.0.2.128/25", "2001:db8:1::/48", "country:na", "ca-qc", "no"]
    most, drained, answers, steers, subnet, several = 65535, True, True, True, True, True
    hidden = True  # keeps addresses of types that are not offered
    mixes = True   # several answers of endpoints with several addresses
    odd = "odd+name 60 IN A 192.0.2.7\nmx 60 IN MX 10 odd+name.example.net.\n"
    owners, types = OWNERS, ["MX", "CAA", "SRV", "DS", "HTTPS", "CNAME", "PTR", "TYPE65299", "NAPTR"]

    def __init__(self, folder, **more):
        self.folder = folder
        self.open(folder, **more)

    def secret(self, text):
        (self.folder / "key").write_text(text, encoding="ascii")
        (self.folder / "key").chmod(0o600)


class PowerDNS(Target):
    owners = [o for o in OWNERS if "\\" not in o]  # what its API takes
    odd = ""

    def open(self, folder, **more):
        self.server = pdnslib.Pdns(folder / "pdns", **more)
        self.server.make_zone()
        self.settings = {"type": "powerdns", "url": self.server.url, "health": "pushed"}
        self.key = pdnslib.KEY

    def close(self):
        self.server.close()


class NS1(Target):
    owners, odd = [o for o in OWNERS if not set(o) & set("\\/")], ""
    types = ["MX", "CAA", "SRV", "DS", "HTTPS", "CNAME", "PTR", "NAPTR"]
    regions = ["eu", "as", "ca", "us-ny", "ca-qc", "asn:64500", "192.0.2.128/25", "2001:db8:1::/48", "no"]
    subnet = hidden = mixes = False

    def open(self, folder, **more):
        self.server = ns1sim.Simulator(**more)
        self.server.make_zone()
        self.settings = {"type": "ns1", "url": self.server.url}
        self.key = ns1sim.KEY

    def close(self):
        self.server.close()


class Route53(Target):
    regions = ["eu", "ca", "us-ny", "country:na", "no", "as"]
    most, drained, answers, subnet, hidden = 255, False, False, False, False
    types = ["MX", "CAA", "SRV", "DS", "HTTPS", "CNAME", "PTR", "NAPTR"]

    def open(self, folder, **more):
        self.server = route53sim.Route53(**more)
        self.settings = {"type": "route53", "url": self.server.url, "health": "pushed"}
        self.key = route53sim.CREDENTIALS

    def close(self):
        self.server.close()


class Updated(Target):
    steers = False

    def open(self, folder, **more):
        self.server = self.program(folder / "server")
        self.server.update(lambda message: (message.delete(f"{ZONE}.", "TXT"), message.delete(f"theirs.{ZONE}.")))
        self.settings = {"type": "rfc2136", "address": f"127.0.0.1@{self.server.port}"}
        key = test_sync_rfc2136.KEY
        self.key = f"{key.algorithm}:{key.name}:{key.secret}"

    def update(self, change):
        self.server.update(change)

    def close(self):
        self.server.close()


class Knot(Updated):
    program = test_sync_rfc2136.Knot


class Bind(Updated):
    owners, odd = [o for o in OWNERS if not set(o) & set("\\/_")], ""  # its check-names
    program = test_sync_rfc2136.Bind


KINDS = {"powerdns": PowerDNS, "ns1": NS1, "route53": Route53, "knot": Knot, "bind": Bind}


# ---- the world -----------------------------------------------------------------------------------


class World:
    """A configuration, a provider, the machine's settings."""

    def __init__(self, folder, kind, **more):
        self.folder, self.config, self.new = folder, folder / "config", folder / "new"
        self.target = KINDS[kind](folder, **more)
        self.target.secret(self.target.key)
        (folder / "sluice.yaml").write_text(f"secrets: {{{self.target.name}: {{file: {folder}/key}}}}\n", encoding="ascii")
        self.options = ["--settings", folder / "sluice.yaml", "--socket", folder / "none"]

    def defaults(self, **more):
        return {"default_zone": ZONE, "providers": {self.target.name: dict(self.target.settings, secret=self.target.name)},
                **more}

    def write(self, zone=None, domains=None, zonefile=None, **defaults):
        """`domains`: {name of the directory: document}.  JSON is YAML."""
        files = {"defaults.yaml": dump(self.defaults(**defaults))}
        if zone is not None:
            files[f"{ZONE}/zone.yaml"] = dump(zone)
        if zonefile:
            files[f"{ZONE}/{zone['zonefile']}"] = zonefile
        for name, domain in (domains or {}).items():
            files[f"{ZONE}/{name}/domain.yaml"] = dump(domain)
        return sluicelib.write_tree(self.config, files)

    def run(self, command, *options, status=0, config=None):
        done = sluicelib.sluice("sync", command, "--config", config or self.config, *self.options, *options, status=status,
                                timeout=3 * sluicelib.DEADLINE)
        assert self.target.key not in done.stdout + done.stderr
        return done

    def apply(self, *options):
        out = json.loads(self.run("apply", "--yes", "--json", "--allow-ns-change", "--take-over", "--allow-large",
                                  *options).stdout)
        assert self.plan() == []
        return out

    def plan(self, config=None, status=0):
        return json.loads(self.run("plan", "--json", config=config, status=status).stdout)["items"]

    def imports(self, *options, status=0, out=None, zone=ZONE, provider=None):
        done = self.run("import", provider or self.target.name, zone, "--out", out or self.new, "--json", *options, status=status)
        return json.loads(done.stdout)

    def close(self):
        self.target.close()


def dump(document):
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


# ---- configurations made by chance -------------------------------------------------------------------


def static(rng, target, taken):
    """`records:`."""
    records = {"ns1": {"A": ["192.0.2.53"]}, "@": {"MX": ["10 mail.example.net.", "0 ."], "TXT": rng.sample(TEXTS, 3)}}
    values = {"MX": "10 mail.example.net.", "CAA": '0 issue "ca.example.net"', "SRV": "1 2 443 host.example.net.",
              "HTTPS": "1 . alpn=h2", "PTR": "host.example.net.", "TYPE65299": "\\# 3 010203",
              "NAPTR": '10 20 "s" "SIP+D2U" "" _sip._udp.example.net.'}
    for owner in rng.sample(target.owners, 10):
        if owner in taken:
            continue
        kinds = rng.sample(["A", "AAAA", "TXT", *(t for t in target.types if t in values)], 3)
        sets = {}
        for kind in kinds:
            data = {"A": [f"192.0.2.{rng.randrange(1, 200)}"], "AAAA": [f"2001:db8::{rng.randrange(1, 9999):x}"],
                    "TXT": rng.sample(TEXTS, 2)}.get(kind) or [values[kind]]
            sets[kind] = {"ttl": rng.choice([0, 60, 86400]), "values": data} if rng.random() < 0.4 else data
        records[owner] = sets
    records["alias"] = {"CNAME": ["www.example.net."]}
    records["sub"] = {"NS": ["ns.sub.e.test.", "ns.example.net."], "DS": [f"1 8 2 {'ab' * 32}"]}
    records["ns.sub"] = {"A": ["192.0.2.99"]}
    return records


def steered(rng, target, host=False):
    """A domain.yaml."""
    names = rng.sample(["one", "two", "no", "1e3", "0x10", "spare", "012", "a.b_c-D", "on", "True"], 4)
    both = rng.random() < 0.5
    endpoints = {}
    for i, name in enumerate(names):
        addresses = [f"192.0.2.{10 * i + k}" for k in range(1, rng.choice([1, 1, 3] if target.several else [1]) + 1)]
        endpoints[name] = f"h{i}.example.net." if host else addresses + [f"2001:db8::{i + 1}"] if both else addresses

    def level(some):
        weights = {name: rng.choice([1, 2, 7, target.most]) for name in some}
        if target.drained and len(some) > 1 and rng.random() < 0.5:
            weights[some[0]] = 0
        return weights

    def region():
        count = rng.choice([1, 1, 2, 3])
        mixed = rng.sample(names, len(names))
        levels = [level(mixed[i::count]) for i in range(count)]
        return levels if count > 1 else levels[0]
    domain = {"ttl": rng.choice([5, 30, 300]), "endpoints": endpoints,
              "regions": {"global": region(), **{r: region() for r in rng.sample(target.regions, 3)}, "office": region()}}
    if target.drained and rng.random() < 0.5:
        name = names[3]
        where = {"host": endpoints[name]} if host else {"addresses": endpoints[name]}
        endpoints[name] = dict(where, enabled=False)
    if both and not host and target.hidden and rng.random() < 0.5:
        domain["types"] = ["A"]
    lone = target.mixes or all(len(names) < 2 + both for names in endpoints.values() if isinstance(names, list))
    if target.answers and not host and lone and rng.random() < 0.5:
        domain["answers"] = 2
    if target.subnet and rng.random() < 0.5:
        domain["draw_per"] = "subnet"
    return domain


def configuration(seed, target):
    """zone.yaml, domains, master file, regions."""
    rng = random.Random(seed)
    domains = {}
    if target.steers:
        domains = {"cdn": steered(rng, target), "@": steered(rng, target), "api.eu": steered(rng, target),
                   "_wildcard.hosts": steered(rng, target, host=True)}
    zone = {"ttl": rng.choice([300, 3600]), "zonefile": "more.zone", "providers": [target.name],
            "soa": {"mname": "ns1.e.test.", "rname": "hostmaster.e.test."}, "ns": ["ns1.e.test.", "ns2.example.net."],
            "records": static(rng, target, {"cdn"})}
    zonefile = ('cut 60 IN TXT "cut" "in" "parts"\noctets 60 IN TXT "\\255\\000\\001"\n'
                f'{target.odd}')
    office = [r for r in (["country:fr", "country:de"] if "asn:64500" not in target.regions else ["country:fr", "198.51.100.0/24"])]
    return zone, domains, zonefile, {"office": office}


# ---- comparing -----------------------------------------------------------------------------------------


def built(config, data):
    """The records of the zone, without the SOA, and the steered domains, as a build has them."""
    sluicelib.build(config, data)
    lines = (data / "current/domains.json").read_text(encoding="utf-8").splitlines()[1:]
    domains = {}
    for line in lines:
        item = json.loads(line)
        steer = item["steer"]
        domains[item["domain"]] = steer
    manifest = json.loads((data / "current/manifest.json").read_text(encoding="utf-8"))
    text = (data / "current" / manifest["zones"][0]["zonefile"]).read_text(encoding="utf-8")
    records = sorted(line for line in text.splitlines() if "\tSOA\t" not in line and " SOA " not in line)
    return records, domains


def canonical(steer):
    """A domain without the orders that mean nothing."""
    out = dict(steer, endpoints=sorted(steer["endpoints"], key=lambda e: e["name"]))
    for endpoint in out["endpoints"]:
        if "addresses" in endpoint:
            endpoint["addresses"] = sorted(endpoint["addresses"])
    out["regions"] = sorted(({"name": r["name"], "atoms": sorted(r["atoms"]), "levels": [sorted(l) for l in r["levels"]]}
                             for r in steer["regions"]), key=lambda r: r["name"])
    return out


def explain(config, name, client):
    done = sluicelib.sluice("explain", name, "--client", client, "--config", config, "--geo", GEO, "--json")
    out = json.loads(done.stdout)
    del out["layers"]  # in the order of endpoints, which not all providers keep
    out["answers"].sort(key=lambda a: a["endpoint"])
    for answer in out["answers"]:
        answer["rdata"].sort()
    return out
