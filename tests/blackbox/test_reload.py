# SPDX-License-Identifier: Apache-2.0
"""New builds, damaged files and live facts, in a server that goes on answering."""
import json
import os
import pathlib
import shutil
import signal
import threading

import dns.message
import pytest

import sluicelib
from sluicelib import rcode, rdata

GEO_DOMAIN = """\
ttl: 20
endpoints: {rest: 192.0.2.1, canada: 192.0.2.2, quebec: 192.0.2.3}
regions:
  global: {rest: 1}
  ca: {canada: 1}
  ca-qc: {quebec: 1}
"""


def www(value):
    return f"www: {{A: [{value}]}}\n"


def replace(path, content):
    """Puts a new file in the place of an old one (the old one's other links keep their content)."""
    path = pathlib.Path(path)
    new = path.with_name(path.name + ".new")
    new.write_bytes(content)
    os.replace(new, path)


def image_of(data, zone="example.com."):
    found = [p for p in (data / "current" / "zones").iterdir() if p.name.startswith(zone) and "image" in p.name]
    assert len(found) == 1, list((data / "current" / "zones").iterdir())
    return found[0]


class Clients:
    """Threads that ask without a pause; each question must be answered, with one of `values`."""

    def __init__(self, server, values, threads=2):
        self.server, self.values = server, values
        self.halt = threading.Event()
        self.problems, self.asked, self.seen = [], 0, set()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self):
        wire = sluicelib.make_query("www.example.com.", "A").to_wire()
        while not self.halt.is_set():
            try:
                raw = sluicelib.exchange(self.server.address, self.server.port, wire)
                found = rdata(dns.message.from_wire(raw))
                assert len(found) == 1 and found[0] in self.values, found
            except Exception as problem:  # pylint: disable=broad-except
                self.problems.append(repr(problem))
                return
            with self.lock:
                self.asked += 1
                self.seen.add(found[0])

    def stop(self):
        self.halt.set()
        for thread in self.threads:
            thread.join()
        assert not self.problems, self.problems


@pytest.mark.parametrize("way", ["command", "signal"])
def test_reload_under_load(way, make_config, start, tmp_path):
    values = [f"192.0.2.{i}" for i in range(1, 21)]
    config = make_config(records=www(values[0]))
    server = start(config)
    clients = Clients(server, values)
    try:
        for value in values[1:]:
            make_config(records=www(value))
            sluicelib.build(config, server.data)
            if way == "command":
                server.reload()
                assert rdata(server.ask("www.example.com.")) == [value]
            else:
                server.signal(signal.SIGHUP)
                while rdata(server.ask("www.example.com.")) != [value]:
                    assert server.alive() and not clients.problems, clients.problems
    finally:
        clients.stop()
    assert clients.asked > 20 and len(clients.seen) > 1


def test_zones_come_and_go(make_config, start):
    config = make_config(records=www("192.0.2.1"))
    server = start(config)
    assert rcode(server.ask("www.example.org.")) == "REFUSED"
    sluicelib.write_tree(config, {"example.org/zone.yaml": sluicelib.ZONE + "records:\n  www: {A: [192.0.2.7]}\n"})
    sluicelib.build(config, server.data)
    assert rcode(server.ask("www.example.org.")) == "REFUSED", "a build alone must not change what is served"
    server.reload()
    assert rdata(server.ask("www.example.org.")) == ["192.0.2.7"]
    shutil.rmtree(config / "example.org")
    sluicelib.build(config, server.data)
    server.reload()
    assert rcode(server.ask("www.example.org.")) == "REFUSED"
    assert rdata(server.ask("www.example.com.")) == ["192.0.2.1"]


def damage_flip(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x40]) + content[middle + 1:]


