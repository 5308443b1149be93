# SPDX-License-Identifier: Apache-2.0
"""`sluice endpoints` and servers that do not run, hang or die."""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import threading
import time

import pytest

import sluicelib
import toollib
from endpointslib import API, CDN, endpoints, server, weights  # noqa: F401


def offline(tmp_path, make_config, server=None):
    """A settings file whose server does not run, and a function that runs `endpoints` with it."""
    data = tmp_path / "offline"
    sluicelib.build(make_config({"cdn": CDN, "api": API}), data)
    state = tmp_path / "state"
    state.mkdir(exist_ok=True)
    settings = tmp_path / "sluice.yaml"
    settings.write_text(f"control: {tmp_path}/none.sock\nstate: {state}\ndata: {data}\n", encoding="utf-8")
    return data, state, lambda *args, status: sluicelib.sluice("endpoints", *args, "-c", settings, status=status)


def test_without_a_server(tmp_path, make_config, start):
    data, state, run = offline(tmp_path, make_config)
    done = run("set", "cdn[eu]", "central-4=9", "--reason", "early", status=3)
    assert "saved, but the server is not running" in done.stderr
    assert "NO SERVER runs" in done.stdout and re.search(r"central-4 +9 +90% +50%", done.stdout)
    run("disable", "cdn.example.com", "legacy", status=3)
    run("drain", "edge-*", status=3)
    run("undrain", "edge-*", status=3)
    run("reset", "cdn[na]", status=0)  # nothing to do
    assert "cdn.example.com." in run("get", "cnd", status=1).stderr
    assert json.loads(run("get", "cdn", "--json", status=3).stdout)["domains"][0]["serving"] is False
    assert len(json.loads(run("history", "--json", status=0).stdout)["history"]) == 4
    assert "canary" in run("profiles", status=0).stdout
    server = start(data, "--state", state)
    assert weights(server, "eu") == {"central-4": 9, "central-5": 1}
    rows = json.loads(endpoints(server, "history", "cdn", "--json").stdout)["history"]
    assert [(r["command"], r["who"]) for r in rows] == [("disable", "root"), ("set", "root")]


def test_the_store_of_another_server_is_left_alone(tmp_path, make_config, monkeypatch):
    """Who names a socket means that server: the settings' store counts only if they are its own."""
    _, state, _ = offline(tmp_path, make_config)
    for variable in (None, "there"):
        if variable:
            monkeypatch.setenv("SLUICE_SOCKET", str(tmp_path / "mistyped"))
        args = [] if variable else ["--socket", tmp_path / "mistyped"]
        done = sluicelib.sluice("endpoints", "set", "cdn.example.com.", "central-4=1", *args, status=1)
        assert "no server listens at" in done.stderr
    assert not (state / "store.db").exists()


def test_without_a_server_and_settings(tmp_path):
    for args in (["get", "cdn"], ["set", "cdn.example.com.", "a=1"], ["drain", "a"], ["history"]):
        done = sluicelib.sluice("endpoints", *args, "--socket", tmp_path / "none", status=1)
        assert "no server listens at" in done.stderr and "--socket" in done.stderr and done.stderr.count("\n") == 1


def test_a_broken_settings_file(tmp_path, server):
    """It stops nobody who names the socket."""
    settings = tmp_path / "broken.yaml"
    settings.write_text("control: [\n", encoding="utf-8")
    endpoints(server, "get", "cdn", "-c", settings)
    done = sluicelib.sluice("endpoints", "get", "cdn", "-c", settings, status=1)
    assert "broken.yaml:2:" in done.stderr or "broken.yaml:1:" in done.stderr
    settings.write_text(f"control: {server.control}\n", encoding="utf-8")
    sluicelib.sluice("endpoints", "get", "cdn", "-c", settings)


def test_a_commit_without_an_answer_is_not_called_failed(tmp_path):
    """The connection is lost after the request: sent again with the same id, then told as unknown."""
    ids = []

    def answer(request):
        if request["command"] == "commit":
            ids.append(request["request"])
            return b""
        steer = {"owner": "cdn.example.", "ttl": 30, "answers": 1, "draw_per": "query", "types": ["A"],
                 "endpoints": [{"name": "a", "enabled": True, "addresses": ["192.0.2.1"]}],
                 "regions": [{"name": "global", "atoms": ["global"], "levels": [[["a", 1]]]}]}
        return {"ok": True, "data": "/x", "health": {},
                "domain": {"name": "cdn.example.", "revision": 1, "steer": steer, "overrides": [], "health": []}}

    with toollib.FakeServer(tmp_path / "s", answer) as server:
        done = sluicelib.sluice("endpoints", "set", "cdn.example.", "a=2", "--socket", server.path, status=1)
    assert "it is not known whether cdn.example. was changed" in done.stderr and done.stderr.count("\n") == 1
    assert len(ids) == 2 and ids[0] == ids[1]


