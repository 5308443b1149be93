# SPDX-License-Identifier: Apache-2.0
"""What the simulator of Route 53 refuses: the other tests rest upon it."""
import pytest

import route53sets
from route53lib import sim  # noqa: F401 (a fixture)


def record(name, more="", rdtype="A", ttl=60, values=("192.0.2.1",)):
    inside = "".join(f"<ResourceRecord><Value>{v}</Value></ResourceRecord>" for v in values)
    return (f"<ResourceRecordSet><Name>{name}</Name><Type>{rdtype}</Type>{more}<TTL>{ttl}</TTL><ResourceRecords>{inside}"
            "</ResourceRecords></ResourceRecordSet>")


def alias(name, target, more="", evaluate="false"):
    return (f"<ResourceRecordSet><Name>{name}</Name><Type>A</Type>{more}<AliasTarget><HostedZoneId>Z0EXAMPLE1</HostedZoneId>"
            f"<DNSName>{target}</DNSName><EvaluateTargetHealth>{evaluate}</EvaluateTargetHealth></AliasTarget>"
            "</ResourceRecordSet>")


def weighted(identifier, weight=1, **more):
    return record("w.e.test.", f"<SetIdentifier>{identifier}</SetIdentifier><Weight>{weight}</Weight>", **more)


def geo(identifier, place, name="g.e.test."):
    return record(name, f"<SetIdentifier>{identifier}</SetIdentifier><GeoLocation>{place}</GeoLocation>")


def failover(identifier, role):
    return alias("f.e.test.", "x.e.test.", f"<SetIdentifier>{identifier}</SetIdentifier><Failover>{role}</Failover>", "true")


@pytest.mark.parametrize("code, sets", [
    ("InvalidChangeBatch", [record(f"r{i}.e.test.") for i in range(1001)]),
    ("InvalidChangeBatch", [record("t.e.test.", rdtype="TXT", values=['"' + f"{i:03}" * 80 + '"' for i in range(140)])]),
    ("InvalidChangeBatch", [alias("a.e.test.", "x.e.test."), record("x.e.test.")]),
    ("InvalidChangeBatch", [record("w.e.test."), weighted("one")]),
    ("InvalidChangeBatch", [weighted("one"), geo("two", "<CountryCode>FR</CountryCode>", "w.e.test.")]),
    ("InvalidChangeBatch", [weighted("one"), weighted("one")]),
    ("InvalidChangeBatch", [weighted("one"), weighted("two", ttl=61)]),
    ("InvalidChangeBatch", [weighted(str(i)) for i in range(101)]),
    ("InvalidChangeBatch", [geo("a", "<CountryCode>FR</CountryCode>"), geo("b", "<CountryCode>FR</CountryCode>")]),
    ("InvalidChangeBatch", [record("x.e.test."), failover("a", "PRIMARY"), failover("b", "PRIMARY")]),
    ("InvalidChangeBatch", [record("c.e.test."), record("c.e.test.", rdtype="CNAME", values=["x.example.net."])]),
    ("InvalidChangeBatch", [record("x.other.test.")]),
    ("InvalidChangeBatch", [record("d.e.test.", values=["192.0.2.1", "192.0.2.1"])]),
    ("InvalidChangeBatch", [record("h.e.test.", values=["192.0.2.1"]).replace(
        "</ResourceRecordSet>", "<HealthCheckId>none</HealthCheckId></ResourceRecordSet>")]),
    ("InvalidInput", [weighted("one", 256)]),
    ("InvalidInput", [weighted("x" * 129)]),
    ("InvalidInput", [record("w.e.test.", "<Weight>1</Weight>")]),
    ("InvalidInput", [record("w.e.test.", "<SetIdentifier>x</SetIdentifier>")]),
    ("InvalidInput", [geo("a", "<CountryCode>CA</CountryCode><SubdivisionCode>QC</SubdivisionCode>")]),
    ("InvalidInput", [record("s.e.test.", rdtype="TYPE65402")]),
    (None, [record("x.e.test."), alias("a.e.test.", "x.e.test."), weighted("one", 0), weighted("two", 255)]),
], ids=lambda x: None)
def test_the_simulator_enforces(sim, code, sets):
    """What the tests above rest upon."""
    before = dict(sim.sets)
    body = "".join(f"<Change><Action>CREATE</Action>{s}</Change>" for s in sets)
    body = (f'<ChangeResourceRecordSetsRequest xmlns="{route53sets.NS}"><ChangeBatch><Changes>{body}</Changes></ChangeBatch>'
            "</ChangeResourceRecordSetsRequest>")
    send = lambda: sim.change(body.encode(), sim.zones[sim.id])
    if code is None:
        send()
        body = body.replace("CREATE", "DELETE")  # the target before its alias
        code = "InvalidChangeBatch" if "<Change><Action>DELETE</Action>" + sets[0] not in body else None
        send()
    else:
        with pytest.raises(route53sets.Error) as error:
            send()
        assert error.value.code == code
    assert sim.sets == before
