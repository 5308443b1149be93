# SPDX-License-Identifier: Apache-2.0
"""Our Route 53 client and simulator against Amazon's own SDK for JavaScript (scripts/test-oracles).

The same changes go through both into one recorder: same method, path, query and body.  What the
simulator says is understood by the SDK as by us, and it takes the SDK's signatures as ours.  The
SDK's signer makes the very signatures that our requests carry.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "blackbox"))

import route53lib  # noqa: E402
import route53sim  # noqa: E402

MODULES = os.environ["SLUICE_ORACLE_DIR"]  # without it these tests cannot run: an error, no skip
LISTS = {"Changes": "Change", "ResourceRecords": "ResourceRecord"}
NUMBERS = {"TTL", "Weight", "Port", "RequestInterval", "FailureThreshold", "HealthCheckVersion"}


@pytest.fixture
def sim():
    out = route53sim.Route53()
    yield out
    out.close()


def node(sim, items):
    done = subprocess.run(["node", HERE / "route53.js", MODULES, sim.url, route53sim.KEY, route53sim.SECRET,
                           *([sim.token] if sim.token else [])],
                          input=json.dumps(items), text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sdk(sim, *commands):
    return node(sim, [{"command": c, "input": i} for c, i in commands])


def value(node):
    """A document as the SDK takes its input."""
    name = node.tag.split("}")[1]
    if name in LISTS:
        return [value(child) for child in node]
    if len(node):
        return {child.tag.split("}")[1]: value(child) for child in node}
    text = node.text or ""
    return int(text) if name in NUMBERS else text == "true" if text in ("true", "false") else text


def canonical(request):
    method, path, body = request
    url = urllib.parse.urlsplit(path)
    query = sorted((k, v) for k, v in urllib.parse.parse_qsl(url.query) if k != "x-id")
    text = xml.etree.ElementTree.canonicalize(body.decode()) if body else ""
    return method, url.path.rstrip("/"), query, text


def command_of(request, sim):
    """The SDK's command for one of our requests."""
    method, path, body = request
    document = value(xml.etree.ElementTree.fromstring(body)) if body else {}
    parts = urllib.parse.urlsplit(path).path.split("/")[2:]
    if parts[-1] == "rrset":
        return "ChangeResourceRecordSets", {"HostedZoneId": sim.id, **document}
    if method == "DELETE" and parts[0] == "hostedzone":
        return "DeleteHostedZone", {"Id": parts[1]}
    if parts == ["hostedzone"]:
        return "CreateHostedZone", document
    if method == "DELETE":
        return "DeleteHealthCheck", {"HealthCheckId": parts[1]}
    if parts == ["healthcheck"]:
        return "CreateHealthCheck", document
    return "UpdateHealthCheck", {"HealthCheckId": parts[1], **document}


def test_the_same_requests(sim):
    up = [route53lib.status_of()] * 3
    static = [{"name": "*.e.test.", "type": "TXT", "ttl": 60, "values": ['"a <b> & \\"c\\" \\200"']}]
    own = {"one": {"type": "https", "path": "/up?a&b", "host": "www.example.net", "port": 8443}, "two": {"type": "tcp", "port": 22}}
    steps = [([route53lib.sample(pushed=False, health=own)], static), ([], []),
             ([route53lib.sample(status=up)], static),
             ([route53lib.sample(status=[route53lib.status_of(down=True)] + up[1:], ttl=31)], static),
             ([], [])]
    for domains, records in steps:
        before = len(sim.requests)
        route53lib.once(sim, "read", "compile", "apply", domains=domains, static=records)
        compare(sim, sim.requests[before:])


def compare(sim, requests):
    """Those that write, through the SDK: recorded, not done again."""
    ours = [r for r in requests if r[0] != "GET"]
    assert ours
    sim.fault = lambda index, method, path: 500
    before = len(sim.requests)
    sdk(sim, *[command_of(r, sim) for r in ours])
    sim.fault = lambda index, method, path: None
    theirs = sim.requests[before:]
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert canonical(mine) == canonical(other)


def test_the_same_zones(sim):
    """Made, asked and removed."""
    route53lib.once(sim, "create_zone", "servers", "delete_zone", zone="a-b._c.new.test.")
    compare(sim, sim.requests[:])
    made, servers, listed = sdk(sim, ("CreateHostedZone", {"Name": "x.test", "CallerReference": "1"}),
                                ("GetHostedZone", {"Id": "Z0EXAMPLE1"}), ("ListHostedZonesByName", {"DNSName": "x.test"}))
    assert made["DelegationSet"]["NameServers"] == servers["DelegationSet"]["NameServers"] == [
        s.rstrip(".") for s in route53sim.SERVERS]
    assert made["ChangeInfo"]["Status"] == "PENDING" and listed["HostedZones"][0]["Name"] == "x.test."
    again, full, gone = sdk(sim, ("CreateHostedZone", {"Name": "x.test", "CallerReference": "1"}),
                            ("DeleteHostedZone", {"Id": made["HostedZone"]["Id"]}), ("GetChange", {"Id": "C1"}))
    assert again["error"] == "HostedZoneAlreadyExists" and "error" not in full and gone["ChangeInfo"]["Id"] == "/change/C1"


