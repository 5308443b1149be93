# SPDX-License-Identifier: Apache-2.0
"""The complaints about tools of this sort (the table of research/providers.md, rows 1 to 42), each as a test
`test_C01_...` here, or in ELSEWHERE the tests that cover it; NOT_OURS has the rows that do not apply, and why.

Where they are about one provider's API, that one is meant; else all kinds are run: PowerDNS, Route 53, NS1,
Knot and BIND, as in faultkinds.py.
"""
import importlib
import json
import re

import pytest

import faultworld
import ns1sim
import test_sync_rfc2136
from test_reports_sync import ALL, ONE, OTHER, STEERING, Watch, make  # noqa: F401 (a fixture)

ELSEWHERE = {
    3: ["test_sync_import::test_C03_foreign_weighted_sets_never_become_a_plain_one"],
    5: ["test_route53_checks::test_native_checks"],
    6: ["test_sync_rfc2136::test_what_is_lost_needs_consent",
        "test_reports_sync::test_B37_what_a_provider_cannot_express_is_told_and_refused"],
    10: ["test_route53_batches::test_c10_a_name_that_is_too_large_for_a_batch_is_parted",
         "test_route53_batches::test_c10_what_cannot_be_parted_is_refused"],
    11: ["test_route53_batches::test_c11_large_zones_are_cut_into_batches", "test_route53_batches::test_upsert_counts_twice"],
    21: ["test_sync_rfc2136::test_one_that_is_down_is_brought_level_later",
         "test_sync::test_one_provider_that_fails_does_not_stop_the_others"],
    24: ["test_sync_ns1::test_limits_of_the_api", "test_route53_faults::test_throttling_is_waited_for"],
    25: ["test_sync_ns1::test_records_beyond_the_model", "test_route53_sync::test_foreign_records_stay"],
    26: ["test_sync_ns1::test_new_default_keys_are_no_difference"],
    28: ["test_route53_checks::test_checks_come_before_records_and_go_after",
         "test_route53_checks::test_c28_checks_of_a_name_that_went_meanwhile",
         "test_sync_fault_index::test_apply_with_a_fault_at_each_request"],
    30: ["test_reports_sync::test_B82_changes_of_kind_converge_in_one_run"],
    33: ["test_sync_ns1::test_from_nothing_and_then_nothing"],
    34: ["test_sync_ns1::test_edits_by_hand_are_drift", "test_sync_ns1::test_steering_is_removed_whole"],
    35: ["test_powerdns::test_facts", "test_powerdns::test_checks_of_its_own"],
    37: ["test_sync_powerdns::test_drift_after_an_edit_by_hand"],
    38: ["test_sync_apply::test_C38_a_saved_plan", "test_sync::test_digest"],
}
NOT_OURS = {
    39: "all kinds that there are let the NS RRset of the apex be managed; the flag `apex_ns` is for those that do not"
        " (tests/unit/tools/test_sync_plan.c, and of a migration C39_needs_the_apex in test_migrate.c)",
}


def two(weights):
    return f"ttl: 30\nendpoints: {{one: 192.0.2.1, two: 192.0.2.2}}\nregions: {{global: {weights}}}\n"


def in_sync(world, *options):
    """Nothing to do, nothing sent, and drift agrees."""
    before = world.kind.dump()
    out = world.run("plan", *options)
    assert out["items"] == [] and not world.faults.writes, out["items"]
    assert world.apply(*options)["providers"][0]["asked"] == 0 and not world.faults.writes
    assert world.kind.dump() == before
    return out


# ---- C01, C40: idempotence ---------------------------------------------------------------------------

MANY = ("endpoints: {one: [192.0.2.1, \"2001:db8::1\"], two: [192.0.2.2, 192.0.2.22], three: \"2001:db8::3\", four: 192.0.2.4}\n"
        "ttl: 60\n")
