# SPDX-License-Identifier: Apache-2.0
"""The kinds of providers that there are, each behind a proxy that fails on demand (faultlib.py).

A `Kind` tells what it holds (dump, restore) and what its users see (view).  PowerDNS, Knot and BIND are real;
Route 53 and NS1 are simulators.
"""
import copy
import json

import ns1sim
import pdnslib
import route53sim
import secondaries
import sluicelib
import test_sync_rfc2136
from faultlib import HOST, DnsProxy, HttpProxy

ZONE = "e.test."


class Kind:
    """A provider with zone e.test., behind a proxy.

    dump(): {(name, type): something comparable} of all that it holds, but for the SOA; restore(dump) brings it
    back.  view(name, type): what users get, as a set.  `settings`: what stands in defaults.yaml; `secret`."""
    gap = False     # a change of type may leave a name empty for a moment
    steers = True

    def put(self, name, rdtype, values):
        """Makes a record by hand."""
        raise NotImplementedError

    def close(self):
        self.proxy.close()


class PowerDns(Kind):
    def __init__(self, folder, faults, settings=""):
        self.pdns = pdnslib.Pdns(folder / "pdns", settings="cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\n" + settings)
        self.pdns.make_zone()
        self.proxy = HttpProxy(self.pdns.url, faults)
        self.secret = pdnslib.KEY
        self.settings = f"type: powerdns, url: \"{self.proxy.url}\", health: pushed"

    def put(self, name, rdtype, values):
        self.pdns.put(name, rdtype, values)

    def dump(self):
        out = {}
        for rrset in self.pdns.api("GET", f"/zones/{ZONE}")[1]["rrsets"]:
            if rrset["type"] != "SOA" and (rrset["records"] or rrset["comments"]):
                comments = [{"content": c["content"], "account": c["account"]} for c in rrset["comments"]]
                out[rrset["name"], rrset["type"]] = json.dumps(
                    {"ttl": rrset.get("ttl"), "records": sorted(rrset["records"], key=json.dumps), "comments": comments},
                    sort_keys=True)
        return out

    def restore(self, dump):
        now = self.dump()
        changes = [{"name": n, "type": t, "changetype": "DELETE"} for n, t in now if (n, t) not in dump]
        changes += [{"name": n, "type": t, "changetype": "REPLACE", **json.loads(body)}
                    for (n, t), body in dump.items() if now.get((n, t)) != body]
        if changes:
            status, text = self.pdns.api("PATCH", f"/zones/{ZONE}", {"rrsets": changes})
            assert status == 204, text
        assert self.dump() == dump

    def view(self, name, rdtype):
        return set(sluicelib.rdata(self.pdns.ask(name, rdtype), rdtype))

    def close(self):
        super().close()
        self.pdns.close()


class Ns1(Kind):
    gap = True

    def __init__(self, folder, faults, **options):
        self.sim = ns1sim.Simulator(**options)
        self.sim.make_zone()
        self.proxy = HttpProxy(self.sim.url, faults)
        self.secret = ns1sim.KEY
        self.settings = f"type: ns1, url: \"{self.proxy.url}\""

    def put(self, name, rdtype, values):
        self.sim.put(name.rstrip("."), rdtype, [v.split() if rdtype == "MX" else [v.strip('"')] for v in values])

    def dump(self):
        """IDs of feeds, which are others each time, are told by their labels."""
        with self.sim.lock:
            labels = {i: f["config"]["label"] for feeds in self.sim.feeds.values() for i, f in feeds.items()}

            def text(record):
                record = copy.deepcopy(record)
                for answer in record["answers"]:
                    up = answer.get("meta", {}).get("up")
                    if isinstance(up, dict):
                        up["feed"] = labels[up["feed"]]
                return json.dumps(record, sort_keys=True)
            out = {(f"{n}.", t): text(r) for (n, t), r in self.sim.zones["e.test"].items()}
            feeds = [sorted((f["config"]["label"], f["data"].get("up")) for f in feeds.values())
                     for feeds in self.sim.feeds.values()]
            out["feeds", ""] = Dump(json.dumps(sorted(feeds)), copy.deepcopy(
                (self.sim.zones["e.test"], self.sim.sources, self.sim.feeds)))
            return out

    def restore(self, dump):
        with self.sim.lock:
            self.sim.zones["e.test"], self.sim.sources, self.sim.feeds = copy.deepcopy(dump["feeds", ""].state)

    def view(self, name, rdtype):
        with self.sim.lock:  # record and feeds of one moment: other requests may be under way
            record = self.sim.zones["e.test"].get((name.rstrip("."), rdtype))
            if not record:
                return set()
            if not record.get("filters"):
                return {" ".join(map(str, a["answer"])) for a in record["answers"]}
            return set(ns1sim.shares(record, ns1sim.Client("198.51.100.1", "FR", "EU"), self.sim.feed_values()))

    def close(self):
        super().close()
        self.sim.close()


