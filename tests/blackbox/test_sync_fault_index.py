# SPDX-License-Identifier: Apache-2.0
"""`sluice sync` with a fault at every request that it sends, for every kind of provider (faultkinds.py).

The change set has all that can happen to a name: new, gone, another address, weight or set of regions, plain to
steered and back, addresses to a CNAME, static records.  Whatever fails when:
- no name that was there and is to be there is ever empty (B35), as its users see it after every write; where
  the type must change and the provider cannot change two records at once, only between two requests;
- what others made is untouched, octet by octet;
- what is said is what is there: done only if all is, failed only if nothing changed (complaint 12);
- the same command then brings the rest level, without any consent more;
- `plan` never writes (complaint 15), and shows the plan of the whole zone or none.

Each index meets each of the faults that end a run in different places (kills, lost and cut replies, a provider
that refuses from there on), and two of the others in turn; where a change takes many requests, some of them.
With SLUICE_FAULTS=all, each index meets each fault.
"""
import os

import pytest

import faultkinds
import faultlib
import faultworld

OTHERS = ["reset", "500", "short", "429", "denied", "garbage", "503", "close", "429-1"]
HTTP = ["before", "after", "lost", "cut", "denied for good", "others", "others again"]
DNS = ["before", "after", "lost", "reset", "cut", "short", "garbage", "SERVFAIL", "SERVFAIL for good", "close", "REFUSED"]
MOST = 10  # indexes that a test takes
EVERY = os.environ.get("SLUICE_FAULTS") == "all"
if EVERY:
    HTTP = ["before", "after", "lost", "cut", "denied for good", *OTHERS]


def grouped(kind, *more):
    """Tests of one kind share a server."""
    return pytest.param(kind, *more, marks=pytest.mark.xdist_group(f"faults-{kind}"))


def cases(without=()):
    return [grouped(kind, mode) for kind in faultkinds.KINDS for mode in (DNS if kind in ("knot", "bind") else HTTP)
            if mode not in without]


KINDS = [grouped(kind) for kind in faultkinds.KINDS]

HEALTH = "health: {type: tcp, port: 80}\n"
CDN = """\
ttl: 30
endpoints: {one: [192.0.2.1, "2001:db8::1"], two: [192.0.2.2, "2001:db8::2"], spare: [192.0.2.3, "2001:db8::3"]}
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  fr: {two: 1}
""" + HEALTH
ONE = "ttl: 30\nendpoints: {{one: {0}, two: 192.0.2.12}}\nregions: {{global: {{one: {1}, two: 4}}}}\n" + HEALTH.replace("{", "{{").replace("}", "}}")
BEFORE = ('www: {A: [192.0.2.80], AAAA: ["2001:db8::80"], TXT: [text]}\nturn: {A: [192.0.2.70]}\n'
          'alias: {A: [192.0.2.71], TXT: [text]}\ngone: {A: [192.0.2.72]}\n',
          {"cdn": CDN, "weight": ONE.format("192.0.2.11", 1), "back": ONE.format("192.0.2.13", 1),
           "less": ONE.format("192.0.2.14", 1)})
AFTER = ('www: {A: [192.0.2.81, 192.0.2.82], AAAA: ["2001:db8::80"], TXT: [text]}\nback: {A: [192.0.2.73]}\n'
         'alias: {CNAME: www.e.test.}\nmore: {A: [192.0.2.74]}\n',
         {"cdn": CDN.replace("192.0.2.1,", "192.0.2.9,").replace("  fr: {two: 1}", "  de: {spare: 1}\n  fr: {one: 1}"), "weight": ONE.format("192.0.2.11", 7),
          "turn": ONE.format("192.0.2.15", 1), "fresh": ONE.format("192.0.2.16", 1)})
FOREIGN = [("theirs.e.test.", "A", ["192.0.2.66"]), ("e.test.", "TXT", ['"verify=1"']),
           ("www.e.test.", "MX", ["10 mail.example.net."])]
NAMES = [f"{n}.e.test." for n in ("www", "turn", "alias", "gone", "cdn", "weight", "back", "less", "more", "fresh", "ns1", "theirs")]
CONSENTS = ["--allow-large"]