SHAPES = {
    "single": "ttl: 30\nendpoints: {one: 192.0.2.1}\nregions: {global: {one: 7}}\n",
    "fallback-only": "ttl: 30\nendpoints: {one: 192.0.2.1, two: 192.0.2.2}\nregions: {global: [{one: 1}, {two: 1}]}\n",
    "three-levels": MANY + "types: [A]\nregions: {global: [{one: 1}, {two: 5, four: 0}, {four: 0, one: 0}], fr: [{four: 3}, {one: 1}]}\n",
    "zero": two("{one: 0, two: 10}"),
    "all-zero": two("{one: 0, two: 0}"),
    "large": two("{one: 65535, two: 1}"),
    "both-families": MANY + "regions: {global: {one: 1, two: 2, three: 3}}\n",
    "only-six": "ttl: 30\nendpoints: {one: \"2001:db8::1\", two: \"2001:db8::2\"}\nregions: {global: {one: 1, two: 3}}\n",
    "several": two("{one: 1, two: 3}") + "answers: 2\n",
    "subnet": two("{one: 1, two: 3}") + "draw_per: subnet\n",
    "host": "ttl: 30\nendpoints: {one: a.example.net., two: b.example.net.}\nregions: {global: {one: 1, two: 3}, de: {two: 1}}\n",
    "_wildcard.wild": two("{one: 1, two: 3}"),
    "@": two("{one: 1, two: 3}"),
    "off": "ttl: 30\nendpoints: {one: {addresses: [192.0.2.1], enabled: false}, two: 192.0.2.2}\nregions: {global: {one: 1, two: 1}}\n",
    "checked": two("{one: 1, two: 3}") + "health: {type: https, path: /up, host: www.example.net, interval: 30s}\n",
    "ttl-0": two("{one: 1, two: 3}").replace("ttl: 30", "ttl: 0"),
}
SHAPES["places"] = ("ttl: 30\nendpoints: {one: 192.0.2.1, two: 192.0.2.2}\nregions:\n  global: {one: 1}\n  as: {two: 1}\n  us-ny: {one: 1}\n"
                    "  ca-qc: {two: 2}\n  eu: {one: 1, two: 1}\n  192.0.2.0/24: {two: 1}\n  asn:64500: {one: 3}\n")
STATIC = r'''www: {A: [192.0.2.80, 192.0.2.81], AAAA: ["2001:db8::80"], TXT: ["a ; b", 'q " \ z']}
mx: {MX: ["10 Mail.Example.Net."], CAA: ["0 issue \"ca.example.net\""]}
_sip._tcp: {SRV: ["10 20 5060 www.e.test."]}
long: {TXT: ["''' + "x" * 300 + '''"]}
"*.star": {A: [192.0.2.90]}
Upper: {CNAME: WWW.E.test.}
sub: {NS: [ns.sub.example.net.]}
'''


@pytest.mark.parametrize("kind", ALL)
def test_C01_C40_the_second_run_finds_and_writes_nothing(make, kind):
    """Every shape of a model and of static records, one after the other in one zone: after one run nothing is left
    to do, nothing is sent that writes, and the serial stays."""
    world = make(kind)
    world.write(STATIC, SHAPES, loss=True)
    world.apply("--allow-large")
    in_sync(world)
    assert world.run("drift")["items"] == []
    assert not world.faults.writes


# ---- C02 ---------------------------------------------------------------------------------------------

CHECKS = {"tcp": "{type: tcp, port: 22}", "http": "{type: http, path: /up, host: www.example.net, port: 8080}",
          "https": "{type: https, path: /up, host: www.example.net, rise: 1, fall: 4, interval: 10s}"}


@pytest.mark.parametrize("kind", ["powerdns", "route53"])
def test_C02_checks_of_the_providers_own_are_compared_rightly(make, kind):
    """Addresses and host names with each sort of check by the provider itself: no update for ever; and when a path
    changes, the plan shows the path and nothing else."""
    world = make(kind)
    hosts = "ttl: 30\nendpoints: {one: a.example.net., two: b.example.net.}\nregions: {global: {one: 1, two: 3}}\n"
    world.kind.settings = world.kind.settings.replace("health: pushed", "health: own")

    def write(path):
        checks = {name: text.replace("/up", path) for name, text in CHECKS.items()}
        world.write("", {**{f"a-{n}": two("{one: 1, two: 3}") + f"health: {t}\n" for n, t in checks.items()},
                         **{f"h-{n}": hosts + f"health: {t}\n" for n, t in checks.items()}}, loss=True)
    write("/up")
    world.apply()
    in_sync(world)
    write("/other")
    items = world.run("plan", "--allow-large")["items"]
    assert items and "/other" in json.dumps(items)
    assert not any("-tcp." in (i["domain"] or "") for i in items if i["op"] == "update"), items
    world.apply("--allow-large")
    in_sync(world)


