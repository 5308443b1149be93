# SPDX-License-Identifier: Apache-2.0
"""Health at NS1 by data feeds: a change of health is one request and no record's, and feeds are made before
what uses them and removed after it, whatever comes between."""
import json

import pytest

import ns1sim
import serverlib
import sluicelib
import statelib
from ns1lib import ZONE, Watched, World
from test_syncd import Syncd

NAME = "cdn.e.test."
KEY = ("cdn.e.test", "A")
DOMAIN = """\
ttl: 30
endpoints: {one: [192.0.2.1, "2001:db8::1"], two: [192.0.2.2, "2001:db8::2"], spare: [192.0.2.3, "2001:db8::3"]}
health: {type: tcp, port: 80}
regions:
  global:
    - {one: 3, two: 1}
    - {spare: 1}
  eu: {spare: 1, one: 1}
"""
OTHER = "ttl: 30\nendpoints: {one: x.example.net., two: y.example.net.}\nhealth: {type: tcp, port: 80}\n" \
        "regions: {global: {one: 1, two: 1}}\n"
CLIENT = ns1sim.Client()
EUROPEAN = ns1sim.Client("198.51.100.1", "CY", "EU")
ALL_UP = {"192.0.2.1": 0.75, "192.0.2.2": 0.25}


class FeedWorld(World):
    """With a server, whose state says what is up."""

    def __init__(self, folder, domain=DOMAIN, **options):
        self.server = None
        super().__init__(folder, **options)
        self.write(domain)
        (folder / "state").mkdir()
        self.server = sluicelib.Server(sluicelib.build(folder / "config", folder / "data"), "--state", folder / "state")
        self.socket = self.server.control
        self.syncd = None

    def health(self, *changes):
        """(endpoint, down for A, down for AAAA)"""
        rows = [statelib.health(e, 2 if down else 1, family, domain=NAME)
                for e, *both in changes for family, down in zip((4, 6), both)]
        statelib.commit(self.server.control, rows)

    def shares(self, client=CLIENT, key=KEY):
        return ns1sim.shares(self.record(key), client, self.sim.feed_values())

    def labels(self):
        return sorted(f["config"]["label"] for feeds in self.sim.feeds.values() for f in feeds.values())

    def close(self):
        if self.syncd:
            self.syncd.kill()
        self.server.kill()
        self.sim.close()
        assert not self.sim.torn  # no feed is removed while a record goes by it


@pytest.fixture
def make(tmp_path):
    worlds = []

    def one(**options):
        worlds.append(FeedWorld(tmp_path, **options))
        return worlds[-1]
    yield one
    for world in worlds:
        world.close()


@pytest.fixture
def world(make):
    return make()


def feed_of(world, rdata, key=KEY):
    """(source, id) of the feed that the answer goes by."""
    ids = {a["meta"]["up"]["feed"] for a in world.record(key)["answers"]
           if a["answer"] == [rdata] and isinstance(a["meta"]["up"], dict)}
    assert len(ids) == 1, ids
    feed = ids.pop()
    return next((s, feed) for s, feeds in world.sim.feeds.items() if feed in feeds)


# ---- no pushing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("health", ["none", "own"])
def test_health_that_does_not_arrive_is_told(make, health):
    """Checks that do not count there are a loss; so is health that was set by hand, where it says down."""
    world = make()

    def status(text):
        world.write(text + "providers: {dns-b: {allow_loss: [status]}}\n")
        defaults = world.folder / "config/defaults.yaml"
        defaults.write_text(defaults.read_text(encoding="ascii").replace("secret: dns-b", f"secret: dns-b, health: {health}"),
                            encoding="ascii")
        plan = world.sync("plan", "--allow-ns-change")
        return plan["providers"][0]["domains"][NAME]["fidelity"]["status"]

    unchecked = DOMAIN.replace("health: {type: tcp, port: 80}\n", "")
    assert status(DOMAIN)["grade"] == "lost"
    assert status(unchecked)["grade"] == "exact"
    world.health(("one", True, False))
    told = status(unchecked)
    assert told["grade"] == "approximate" and "by hand" in told["why"]
    assert status(DOMAIN)["grade"] == "lost"


# ---- pushing --------------------------------------------------------------------------------------