def records(dump):
    """Without marks."""
    return {key: body for key, body in dump.items() if not key[0].startswith("_sluice.")}


class World(faultworld.World):
    """In sync with BEFORE, and with AFTER as the configuration; set back for each fault."""

    def __init__(self, kind, folder):
        super().__init__(kind, folder)
        for record in FOREIGN:
            self.kind.put(*record)
        self.write(*BEFORE)
        self.apply()
        self.before = self.kind.dump()
        self.foreign = {key: body for key, body in self.before.items()
                        if any(key[0] == n and key[1].split("/")[0] == t for n, t, _ in FOREIGN)}
        assert len(self.foreign) == len(FOREIGN)
        there = self.seen()
        self.write(*AFTER)
        self.write(*AFTER, folder="short", more=", timeout: 3s")
        self.items = self.run("plan", *CONSENTS)["items"]
        self.plan_requests = len(self.faults.requests)
        assert not self.faults.writes
        self.holes = []
        self.faults.watch = lambda request: None
        self.steady = set()
        self.change()
        self.requests = list(self.faults.requests)
        self.after = self.kind.dump()
        # Names and types that are there before and after are never to be missing.
        now = self.seen()
        self.steady = there & now
        self.names = {n for n, _ in there} & {n for n, _ in now}
        assert ("cdn.e.test.", "AAAA") in self.steady and "alias.e.test." in self.names
        assert self.run("plan", *CONSENTS)["items"] == []
        self.faults.watch = self.look

    def seen(self):
        return {(name, t) for name in NAMES for t in ("A", "AAAA", "CNAME") if self.kind.view(name, t)}

    def look(self, request):
        there = self.seen()
        missing = self.steady - there
        missing |= {(name, "any") for name in self.names - {n for n, _ in there}}
        self.holes += [(request, *hole) for hole in missing]

    def change(self, fault=None, config="config", status=0):
        return self.apply(*CONSENTS, fault=fault, config=config, status=status)

    def check_holes(self, killed):
        """Where the type must change, one request may leave the name empty; a kill may leave it so for longer."""
        allowed = [h for h in self.holes if h[1:] == ("alias.e.test.", "any")] if self.kind.gap else []
        assert self.holes == allowed, self.holes
        assert killed or len(allowed) <= 4, allowed  # tried twice, or restored and then tried again
        self.holes.clear()

    def check_foreign(self, dump):
        assert {k: dump.get(k) for k in self.foreign} == self.foreign

    def check_told(self, done, dump):
        """What it says is what is there."""
        out = done.json
        target = out["providers"][0]
        if done.returncode == 0:
            assert target["state"] == "applied" and target["seen"] == target["asked"] and not out["errors"]
            assert dump == self.after
        elif done.returncode == 1:
            assert target["state"] == "failed" and not target.get("seen")
            assert dump == self.before
        else:
            assert done.returncode == 3 and target["state"] == "partial", (done.returncode, out)
            assert target["seen"] <= target["asked"]
            assert target["seen"] == 0 or dump != self.before
            assert target["seen"] < target["asked"] or records(dump) == records(self.after)
        if done.returncode:
            assert out["errors"][0]["failure"] != "none" and "dns-a" in out["errors"][0]["error"]
            assert done.stderr.count("\n") == 1 and "dns-a" in done.stderr

    def fail(self, fault, config="config", ends=False):
        """The change with this fault, then again without; all that has to hold is looked at.  ends: it cannot succeed."""
        done = self.sluice("apply", "--yes", "--allow-ns-change", *CONSENTS, "--json", fault=fault, config=config)
        met = [r for r in self.faults.requests if r.mode]
        assert met, "no request met the fault"
        dump = self.kind.dump()
        self.check_foreign(dump)
        killed = done.killed or ends
        if not done.killed:
            self.check_told(done, dump)
            assert done.returncode or not ends
            if not ends and self.kind.gap:
                assert self.kind.view("alias.e.test.", "A") or self.kind.view("alias.e.test.", "CNAME")
        if done.killed or done.returncode:
            again = self.change()
            assert again["providers"][0]["state"] == "applied"
            dump = self.kind.dump()
            self.check_foreign(dump)
        # The same zone as after a run without faults: of that one, a plan was empty.
        assert dump == self.after
        self.check_holes(killed)
        self.kind.restore(self.before)
        return done


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    made = {}

    def one(kind):
        if kind not in made:
            for old in made.values():
                old.close()
            made.clear()
            made[kind] = World(kind, tmp_path_factory.mktemp(kind))
        made[kind].kind.restore(made[kind].before)
        made[kind].holes.clear()
        return made[kind]
    yield one
    for world in made.values():
        world.close()


