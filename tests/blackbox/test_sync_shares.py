# SPDX-License-Identifier: Apache-2.0
"""Shares of `sluice sync plan` and `drift`: those that are in force, with who is down, before and after."""
import pytest

import faultworld
import sluicelib
import statelib
from test_reports_sync import STEERING, make  # noqa: F401 (a fixture)

NAME = "cdn.e.test."
DOMAIN = """\
ttl: 30
health: {type: tcp, port: 80}
endpoints: {one: [192.0.2.1, "2001:db8::1"], two: [192.0.2.2, "2001:db8::2"], spare: [192.0.2.3, "2001:db8::3"]}
regions:
  global:
    - {one: 1, two: 1}
    - {spare: 1}
"""
FLAT = DOMAIN.replace("    - {spare: 1}\n", "").replace(', spare: [192.0.2.3, "2001:db8::3"]', "")


class Served:
    """A provider, and a server that knows who is down."""

    def __init__(self, world, domain, own=False):
        self.world = world
        head = faultworld.HEAD.replace("[dns-a]", "[sluice, dns-a]") if own else faultworld.HEAD
        world.write("", {"cdn": domain}, head=head)
        state = world.folder / "state"
        state.mkdir()
        self.server = sluicelib.Server(sluicelib.build(world.folder / "config", world.folder / "data"), "--state", state,
                                       control=world.folder / "no-server")

    def commit(self, *rows):
        assert statelib.commit(self.server.control, list(rows))["ok"]

    def down(self, endpoint, down=True, families=(4, 6)):
        self.commit(*[statelib.health(endpoint, 2 if down else 1, f, domain=NAME) for f in families])

    def shares(self, provider=0):
        domain = self.world.run("plan", status=None)["providers"][provider]["domains"][NAME]
        return domain["before"], domain["after"]

    def text(self, command="plan"):
        return " ".join(self.world.sluice(command).stdout.split())


@pytest.fixture
def serve(make):
    servers = []

    def one(kind, domain=DOMAIN, **options):
        servers.append(Served(make(kind), domain, **options))
        return servers[-1]
    yield one
    for served in servers:
        served.server.kill()


@pytest.mark.parametrize("kind", STEERING)
def test_one_that_goes_down(serve, kind):
    served = serve(kind)
    served.world.apply()
    served.down("one")
    assert served.shares() == ({"global": {"one": .5, "two": .5}}, {"global": {"two": 1}})
    text = served.text()
    assert "one 50.0 % -> 0.0 %" in text and "two 50.0 % -> 100.0 %" in text
    served.world.apply()
    served.down("one", down=False)  # and what the provider holds says who is down there
    assert served.shares() == ({"global": {"two": 1}}, {"global": {"one": .5, "two": .5}})
    assert "one 0.0 % -> 50.0 %" in served.text()


@pytest.mark.parametrize("kind", STEERING)
def test_all_down_is_the_fallback(serve, kind):
    """As if all were healthy; of one level, so nothing changes in the end."""
    served = serve(kind, FLAT)
    served.world.apply()
    served.down("one")
    served.world.apply()
    served.down("two")
    assert served.shares() == ({"global": {"two": 1}}, {"global": {"one": .5, "two": .5}})
    served.world.apply()
    assert served.shares() == ({"global": {"one": .5, "two": .5}},) * 2


@pytest.mark.parametrize("kind", STEERING)
def test_the_second_level_in_force(serve, kind):
    served = serve(kind)
    served.world.apply()
    served.down("one")
    served.down("two")
    assert served.shares() == ({"global": {"one": .5, "two": .5}}, {"global": {"spare": 1}})
    text = served.text()
    assert "spare 0.0 % -> 100.0 %" in text and "two 50.0 % -> 0.0 %" in text
    served.world.apply()
    served.commit(statelib.status("one", 1, domain=NAME))  # by hand; it does not make it healthy
    assert served.shares()[0] == {"global": {"spare": 1}}


@pytest.mark.parametrize("kind", STEERING)
def test_types_that_differ(serve, kind):
    """Down for IPv4 only: each type is told."""
    served = serve(kind)
    served.world.apply()
    served.down("one", families=(4,))
    before, after = served.shares()
    assert before == {"global": {"one": .5, "two": .5}}
    assert after == {"global": {"two": 1}, "global AAAA": {"one": .5, "two": .5}}
    text = served.text()
    assert " global A " in text and "one 50.0 % -> 0.0 %" in text and "global AAAA" not in text
    served.world.apply()
    served.down("one", families=(6,))
    served.down("one", down=False, families=(4,))
    text = served.text()
    assert "one 0.0 % -> 50.0 %" in text.partition(" global A ")[2].partition(" global AAAA ")[0]
    assert "one 50.0 % -> 0.0 %" in text.partition(" global AAAA ")[2]


@pytest.mark.parametrize("kind", STEERING)
def test_what_is_set_by_hand(serve, kind):
    served = serve(kind)
    served.world.apply()
    served.commit(statelib.weight("one", 3, domain=NAME))
    assert served.shares() == ({"global": {"one": .5, "two": .5}}, {"global": {"one": .75, "two": .25}})
    served.commit(statelib.status("two", 2, domain=NAME))
    assert served.shares() == ({"global": {"one": .5, "two": .5}}, {"global": {"one": 1}})


def test_our_own_server_and_drift(serve):
    """Its document is the configuration; what is in force comes on top, before and after."""
    served = serve("powerdns", own=True)
    served.world.apply(status=None)
    served.down("one")
    served.commit(statelib.weight("two", 7, domain=NAME))
    assert served.shares(0) == ({"global": {"two": 1}},) * 2
    assert served.shares(1) == ({"global": {"one": .5, "two": .5}}, {"global": {"two": 1}})
    text = served.text("drift")
    assert "global two 100.0 % sluice 100.0 % dns-a 50.0 %" in text