def test_a_change_of_health_is_one_request(world):
    """And no record is written; so with many at once, and back."""
    world.apply()
    assert world.shares() == ALL_UP
    assert len(world.labels()) == 6  # of three endpoints and two types
    records = json.dumps([*world.sim.zones["e.test"].values()])
    for changes, want, european in (
            ([("one", True, True)], {"192.0.2.2": 1.0}, {"192.0.2.3": 1.0}),
            ([("two", True, False)], {"192.0.2.3": 1.0}, {"192.0.2.3": 1.0}),
            ([("spare", True, True), ("one", True, True)], ALL_UP, {"192.0.2.1": 0.5, "192.0.2.3": 0.5}),  # none is up
            ([("one", False, False), ("two", False, False), ("spare", False, False)],
             ALL_UP, {"192.0.2.1": 0.5, "192.0.2.3": 0.5})):
        count = len(world.writes())
        world.health(*changes)
        assert {i["key"].split("/")[0] for i in world.sync("plan")["items"]} == {"FEED"}
        world.apply()
        (source,) = world.sim.sources
        assert world.writes()[count:] == [("POST", f"/v1/feed/{source}")]
        assert (world.shares(), world.shares(EUROPEAN)) == (want, european)
        assert world.sync("plan")["items"] == []
    assert json.dumps([*world.sim.zones["e.test"].values()]) == records


def test_status_by_hand_is_in_the_record(world):
    """Disabled and drained endpoints have no feed: no verdict brings them back."""
    world.write(DOMAIN.replace('one: [192.0.2.1, "2001:db8::1"],',
                               'one: {addresses: [192.0.2.1, "2001:db8::1"], enabled: false},')
                .replace("{one: 3, two: 1}", "{one: 3, two: 0}"))
    world.apply()
    assert not [a for a in world.record()["answers"] if a["answer"] == ["192.0.2.1"] and isinstance(a["meta"]["up"], dict)]
    assert world.shares() == {"192.0.2.3": 1.0}
    assert world.sync("plan")["items"] == []


def test_endpoints_without_checks_have_no_feeds(world):
    world.write(DOMAIN.replace("health: {type: tcp, port: 80}\n", ""))
    world.apply()
    assert not world.sim.sources
    assert world.sync("plan")["items"] == []


def test_a_plan_without_feeds(world):
    """`feeds: false`: health is in the record.  Both ways leave nothing behind."""
    world.apply()

    def settings(more):
        world.write(DOMAIN)
        path = world.folder / "config/defaults.yaml"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("secret: dns-b", "secret: dns-b" + more), encoding="utf-8")
    settings(", feeds: false")
    world.apply()
    assert not world.sim.sources and not world.labels()
    world.health(("one", True, True))
    count = len(world.sim.requests)
    world.apply()
    assert world.shares() == {"192.0.2.2": 1.0}
    assert not [p for _, p in world.sim.requests[count:] if "/data/" in p or "/feed/" in p]
    settings("")
    world.apply()
    assert len(world.labels()) == 6 and world.shares() == {"192.0.2.2": 1.0}


# ---- before and after -----------------------------------------------------------------------------


def test_feeds_come_first_and_go_last(world):
    world.apply()
    (source,) = world.sim.sources
    order = [p for _, p in world.writes()]
    assert order[0] == "/v1/data/sources" and order[1:7] == [f"/v1/data/feeds/{source}"] * 6 and order[7] == f"/v1/feed/{source}"
    assert all(p.startswith("/v1/zones/") for p in order[8:])
    count = len(order)
    world.write(None, ZONE + "  cdn: {A: [192.0.2.9]}\n")
    world.apply("--allow-last")
    order = [p for _, p in world.writes()][count:]
    feeds = [i for i, p in enumerate(order) if p.startswith("/v1/data/feeds")]
    assert len(feeds) == 6 and feeds == list(range(len(order) - 7, len(order) - 1)) and order[-1] == f"/v1/data/sources/{source}"
    assert not world.sim.sources
    assert world.sync("plan")["items"] == []


CHANGES = {
    "an endpoint": (DOMAIN.replace("spare", "other").replace("192.0.2.3", "192.0.2.4"), ZONE),
    "other types": (OTHER, ZONE),
    "to plain": (None, ZONE + "  cdn: {A: [192.0.2.9]}\n"),
    "no checks": (DOMAIN.replace("health: {type: tcp, port: 80}\n", ""), ZONE),
}