@pytest.mark.parametrize("token", [None, "FwoGZXIvYXdzEBYaDH//+/abc=="])
def test_the_same_signatures(sim, token):
    """Of each of our requests, with queries of several keys and bodies, with and without a token."""
    sim.token, sim.page = token, 3
    key = route53sim.CREDENTIALS + (f":{token}" if token else "")
    static = [{"name": f"{n}.e.test.", "type": "A", "ttl": 60, "values": ["192.0.2.1"]} for n in ("*", "a", "b-c", "_d")]
    for domains in ([route53lib.sample(status=[route53lib.status_of()] * 3)], []):
        route53lib.once(sim, "read", "compile", "apply", domains=domains, static=static, key=key)
    items, ours = [], []
    for (method, path, body), headers in zip(sim.requests, sim.headers):
        given = headers["Authorization"]
        signed = re.search("SignedHeaders=([^,]*)", given)[1].split(";")
        headers = {k.lower(): v for k, v in headers.items()}
        assert ("x-amz-security-token" in signed) == bool(token)
        items.append({"sign": {"method": method, "path": path, "headers": {h: headers[h] for h in signed}, "body": body.decode()}})
        ours.append(dict(p.strip().split("=", 1) for p in given.split(" ", 1)[1].split(",")))
    theirs = [dict(p.strip().split("=", 1) for p in t.split(" ", 1)[1].split(",")) for t in node(sim, items)]
    assert ours == theirs and len(ours) > 30
    assert len([i for i in items if i["sign"]["path"].count("=") > 2]) > 5 and {i["sign"]["method"] for i in items} == {"GET", "POST", "DELETE"}


def test_session_tokens(sim):
    """The simulator wants of the SDK what it wants of us."""
    sim.token = "a-token+/="
    assert "error" not in sdk(sim, ("GetHostedZone", {"Id": sim.id}))[0]
    sim.expired = True
    assert sdk(sim, ("GetHostedZone", {"Id": sim.id}))[0]["error"].startswith("ExpiredToken")
    sim.token, sim.expired = None, False
    assert "error" not in sdk(sim, ("GetHostedZone", {"Id": sim.id}))[0]


def test_the_same_reads(sim):
    sim.page = 4
    route53lib.apply(sim, route53lib.sample(status=[route53lib.status_of()] * 3))
    sim.requests.clear()
    route53lib.once(sim, "read")
    ours = [canonical(r) for r in sim.requests]
    inputs = []
    for _, path, query, _ in ours:
        query = dict(query)
        number = {"MaxItems": int(query["maxitems"])}
        if path.endswith("/hostedzonesbyname"):
            inputs.append(("ListHostedZonesByName", {"DNSName": query["dnsname"], **number}))
        elif path.endswith("/healthcheck"):
            inputs.append(("ListHealthChecks", {**number, **({"Marker": query["marker"]} if "marker" in query else {})}))
        else:
            names = {"name": "StartRecordName", "type": "StartRecordType", "identifier": "StartRecordIdentifier"}
            inputs.append(("ListResourceRecordSets", {"HostedZoneId": sim.id, **number, **{
                names[k]: v for k, v in query.items() if k in names}}))
    sim.requests.clear()
    replies = sdk(sim, *inputs)  # its signatures are checked by the simulator
    assert [canonical(r) for r in sim.requests] == ours and len(ours) > 5
    assert not [r for r in replies if "error" in r]
    sets = [s for r in replies for s in r.get("ResourceRecordSets", [])]
    assert len(sets) == len(sim.sets)
    for item in sets:
        name = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), item["Name"])
        mine = sim.sets[(route53sim.canonical_name(name), item["Type"], item.get("SetIdentifier"))]
        assert (item.get("Weight"), item.get("TTL"), item.get("HealthCheckId"), item.get("GeoLocation")) == (
            mine.weight, mine.ttl, mine.health, mine.geo)
    assert len([c for r in replies for c in r.get("HealthChecks", [])]) == len(sim.checks)


@pytest.mark.parametrize("fault", ["Throttling", "PriorRequestNotComplete"])
def test_the_same_errors(sim, fault):
    """What the simulator says of an error has the form that the SDK knows."""
    sim.fault = lambda index, method, path: fault
    reply, = sdk(sim, ("GetHostedZone", {"Id": sim.id}))
    assert reply["error"] == fault and reply["status"] == 400
    sim.fault = lambda index, method, path: None
    reply, = sdk(sim, ("ChangeResourceRecordSets", {"HostedZoneId": sim.id, "ChangeBatch": {"Changes": [{
        "Action": "DELETE", "ResourceRecordSet": {"Name": "no.e.test.", "Type": "A", "TTL": 1, "ResourceRecords": [{"Value": "192.0.2.1"}]}}]}}))
    assert reply["error"] == "InvalidChangeBatch"