DAMAGE = {
    "flipped bit": damage_flip,
    "cut in half": lambda c: c[:len(c) // 2],
    "header only": lambda c: c[:64],
    "empty": lambda c: b"",
    "longer": lambda c: c + b"\0" * 64,
    "foreign": lambda c: b"\x7fELF" + c[4:],
    "text": lambda c: b"$ORIGIN example.com.\n",
    "another version": lambda c: c[:8] + b"\xff\0\0\0" + c[12:],
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_image(kind, make_config, start, tmp_path):
    config = make_config(records=www("192.0.2.1"))
    server = start(config)
    make_config(records=www("192.0.2.2"))
    sluicelib.build(config, server.data)
    image = image_of(server.data)
    whole = image.read_bytes()
    replace(image, DAMAGE[kind](whole))
    mark = server.mark()
    done = server.sluice("reload", status=1)
    assert len(done.stderr.strip().splitlines()) == 1 and "example.com" in done.stderr
    server.wait_log("example.com", since=mark)
    assert rdata(server.ask("www.example.com.")) == ["192.0.2.1"]
    mark = server.mark()
    server.signal(signal.SIGHUP)
    server.wait_log("example.com", since=mark)
    assert rdata(server.ask("www.example.com.")) == ["192.0.2.1"]
    replace(image, whole)
    server.reload()
    assert rdata(server.ask("www.example.com.")) == ["192.0.2.2"]


def test_damaged_image_at_start(make_config, tmp_path):
    data = sluicelib.build(make_config(records=www("192.0.2.1")), tmp_path / "data")
    image = image_of(data)
    replace(image, damage_flip(image.read_bytes()))
    server = sluicelib.Server(data, wait=False)
    assert server.wait() == 1
    server.reserved.close()
    assert "example.com" in server.log


def test_missing_build_at_reload(make_config, start):
    server = start(make_config(records=www("192.0.2.1")))
    (server.data / "current").rename(server.data / "gone")
    done = server.sluice("reload", status=1)
    assert len(done.stderr.strip().splitlines()) == 1
    assert rdata(server.ask("www.example.com.")) == ["192.0.2.1"]
    (server.data / "gone").rename(server.data / "current")
    server.reload()


MMDB_DAMAGE = {
    "empty": lambda c: b"",
    "text": lambda c: b"this is not a database\n",
    "cut in half": lambda c: c[:len(c) // 2],
    "no metadata": lambda c: c.replace(b"\xab\xcd\xefMaxMind.com", b"\0" * 14),
    "tree overwritten": lambda c: b"\xff" * 200 + c[200:],
}


@pytest.mark.parametrize("kind", MMDB_DAMAGE)
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "replaced"])
def test_damaged_location_file(kind, in_place, make_config, start, tmp_path, city_mmdb, places):
    mmdb = tmp_path / "geo.mmdb"
    whole = pathlib.Path(city_mmdb).read_bytes()
    mmdb.write_bytes(whole)
    server = start(make_config({"cdn": GEO_DOMAIN}), geo=mmdb)

    def check():
        assert rdata(server.ask("cdn.example.com.", ecs=places["ca-qc"])) == ["192.0.2.3"]
        assert rdata(server.ask("cdn.example.com.", ecs=places["ca"])) == ["192.0.2.2"]
        assert rdata(server.ask("cdn.example.com.", ecs=places["fr"])) == ["192.0.2.1"]

    check()
    if in_place:
        mmdb.write_bytes(MMDB_DAMAGE[kind](whole))
    else:
        replace(mmdb, MMDB_DAMAGE[kind](whole))
    check()
    mark = server.mark()
    server.sluice("reload", status=None)
    server.wait_log("geo.mmdb", since=mark)
    check()
    mmdb.write_bytes(whole)
    server.reload()
    check()


def test_damaged_location_file_at_start(make_config, tmp_path):
    data = sluicelib.build(make_config({"cdn": GEO_DOMAIN}), tmp_path / "data")
    (tmp_path / "geo.mmdb").write_bytes(b"no database")
    server = sluicelib.Server(data, geo=tmp_path / "geo.mmdb", wait=False)
    assert server.wait() == 1
    server.reserved.close()
    assert "geo.mmdb" in server.log


@pytest.mark.parametrize("options, said", [
    (["--data", "/nonexistent/data", "--listen", "127.0.0.1@{port}"], "/nonexistent/data"),
    (["--data", "{data}", "--listen", "not-an-address@{port}"], "not-an-address"),
    (["--data", "{data}", "--listen", "127.0.0.1@99999"], "99999"),
    (["--data", "{data}", "--listen", "127.0.0.1@{port}", "--geo", "/nonexistent.mmdb"], "/nonexistent.mmdb"),
    (["--data", "{data}", "--listen", "127.0.0.1@{port}", "--threads", "zero"], "zero"),
    (["--data", "{data}", "--listen", "127.0.0.1@{port}", "--no-such-option"], "no-such-option"),
    (["-c", "/nonexistent/sluice.yaml"], "/nonexistent/sluice.yaml"),
], ids=lambda v: v if isinstance(v, str) else "")
def test_bad_configuration_at_start(options, said, make_config, tmp_path):
    data = sluicelib.build(make_config(records=www("192.0.2.1")), tmp_path / "data")
    port = sluicelib.Port()
    argv = [o.format(data=data, port=port.number) for o in options]
    server = sluicelib.Process(sluicelib.program("sluiced"), *argv)
    assert server.wait() in (1, 2)
    port.close()
    assert said in server.log


def test_broken_settings_file(make_config, tmp_path):
    settings = tmp_path / "sluice.yaml"
    settings.write_text("listen: [\n")
    server = sluicelib.Process(sluicelib.program("sluiced"), "-c", settings)
    assert server.wait() == 1
    assert "sluice.yaml" in server.log


# ---- live facts ----------------------------------------------------------------------------------

LAYERED = """\
ttl: 20
endpoints: {one: 192.0.2.1, two: 192.0.2.2, three: 192.0.2.3}
regions:
  global:
    - {one: 100, two: 0}
    - {three: 1, two: 1}
"""


def answers(server, name="cdn.example.com."):
    wire = sluicelib.make_query(name, "A").to_wire()
    replies = sluicelib.flood(server.address, server.port, wire, 200)
    return {a for rest in replies for a in rdata(dns.message.from_wire(b"\0\0" + rest))}


def test_failover_and_all_down(make_config, start):
    server = start(make_config({"cdn": LAYERED}))
    name = "cdn.example.com."
    assert answers(server) == {"192.0.2.1"}
    server.sluice("health", "override", name, "one", "down")
    assert answers(server) == {"192.0.2.2", "192.0.2.3"}  # level 2; `two` counts there
    server.sluice("health", "override", name, "two", "down")
    assert answers(server) == {"192.0.2.3"}
    server.sluice("health", "override", name, "three", "down")
    assert answers(server) == {"192.0.2.1"}  # all down: as if all were up
    server.sluice("endpoints", "disable", name, "one")
    assert answers(server) == {"192.0.2.2", "192.0.2.3"}  # but never who was disabled by hand
    server.sluice("endpoints", "disable", name, "two", "three")
    assert answers(server) == {"192.0.2.1"}  # nothing else is left: all
    for endpoint in ("one", "two", "three"):
        server.sluice("health", "override", name, endpoint, "auto")
    server.sluice("endpoints", "enable", name, "one", "two", "three")
    assert answers(server) == {"192.0.2.1"}


def test_overrides_survive_a_reload(make_config, start):
    config = make_config({"cdn": LAYERED})
    server = start(config)
    server.sluice("endpoints", "disable", "cdn.example.com.", "one")
    assert answers(server) == {"192.0.2.2", "192.0.2.3"}
    make_config({"cdn": LAYERED}, records=www("192.0.2.99"))
    sluicelib.build(config, server.data)
    server.reload()
    assert rdata(server.ask("www.example.com.")) == ["192.0.2.99"]
    assert answers(server) == {"192.0.2.2", "192.0.2.3"}


@pytest.mark.parametrize("arguments, said", [
    (["health", "override", "cdn.example.com.", "nobody", "down"], "nobody"),
    (["health", "override", "nothing.example.com.", "one", "down"], "nothing.example.com"),
    (["endpoints", "disable", "cdn.example.com.", "one", "nobody"], "nobody"),
    (["endpoints", "disable", "www.example.com.", "one"], "www.example.com"),
], ids=lambda v: v if isinstance(v, str) else "")
def test_wrong_targets_change_nothing(arguments, said, make_config, start):
    server = start(make_config({"cdn": LAYERED}, records=www("192.0.2.99")))
    done = server.sluice(*arguments, status=1)
    assert said in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert answers(server) == {"192.0.2.1"}


def test_explain_of_a_server_follows_its_facts(make_config, start):
    server = start(make_config({"cdn": LAYERED}))

    def explain():
        done = server.sluice("explain", "cdn.example.com.", "--client", "203.0.113.1", "--json")
        got = json.loads(done.stdout)
        return got["level"], got["fallback"], {a["endpoint"]: a["probability"] for a in got["answers"]}

    assert explain() == (1, False, {"one": 1.0})
    server.sluice("health", "override", "cdn.example.com.", "one", "down")
    assert explain() == (2, False, {"three": 0.5, "two": 0.5})
    server.sluice("explain", "www.example.com.", "--client", "203.0.113.1", status=1)


def test_status(make_config, start):
    server = start(make_config({"cdn": LAYERED}))
    status = json.loads(server.sluice("status", "--json").stdout)
    assert [z["name"] for z in status["build"]["zones"]] == ["example.com."]
    assert status["workers"] == 2
    assert f"127.0.0.1@{server.port}" in status["listen"]
    assert "example.com" in server.sluice("status").stdout


def test_stop_command(make_config, start):
    server = start(make_config({"cdn": LAYERED}))
    sluicelib.control(server.control, "stop")
    assert server.wait() == 0
