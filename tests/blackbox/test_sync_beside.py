# SPDX-License-Identifier: Apache-2.0
"""Static records beside a steered name, at the apex above all: they are changed on their own."""
import pytest

from test_reports_sync import ALL, OTHER, STEERING, make  # noqa: F401 (a fixture)

APEX = "ttl: 30\nendpoints: {one: [192.0.2.1, \"2001:db8::1\"], two: [192.0.2.2, \"2001:db8::2\"]}\nregions: {global: {one: 1, two: %d}}\n"
BESIDE = '"@": {MX: ["10 %s.example.net."], CAA: [\'0 issue "ca.example.net"\']}\n'
HOSTS = "ttl: 30\nendpoints: {one: x.example.net., two: y.example.net.}\nregions: {global: {one: 1, two: 1}}\n"
KINDS = [k for k in ALL if k != "bind"]  # the same code as Knot's
# What these cannot express.
LOST = {"route53": "  ca-qc: {two: 1}\n", "ns1": "  de-by: {two: 1}\n", "knot": "  fr: {two: 1}\n"}


def apex(world, mail, weight, extra="", **more):
    text = APEX % weight
    if extra:
        text = text.replace("regions: {global: ", "regions:\n  global: ").replace("}}\n", "}\n") + extra
    world.write(BESIDE % mail, {"@": text, **OTHER}, **more)


def told(world, *options, **more):
    """{key: (op, domain, why it is held)} of a plan, without markers."""
    out = world.run("plan", *options, **more)
    return {i["key"].split("#")[0]: (i["op"], i.get("domain"), i.get("held")) for i in out["items"] if not i["marker"]}, out


@pytest.mark.parametrize("kind", KINDS)
def test_static_records_beside_a_steered_apex(make, kind):
    world = make(kind)
    apex(world, "mx1", 1)
    world.apply()
    assert told(world)[0] == {}
    # A change of the MX alone is no change of the domain.
    apex(world, "mx2", 1)
    items, out = told(world)
    assert items == {"e.test./MX": ("update", None, None)}
    text = world.sluice("plan").stdout
    assert "e.test. other records" in text and not text.startswith("e.test.\n")
    # Shares are told beside them.
    apex(world, "mx2", 3)
    items, out = told(world)
    domain = out["providers"][0]["domains"]["e.test."]
    if kind in STEERING:
        assert domain["before"] == {"global": {"one": .5, "two": .5}}
        assert domain["after"] == {"global": {"one": .25, "two": .75}}
        assert "50.0 % -> 25.0 %" in " ".join(world.sluice("plan").stdout.split())
    assert items.pop("e.test./MX") == ("update", None, None)
    assert all(i[1] == "e.test." for i in items.values()) and (items or kind == "knot")
    world.apply()
    assert told(world)[0] == {}
    assert world.kind.view("e.test.", "A")


@pytest.mark.parametrize("kind", LOST)
def test_a_refused_loss_does_not_hold_back_what_is_beside(make, kind):
    world = make(kind)
    apex(world, "mx1", 1)
    world.apply()
    apex(world, "mx2", 3, LOST[kind], loss=False)
    domain = world.run("plan", status=None)["providers"][0]["domains"]["e.test."]
    assert domain["refused"]
    held = world.kind.view("e.test.", "A")
    out = world.apply(status=None)
    mail = [i for i in out["items"] if i["key"].startswith("e.test./MX")]
    assert [(i["op"], i.get("held")) for i in mail] == [("update", None)]
    assert all("lose" in i["held"] or "lost" in i["held"] for i in out["items"] if i.get("domain") == "e.test." and i["op"] != "create"), out["items"]
    assert world.kind.view("e.test.", "A") == held
    there = {i["key"] for i in world.run("plan", status=None)["items"] if not i["marker"]}
    assert not any(k.startswith("e.test./MX") for k in there)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_beside_is_no_steered_name(make, kind):
    """The last steered name goes only with a consent, also where static records of its name stay."""
    world = make(kind)
    world.write(BESIDE % "mx1", {"@": APEX % 1})
    world.apply()
    world.write(BESIDE % "mx2", {})
    items, _ = told(world, status=None)
    assert items.pop("e.test./MX") == ("update", None, None)
    assert items and all(op == "delete" and held for op, _, held in items.values()), items


@pytest.mark.parametrize("kind", KINDS)
def test_addresses_to_a_host_name_change_as_one(make, kind):
    """And what stood beside goes with them, for nothing stands beside a CNAME."""
    world = make(kind)
    world.write('cdn: {TXT: [text], MX: ["10 mx.example.net."]}\n', {"cdn": APEX % 1, **OTHER})
    world.apply()
    world.write("", {"cdn": HOSTS, **OTHER})
    items = world.run("plan")["items"]
    ours = [i for i in items if i["name"] == "cdn.e.test." and not i["marker"]]
    assert {i["type"] for i in ours} >= {"A", "AAAA", "CNAME", "TXT", "MX"}
    assert {i.get("domain") for i in ours} == {"cdn.e.test."}
    world.apply()
    assert world.kind.view("cdn.e.test.", "CNAME") and told(world)[0] == {}
    world.write('cdn: {TXT: [text]}\n', {"cdn": APEX % 1, **OTHER})
    world.apply()
    assert world.kind.view("cdn.e.test.", "A") and told(world)[0] == {}
