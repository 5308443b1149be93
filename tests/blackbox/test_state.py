# SPDX-License-Identifier: Apache-2.0
"""What is set at run time: weights, status, health; the state store and its trail."""
import json
import os
import pathlib
import pwd
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import dns.message
import pytest
import sluicelib
import statelib
import stats
from serverlib import wait_for
from statelib import NAME, answers, call, commit, status, weight

A = {"one": "192.0.2.1", "two": "192.0.2.2", "three": "192.0.2.3"}


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("state-data")
    sluicelib.write_tree(folder / "config", sluicelib.config_files({"cdn": statelib.DOMAIN, "api": statelib.DOMAIN}))
    sluicelib.build(folder / "config", folder / "data")
    return folder / "data"


@pytest.fixture
def run(built, start, tmp_path):
    """run() starts a server with state in a folder of the test's own; again after kill()."""
    data = tmp_path / "data"
    shutil.copytree(built, data, symlinks=True)

    def launch(*options):
        return start(data, "--state", str(tmp_path / "state"), *options)
    return launch


def kill(server):
    server.kill()
    server.proc.returncode = 0  # as it should be


def counts(server, draws):
    """How often each address is the answer."""
    wire = sluicelib.make_query(NAME, "A").to_wire()
    seen = {}
    for reply, count in sluicelib.flood(server.address, server.port, wire, draws).items():
        address = sluicelib.rdata(dns.message.from_wire(b"\0\0" + reply))[0]
        seen[address] = seen.get(address, 0) + count
    return seen


# ---- in force ------------------------------------------------------------------------------------


def test_weights_are_shares_of_answers(run):
    server = run()
    assert answers(server) == {A["one"], A["two"]}
    assert commit(server.control, [weight("one", 1), weight("two", 4)])["ok"]
    assert stats.shares_p(counts(server, 5000), {A["one"]: 0.2, A["two"]: 0.8}, 5000) > 1e-9
    assert commit(server.control, [weight("one", 65535), weight("two", 0)])["ok"]
    assert answers(server) == {A["one"]}
    assert commit(server.control, [weight("one", 0)])["ok"]  # level 1 is drained
    assert answers(server) == {A["three"]}
    dropped = [{"op": "drop", **{k: v for k, v in weight(e, 0).items() if k not in ("op", "value")}}
               for e in ("one", "two")]
    assert commit(server.control, dropped, command="reset")["ok"]
    assert answers(server) == {A["one"], A["two"]}
    assert statelib.weights(server.control) == {}


def test_only_what_was_named_is_overridden(run):
    server = run()
    assert commit(server.control, [weight("one", 0, region="EU")])["ok"]
    assert statelib.weights(server.control) == {("eu", 1, "one"): 0}
    assert answers(server) == {A["one"], A["two"]}
    assert answers(server, "api.example.com.") == {A["one"], A["two"]}
    text = server.sluice("status").stdout
    assert "cdn.example.com. one: weight 0 (region eu, level 1)" in " ".join(text.split())


def test_explain_uses_the_weights_in_force(run):
    server = run()
    assert commit(server.control, [weight("one", 3), weight("two", 0)])["ok"]
    out = json.loads(server.sluice("explain", "cdn", "--client", "192.0.2.200", "--json").stdout)
    assert [(a["endpoint"], a["probability"]) for a in out["answers"]] == [("one", 1.0)]