# ---- C04, C22, C36: priorities -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["knot", "bind"])
def test_C04_the_degraded_form_is_level_1_of_global(make, kind):
    """Not that of another region, nor a backup, however they are written."""
    world = make(kind)
    world.write("", {"cdn": "ttl: 30\nendpoints: {backup: 192.0.2.9, far: 192.0.2.8, first: 192.0.2.1}\n"
                            "regions:\n  as: [{far: 1}, {backup: 1}]\n  global: [{first: 1}, {backup: 9}, {far: 99}]\n"})
    world.apply()
    assert world.kind.view("cdn.e.test.", "A") == {"192.0.2.1"}


@pytest.mark.parametrize("kind", STEERING)
def test_C22_C36_priority_is_per_region_and_a_backup_has_no_share(make, kind):
    """One endpoint is first in one region and second in another; while the first is well, the second's share is 0."""
    world = make(kind)
    net = "203.0.113.0/24" if kind == "powerdns" else "fr"  # view() asks from France
    world.write("", {"cdn": "ttl: 30\nendpoints: {one: 192.0.2.1, two: 192.0.2.2}\nregions:\n"
                            f"  global: [{{one: 1}}, {{two: 100}}]\n  {net}: [{{two: 1}}, {{one: 100}}]\n"})
    world.apply()
    if kind == "powerdns":
        pdns = world.kind.pdns
        assert set(pdns.draws("cdn.e.test.", 300)) == {"192.0.2.1"}
        assert set(pdns.draws("cdn.e.test.", 300, ecs="203.0.113.7/32")) == {"192.0.2.2"}
    elif kind == "ns1":
        record = world.kind.sim.zones["e.test"]["cdn.e.test", "A"]
        assert ns1sim.shares(record, ns1sim.Client("198.51.100.1", "FR", "EU")) == {"192.0.2.2": 1}
        assert ns1sim.shares(record, ns1sim.Client("198.51.100.1", "JP", "AS")) == {"192.0.2.1": 1}
    else:
        answer = world.kind.sim.answer
        assert answer("cdn.e.test.", "A", ("EU", "FR", None)) == {("192.0.2.2",): 1}
        assert answer("cdn.e.test.", "A", ("AS", "JP", None)) == {("192.0.2.1",): 1}
    in_sync(world)


# ---- C07: small weights --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STEERING)
def test_C07_one_percent_and_one_per_mille(make, kind):
    """1 of 100 and 1 of 1000 are taken everywhere; what a provider must round is told with its error."""
    world = make(kind)
    world.write("", {"percent": two("{one: 1, two: 99}"), "mille": two("{one: 1, two: 999}")})
    world.apply()
    domains = in_sync(world)["providers"][0]["domains"]
    assert domains["percent.e.test."]["fidelity"]["weight"]["grade"] == "exact"
    assert domains["percent.e.test."]["before"]["global"]["one"] == pytest.approx(0.01)
    weight = domains["mille.e.test."]["fidelity"]["weight"]
    share = domains["mille.e.test."]["before"]["global"]["one"]
    assert share > 0 and abs(share - 0.001) <= weight.get("error", 0) + 1e-9
    assert weight["grade"] == ("approximate" if kind == "route53" else "exact")
    world.write("", {"percent": two("{one: 1, two: 99}"), "mille": two("{one: 20, two: 980}")})
    if kind == "route53":
        assert "shares off by at most 0." in world.sluice("plan").stdout


# ---- C08, C09: limits and consents --------------------------------------------------------------------


