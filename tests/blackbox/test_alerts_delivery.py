# SPDX-License-Identifier: Apache-2.0
"""Alerts on their way: formats, retries, order, the spool, addresses that are not allowed."""
import json
import os
import random
import re
import socket

import pytest

import certlib
from alertslib import Alerts, Webhook, domain

FAILOVER = "sluice|failover|cdn.example.com|global|A"
TIME = re.compile(r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")


@pytest.fixture
def hook():
    hooks = []

    def make(*args, **options):
        hooks.append(Webhook(*args, **options))
        return hooks[-1]

    yield make
    for one in hooks:
        one.close()


@pytest.fixture
def drive():
    runs = []

    def make(*args, **options):
        runs.append(Alerts(*args, **options))
        return runs[-1]

    yield make
    for run in runs:
        if run.alive():
            run.end()


def secret(tmp_path, text, name="secret", mode=0o600):
    path = tmp_path / name
    path.write_text(text + "\n", encoding="ascii")
    path.chmod(mode)
    return {"file": str(path)}


# ---- formats -------------------------------------------------------------------------------------


def test_json_shape(hook, drive):
    web = hook()
    run = drive()
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["failover", "recovered"]))
    run.health("p1", "down")
    (event,) = web.wait(1)
    assert TIME.match(event.pop("time")) and TIME.match(event.pop("since"))
    assert re.fullmatch("[0-9a-f]{32}", event.pop("id"))
    assert event == {
        "action": "trigger", "key": FAILOVER, "kind": "failover", "severity": "error", "page": True, "flapping": False,
        "summary": "cdn.example.com: region global failed over from level 1 to level 2 (A); now serving p2; "
                   "down: p1 (connect refused)",
        "host": socket.gethostname(), "domain": "cdn.example.com", "region": "global", "type": "A", "endpoint": None,
        "owner": "edge", "count": 1, "from": 1, "to": 2, "cause": "health",
        "reasons": [{"endpoint": "p1", "why": "connect refused"}], "serves": ["p2"]}
    path, headers, _, _ = web.requests[0]
    assert path == "/hook" and headers["Content-Type"] == "application/json"
    assert headers["User-Agent"].startswith("sluice-healthd/") and "Authorization" not in headers
    run.health("p1", "up", why="status 200")
    event = web.wait(2)[1]
    assert event["action"] == "resolve" and event["key"] == FAILOVER


def test_pagerduty_shape(hook, drive, tmp_path):
    web = hook()
    run = drive(secrets={"pd": secret(tmp_path, 'R"OUTING\\KEY')})
    run.configure({"hook": {"format": "pagerduty", "url": web.url, "secret": "pd"}},
                  domain(on=["failover", "recovered"]))
    run.health("p1", "down")
    (event,) = web.wait(1)
    payload = event.pop("payload")
    assert event == {"routing_key": 'R"OUTING\\KEY', "event_action": "trigger", "dedup_key": FAILOVER,
                     "client": "sluice"}
    details = payload.pop("custom_details")
    assert TIME.match(payload.pop("timestamp"))
    assert payload == {
        "summary": "cdn.example.com: region global failed over from level 1 to level 2 (A); now serving p2; "
                   "down: p1 (connect refused)",
        "source": "cdn.example.com", "severity": "error", "component": "region global (A)", "group": "edge",
        "class": "failover"}
    assert details["from"] == 1 and details["to"] == 2 and details["serves"] == ["p2"]
    run.health("p1", "up")
    event = web.wait(2)[1]
    assert event == {"routing_key": 'R"OUTING\\KEY', "event_action": "resolve", "dedup_key": FAILOVER,
                     "client": "sluice"}
    assert "OUTING" not in run.log