def feeds_as_they_are(sim):
    return json.dumps([sim.sources, sim.feeds])


class WatchedFeeds(Watched):
    def __init__(self, world, change, leaving=()):
        world.apply()
        self.feeds = feeds_as_they_are(world.sim)
        super().__init__(world, change, leaving)
        self.labels = world.labels()

    def fail_at(self, index, fault, forever=False):
        self.world.sim.sources, self.world.sim.feeds = json.loads(self.feeds)
        super().fail_at(index, fault, forever)
        assert self.world.labels() == self.labels and not self.world.sim.torn


@pytest.mark.parametrize("change", CHANGES)
def test_b35_stopped_at_each_request_with_feeds(world, change):
    """B35: wherever it is stopped, no record goes by a feed that is not there; the next run cleans up."""
    watched = WatchedFeeds(world, CHANGES[change], ["cdn.e.test"] if change == "other types" else [])
    changing = [i for i, m in enumerate(watched.requests) if m != "GET"]
    for index in (0, *changing):
        watched.fail_at(index, "403", forever=True)


@pytest.mark.parametrize("fault", ["500", "429", "kill", "lost", "truncated", "short"])
def test_b35_one_fault_with_feeds(world, fault):
    watched = WatchedFeeds(world, CHANGES["an endpoint"])
    changing = [i for i, m in enumerate(watched.requests) if m != "GET"]
    for index in (0, *changing[::2], len(watched.requests) - 1):
        watched.fail_at(index, fault)


def test_b35_the_first_run_stopped_at_each_request(world):
    sim = world.sim
    world.apply()
    count, end = len(sim.requests), world.labels()
    for index in range(0, count, 2):
        sim.sources, sim.feeds, sim.zones["e.test"] = {}, {}, {}
        sim.faults = {len(sim.requests) + i: "403" for i in range(index, index + 100)}
        world.apply(status=None)
        sim.faults = {}
        world.apply("--allow-large")
        assert world.labels() == end and world.shares() == ALL_UP, index
        assert len(sim.sources) == 1


# ---- what others do -------------------------------------------------------------------------------


def test_left_over_feeds_are_removed_and_others_stay(world):
    world.apply()
    (source,) = world.sim.sources
    prefix = world.labels()[0].split("-")[0]
    stray = world.sim.make_feed(source, "left over", f"{prefix}-{'ab' * 12}")
    other_zone = world.sim.make_feed(source, "of another zone", f"{'c' * 12}-{'ab' * 12}")
    by_hand = world.sim.make_feed(source, "made by hand", "web-1")
    theirs = world.sim.make_feed(world.sim.make_source("theirs")["id"], "theirs", f"{prefix}-{'ab' * 12}")
    assert [i["key"] for i in world.sync("drift", status=3)["items"]] == [f"FEED/{'ab' * 12}"]
    world.apply()
    there = {i for feeds in world.sim.feeds.values() for i in feeds}
    assert stray["id"] not in there and {other_zone["id"], by_hand["id"], theirs["id"]} <= there
    assert world.sync("plan")["items"] == []


def test_two_zones_share_a_source(world):
    """A zone below the other: neither removes the other's feeds, nor the source while it is used."""
    world.sim.make_zone("sub.e.test")
    sluicelib.write_tree(world.folder / "config", {"sub.e.test/zone.yaml": ZONE.replace("e.test", "sub.e.test"),
                                                   "sub.e.test/app/domain.yaml": DOMAIN})
    world.apply()
    assert len(world.sim.sources) == 1 and len(world.labels()) == 12
    assert world.sync("plan")["items"] == []
    world.write(DOMAIN.replace("health: {type: tcp, port: 80}\n", ""))
    world.apply("e.test")
    assert len(world.labels()) == 6 and len(world.sim.sources) == 1
    assert world.sync("plan")["items"] == []


def test_a_feed_that_was_removed_by_hand_is_drift(world):
    world.apply()
    source, feed = feed_of(world, "192.0.2.1")
    world.sim.remove_feed(source, feed)
    world.sim.torn = []
    keys = {i["key"].split("/")[0] for i in world.sync("drift", status=3)["items"]}
    assert keys == {"FEED", NAME}
    world.apply()
    assert world.shares() == ALL_UP and len(world.labels()) == 6
    assert world.sync("drift")["items"] == []