def test_C08_a_zone_that_was_made_again_by_hand_is_filled(make):
    """Creates do not count against the limit.  A legitimate big change needs one consent, for which the message
    names the limit, and the summary the numbers.  (One limit for all domains: there is none per domain.)"""
    world = make("ns1")
    records = "".join(f"n{i}: {{A: [192.0.2.{i}]}}\n" for i in range(20))
    world.write(records, {"cdn": ONE})
    world.apply()
    world.kind.sim.zones["e.test"].clear()
    assert world.apply()["providers"][0]["state"] == "applied"
    in_sync(world)
    world.write(records.replace("192.0.2.", "192.0.3."), {"cdn": ONE})
    done = world.sluice("plan")
    assert done.returncode == 3
    text = " ".join(done.stdout.split())
    assert "0 to create, 20 to update, 0 to delete (20 of them held back)" in text
    assert "more than 30 % of the zone's records; --allow-large allows it" in text
    world.apply("--allow-large")
    in_sync(world)


def test_C09_each_consent_stands_for_itself(make):
    world = make("ns1")
    records = "".join(f"n{i}: {{A: [192.0.2.{i}]}}\n" for i in range(20))
    world.write(records, {"cdn": ONE})
    world.apply()
    world.kind.put("theirs.e.test.", "A", ["192.0.2.66"])
    head = faultworld.HEAD.replace("ns: [ns1.e.test., ns2.e.test.]", "ns: [ns1.e.test., ns3.example.net.]")
    world.write(records.replace("192.0.2.", "192.0.3.") + "theirs: {A: [192.0.2.67]}\n", {}, head=head)
    flags = {"--allow-large": "n1.e.test./A", "--allow-ns-change": "e.test./NS", "--take-over": "theirs.e.test./A",
             "--allow-last": "cdn.e.test./A"}
    for flag in flags:
        others = [f for f in flags if f != flag]
        held = {i["key"] for i in world.run("plan", *others, status=3)["items"] if i["held"]}
        assert flags[flag] in held
        if flag != "--allow-large":  # which holds all
            assert held.isdisjoint(flags[f] for f in others), (flag, held)
    assert not [i for i in world.run("plan", *flags)["items"] if i["held"]]


# ---- C12: done means seen ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STEERING)
def test_C12_a_reply_of_200_is_not_yet_a_change(make, kind):
    """The provider says yes to all, and one change (PowerDNS: all) has not taken effect: in part, not done."""
    world = make(kind)
    world.write("www: {A: [192.0.2.80]}\nweb: {A: [192.0.2.90]}\n", {"cdn": ONE})
    world.apply()
    world.write("www: {A: [192.0.2.81]}\nweb: {A: [192.0.2.91]}\n", {"cdn": ONE})
    fault = None
    sim = getattr(world.kind, "sim", None)
    if kind == "powerdns":
        def fault(_, request):
            return "garbage" if request.write else None
    elif kind == "ns1":
        act = sim.act
        sim.act = lambda method, path, *more: (act("GET", path, *more) if method == "POST" and "/web." in path
                                               else act(method, path, *more))
    else:
        change_one = sim.change_one
        sim.change_one = lambda sets, action, item, *more: (None if item.name == "web.e.test."
                                                            else change_one(sets, action, item, *more))
    done = world.sluice("apply", "--yes", "--allow-large", "--json", fault=fault)
    target = done.json["providers"][0]
    assert target["asked"] == 2 and "are not to be seen there" in done.stderr
    assert (done.returncode, target["state"], target["seen"]) == ((1, "failed", 0) if kind == "powerdns" else (3, "partial", 1))
    assert world.kind.view("web.e.test.", "A") == {"192.0.2.90"}
    if kind == "ns1":
        sim.act = act
    elif kind == "route53":
        sim.change_one = change_one
    world.apply("--allow-large")
    assert world.kind.view("web.e.test.", "A") == {"192.0.2.91"}
    in_sync(world)


# ---- C13, C14: name servers of the apex ----------------------------------------------------------------