def test_slack_shape(hook, drive, tmp_path):
    web = hook()
    run = drive(secrets={"chat": secret(tmp_path, web.url + "/T0/B0/XYZZY")})
    run.configure({"hook": {"format": "slack", "secret": "chat"}},
                  domain(on=["all-down", "recovered"], team="<edge> & co"))
    run.health("p1", "down", why="status <503>")
    run.health("p2", "down", why="a & b")
    (event,) = web.wait(1)
    text = (":rotating_light: critical: cdn.example.com: nothing healthy left in region global (A); still serving p1 of "
            "level 1; down: p1 (status &lt;503&gt;), p2 (a &amp; b)")
    assert event["text"] == text
    assert event["blocks"][0] == {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    context = event["blocks"][1]
    assert context["type"] == "context" and context["elements"][0]["type"] == "mrkdwn"
    assert context["elements"][0]["text"].startswith("all-down | &lt;edge&gt; &amp; co | since 20")
    assert web.requests[0][0] == "/hook/T0/B0/XYZZY"
    run.health("p1", "up")
    assert web.wait(2)[1]["text"].startswith(":white_check_mark: resolved: cdn.example.com: region global has")
    run.end()
    assert "XYZZY" not in run.log


def test_bearer_token(hook, drive, tmp_path):
    web = hook(replies=[401])
    run = drive(secrets={"token": secret(tmp_path, "XYZZY")})
    run.configure({"hook": {"format": "json", "url": web.url, "secret": "token"}}, domain(on=["failover"]))
    run.health("p1", "down")
    web.wait(1)
    assert web.requests[0][1]["Authorization"] == "Bearer XYZZY"
    run.wait_log(r"given up: status 401")
    (failed,) = run.ask("json")["failed"]
    assert failed["route"] == "hook" and failed["error"] == "status 401"
    run.end()
    assert "XYZZY" not in run.log


def test_secrets_are_read_anew(hook, drive, tmp_path):
    """A missing or open secret is said, and tried again; the value is never told."""
    web = hook()
    run = drive(secrets={"pd": secret(tmp_path, "XYZZY", mode=0o644)})
    run.configure({"hook": {"format": "pagerduty", "url": web.url, "secret": "pd"}}, domain(on=["failover"]))
    run.health("p1", "down")
    run.wait_log(r"route hook: secret pd: .*open to others")
    (tmp_path / "secret").chmod(0o600)
    assert web.wait(1)[0]["routing_key"] == "XYZZY"
    run.wait_log(r"route hook works again")
    assert "XYZZY" not in run.log
    assert run.ask("json")["failed"] == []


# ---- retries and order ---------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [500, 503, (429, {"Retry-After": "1"}, "slow down"), 408, "drop"],
                         ids=["500", "503", "429", "408", "drop"])
def test_failures_that_pass(hook, drive, reply):
    """The resolve waits behind its trigger; what is through is not sent again."""
    web = hook(replies=[reply, reply])
    run = drive()
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["failover", "recovered"]))
    run.health("p1", "down")
    web.wait(1)
    run.health("p1", "up")
    web.wait(4)
    assert [e["action"] for e in web.documents()] == ["trigger", "trigger", "trigger", "resolve"]
    assert len({e["id"] for e in web.documents()}) == 2
    assert [e["action"] for e in web.accepted()] == ["trigger", "resolve"]


@pytest.mark.parametrize("reply", [400, 403, 404, 410, (302, {"Location": "http://127.0.0.1:1/"}, "")],
                         ids=["400", "403", "404", "410", "302"])
def test_failures_that_do_not_pass(hook, drive, reply):
    web = hook(replies=[reply])
    run = drive()
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["failover", "recovered"]))
    run.health("p1", "down")
    run.wait_log(r"given up: status \d+")
    run.health("p1", "up")
    assert [e["action"] for e in web.wait(2)] == ["trigger", "resolve"]


def test_dead_and_hanging_receivers_hold_up_nothing(hook, drive):
    """The others get theirs, and the loop goes on turning."""
    web, dead = hook(), hook(default="hang")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        run = drive()
        run.configure({"hook": {"format": "json", "url": web.url}, "hang": {"format": "json", "url": dead.url},
                       "dead": {"format": "json", "url": f"http://127.0.0.1:{nobody.getsockname()[1]}/"}},
                      domain(on=["failover", "recovered"], to=["hang", "dead", "hook"]))
        run.health("p1", "down")
        dead.wait(1)
        before = run.ask("turns")
        run.health("p1", "up")
        web.wait(2)
        run.wait_log(r"route dead: .*connect")
        assert run.ask("turns") > before
        waiting = run.ask("json")
        assert waiting["waiting"] >= 3
        assert [f["route"] for f in waiting["failed"]] == ["dead"]


