# SPDX-License-Identifier: Apache-2.0
"""sluice-syncd beside the steered names: static records, names that go, and what drifts."""
import json

import pytest

import serverlib
import sluicelib
import statelib
import syncdlib

WWW = syncdlib.ZONE + "  www: {A: [192.0.2.80]}\n"


@pytest.fixture
def make(tmp_path):
    made = []

    def one(**options):
        made.append(syncdlib.Ns1(tmp_path, **options))
        return made[-1]
    yield one
    for machine in made:
        machine.close()


def test_a_deploy_brings_static_records_and_takes_names_away(make):
    machine = make(zone=WWW)
    machine.sim.put("theirs.e.test", "A", [["192.0.2.66"]])
    machine.write({"old": syncdlib.DOMAIN})
    machine.deploy()
    machine.start()
    machine.wait_level()
    serverlib.wait_for(lambda: machine.values("www.e.test") == ["192.0.2.80"] and machine.values("old.e.test"), "all of it")
    machine.write({}, machine.zone.replace("192.0.2.80", "192.0.2.81") + "  new: {TXT: [\"x\"]}\n")
    (machine.folder / "config/e.test/old/domain.yaml").unlink()
    machine.deploy()
    serverlib.wait_for(lambda: machine.values("www.e.test") == ["192.0.2.81"], "the new address")
    serverlib.wait_for(lambda: machine.values("new.e.test", "TXT") == ["x"] and not machine.values("old.e.test"), "the rest")
    machine.wait_level()
    assert machine.values("theirs.e.test") == ["192.0.2.66"]
    assert machine.values("cdn.e.test")


def test_a_name_that_turns_from_steered_to_static(make):
    machine = make(zone=WWW)
    machine.start()
    machine.wait_level()
    machine.write({"www": syncdlib.DOMAIN}, machine.zone.replace("  www: {A: [192.0.2.80]}\n", "  cdn: {A: [192.0.2.7]}\n"))
    (machine.folder / "config/e.test/cdn/domain.yaml").unlink()
    machine.deploy()
    serverlib.wait_for(lambda: machine.values("cdn.e.test") == ["192.0.2.7"] and len(machine.values("www.e.test")) > 1,
                       "both the other way round")
    machine.wait_level()
    machine.sluice("sync", "drift", "--config", machine.folder / "config", "--provider", "dns-b", status=3)  # NS only
    plan = json.loads(machine.sluice("sync", "plan", "--config", machine.folder / "config", "--provider", "dns-b", "--json",
                                     status=3).stdout)
    assert [i["key"] for i in plan["items"]] == ["e.test./NS"]


def test_what_lasted_shorter_than_a_look_is_taken_back(make):
    """Brought level with more than the last look at the server had seen, and over before the next one."""
    machine = make()
    machine.start()
    machine.wait_level()

    def weights():
        return sorted(a["meta"]["weight"] for a in machine.sim.zones["e.test"][("cdn.e.test", "A")]["answers"])
    before = weights()
    for _ in range(3):
        statelib.commit(machine.server.control, [statelib.weight("one", 70, domain="cdn.e.test.")])
        sluicelib.control(machine.control, "sync", domain="cdn.e.test.")
        statelib.commit(machine.server.control, [{"op": "drop", **{k: v for k, v in statelib.weight(
            "one", 0, domain="cdn.e.test.").items() if k not in ("op", "value")}}])
        serverlib.wait_for(lambda: weights() == before, "the configured weights")


def test_name_servers_wait_for_a_consent(make):
    """They are told, and no failure; nothing else is kept waiting for them."""
    machine = make()
    machine.start()
    machine.wait_level()
    assert machine.status()["dns-b"]["waiting"] == 1
    text = machine.sluice("status").stdout
    assert "dns-b level, 1 steered name" in text and "--allow-ns-change" in text