def test_C13_providers_do_not_replace_each_others_name_servers(tmp_path):
    """The NS RRset is that of the configuration, the same at all; the second run finds nothing at either."""
    world = test_sync_rfc2136.World(tmp_path, ["knot", "bind"])
    try:
        world.apply("--allow-ns-change")
        for target in world.targets.values():
            assert target.ask("e.test", "NS") == ["ns1.e.test.", "ns2.e.test."]
        assert world.sync("plan")["items"] == []
    finally:
        world.close()


@pytest.mark.parametrize("kind", ["ns1", "route53"])
def test_C14_names_with_and_without_the_final_dot(make, kind):
    """Name servers as the provider writes them, without dots and in capitals: neither a difference nor twice."""
    world = make(kind)
    world.write("alias: {CNAME: www.example.net.}\nmail: {MX: [\"10 mail.example.net.\"]}\n", {"cdn": ONE})
    world.apply()
    world.kind.put("e.test.", "NS", ["ns1.e.test", "NS2.e.test"])
    if kind == "route53":
        for rrset in world.kind.sim.of("e.test.", "NS"):
            rrset.ttl = 3600
    else:
        world.kind.sim.zones["e.test"]["e.test", "NS"]["ttl"] = 3600
        world.kind.sim.zones["e.test"]["alias.e.test", "CNAME"]["answers"][0]["answer"] = ["WWW.example.net"]
    in_sync(world)


# ---- C15 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_C15_looking_changes_nothing(make, kind):
    """With everything to do: no request of plan and drift is one that writes, and the zone stays as it is."""
    world = make(kind)
    before = world.kind.dump()
    world.write(STATIC, {"cdn": ONE, **OTHER})
    for command, options in (("plan", ["--allow-ns-change", "--take-over", "--allow-large", "--allow-last"]), ("drift", [])):
        assert world.run(command, *options, status=None)["items"]
        assert world.faults.requests and not world.faults.writes
    assert world.kind.dump() == before


# ---- C16 to C20: what others made ------------------------------------------------------------------------

FOREIGN = [("e.test.", "TXT", ['"verify=1"']), ("theirs.e.test.", "A", ["192.0.2.66"]), ("www.e.test.", "TXT", ['"theirs"']),
           ("_acme-challenge.e.test.", "TXT", ['"token"'])]


@pytest.mark.parametrize("kind", ALL)
def test_C16_C17_C20_records_of_others_beside_ours_stay(make, kind):
    """At the apex, beside our types at a name, with names of their own: through creates, updates and deletes of ours.
    The unit is the RRset: a value that somebody adds to one of ours by hand is shown before it goes."""
    world = make(kind)
    for record in FOREIGN:
        world.kind.put(*record)

    def theirs():
        return {k: v for k, v in world.kind.dump().items() if any((k[0], k[1].split("/")[0]) == r[:2] for r in FOREIGN)}
    before = theirs()
    assert len(before) == len(FOREIGN)
    own = '"@": {MX: ["10 mail.example.net."]}\n'
    for records in (own + "www: {A: [192.0.2.80]}\ntext: {TXT: [a]}\n", own + "www: {A: [192.0.2.81]}\ntext: {TXT: [b]}\n", ""):
        world.write(records, OTHER)
        out = world.apply("--allow-large")
        assert theirs() == before
        kept = {k["key"] for k in out["providers"][0]["kept"]}
        assert {f"{n}/{t}" for n, t, _ in FOREIGN} <= kept
    world.write("text: {TXT: [b]}\n", OTHER)
    world.apply("--allow-large")
    world.kind.put("text.e.test.", "TXT", ['"b"', '"by hand"'])
    if kind == "powerdns":
        item, = world.run("plan", status=None)["items"]
        assert item["old"]["values"] == ['"b"', '"by hand"'] and item["op"] == "update"
    else:
        item, = [i for i in world.run("plan", "--allow-large", status=None)["items"] if not i["marker"]]
        assert '"by hand"' in item["old"]["values"]