def test_name_server_that_hangs_holds_up_nothing(hook, drive, tmp_path):
    """Names are resolved beside the loop, and nobody waits for that longer than for a connection."""
    web = hook()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        address = ".".join(["127"] + [str(random.randint(1, 254)) for _ in range(3)])
        silent.bind((address, 53))
        (tmp_path / "resolv").write_text(f"nameserver {address}\noptions timeout:30 attempts:5\n", encoding="ascii")
        # In a mount namespace of its own: the settings of the system stay.
        run = drive(prefix=["unshare", "--mount", "sh", "-c",
                            'mount --bind "$0" /etc/resolv.conf && exec "$@"', tmp_path / "resolv"])
        run.configure({"hook": {"format": "json", "url": web.url},
                       "lost": {"format": "json", "url": "http://hook.example.net/"}},
                      domain(on=["failover", "recovered"], to=["lost", "hook"]))
        run.health("p1", "down")
        run.wait_log("route lost: timeout in resolving the name")
        run.health("p1", "up")
        web.wait(2)


def test_B114_endless_and_secret_bodies_are_not_echoed(hook, drive):
    web = hook(replies=[(500, {}, "XYZZY " * 100), (400, {"X-Secret": "XYZZY"}, "XYZZY " * 100000)])
    run = drive()
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["failover"]))
    run.health("p1", "down")
    run.wait_log(r"given up: status 400")
    assert "XYZZY" not in json.dumps(run.ask("json"))
    run.end()
    assert "XYZZY" not in run.log


# ---- addresses -----------------------------------------------------------------------------------

FORBIDDEN = ["169.254.169.254", "[::ffff:169.254.169.254]", "0x7f000001", "2130706433", "127.1", "localhost", "[::1]",
             "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "0.0.0.0", "[fe80::1]", "[fd00::1]",
             "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[::127.0.0.1]", "224.0.0.1", "255.255.255.255"]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_B114_forbidden_addresses(drive, address):
    run = drive(allow=["127.9.9.9/32"])
    run.configure({"hook": {"format": "json", "url": f"http://{address}:9/"}}, domain(on=["failover"]))
    run.health("p1", "down")
    run.wait_log(r"route hook: its address is not public")


def test_B114_redirect_to_a_forbidden_address(hook, drive):
    web = hook(replies=[(302, {"Location": "http://169.254.169.254/latest/meta-data/"}, "")])
    run = drive()
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["failover"]))
    run.health("p1", "down")
    run.wait_log(r"given up: status 302 \(redirects are not followed\)")


def test_certificates_are_verified(hook, drive, tmp_path):
    web = hook(context=certlib.server_context(certlib.self_signed(tmp_path, "127.0.0.1")))
    run = drive()
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["failover"]))
    run.health("p1", "down")
    run.wait_log(r"route hook: .*certificate")
    assert web.documents() == []


def test_routes_come_and_go(hook, drive, tmp_path):
    """A new route is told what is open; one that is gone gets nothing more, also when it hangs just now."""
    web, other = hook(default="hang"), hook()
    run = drive(tmp_path / "spool")
    both = {"hook": {"format": "json", "url": web.url}, "other": {"format": "json", "url": other.url}}
    run.configure(both, domain(on=["failover", "recovered"], to=["hook"]))
    run.health("p1", "down")
    web.wait(1)
    run.configure({"other": both["other"]}, domain(on=["failover", "recovered"], to=["other"]))
    run.health("p1", "down", quiet=True)
    run.wait_log("the route hook is gone")
    assert other.wait(1)[0]["action"] == "trigger"
    run.health("p1", "up")
    assert other.wait(2)[1]["action"] == "resolve"
    run.end()
    assert len(web.documents()) == 1


# ---- the spool -----------------------------------------------------------------------------------


def test_B33_spool_over_restarts(hook, drive, tmp_path):
    """Killed after the trigger: nothing is told again, and the resolve has the same key."""
    web = hook()
    routes = {"hook": {"format": "json", "url": web.url}}
    run = drive(tmp_path / "spool")
    run.configure(routes, domain())
    run.health("p1", "down")
    web.wait(2)
    run.wait_log("alert to hook")
    # The second is through when its answer was read: what comes after it shows that.
    run.health("p2", "down")
    web.wait(4)
    run.kill()
    first = web.documents()
    web.clear()
    run = drive(tmp_path / "spool")
    run.configure(routes, domain())
    run.health("p1", "down", quiet=True)
    run.health("p2", "down", quiet=True)
    assert len(run.ask("json")["open"]) == 4
    run.health("p1", "up")
    run.health("p2", "up")
    ids = {e["id"] for e in first}
    keys = {e["key"] for e in first}
    assert len(keys) == 4
    for key in keys:
        web.wait_for(lambda e, key=key: e["action"] == "resolve" and e["key"] == key)
    assert all(e["action"] == "resolve" or e["id"] in ids for e in web.documents())
    assert {e["key"] for e in web.documents()} == keys
    assert oct((tmp_path / "spool").stat().st_mode)[-3:] == "700"