def test_B104_no_old_answer_after_a_change(run):
    """Once the reply has come, each answer is of the new state, on every socket."""
    server = run()
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(8)]
    wire = sluicelib.make_query(NAME, "A").to_wire()
    for sock in socks:
        sock.settimeout(sluicelib.DEADLINE)
        sock.connect((server.address, server.port))
    for turn in range(60):
        new, old = (("one", "two"), ("two", "one"))[turn % 2]
        change = ([weight(new, 9), weight(old, 0)], [status(new, 1), status(old, 2)])[turn // 2 % 2]
        if turn // 2 % 2 and turn % 4 == 2:
            assert commit(server.control, [weight("one", 1), weight("two", 1)])["ok"]
        assert commit(server.control, change)["ok"]
        for sock in socks:
            sock.send(wire)
        for sock in socks:
            assert sluicelib.rdata(dns.message.from_wire(sock.recv(4096))) == [A[new]], turn
        if turn % 4 == 3:
            drops = [{"op": "drop", "kind": "status", "domain": NAME, "endpoint": e} for e in ("one", "two")]
            assert commit(server.control, drops)["ok"]
    for sock in socks:
        sock.close()


def test_B40_zero_stays_zero(run):
    server = run()
    assert commit(server.control, [weight("two", 0)])["ok"]
    assert statelib.weights(server.control) == {("global", 1, "two"): 0}
    kill(server)
    server = run()
    assert statelib.weights(server.control) == {("global", 1, "two"): 0}
    assert answers(server) == {A["one"]}
    for bad in (None, "", "0", -1, 0.5, 65536):
        reply = commit(server.control, [weight("two", bad)])
        assert not reply["ok"] and "value" in reply["error"] and reply["code"] == 2, reply


# ---- how long it stays ---------------------------------------------------------------------------


def test_restart_and_kill_keep_everything(run):
    server = run()
    later = int(time.time()) + 3600
    assert commit(server.control, [weight("one", 0), weight("two", 9, expires_at=later, reason="canary"),
                                   status("three", 2)], what={"n": 1}, origin="chat", **{"as": "kim"})["ok"]
    overrides = statelib.domain(server.control)["overrides"]
    trail = statelib.history(server.control)
    text = " ".join(server.sluice("status").stdout.split())
    assert "by kim (chat, via root), since 20" in text and ", until 20" in text and ": canary" in text
    for end in (kill, lambda s: s.stop()):
        end(server)
        server = run()
        assert statelib.domain(server.control)["overrides"] == overrides
        assert statelib.history(server.control) == trail
        assert answers(server) == {A["two"]}
    assert [o["who"] for o in overrides] == ["kim"] * 3
    assert overrides[1]["expires_at"] == later and overrides[1]["reason"] == "canary"
    assert trail[0]["what"] == {"n": 1} and trail[0]["command"] == "set" and trail[0]["reason"] == "test"


def test_reload_keeps_and_drops(run, make_config):
    server = run()
    assert commit(server.control, [weight("one", 0), weight("three", 5, level=2), status("three", 2)])["ok"]
    assert commit(server.control, [weight("one", 0, domain="api.example.com.")])["ok"]
    smaller = statelib.DOMAIN.replace('  three: [192.0.2.3, "2001:db8::3"]\n', "") \
        .replace("    - {three: 1}\n", "").replace(", three: 1", "")
    config = make_config({"cdn": smaller})
    sluicelib.build(config, server.data)
    server.reload()
    assert statelib.weights(server.control) == {("global", 1, "one"): 0}
    assert answers(server) == {A["two"]}
    server.wait_log("three at cdn.example.com.*is dropped: the configuration has no such target")
    trail = statelib.history(server.control)
    assert [(row["command"], row["domain"], row["who"]) for row in trail if row["command"] == "drop"] == \
        [("drop", row["domain"], "sluiced") for row in trail if row["command"] == "drop"]
    assert {row["domain"] for row in trail if row["command"] == "drop"} == {NAME, "api.example.com."}
    dropped = next(row for row in trail if row["command"] == "drop" and row["domain"] == NAME)
    assert {(o["kind"], o["endpoint"]) for o in dropped["what"]["dropped"]} == {("weight", "three"), ("status", "three")}
    config = make_config({"cdn": statelib.DOMAIN, "api": statelib.DOMAIN}, name="again")
    sluicelib.build(config, server.data)
    server.reload()
    assert statelib.weights(server.control) == {("global", 1, "one"): 0}  # what was dropped does not come back
    assert answers(server, "api.example.com.") == {A["one"], A["two"]}


def test_expiry(run):
    server = run()
    assert commit(server.control, [weight("one", 0)])["ok"]
    for seconds in (2, 10, 30):  # a slow machine may take longer than the first to look
        until = int(time.time()) + seconds
        assert commit(server.control, [weight("one", 7, expires_at=until), status("two", 2, expires_at=until)])["ok"]
        found = answers(server)
        if time.time() < until:
            break
    assert found == {A["one"]}
    server.wait_log("status disabled of two at cdn.example.com., set by .* has expired")
    wait_for(lambda: statelib.history(server.control)[0]["command"] == "expire", "the row of the trail")
    assert time.time() >= until
    assert statelib.domain(server.control)["overrides"] == []  # the configuration's, not the older one
    assert answers(server) == {A["one"], A["two"]}
    row = statelib.history(server.control)[0]
    assert {(o["endpoint"], o["value"]) for o in row["what"]["dropped"]} == {("one", 7), ("two", 2)}
    assert not commit(server.control, [weight("one", 7, expires_at=until)])["ok"]


def test_another_program_writes_the_store(run, tmp_path):
    """As the tool does while the server is not there, or just comes."""
    server = run()
    assert commit(server.control, [weight("one", 1)])["ok"]
    with sqlite3.connect(tmp_path / "state/store.db") as db:
        db.execute("INSERT OR REPLACE INTO overrides(domain, kind, region, level, endpoint, family, value, set_at,"
                   " expires_at, who) VALUES(?, 0, 'global', 1, 'two', 0, 0, 0, 0, 'x')", (NAME,))
    db.close()
    wait_for(lambda: answers(server, count=60) == {A["one"]}, "what was written")
    assert statelib.weights(server.control) == {("global", 1, "one"): 1, ("global", 1, "two"): 0}


# ---- writers -------------------------------------------------------------------------------------


def test_conflict(run):
    server = run()
    assert commit(server.control, [weight("one", 5)], expect=[[NAME, 0]])["ok"]
    reply = commit(server.control, [weight("one", 6)], expect=[[NAME, 0]])
    assert reply["conflict"] is True and not reply["ok"] and reply["code"] == 1 and NAME in reply["error"]
    assert statelib.weights(server.control) == {("global", 1, "one"): 5}
    assert commit(server.control, [weight("one", 6)], expect=[[NAME, statelib.domain(server.control)["revision"]]])["ok"]
    assert len(statelib.history(server.control)) == 2


def test_B49_parallel_writers_lose_nothing(run):
    """20 at once, each computing from what it read: all land."""
    server = run()
    problems = []

    def add_one(number):
        for _ in range(500):
            now = statelib.domain(server.control)
            value = next((o["value"] for o in now["overrides"] if o["endpoint"] == "one"), 0)
            reply = commit(server.control, [weight("one", value + 1)], expect=[[NAME, now["revision"]]],
                           request=f"writer {number}")
            if reply["ok"]:
                return
            if not reply.get("conflict"):
                problems.append(reply)
                return
        problems.append("no turn")

    threads = [threading.Thread(target=add_one, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert statelib.weights(server.control) == {("global", 1, "one"): 20}
    revisions = [row["revision"] for row in statelib.history(server.control)]
    assert revisions == sorted(set(revisions), reverse=True) and len(revisions) == 20


def test_a_repeated_request_is_done_once(run):
    server = run()
    first = commit(server.control, [weight("one", 5)], request="r-1")
    assert commit(server.control, [weight("one", 6)])["ok"]
    kill(server)
    server = run()
    assert commit(server.control, [weight("one", 5)], request="r-1") == first
    assert statelib.weights(server.control) == {("global", 1, "one"): 6}
    assert len(statelib.history(server.control)) == 2


def test_results_are_added(run):
    server = run()
    [row] = commit(server.control, [weight("one", 5)])["audits"]
    assert call(server.control, "result", audit=row, result={"route53": "done"})["ok"]
    assert statelib.history(server.control)[0]["result"] == {"route53": "done"}
    assert not call(server.control, "result", audit=row + 1, result={})["ok"]
    assert call(server.control, "result", audit="x", result={})["code"] == 2


@pytest.mark.parametrize("changes, words", [
    ([weight("ono", 1)], "did you mean `one`?"),
    ([weight("one", 1, domain="cdm.example.com.")], "did you mean `cdn.example.com.`?"),
    ([weight("one", 1, region="globa")], "did you mean `global`?"),
    ([weight("one", 1, level=3)], "has no level 3; it has 2"),
    ([weight("three", 1)], "in level 1 of region global"),
    ([status("for", 2)], "there are: one, two, three"),
])
def test_what_does_not_exist(run, changes, words):
    server = run()
    reply = commit(server.control, [weight("one", 0)] + changes)
    assert not reply["ok"] and words in reply["error"] and reply["code"] == 1 and "\n" not in reply["error"]
    assert statelib.weights(server.control) == {} and statelib.history(server.control) == []
    assert answers(server) == {A["one"], A["two"]}


def test_nothing_changes_without_a_trace(run):
    server = run()
    reply = call(server.control, "commit", changes=[weight("one", 0)], audits=[])
    assert reply["code"] == 2 and "audits" in reply["error"]
    assert answers(server) == {A["one"], A["two"]}


def test_limits(run):
    server = run()
    reply = commit(server.control, [weight("one", 1)] * 20001)
    assert reply["code"] == 2 and "at most 20000" in reply["error"]
    assert commit(server.control, [weight("one", n % 100) for n in range(10000)])["ok"]
    assert statelib.weights(server.control) == {("global", 1, "one"): 99}
    reply = commit(server.control, [weight("one", 1)], what={"x": "y" * 65536})
    assert reply["code"] == 2 and "65536" in reply["error"]
    reply = commit(server.control, [weight("one", 1, reason="r" * 1025)])
    assert reply["code"] == 2 and "1024" in reply["error"]
    assert call(server.control, "history", limit=0)["code"] == 2


def test_domains_lists_all(run):
    server = run()
    assert commit(server.control, [weight("one", 1)])["ok"]
    rows = sluicelib.control(server.control, "domains", zone="example.com")["domains"]
    assert [(r["name"], r["zone"], r["revision"], r["endpoints"]) for r in sorted(rows, key=lambda r: r["name"])] == \
        [("api.example.com.", "example.com.", 0, ["one", "two", "three"]),
         (NAME, "example.com.", 1, ["one", "two", "three"])]
    assert not call(server.control, "domains", zone="example.org")["ok"]
    found = sluicelib.control(server.control, "domain", domain="CDN.example.com")
    assert found["domain"]["name"] == NAME and found["domain"]["zone"] == "example.com."
    assert found["data"] == str(server.data)
    assert {(h["endpoint"], h["family"], h["state"]) for h in found["domain"]["health"]} == \
        {(e, f, "unknown") for e in ("one", "two", "three") for f in (4, 6)}


# ---- who may -------------------------------------------------------------------------------------


AS_OTHER = """\
import json, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.sendall(sys.argv[2].encode() + b"\\n")
print(sock.makefile().readline())
"""


@pytest.mark.parametrize("listed", [False, True])
def test_who_may_act_as_others(run, tmp_path, listed):
    if os.getuid() != 0:
        pytest.fail("this test needs root, to become somebody else")
    (tmp_path / "sluice.yaml").write_text("as: [somebody, nobody]\n" if listed else "as: somebody\n")
    server = run("-c", str(tmp_path / "sluice.yaml"), "--group", "nogroup")
    reachable = pathlib.Path(f"/tmp/sluice-{os.getpid()}-{server.port}.sock")
    reachable.unlink(missing_ok=True)
    os.link(server.control, reachable)

    def as_nobody(**more):
        request = {"command": "commit", "changes": [weight("one", 0)],
                   "audits": [{"command": "set", "domain": NAME, "what": {}}], **more}
        user = pwd.getpwnam("nobody")
        done = subprocess.run(["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
                               "/usr/bin/python3", "-c", AS_OTHER, str(reachable), json.dumps(request)],
                              capture_output=True, check=True, timeout=sluicelib.DEADLINE)
        return json.loads(done.stdout)

    try:
        assert as_nobody(origin="shell")["ok"]
        assert as_nobody(**{"as": "nobody"})["ok"]
        reply = as_nobody(**{"as": "kim"}, origin="chat")
    finally:
        reachable.unlink()
    trail = [(row["who"], row["origin"]) for row in reversed(statelib.history(server.control))]
    assert trail[:2] == [("nobody", "shell"), ("nobody", None)]
    if listed:
        assert reply["ok"] and trail[2:] == [("kim", "chat, via nobody")]
    else:
        assert not reply["ok"] and "may not act as kim" in reply["error"] and len(trail) == 2


def test_names_are_one_line(run):
    server = run()
    for field in ("as", "origin", "request"):
        reply = commit(server.control, [weight("one", 0)], **{field: "a\nb"})
        assert reply["code"] == 2 and field in reply["error"]


# ---- disks ---------------------------------------------------------------------------------------


def in_own_mount(scenario, data, tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["unshare", "--mount"] + (["--user", "--map-root-user"] if os.getuid() else [])
    command += [sys.executable, str(sluicelib.REPO / "tests/blackbox/own_mount.py"), scenario, str(data), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * sluicelib.DEADLINE,
                          env=sluicelib.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def own_data(built, tmp_path):
    shutil.copytree(built, tmp_path / "data", symlinks=True)
    return tmp_path / "data"


def test_full_disk(own_data, tmp_path):
    assert in_own_mount("full", own_data, tmp_path) == "full\n"


def test_read_only_disk(own_data, tmp_path):
    assert in_own_mount("read_only", own_data, tmp_path) == "read-only\n"


def refused_start(data, state):
    """What a server says that does not start."""
    port = sluicelib.Port()
    server = sluicelib.Process(sluicelib.program("sluiced"), "--data", data, "--listen",
                               f"127.0.0.1@{port.number}", "--state", state)
    assert server.wait() == 1
    port.close()
    [line] = server.lines
    return line


def test_damaged_store_at_start(run, tmp_path):
    """Nothing is repaired or forgotten on its own: traffic would go back to what was drained."""
    server = run()
    assert commit(server.control, [weight("one", 0)])["ok"]
    server.stop()
    store = tmp_path / "state/store.db"
    whole = store.read_bytes()
    damaged = b"garbage " * 512 + whole[4096:]
    store.write_bytes(damaged)
    line = refused_start(server.data, tmp_path / "state")
    assert "store.db" in line and "damaged" in line and "move it" in line
    assert store.read_bytes() == damaged
    store.write_bytes(whole)
    assert answers(run()) == {A["two"]}


def test_store_of_a_newer_version(run, tmp_path):
    server = run()
    server.stop()
    with sqlite3.connect(tmp_path / "state/store.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert "version 99" in refused_start(server.data, tmp_path / "state")


def test_damage_while_it_runs(run, tmp_path):
    """What is in force stays; a commit that cannot be done is told."""
    server = run()
    assert commit(server.control, [weight("one", 0)])["ok"]
    with sqlite3.connect(tmp_path / "state/store.db") as db:
        db.execute("CREATE TRIGGER t BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END")
    db.close()
    reply = commit(server.control, [weight("one", 5), weight("two", 0)])
    assert not reply["ok"] and "cannot be written" in reply["error"] and reply["code"] == 1
    assert statelib.weights(server.control) == {("global", 1, "one"): 0}
    assert answers(server) == {A["two"]}


# ---- kill -9 -------------------------------------------------------------------------------------


CLIENT = """\
import json, socket, sys
path, first = sys.argv[1], int(sys.argv[2])
n = first
while True:
    changes = [{"op": "set", "kind": "weight", "domain": d, "endpoint": e, "region": "global", "level": 1, "value": n}
               for d in ("cdn.example.com.", "api.example.com.") for e in ("one", "two")]
    audits = [{"command": "set", "domain": d, "what": {"n": n}} for d in ("cdn.example.com.", "api.example.com.")]
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    sock.sendall(json.dumps({"command": "commit", "request": f"n {n}", "changes": changes,
                             "audits": audits}).encode() + b"\\n")
    reply = json.loads(sock.makefile().readline())
    sock.close()
    if not reply["ok"]:
        sys.exit(str(reply))
    sys.stdout.write(f"{n}\\n")
    sys.stdout.flush()
    n += 1
"""


def test_crash(run):
    """1000 commits with kill -9 of the client or the server at random moments: each acknowledged one is
    there, each other one is whole or absent, and history and state agree."""
    rng = random.Random(5)
    server = run()
    done = 0
    servers_killed = clients_killed = 0
    while done < 1000 or servers_killed < 6 or clients_killed < 6:  # the client may be far ahead of a slow test
        client = subprocess.Popen(["/usr/bin/python3", "-S", "-E", "-c", CLIENT, str(server.control), str(done + 1)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(rng.randint(1, 60)):
            line = client.stdout.readline()
            assert line, client.stderr.read()
            done = int(line)
        for _ in range(rng.randint(0, 20000)):
            pass  # not always at the same point of the next commit
        if rng.random() < 0.4:
            kill(server)
            servers_killed += 1
            rest = client.stdout.read()
            server = run()
        else:
            client.kill()
            clients_killed += 1
            rest = client.stdout.read()
        client.wait(sluicelib.DEADLINE)
        client.stdout.close()
        client.stderr.close()
        done = max([done] + [int(n) for n in rest.split()])
        # Whoever reads now, sees one commit whole: the last acknowledged or the one after it.
        values = {tuple(sorted(statelib.weights(server.control, name).values()))
                  for name in (NAME, "api.example.com.")}
        if values == {(done + 1, done + 1)}:
            done += 1
        assert values == {(done, done)}
    for name in (NAME, "api.example.com."):
        assert [row["what"]["n"] for row in statelib.history(server.control, name)] == list(range(done, 0, -1))


# ---- exposure ------------------------------------------------------------------------------------


def exposure(server, name=NAME):
    return sluicelib.control(server.control, "exposure", domain=name)["exposure"]


def test_exposure_counts_what_was_answered(run):
    server = run()
    assert commit(server.control, [weight("one", 1), weight("two", 3)])["ok"]
    seen = counts(server, 2000)
    server.ask(NAME, tcp=True)
    found = exposure(server)
    answered = sluicelib.control(server.control, "status")["counters"]["steered"]
    assert found["answers"] == answered >= 2001
    [region] = [r for r in found["regions"] if r["region"] == "global"]
    given = {e["endpoint"]: e["answers"] for e in region["endpoints"]}
    assert sum(given.values()) == region["answers"] == answered
    assert all(given[e] >= seen[A[e]] for e in ("one", "two"))
    assert {e["endpoint"]: e["expected"] for e in region["endpoints"]} == \
        {"one": {"A": 0.25, "AAAA": 0.25}, "two": {"A": 0.75, "AAAA": 0.75}, "three": {"A": 0, "AAAA": 0}}
    [largest] = found["resolvers"]["largest"]
    assert largest == {"network": "127.0.0.0/24", "answers": answered, "share": 1, "error": 0}
    assert found["resolvers"]["seen"] == 1 and found["resolvers"]["exact"]
    assert exposure(server, "api.example.com.")["answers"] == 0
    server.reload()
    assert exposure(server)["answers"] == answered


def test_exposure_tells_resolvers_apart(run):
    server = run()
    for number in range(1, 41):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(sluicelib.DEADLINE)
            sock.bind((f"127.0.{number}.1", 0))
            sock.connect((server.address, server.port))
            for _ in range(30 if number == 7 else 1):
                sock.send(sluicelib.make_query(NAME, "A").to_wire())
                sock.recv(4096)
    found = exposure(server)
    assert found["answers"] == 69
    assert found["resolvers"]["largest"][0]["network"] == "127.0.7.0/24"
    assert found["resolvers"]["largest"][0]["answers"] >= 30
    assert not found["resolvers"]["exact"] and 20 < found["resolvers"]["seen"] < 60
    assert call(server.control, "exposure", domain="nothing.example.com")["code"] == 1