def test_C18_what_is_left_alone_is_told(make):
    world = make("ns1")
    for i in range(25):
        world.kind.put(f"n{i:02}.e.test.", "A", ["192.0.2.66"])
    world.write("", {"cdn": ONE})
    world.apply()
    text = world.sluice("plan").stdout
    assert "left alone, since this tool did not make them: 25" in text and "n00.e.test. A" in text
    assert "and 5 more (--verbose lists all)" in text and "n24.e.test. A" not in text
    assert "n24.e.test. A" in world.sluice("plan", "--verbose").stdout
    assert len(world.run("plan")["providers"][0]["kept"]) == 25


@pytest.mark.parametrize("kind", ALL)
def test_C19_records_of_another_owner_need_a_consent(make, kind):
    """Two installations with marks of their own: refused with the name of the owner; --take-over is explicit, and
    then the first one is told the same."""
    world = make(kind)
    mine, yours = "www: {A: [192.0.2.80]}\n", "www: {A: [192.0.2.81]}\n"
    world.write(mine, {"cdn": ONE})
    world.write(yours, {"cdn": ONE.replace("192.0.2.1,", "192.0.2.9,")}, folder="yours", more=", marker: yours")
    world.apply()
    before = world.kind.dump()
    out = world.run("apply", "--yes", config="yours", status=3)
    held = {i["key"]: i for i in out["items"] if i["held"] and i["type"] == "A"}
    assert held["www.e.test./A"]["owner"] == "sluice" and out["providers"][0]["asked"] == 0
    assert world.kind.dump() == before
    text = " ".join(world.sluice("plan", config="yours").stdout.split())
    assert "its owner is `sluice`" in text and "--take-over allows it" in text
    world.run("apply", "--yes", "--take-over", "--allow-large", "--allow-ns-change", config="yours")
    assert world.kind.view("www.e.test.", "A") == {"192.0.2.81"}
    out = world.run("plan", status=3)
    assert {i["owner"] for i in out["items"] if i["key"] == "www.e.test./A"} == {"yours"}


# ---- C23: forced status ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_C23_a_status_by_hand_works_at_every_provider(make, kind):
    """`enabled: false`: not answered while another can be; with all of them off, the answer is not empty."""
    world = make(kind)
    off = "ttl: 30\nendpoints: {one: {addresses: [192.0.2.1], enabled: false}, two: %s}\nregions: {global: {one: 5, two: 1}}\n" \
          "health: {type: tcp, port: 80}\n"
    world.write("", {"one": off % "192.0.2.2", "all": off % "{addresses: [192.0.2.2], enabled: false}"})
    world.apply()
    if kind == "powerdns":
        assert set(world.kind.pdns.draws("one.e.test.", 100)) == {"192.0.2.2"}
    assert world.kind.view("one.e.test.", "A") == {"192.0.2.2"}
    assert world.kind.view("all.e.test.", "A") <= {"192.0.2.1", "192.0.2.2"} and world.kind.view("all.e.test.", "A")
    in_sync(world)


# ---- C27: names of helpers -------------------------------------------------------------------------------


def test_C27_helper_names_do_not_collide(make):
    """Regions and endpoints whose names differ in little, one pool in several regions, and a record of the user
    at the very name of a helper."""
    world = make("route53")
    regions = "regions: {a.b: [fr], a-b: [de], a_b: [it], global-p1: [es], %s: [pt]}\n" % ("r" * 63)
    domain = ("ttl: 30\nendpoints: {One: 192.0.2.1, one: 192.0.2.2, o.ne: 192.0.2.3, o-ne: 192.0.2.4}\nregions:\n"
              "  global: [{One: 1, one: 1}, {o.ne: 1, o-ne: 1}]\n  a.b: [{One: 1}, {one: 1}]\n  a-b: [{one: 1}, {One: 1}]\n  a_b: {o.ne: 1}\n"
              f"  global-p1: {{o-ne: 1}}\n  {'r' * 63}: [{{One: 1, one: 1}}, {{o.ne: 1, o-ne: 1}}]\n")
    world.write("", {"cdn": domain}, defaults=regions)
    world.apply()
    want = {"FR": {"192.0.2.1"}, "DE": {"192.0.2.2"}, "IT": {"192.0.2.3"}, "ES": {"192.0.2.4"}, "PT": {"192.0.2.1", "192.0.2.2"},
            "GB": {"192.0.2.1", "192.0.2.2"}}
    for country, values in want.items():
        assert {v for v, in world.kind.sim.answer("cdn.e.test.", "A", ("EU", country, None))} == values, country
    in_sync(world)


