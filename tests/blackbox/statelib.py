# SPDX-License-Identifier: Apache-2.0
"""State set at run time, over the control socket as server/control.h says."""
import sluicelib
from sluicelib import call

DOMAIN = """\
ttl: 30
endpoints:
  one: [192.0.2.1, "2001:db8::1"]
  two: [192.0.2.2, "2001:db8::2"]
  three: [192.0.2.3, "2001:db8::3"]
regions:
  global:
    - {one: 1, two: 1}
    - {three: 1}
  eu: {one: 1, three: 1}
"""
NAME = "cdn.example.com."


def weight(endpoint, value, region="global", level=1, domain=NAME, **more):
    return {"op": "set", "kind": "weight", "domain": domain, "endpoint": endpoint, "region": region,
            "level": level, "value": value, **more}


def status(endpoint, value, domain=NAME, **more):
    return {"op": "set", "kind": "status", "domain": domain, "endpoint": endpoint, "value": value, **more}


def health(endpoint, value, family, domain=NAME, **more):
    return {"op": "set", "kind": "health", "domain": domain, "endpoint": endpoint, "family": family, "value": value,
            **more}


def commit(path, changes, what=None, command="set", **more):
    domains = sorted({change["domain"] for change in changes})
    audits = [{"command": command, "domain": domain, "what": what or {}, "reason": "test"}
              for domain in domains]
    return call(path, "commit", changes=changes, audits=audits, **more)


def domain(path, name=NAME):
    return sluicelib.control(path, "domain", domain=name)["domain"]


def history(path, name=None, limit=100000):
    return sluicelib.control(path, "history", domain=name, limit=limit)["history"]


def weights(path, name=NAME):
    """{(region, level, endpoint): weight} of what is overridden."""
    return {(o["region"], o["level"], o["endpoint"]): o["value"]
            for o in domain(path, name)["overrides"] if o["kind"] == "weight"}


def answers(server, name=NAME, count=200, **options):
    """The addresses that are given."""
    wire = sluicelib.make_query(name, "A", **options).to_wire()
    return {sluicelib.rdata(sluicelib.dns.message.from_wire(b"\0\0" + reply))[0]
            for reply in sluicelib.flood(server.address, server.port, wire, count)}