def test_a_feed_that_says_otherwise_is_drift(world):
    """Pushed by somebody else, or by nobody."""
    world.apply()
    source, feed = feed_of(world, "192.0.2.1")
    for data in ({"up": False}, {}, {"up": "perhaps"}):
        world.sim.awkward = False
        world.sim.feeds[source][feed]["data"] = data
        assert len(world.sync("drift", status=3)["items"]) == 1
        world.apply()
        assert world.shares() == ALL_UP and world.sync("drift")["items"] == []


def test_a_feed_of_somebody_else_in_our_record_is_drift(world):
    world.apply()
    theirs = world.sim.make_feed(world.sim.make_source("theirs")["id"], "theirs", "x")
    world.record()["answers"][0]["meta"]["up"] = {"feed": theirs["id"]}
    assert NAME + "/A" in {i["key"] for i in world.sync("drift", status=3)["items"]}
    world.apply()
    assert world.sync("drift")["items"] == [] and theirs["id"] in world.sim.feeds[list(world.sim.feeds)[1]]


def test_feeds_in_pages(make):
    world = make(page=3)
    world.apply()
    assert world.sync("plan")["items"] == []
    assert [p for _, p in world.sim.requests if "/data/feeds/" in p and "after=3" in p]


@pytest.mark.parametrize("path", ["sources", "feeds"])
@pytest.mark.parametrize("reply", [b"", b"{", b"{}",
                                   b'[{"id": "../zones", "name": "sluice owner=sluice", "sourcetype": "nsone_v1"}]',
                                   b"<html>", b"\xff\xfe"])
def test_replies_about_feeds_that_are_wrong(world, path, reply):
    world.apply()
    (source,) = world.sim.sources
    count = len(world.writes())
    if path == "feeds" and reply.startswith(b"["):
        reply = json.dumps([{"id": "../zones", "config": {"label": world.labels()[0]}}]).encode()
    world.sim.hooks["/v1/data/sources" if path == "sources" else f"/v1/data/feeds/{source}"] = lambda query: reply
    out = world.sync("plan", status=1)
    assert "dns-b" in json.dumps(out["errors"]) and len(world.writes()) == count


def test_a_key_without_the_right_to_feeds(world):
    act = world.sim.act

    def refusing(method, path, body, headers):
        if "/data/" in path:
            raise ns1sim.Refused(403, "no data feeds in this plan")
        return act(method, path, body, headers)
    world.sim.act = refusing
    out = world.sync("plan", status=1)
    assert out["errors"][0]["failure"] == "denied" and "`feeds: false`" in json.dumps(out["errors"])


# ---- sluice-syncd ---------------------------------------------------------------------------------


def test_syncd_pushes_a_verdict_in_one_request(world):
    """Names that nothing is to do with are not asked for."""
    world.write(DOMAIN, more=DOMAIN)
    sluicelib.build(world.folder / "config", world.folder / "data")
    sluicelib.control(world.server.control, "reload")
    world.apply("--allow-large")
    control = world.folder / "syncd.sock"
    settings = world.folder / "syncd.yaml"
    settings.write_text(f"data: {world.folder}/data\ncontrol: {world.server.control}\n"
                        f"secrets: {{dns-b: {{file: {world.folder}/key}}}}\n"
                        f"syncd: {{control: {control}, state: {world.folder}/queues, config: {world.folder}/config}}\n",
                        encoding="ascii")
    world.syncd = Syncd(settings)

    def is_level():
        providers = {p["name"]: p for p in sluicelib.control(control, "status")["providers"]}
        return "dns-b" in providers and providers["dns-b"]["behind"] == 0 and providers["dns-b"]["domains"] == 2
    (source,) = world.sim.sources
    # At its start it reads whole zones.
    for down, want in ((True, {"192.0.2.2": 1.0}), (False, ALL_UP)):
        serverlib.wait_for(is_level, "a provider that is level")
        count = len(world.sim.requests)
        world.health(("one", down, down))
        serverlib.wait_for(lambda want=want: world.shares() == want, "the verdict at the provider")
        serverlib.wait_for(is_level, "a provider that is level")
        since = world.sim.requests[count:]
        assert [r for r in since if r[0] != "GET"] == [("POST", f"/v1/feed/{source}")]
    assert {p for _, p in since if "/more.e.test/" in p} == set(), since
    assert [p for _, p in since if "/cdn.e.test/A" in p]