@pytest.mark.parametrize("kind", STEERING)
def test_C27_names_of_regions_and_endpoints_are_kept_apart(make, kind):
    """The same at each provider: what is read back is what was written, with all names as they are."""
    world = make(kind)
    regions = "regions: {a.b: [fr], a-b: [de], a_b: [it]}\n"
    domain = ("ttl: 30\nendpoints: {One: 192.0.2.1, one: 192.0.2.2, o.ne: 192.0.2.3}\nregions:\n  global: {One: 1, one: 2}\n"
              "  a.b: {One: 1}\n  a-b: {one: 1}\n  a_b: {o.ne: 1}\n")
    world.write("", {"cdn": domain}, defaults=regions)
    world.apply()
    shares = in_sync(world)["providers"][0]["domains"]["cdn.e.test."]["before"]
    assert {r: set(s) for r, s in shares.items()} == {"global": {"One", "one"}, "a.b": {"One"}, "a-b": {"one"}, "a_b": {"o.ne"}}
    assert shares["global"]["one"] == pytest.approx(2 / 3)


def test_C27_a_record_at_the_name_of_a_helper_is_told(make):
    world = make("route53")
    world.write("www: {A: [192.0.2.80]}\n_st-global-p1.cdn: {A: [192.0.2.99]}\n", {"cdn": ONE})
    for command in ("plan", "apply"):
        done = world.sluice(command, "--allow-ns-change", *(["--yes"] if command == "apply" else []))
        assert done.returncode == 1 and not world.faults.writes
        assert done.stderr == ("sluice: dns-a: _st-global-p1.cdn.e.test. A of the configuration is where the provider needs a helper "
                               "record of cdn.e.test.; give it another name\n")


# ---- C29: deletes of what is there ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_C29_what_is_deleted_is_what_is_there(make, kind):
    """A record that was edited by hand since, in TTL and values: a delete takes it as it is now."""
    world = make(kind)
    world.write("www: {A: [192.0.2.80]}\nstays: {A: [192.0.2.81]}\n", {"cdn": ONE})
    world.apply()
    if kind == "powerdns":
        comment = [{"content": c["content"], "account": c["account"]} for c in world.kind.pdns.rrset("www.e.test.", "A")["comments"]]
        world.kind.pdns.put("www.e.test.", "A", ["192.0.2.99", "192.0.2.98"], ttl=77, comments=comment)
    else:
        world.kind.put("www.e.test.", "A", ["192.0.2.99", "192.0.2.98"])
    world.write("stays: {A: [192.0.2.81]}\n", {"cdn": ONE})
    world.apply("--allow-large")
    assert not world.kind.view("www.e.test.", "A") and world.kind.view("stays.e.test.", "A")
    in_sync(world)


# ---- C31, C32: groups change together --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_C31_C32_ttl_and_names_change_at_once(make, kind):
    """A TTL, the name of an endpoint, the name of a region: one batch (Route 53 refuses groups with two TTLs, and
    has identifiers as keys), and never empty."""
    world = make(kind)
    watch = Watch(world, "cdn.e.test.")
    regions = "regions: {north: [fr], south: [fr]}\n"
    base = ONE.replace("  fr:", "  north:")
    world.write("", {"cdn": base, **OTHER}, defaults=regions)
    world.apply()
    watch.holes.clear()
    for text in (base.replace("ttl: 30", "ttl: 31"), base.replace("one:", "uno:"), base.replace("north", "south")):
        world.write("", {"cdn": text, **OTHER}, defaults=regions)
        world.apply("--allow-large")
        batches = [r for r in world.faults.writes if r.path.endswith("/rrset") or r.method in ("PATCH", "UPDATE")]
        assert len(batches) <= 1 and not watch.holes
        in_sync(world)