def test_unsent_messages_survive(hook, drive, tmp_path):
    """The receiver is down, the checker is killed, the receiver comes back."""
    web = hook(default=503)
    routes = {"hook": {"format": "json", "url": web.url}}
    run = drive(tmp_path / "spool")
    run.configure(routes, domain(on=["failover", "recovered"]))
    run.health("p1", "down")
    web.wait(1)
    run.health("p1", "up")
    run.wait_log("resolve: ")
    run.kill()
    web.set(default=200)
    web.clear()
    run = drive(tmp_path / "spool")
    run.configure(routes, domain(on=["failover", "recovered"]))
    run.health("p1", "up", quiet=True)
    web.wait_for(lambda e: e["action"] == "resolve")
    # The trigger may be there twice: what was under way when the first checker died is read by then.
    assert [e["action"] for e in {e["id"]: e for e in web.documents()}.values()] == ["trigger", "resolve"]


def test_ended_while_it_sends(hook, drive, tmp_path):
    """An end in order waits for the answer that is under way, so that nothing is sent again."""
    web = hook()
    routes = {"hook": {"format": "json", "url": web.url}}
    for state in ("down", "down"):
        run = drive(tmp_path / "spool")
        run.configure(routes, domain(on=["failover"]))
        run.health("p1", state)
        web.wait(1)
        run.end()
    assert len(web.documents()) == 1


def test_ended_while_a_receiver_hangs(hook, drive, tmp_path):
    web = hook(default="hang")
    run = drive(tmp_path / "spool")
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["failover"]))
    run.health("p1", "down")
    web.wait(1)
    run.end()


def test_killed_at_any_moment(hook, drive, tmp_path):
    """Nothing is lost; what is repeated has the same id."""
    web = hook()
    routes = {"hook": {"format": "json", "url": web.url}}
    spool = tmp_path / "spool"
    domains = [domain(f"d{i}.example.com.", on=["failover"]) for i in range(12)]
    for turn in range(len(domains)):
        run = drive(spool, group_ms=1 + 7 * turn % 20)
        run.configure(routes, *domains)
        for i in range(turn + 1):  # one is new in each turn
            run.health("p1", "down", domain=i, quiet=i < turn)
        if turn % 3 == 1:
            run.wait_log(rf"alert to hook: trigger: d{turn}\.")
        elif turn % 3 == 2:
            web.wait_for(lambda e, name=f"d{turn}.example.com": e["domain"] == name)
        run.kill()
        assert "damaged" not in run.log
    run = drive(spool)
    run.configure(routes, *domains)
    for i in range(len(domains)):
        run.health("p1", "down", domain=i, quiet=True)
    ids = {}
    for i in range(len(domains)):
        web.wait_for(lambda e, i=i: e["domain"] == f"d{i}.example.com")
    for event in web.documents():
        ids.setdefault(event["key"], set()).add(event["id"])
    assert len(ids) == len(domains)
    assert all(len(some) == 1 for some in ids.values()), ids