class Route53(Kind):
    def __init__(self, folder, faults, **options):
        self.sim = route53sim.Route53(pending=1, **options)
        self.proxy = HttpProxy(self.sim.url, faults)
        self.secret = route53sim.CREDENTIALS
        self.settings = f"type: route53, url: \"{self.proxy.url}\", health: pushed"

    def put(self, name, rdtype, values):
        self.sim.put(name, rdtype, values)

    def check_text(self, number):
        return json.dumps(self.sim.checks[number]["config"], sort_keys=True) if number else None

    def dump(self):
        with self.sim.lock:
            out = {}
            for (name, rdtype, identifier), item in self.sim.sets.items():
                if rdtype != "SOA":
                    body = {**vars(item), "values": sorted(item.values), "health": self.check_text(item.health)}
                    out[name, f"{rdtype}/{identifier}"] = json.dumps(body, sort_keys=True)
            checks = sorted(self.check_text(number) for number in self.sim.checks)
            out["checks", ""] = Dump(json.dumps(checks), copy.deepcopy(
                (self.sim.sets, self.sim.checks, self.sim.references)))
            return out

    def restore(self, dump):
        with self.sim.lock:
            self.sim.sets, self.sim.checks, self.sim.references = copy.deepcopy(dump["checks", ""].state)
            self.sim.changes.clear()

    def view(self, name, rdtype):
        return {" ".join(v) for v in self.sim.answer(name, rdtype, ("EU", "FR", None))}

    def close(self):
        super().close()
        self.sim.close()


class Dump(str):
    """A text, and what is needed to come back to it."""
    def __new__(cls, text, state):
        out = super().__new__(cls, text)
        out.state = state
        return out


class NameServer(Kind):
    steers = False

    def __init__(self, folder, faults):
        self.server = self.target(folder / self.target.__name__)
        self.proxy = DnsProxy(self.server.port, faults)
        key = test_sync_rfc2136.KEY
        self.secret = f"{key.algorithm}:{key.name}:{key.secret}"
        self.settings = f"type: rfc2136, address: {HOST}@{self.proxy.port}"

    def put(self, name, rdtype, values):
        self.server.update(lambda m: m.replace(name, 30, rdtype, *values))

    def dump(self):
        out = {}
        for line in secondaries.transfer(self.server.port, "e.test", key=test_sync_rfc2136.TransferKey()):
            name, ttl, rdtype, data = line.split(" ", 3)
            if rdtype != "SOA":
                out.setdefault((name, rdtype), []).append((int(ttl), data))
        return out

    def restore(self, dump):
        now = self.dump()

        def change(message):
            for name, rdtype in set(now) | set(dump):
                if now.get((name, rdtype)) != dump.get((name, rdtype)):
                    assert (name, rdtype) != (ZONE, "NS")
                    message.delete(name, rdtype)
            for key in set(dump):
                if now.get(key) != dump[key]:
                    for ttl, data in dump[key]:
                        message.add(key[0], ttl, key[1], data)
        if now != dump:
            self.server.update(change)
        assert self.dump() == dump

    def view(self, name, rdtype):
        return set(sluicelib.rdata(sluicelib.ask(HOST, self.server.port, name, rdtype), rdtype))

    def close(self):
        super().close()
        self.server.close()


class Knot(NameServer):
    target = test_sync_rfc2136.Knot


class Bind(NameServer):
    target = test_sync_rfc2136.Bind


KINDS = {"powerdns": PowerDns, "route53": Route53, "ns1": Ns1, "knot": Knot, "bind": Bind}