# ---- C41: attributes that we do not model ------------------------------------------------------------------


def test_C41_attributes_beyond_the_model_are_seen(make):
    """Route 53: a health check put on one of our plain records by hand."""
    world = make("route53")
    world.write("www: {A: [192.0.2.80]}\n", {"cdn": ONE + "health: {type: tcp, port: 80}\n"})
    world.apply()
    rrset, = world.kind.sim.of("www.e.test.", "A")
    rrset.health = next(iter(world.kind.sim.checks))
    item, = world.run("drift", status=3)["items"]
    assert item["key"].startswith("www.e.test./A")
    world.apply("--take-over")
    assert world.kind.sim.of("www.e.test.", "A")[0].health is None
    in_sync(world)


def test_C41_attributes_of_powerdns(make):
    """A record that was disabled by hand, and a further disabled value beside ours."""
    world = make("powerdns")
    world.write("www: {A: [192.0.2.80]}\nweb: {A: [192.0.2.90]}\n", {"cdn": ONE})
    world.apply()
    for name, records in (("www", [("192.0.2.80", True)]), ("web", [("192.0.2.90", False), ("192.0.2.91", True)])):
        status, text = world.kind.pdns.api("PATCH", "/zones/e.test.", {"rrsets": [{
            "name": f"{name}.e.test.", "type": "A", "ttl": 3600, "changetype": "REPLACE",
            "records": [{"content": c, "disabled": d} for c, d in records]}]})
        assert status == 204, text
    out = world.run("drift", status=3)
    assert {i["key"] for i in out["items"]} == {"www.e.test./A", "web.e.test./A"}
    world.apply("--take-over", "--allow-large")
    assert world.kind.view("www.e.test.", "A") == {"192.0.2.80"}
    in_sync(world)


def test_C41_attributes_of_ns1(make):
    """Meta of a plain record, and an alias to another record (`link`)."""
    world = make("ns1")
    world.write("www: {A: [192.0.2.80]}\nweb: {A: [192.0.2.90]}\n", {"cdn": ONE})
    world.apply()
    records = world.kind.sim.zones["e.test"]
    records["www.e.test", "A"]["answers"][0]["meta"] = {"up": False}
    records["web.e.test", "A"]["filters"] = [{"filter": "up", "config": {}}]
    assert {i["key"] for i in world.run("drift", status=3)["items"]} == {"www.e.test./A", "web.e.test./A"}
    world.apply("--take-over", "--allow-large")
    in_sync(world)


# ---- C42: case, errors, empty changes --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ns1", "route53"])
def test_C42_names_in_capitals_are_the_same(make, kind):
    """Replies with names in capitals.  (Pages: test_B80_...; errors of the server: test_sync_fault_index.py; empty
    changes: test_C01_C40_...)"""
    world = make(kind)
    world.write("www: {A: [192.0.2.80]}\nalias: {CNAME: www.e.test.}\n", {"cdn": ONE})
    world.apply()
    sim = world.kind.sim
    if kind == "ns1":
        item = sim.item
        sim.item = lambda record: {**item(record), "domain": record["domain"].upper()}
    else:
        listing = sim.list_sets
        sim.list_sets = lambda *query: re.sub(r"<Name>([^<]*)</Name>", lambda m: m[0].replace(m[1], m[1].upper()), listing(*query))
    in_sync(world)


# ---- the table ---------------------------------------------------------------------------------------------


def test_every_row_of_the_table_has_a_test():
    here = {int(n) for name in globals() if name.startswith("test_C") for n in re.findall(r"C(\d\d)", name)}
    for row, names in ELSEWHERE.items():
        for name in names:
            module, _, test = name.partition("::")
            assert hasattr(importlib.import_module(module), test), (row, name)
    assert not here & set(ELSEWHERE) and not here & set(NOT_OURS) and not set(ELSEWHERE) & set(NOT_OURS)
    assert here | set(ELSEWHERE) | set(NOT_OURS) == set(range(1, 43))