def some(indexes, mode):
    """All, or (of kinds that need many requests) every other one, or third, ...: other ones for each fault."""
    step = 1 if EVERY else -(-len(indexes) // MOST)
    return indexes[HTTP.index(mode) % step::step] if step > 1 else indexes


def faults_at(mode, index):
    if mode.endswith(" for good"):
        return faultlib.since(index, mode.removesuffix(" for good"))
    turns = {"others": 0, "others again": 5}
    return faultlib.at(index, OTHERS[(index + turns[mode]) % len(OTHERS)] if mode in turns else mode)


@pytest.mark.parametrize("kind, mode", cases())
def test_apply_with_a_fault_at_each_request(worlds, kind, mode):
    world = worlds(kind)
    # What comes before is read by `plan` in the same way, below.
    for index in some(range(world.plan_requests - (mode in ("before", "cut")), len(world.requests)), mode):
        world.fail(faults_at(mode, index), ends=mode.endswith(" for good"))


@pytest.mark.parametrize("kind", KINDS)
def test_apply_without_any_reply(worlds, kind):
    """Silence, at the first of each sort of request, until the `timeout` of the provider."""
    world = worlds(kind)
    sorts = {}
    for index, request in enumerate(world.requests):
        sorts.setdefault((request.method, index < world.plan_requests), index)
    for index in sorts.values():
        done = world.fail(faultlib.at(index, "silent"), config="short", ends=True)
        assert "in time" in done.stderr or "within" in done.stderr, done.stderr


@pytest.mark.parametrize("kind, mode", cases(("after", "denied for good", "SERVFAIL for good")))
def test_plan_with_a_fault_at_each_request(worlds, kind, mode):
    """Nothing is written, and what is shown is the plan of the whole zone or none."""
    world = worlds(kind)
    for index in some(range(world.plan_requests), mode):
        done = world.sluice("plan", *CONSENTS, "--json", fault=faults_at(mode, index))
        assert any(r.mode for r in world.faults.requests) and not world.faults.writes
        if done.killed:
            continue
        out = done.json
        if done.returncode == 0:
            assert out["items"] == world.items and out["providers"][0]["state"] == "planned"
        else:
            assert done.returncode == 1 and out["items"] == [] and out["errors"], (done.returncode, out)
            assert out["errors"][0]["failure"] != "none" and "dns-a" in done.stderr
    assert world.kind.dump() == world.before


@pytest.mark.parametrize("kind", KINDS)
def test_where_two_records_cannot_change_at_once_the_gap_is_one_request(worlds, kind):
    """B35: without a fault the name whose type changes is empty between two requests, or never."""
    world = worlds(kind)
    world.change()
    assert len(world.holes) == (1 if world.kind.gap else 0), world.holes


@pytest.mark.parametrize("kind", KINDS)
def test_the_line_for_people_says_what_was_seen(worlds, kind):
    """Without --json: at the first write, at the last one, and when it cannot be read back."""
    world = worlds(kind)
    writes = [i for i, r in enumerate(world.requests) if r.write]
    for index in (writes[0], writes[-1], writes[-1] + 1):
        mode = "SERVFAIL" if kind in ("knot", "bind") else "denied"
        done = world.sluice("apply", "--yes", "--allow-ns-change", *CONSENTS, fault=faultlib.at(index, mode))
        line = " ".join(done.stdout.split()).rpartition("e.test. at dns-a: ")[2]
        dump = world.kind.dump()
        if done.returncode == 1:
            assert line.startswith("FAILED, 0 of ") and dump == world.before
        else:
            assert done.returncode == 3 and line.startswith("in part, ") and dump != world.before, line
        assert "dns-a: " in line and done.stderr.startswith("sluice: dns-a: ")
        world.kind.restore(world.before)