def test_a_server_that_hangs(make_config, start, tmp_path):
    """At once: one that says nothing at all, and one that is silent after a commit."""
    server = start(make_config({"cdn": CDN}))
    told = sluicelib.control(server.control, "domain", domain="cdn.example.com.")
    silence = threading.Event()

    def answer(request):
        if request["command"] == "commit":
            silence.wait(sluicelib.DEADLINE)
            return b""
        return told

    with toollib.FakeServer(tmp_path / "s", answer) as fake, concurrent.futures.ThreadPoolExecutor(2) as pool:
        server.signal(signal.SIGSTOP)
        try:
            runs = [pool.submit(sluicelib.sluice, "endpoints", "set", "cdn.example.com.", "central-4=2", "--socket", path,
                                status=1) for path in (server.control, fake.path)]
            stopped, silent = [run.result() for run in runs]
        finally:
            server.signal(signal.SIGCONT)
            silence.set()
    assert "does not answer" in stopped.stderr and stopped.stderr.count("\n") == 1
    assert "does not answer" in silent.stderr and silent.stderr.count("\n") == 1
    assert "it is not known whether cdn.example.com. was changed" in silent.stderr


@pytest.mark.parametrize("reply", [b"", b"{}\n", b"[]\n", b'{"ok": true}\n', b'{"ok": true, "domain": 1}\n',
                                   b'{"ok": true, "domain": {"name": "x.", "steer": {}}}\n',
                                   b'{"ok": true, "domains": 1}\n', b'{"ok": true, "history": {}}\n',
                                   b'{"ok": false, "error": "no", "code": 1}\n'])
def test_nonsense_from_the_server(tmp_path, reply):
    with toollib.FakeServer(tmp_path / "s", lambda request: reply) as server:
        for args in (["get", "x."], ["get"], ["set", "x.", "a=1"], ["drain", "a"], ["history"], ["profiles", "x."],
                     ["profiles"], ["exposure", "x."], ["reset", "x."], ["disable", "x.", "a"]):
            done = sluicelib.sluice("endpoints", *args, "--socket", server.path, status=1)
            assert done.stderr.startswith("sluice: ") and done.stderr.count("\n") == 1, done.stderr


def test_killed_at_any_moment(make_config, start, tmp_path):
    """kill -9 of the command or of the server: what was acknowledged is there, what failed is not, and
    what is not known is whole or absent; history and state agree.  $SLUICE_KILLS: how many times."""
    rng = random.Random(3)
    server = start(make_config({"cdn": CDN}), "--state", tmp_path / "state")
    before, took = 1, 0.2  # the last weight, and the seconds of a command that nobody kills
    for i in range(int(os.environ.get("SLUICE_KILLS", "18"))):
        weight = 100 + i
        began = time.monotonic()
        proc = subprocess.Popen([sluicelib.program("sluice"), "endpoints", "set", "cdn.example.com.[eu]", "--socket",
                                 str(server.control), "--json", f"central-4={weight}", f"central-5={weight}"],
                                env=sluicelib.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            proc.wait(rng.random() * took)
        except subprocess.TimeoutExpired:
            pass
        if i % 3 == 1:
            proc.kill()
        elif i % 3 == 2:
            server.kill()
        error = proc.communicate(timeout=sluicelib.DEADLINE)[1]
        if i % 3 == 0:
            took = 1.2 * (time.monotonic() - began)
        if i % 3 == 2:
            server = start(server.data, "--state", tmp_path / "state")
        now = set(weights(server, "eu").values())
        assert now in ({before}, {weight}), now
        if proc.returncode in (0, 3):
            assert now == {weight}
        elif proc.returncode == 1 and "it is not known" not in error:
            assert now == {before}
        before = now.pop()
        rows = json.loads(endpoints(server, "history", "cdn", "--json").stdout)["history"]
        assert (rows[0]["what"]["changes"][0]["new"] if rows else 1) == before


def test_endpoints_under_its_own_name(server, tmp_path):
    link = pathlib.Path(tmp_path / "endpoints")
    link.symlink_to(sluicelib.program("sluice"))
    done = sluicelib.run(link, "get", "cdn", "--socket", server.control)
    assert done.returncode == 0 and done.stdout.startswith("cdn.example.com.")
    assert "did you mean get?" in sluicelib.run(link, "gte").stderr