def test_a_record_of_others_in_the_way_counts_as_behind(make):
    machine = make(zone=WWW)
    machine.sim.put("www.e.test", "A", [["192.0.2.66"]])
    machine.start()
    serverlib.wait_for(lambda: machine.values("cdn.e.test") and machine.status()["dns-b"]["error"], "a failure")
    status = machine.status()["dns-b"]
    assert status["zones_behind"] == 1 and status["behind"] == 0
    assert "--take-over" in status["error"]
    assert machine.values("ns1.e.test") == ["192.0.2.53"]
    assert machine.values("www.e.test") == ["192.0.2.66"]
    assert "the other records of 1 zone" in machine.sluice("status", status=3).stdout


def drift(machine):
    """Somebody changes three of our records, and adds one."""
    with machine.sim.lock:
        zone = machine.sim.zones["e.test"]
        zone[("www.e.test", "A")]["answers"] = [{"answer": ["192.0.2.99"]}]
        del zone[("ns1.e.test", "A")]
        zone[("cdn.e.test", "A")]["filters"] = []
        machine.sim.put("theirs.e.test", "A", [["192.0.2.66"]])


def test_what_drifts_is_brought_level(make):
    machine = make(zone=WWW, more=", check: 1s")
    machine.start()
    machine.wait_level()
    drift(machine)
    serverlib.wait_for(lambda: machine.values("www.e.test") == ["192.0.2.80"] and machine.values("ns1.e.test")
                       and machine.sim.zones["e.test"][("cdn.e.test", "A")]["filters"], "records as they were")
    machine.syncd.wait_log("dns-b differs from what is to be there, and is brought level: ")
    machine.wait_level()
    found = machine.status()["dns-b"]
    assert found["drift"]["names"] >= 1 and not found["drift"]["now"] and found["checked"] >= found["drift"]["at"]
    assert machine.values("theirs.e.test") == ["192.0.2.66"]
    assert "differed, was brought level" in machine.sluice("status").stdout


def test_what_drifts_is_only_told(make):
    machine = make(zone=WWW, more=", check: 1s, repair: false")
    machine.start()
    machine.wait_level()
    drift(machine)
    serverlib.wait_for(lambda: (machine.status()["dns-b"]["drift"] or {}).get("names") == 2, "a note of it")
    found = machine.status()["dns-b"]["drift"]
    assert found["now"] and "cdn.e.test. A differs" in found["what"] and "e.test. A" in found["what"]
    done = machine.sluice("status", status=3)
    assert "DIFFERS" in done.stdout and "dns-b differs: " in done.stderr
    assert machine.values("www.e.test") == ["192.0.2.99"]
    machine.sluice("endpoints", "set", "cdn", "only[two]", status=None)  # what changes is brought there nevertheless
    serverlib.wait_for(lambda: machine.sim.zones["e.test"][("cdn.e.test", "A")]["filters"], "a new record")


def test_what_cannot_be_read_is_told(make):
    machine = make(more=", check: 1s")
    machine.start()
    machine.wait_level()
    (machine.folder / "key").write_text("wrong", encoding="ascii")
    machine.syncd.wait_log("dns-b cannot be read as a whole")
    assert "not read as a whole: dns-b" in machine.sluice("status").stdout
    assert "wrong" not in machine.syncd.log.replace("wrong key", "")


@pytest.mark.parametrize("wrong, message", [("check: 10", "such as 10m"), ("check: 8d", "up to 7d"), ("check: -1s", "such as 10m"),
                                            ("check: [1s]", "such as 10m"), ("repair: yes", "`true` or `false`"),
                                            ("repairs: true", "did you mean `repair`")])
def test_wrong_settings(tmp_path, wrong, message):
    path = tmp_path / "sluice.yaml"
    path.write_text(f"syncd: {{{wrong}}}\n", encoding="ascii")
    done = sluicelib.run(sluicelib.program("sluice-syncd"), "-c", path)
    assert done.returncode == 1 and message in done.stderr