DAMAGES = {
    "garbage": lambda data: b"\x00\xff garbage\n" + data,
    "changed octet": lambda data: data.replace(b'"open":true', b'"open":fals', 1),
    "foreign record": lambda data: data + b"0000000000000000 {}\n",
    "long line": lambda data: b"x" * 200000 + b"\n" + data,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_spool(hook, drive, tmp_path, damage):
    web = hook()
    routes = {"hook": {"format": "json", "url": web.url}}
    run = drive(tmp_path / "spool")
    run.configure(routes, domain(on=["failover", "recovered"]))
    run.health("p1", "down")
    web.wait(1)
    run.end()
    journal = tmp_path / "spool/alerts.journal"
    data = journal.read_bytes()
    bad = DAMAGES[damage](data)
    assert bad != data
    journal.write_bytes(bad)
    run = drive(tmp_path / "spool")
    run.wait_log(r"alerts\.journal is damaged \(1 records cannot be read\): a copy is in .*damaged, the rest is used")
    assert (tmp_path / "spool/alerts.journal.damaged").read_bytes() == bad
    run.configure(routes, domain(on=["failover", "recovered"]))
    run.health("p1", "up")
    web.wait_for(lambda e: e["action"] == "resolve")


def test_torn_spool(hook, drive, tmp_path):
    """The last line was being written when the checker was killed: that is no damage."""
    web = hook()
    routes = {"hook": {"format": "json", "url": web.url}}
    run = drive(tmp_path / "spool")
    run.configure(routes, domain(on=["failover", "recovered"]))
    run.health("p1", "down")
    web.wait(1)
    run.wait_empty()
    run.end()
    journal = tmp_path / "spool/alerts.journal"
    with open(journal, "ab") as file:
        file.write(b'0123456789abcdef {"t":"inci')
    for state in ("down", "up"):
        run = drive(tmp_path / "spool")
        run.configure(routes, domain(on=["failover", "recovered"]))
        run.health("p1", state)
        if state == "up":
            web.wait_for(lambda e: e["action"] == "resolve")
        run.wait_empty()
        run.end()
        assert "damaged" not in run.log
    assert [e["action"] for e in web.documents()] == ["trigger", "resolve"]


def test_one_spool_one_checker(drive, tmp_path):
    drive(tmp_path / "spool")
    second = Alerts(tmp_path / "spool", wait=False)
    assert second.wait() == 1
    assert "in use by another checker" in second.log


def test_spool_that_cannot_be_written(hook, drive, tmp_path):
    """Alerts go on."""
    web = hook()
    run = drive(tmp_path / "spool")
    os.mkdir(tmp_path / "spool/alerts.journal")
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["failover"]))
    run.health("p1", "down")
    web.wait(1)
    run.wait_log(r"cannot write .*alerts\.journal: .*alerts go on")


@pytest.mark.parametrize("options, reason", [
    ({"secrets": {"a": "XYZZY"}}, "secret a needs one of"),
    ({"allow": ["127.0.0.0/33"]}, "a network for webhooks must be like"),
    ({"allow": ["localhost"]}, "a network for webhooks must be like"),
])
def test_bad_settings(options, reason):
    run = Alerts(wait=False, **options)
    assert run.wait() == 1
    assert reason in run.log and "XYZZY" not in run.log


# ---- many ----------------------------------------------------------------------------------------


def test_B83_burst_of_200(hook, drive, tmp_path):
    web = hook()
    run = drive(tmp_path / "spool", group_ms=1000)
    names = [f"d{i:03d}.example.com." for i in range(200)]
    run.configure({"hook": {"format": "json", "url": web.url}}, *[domain(n, on=["endpoint", "recovered"]) for n in names])
    run.all_at_once("p1", "down", len(names))
    (event,) = web.wait(1)
    assert event["count"] == 200 and event["summary"].startswith("200 endpoints down: d000.example.com p1, ")
    run.all_at_once("p1", "up", len(names))
    second = web.wait(2)[1]
    assert second["action"] == "resolve" and second["key"] == event["key"]
    assert run.ask("json")["open"] == []


def test_B83_flapping(hook, drive):
    web = hook()
    run = drive(group_ms=10, quiet_ms=3000)
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["endpoint", "recovered"]))
    for count in (1, 2, 3):
        run.health("p1", "up" if count == 2 else "down")
        web.wait(count)
    assert [e["flapping"] for e in web.documents()] == [False, False, True]
    for _ in range(20):
        run.health("p1", "up")
        run.ask("turns")
        run.health("p1", "down")
        run.ask("turns")
    run.health("p1", "up")
    assert [e["action"] for e in web.wait(4)] == ["trigger", "resolve", "trigger", "resolve"]


def test_B83_isolated_checker(hook, drive):
    web = hook()
    run = drive(group_ms=10)
    run.configure({"hook": {"format": "json", "url": web.url}}, domain(on=["failover", "recovered"]))
    run.do("isolated", value=True)
    run.health("p1", "down")
    (event,) = web.wait(1)
    assert event["kind"] == "isolated" and event["key"] == f"sluice|isolated||{socket.gethostname()}"
    run.do("isolated", value=False)
    events = web.wait(3)[1:]
    assert [(e["action"], e["kind"]) for e in events] == [("resolve", "isolated"), ("trigger", "failover")]
