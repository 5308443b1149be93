# SPDX-License-Identifier: Apache-2.0
"""The server's sockets, limits, signals and state on disk."""
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import stat
import struct
import subprocess
import threading

import dns.message
import pytest

import serverlib
import sluicelib
import statelib
from serverlib import connect, counters, is_answered, message, read_message, wait_for
from sluicelib import rdata


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A build that no test of this file changes."""
    root = tmp_path_factory.mktemp("io")
    files = sluicelib.config_files({"cdn": serverlib.DOMAIN}, records=serverlib.RECORDS)
    return sluicelib.build(sluicelib.write_tree(root / "config", files), root / "data")


@pytest.fixture
def run(data, tmp_path, start):
    """run(options...) starts a server on a copy of the build."""
    def make(*options, name="data", **keywords):
        copy = tmp_path / name
        if not copy.exists():
            shutil.copytree(data, copy, symlinks=True)
        return start(copy, *options, **keywords)
    return make


# ---- TCP -----------------------------------------------------------------------------------------


def test_pipelined_queries_in_order(run):
    server = run()
    with connect(server) as sock:
        sock.sendall(b"".join(message(number=i) for i in range(500)))
        for i in range(500):
            assert read_message(sock)[:2] == struct.pack("!H", i)


def test_half_closed_client_gets_all_answers(run):
    server = run()
    with connect(server) as sock:
        sock.sendall(message(number=1) + message("cdn.example.com.", number=2))
        sock.shutdown(socket.SHUT_WR)
        assert read_message(sock)[:2] == b"\0\1"
        assert rdata(dns.message.from_wire(read_message(sock))) == ["192.0.2.1"]
        assert sock.recv(1) == b""


def test_message_cut_at_each_octet(run):
    server = run()
    wire = message(number=1) + message(number=2)
    with connect(server) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for cut in range(1, len(wire)):
            sock.sendall(wire[:cut])
            if cut >= len(wire) // 2:  # the first message is whole: its answer shows that it was read
                assert read_message(sock)[:2] == b"\0\1"
            sock.sendall(wire[cut:])
            while read_message(sock)[:2] != b"\0\2":
                pass


@pytest.mark.parametrize("garbage", [b"\0\0", b"\0\x0b" + b"x" * 11, b"\0\1x"])
def test_length_below_a_header_closes(run, garbage):
    server = run()
    with connect(server) as sock:
        sock.sendall(message(number=1) + garbage)
        assert read_message(sock)[:2] == b"\0\1"  # what stood before it is answered
        assert sock.recv(1) == b""
    assert server.ask("www.example.com.", tcp=True)


def test_long_message_is_read_whole(run):
    server = run()
    with connect(server) as sock:
        wire = sluicelib.make_query("www.example.com.").to_wire()
        sock.sendall(struct.pack("!H", 65535) + wire + b"\0" * (65535 - len(wire)) + message(number=7))
        read_message(sock)
        assert read_message(sock)[:2] == b"\0\7"


def test_slow_reader_stops_being_read(run, monkeypatch):
    """A client that asks for much and takes nothing must cost a bounded amount of memory, and gets
    all its answers once it reads."""
    serverlib.small_quarantine(monkeypatch)
    server = run("--tcp-idle", "600")
    ask = message("big.example.com.", "TXT", number=5)  # 60 000 octets each
    count = 2000  # 120 MB
    with connect(server, SO_RCVBUF=4096) as sock:
        problems = []

        def write():
            try:
                sock.sendall(ask * count)
            except OSError as problem:
                problems.append(problem)

        writer = threading.Thread(target=write)
        writer.start()
        wait_for(lambda: counters(server)["responses"] > 0, "a response")
        assert server.ask("www.example.com.", tcp=True)
        assert counters(server)["responses"] < count  # the rest waits for the reader
        rss = int(pathlib.Path(f"/proc/{server.proc.pid}/statm").read_text(encoding="ascii").split()[1])
        for _ in range(count):
            assert read_message(sock)[:2] == b"\0\5"
        writer.join()
        assert not problems
        grown = int(pathlib.Path(f"/proc/{server.proc.pid}/statm").read_text(encoding="ascii").split()[1]) - rss
        assert grown * os.sysconf("SC_PAGE_SIZE") < 32 << 20


def test_thousand_idle_connections(run):
    serverlib.raise_own_limit(2048)
    server = run("--tcp-idle", "600")
    idle = [connect(server) for _ in range(1000)]
    try:
        for _ in range(3):
            assert rdata(server.ask("www.example.com.", tcp=True)) == ["192.0.2.80"]
        assert rdata(server.ask("www.example.com.")) == ["192.0.2.80"]
        assert counters(server)["tcp_evicted"] == 0
        assert all(is_answered(sock) for sock in idle[::100])
    finally:
        for sock in idle:
            sock.close()
    wait_for(lambda: counters(server)["tcp_open"] == 0, "all connections closed")


def test_full_house_closes_the_idlest(run):
    server = run("--tcp-connections", "20")
    first = connect(server)
    others = [connect(server) for _ in range(9)]
    assert is_answered(first)  # so it is not the idlest
    more = [connect(server) for _ in range(12)]
    assert is_answered(more[-1])
    assert counters(server)["tcp_evicted"] > 0
    assert counters(server)["tcp_open"] <= 20
    assert others[0].recv(1) == b""  # made room
    for sock in [first, *others, *more]:
        sock.close()


def test_idle_connections_are_closed_in_time(run):
    """Also one that sends an octet now and then, but no whole query."""
    server = run()
    with connect(server) as idle, connect(server) as slow, connect(server) as busy:
        wire = message()
        done = threading.Event()

        def drip():
            try:
                for octet in wire * 100:
                    slow.send(bytes([octet]))
                    if done.wait(1.0):
                        return
            except OSError:
                pass

        def keep():
            while not done.wait(0.5):
                assert is_answered(busy)

        threads = [threading.Thread(target=drip), threading.Thread(target=keep)]
        for thread in threads:
            thread.start()
        try:
            assert idle.recv(1) == b""
            wait_for(lambda: counters(server)["tcp_timed_out"] == 2, "both closed")
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert is_answered(busy)


def test_few_descriptors(data):
    """With a limit of 64 open files, 200 TCP clients neither stop UDP nor make the server spin."""
    port = sluicelib.Port()
    control = f"/tmp/sluice-{os.getpid()}-{port.number}.sock"
    server = sluicelib.Process("sh", "-c", 'ulimit -n 64; exec "$0" "$@"', sluicelib.program("sluiced"),
                               "--data", data, "--listen", f"127.0.0.1@{port.number}", "--threads", "2",
                               "--control", control)
    server.address, server.port, server.control = "127.0.0.1", port.number, control
    try:
        server.wait_log(r"\bready\b")
        clients = [connect(server) for _ in range(200)]
        assert is_answered(clients[-1])
        for _ in range(20):
            assert sluicelib.ask("127.0.0.1", port.number, "www.example.com.")
        before = serverlib.cpu_seconds(server.proc.pid)
        threading.Event().wait(1.0)
        assert serverlib.cpu_seconds(server.proc.pid) - before < 0.5
        assert serverlib.descriptors(server.proc.pid) <= 64
        assert len(server.lines) < 40
        for sock in clients:
            sock.close()
        assert sluicelib.ask("127.0.0.1", port.number, "www.example.com.", tcp=True)
        assert server.stop() == 0
    finally:
        server.kill()
        port.close()


# ---- UDP -----------------------------------------------------------------------------------------


def test_large_batches_from_many_sockets(run):
    server = run(threads=3)
    socks = []
    try:
        for _ in range(50):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.settimeout(sluicelib.DEADLINE)
            sock.connect((server.address, server.port))
            socks.append(sock)
        for round_ in range(20):
            for i, sock in enumerate(socks):
                silent = i % 7 == 3  # in between, packets that get no answer
                sock.send(b"\0" * 11 if silent else message(number=round_ * 50 + i)[2:])
            for i, sock in enumerate(socks):
                if i % 7 != 3:
                    assert sock.recv(4096)[:2] == struct.pack("!H", round_ * 50 + i)
    finally:
        for sock in socks:
            sock.close()
    assert counters(server)["send_errors"] == 0


def test_wildcard_and_its_other_family(run):
    server = run(addresses=("0.0.0.0", "::"))
    for address in ("127.0.0.1", "127.0.0.9", "::1"):
        assert rdata(server.ask("www.example.com.", address=address)) == ["192.0.2.80"]
        assert rdata(server.ask("www.example.com.", address=address, tcp=True)) == ["192.0.2.80"]


# ---- start and end -------------------------------------------------------------------------------


def test_second_server_on_the_same_address(run, data):
    server = run()
    second = sluicelib.Process(sluicelib.program("sluiced"), "--data", data, "--listen",
                               f"127.0.0.1@{server.port}")
    assert second.wait() == 1
    assert f"127.0.0.1@{server.port}" in second.log and len(second.lines) == 1
    assert server.ask("www.example.com.")


def test_restart_at_once(run):
    reserved = sluicelib.Port()
    listen = "--listen", f"127.0.0.1@{reserved.number}"
    server = run(*listen)
    with socket.create_connection(("127.0.0.1", reserved.number), sluicelib.DEADLINE) as sock:
        assert is_answered(sock)
        assert server.stop() == 0  # the server closes first: TIME_WAIT is on its side
    again = run(*listen, name="again")
    assert sluicelib.ask("127.0.0.1", reserved.number, "www.example.com.", tcp=True)
    assert again.stop() == 0


def test_what_has_arrived_is_answered_before_the_end(run):
    """Queries that are in the socket when SIGTERM comes: none is lost, over UDP and TCP."""
    server = run(threads=1)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(sluicelib.DEADLINE)
    udp.connect((server.address, server.port))
    tcp = connect(server)
    assert is_answered(tcp)
    server.signal(signal.SIGSTOP)
    count = 100
    for i in range(count):
        udp.send(message(number=i)[2:])
    tcp.sendall(b"".join(message(number=i) for i in range(count)))
    server.signal(signal.SIGTERM)
    server.signal(signal.SIGCONT)
    assert {udp.recv(4096)[:2] for _ in range(count)} == {struct.pack("!H", i) for i in range(count)}
    assert [read_message(tcp)[:2] for _ in range(count)] == [struct.pack("!H", i) for i in range(count)]
    assert server.wait() == 0
    udp.close()
    tcp.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_with_idle_clients(run, number):
    server = run()
    with connect(server), connect(server) as partial:
        partial.sendall(b"\0")
        server.signal(number)
        assert server.wait(timeout=sluicelib.DEADLINE) == 0
    assert not pathlib.Path(server.control).exists()


def test_end_during_reloads(run):
    for i in range(10):
        server = run(name=f"data{i}")
        for _ in range(5):
            server.signal(signal.SIGHUP)
        assert server.stop() == 0


def test_many_reloads_leave_nothing_behind(run):
    server = run()
    for _ in range(10):
        server.reload()
    before = serverlib.descriptors(server.proc.pid)
    manifest = server.data / "current" / "manifest.json"
    good = manifest.read_bytes()
    for i in range(100):
        if i % 2:
            manifest.write_bytes(good[:-2])
        sluicelib.sluice("reload", "--socket", server.control, status=1 if i % 2 else 0)
        manifest.write_bytes(good)
        assert server.ask("www.example.com.")
    wait_for(lambda: serverlib.descriptors(server.proc.pid) <= before, "descriptors closed")


def test_old_images_are_given_back(tmp_path):
    zone = tmp_path / "big.zone"
    zone.write_text("@ 300 IN SOA ns h 1 1 1 1 60\n@ 300 IN NS ns\nns 300 IN A 192.0.2.1\n"
                    + "".join(f"h{i} 300 IN A 10.0.{i >> 8}.{i & 255}\n" for i in range(40000)))
    data = tmp_path / "data"
    sluicelib.sluice("build", "--zone-file", zone, "--origin", "big.example", "--out", data)
    image = data / "current" / "zones" / "big.example.image"
    octets = image.read_bytes()
    rounds = 60

    def virtual(server):
        return int(pathlib.Path(f"/proc/{server.proc.pid}/statm").read_text(encoding="ascii").split()[0]) * 4096

    with sluicelib.Server(data) as server:
        before = None
        for i in range(rounds):
            replacement = image.with_suffix(".new")
            replacement.write_bytes(octets)
            replacement.rename(image)  # another file: read anew
            server.reload()
            if i == 3:
                before = virtual(server)
        # Each image has two megabytes; all of them would be twice the bound.
        assert len(octets) > 2 << 20
        wait_for(lambda: virtual(server) - before < rounds * len(octets) // 2, "old images given back")


def test_systemd_is_told(data, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.settimeout(sluicelib.DEADLINE)
        port = sluicelib.Port()
        server = sluicelib.Process(sluicelib.program("sluiced"), "--data", data, "--listen",
                                   f"127.0.0.1@{port.number}", env={"NOTIFY_SOCKET": str(path)})
        assert sock.recv(4096).startswith(b"READY=1")
        assert sluicelib.ask("127.0.0.1", port.number, "www.example.com.")
        server.signal(signal.SIGHUP)
        assert sock.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert sock.recv(4096).startswith(b"READY=1")
        server.signal(signal.SIGTERM)
        assert sock.recv(4096) == b"STOPPING=1"
        assert server.wait() == 0
        port.close()


def test_the_watchdog_is_fed(data, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.settimeout(sluicelib.DEADLINE)
        port = sluicelib.Port()
        server = sluicelib.Process(sluicelib.program("sluiced"), "--data", data, "--listen",
                                   f"127.0.0.1@{port.number}",
                                   env={"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "100000"})
        states = [sock.recv(4096) for _ in range(5)]
        assert states.count(b"WATCHDOG=1") >= 3, states
        server.signal(signal.SIGTERM)
        while sock.recv(4096) != b"STOPPING=1":  # a server whose manager does not listen waits for it
            pass
        assert server.wait() == 0
        port.close()


def test_settings_from_a_file(data, tmp_path):
    port = sluicelib.Port()
    settings = tmp_path / "sluice.yaml"
    settings.write_text(f"data: {data}\nlisten: ['127.0.0.1@{port.number}', '::1@{port.number}']\nthreads: 1\n"
                        f"control: {tmp_path}/control\nlog: json\nchecks: {{disk: [/bin/true]}}\n")
    server = sluicelib.Process(sluicelib.program("sluiced"), "-c", settings)
    server.wait_log(r"\bready\b")
    for line in server.lines:
        entry = json.loads(line)
        assert entry["program"] == "sluiced" and entry["level"] and entry["time"]
    assert sluicelib.ask("::1", port.number, "www.example.com.")
    assert len(sluicelib.control(tmp_path / "control", "status")["listen"]) == 2
    assert server.stop() == 0
    port.close()


def test_privileges_are_given_up(data, tmp_path):
    """Root becomes another user for good; who is not root is refused."""
    user = pwd.getpwnam("nobody")
    port = sluicelib.Port()
    control = pathlib.Path(f"/tmp/sluice-{os.getpid()}-{port.number}.sock")
    for path in (data, *data.parents):  # pytest makes folders that only their owner may enter
        if str(path).startswith("/tmp/") and path.owner() == pwd.getpwuid(os.getuid()).pw_name:
            path.chmod(path.stat().st_mode | 0o055)
    server = sluicelib.Process(sluicelib.program("sluiced"), "--data", data, "--listen",
                               f"127.0.0.1@{port.number}", "--user", "nobody", "--control", control)
    if os.getuid() != 0:
        assert server.wait() == 1 and "nobody" in server.log
        port.close()
        return
    server.wait_log(r"\bready\b")
    status = pathlib.Path(f"/proc/{server.proc.pid}/status").read_text(encoding="ascii")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == [str(user.pw_uid)] * 4
    assert fields["Gid"].split() == [str(user.pw_gid)] * 4
    assert int(fields["CapEff"], 16) == 0 and fields["NoNewPrivs"].strip() == "1"
    assert control.stat().st_uid == user.pw_uid
    assert sluicelib.control(control, "status")["pid"] == server.proc.pid
    assert sluicelib.ask("127.0.0.1", port.number, "www.example.com.")
    server.signal(signal.SIGHUP)
    server.wait_log("reloaded")
    assert server.stop() == 0
    control.unlink(missing_ok=True)
    port.close()


# ---- the control socket --------------------------------------------------------------------------


def raw_control(path, octets):
    """Sends octets and returns all that comes back until the server closes or a line is whole."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(sluicelib.DEADLINE)
        sock.connect(str(path))
        out = b""
        try:
            sock.sendall(octets)
            while not out.endswith(b"\n"):
                part = sock.recv(65536)
                if not part:
                    break
                out += part
        except (ConnectionError, BrokenPipeError):
            pass
        return out


@pytest.mark.parametrize("request_", [
    b"\n", b"{}\n", b"[]\n", b"not json\n", b'{"command": 5}\n', b'{"command": "nothing"}\n',
    b'{"command": "commit", "changes": 5}\n', b'{"command": "commit", "changes": [5]}\n',
    b'{"command": "commit", "changes": [{"op": "set", "domain": "a..b"}]}\n',
    b'{"command": "domain"}\n', b'{"command": "domain", "domain": "a..b"}\n', b'{"command": "exposure"}\n',
    b'{"command": "history", "domain": "a..b"}\n', b'{"command": "history", "limit": -1}\n',
    b'{"command": "result"}\n', b'{"command": "result", "audit": 1, "result": 5}\n',
    b'{"command": "explain", "domain": "cdn.example.com", "client": "nowhere"}\n',
    b'{"command": "explain", "domain": "cdn.example.com", "client": "192.0.2.1", "type": "MX"}\n',
    b'{"command": "status", "command": "status"}\n', b'\xff\xfe\n', b"[" * 5000 + b"\n",
    b'{"command": "a' + "\u00e9".encode() * 300 + b'"}\n',  # the reply cuts it within a character
])
def test_bad_requests(run, request_):
    server = run()
    reply = json.loads(raw_control(server.control, request_))
    assert reply["ok"] is False and reply["code"] == 2 and "\n" not in reply["error"]
    assert rdata(server.ask("cdn.example.com.")) == ["192.0.2.1"]


def test_too_long_request(run):
    server = run()
    assert raw_control(server.control, b"x" * ((8 << 20) + 1)) == b""
    assert sluicelib.control(server.control, "status")


def test_several_requests_on_one_connection(run):
    server = run()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(sluicelib.DEADLINE)
        sock.connect(server.control)
        sock.sendall(b'{"command": "status"}\n{"command": "reload"}\n{"command": "nothing"}\n{"comm')
        sock.shutdown(socket.SHUT_WR)
        lines = [json.loads(line) for line in sock.makefile("rb")]
    assert [line["ok"] for line in lines] == [True, True, False]


def test_clients_that_leave(run):
    server = run()
    for _ in range(50):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(server.control)
            sock.sendall(b'{"command": "reload"}\n{"command": "status"}\n')
    assert sluicelib.control(server.control, "status")
    assert server.stop() == 0


def test_control_socket_files(run, data, tmp_path):
    server = run()
    mode = os.lstat(server.control).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660
    port = sluicelib.Port()

    def other(path):
        return sluicelib.Process(sluicelib.program("sluiced"), "--data", data, "--listen",
                                 f"127.0.0.1@{port.number}", "--control", path)

    second = other(server.control)  # in use
    assert second.wait() == 1 and str(server.control) in second.log
    assert sluicelib.control(server.control, "status")["pid"] == server.proc.pid
    precious = tmp_path / "precious"
    precious.write_text("not a socket")
    third = other(precious)
    assert third.wait() == 1 and precious.read_text() == "not a socket"
    server.proc.kill()  # leaves its socket behind
    server.proc.wait()
    fourth = other(server.control)
    fourth.wait_log(r"\bready\b")
    assert sluicelib.control(server.control, "status")["pid"] == fourth.proc.pid
    assert fourth.stop() == 0
    port.close()
    server.proc.returncode = 0  # ended here on purpose


def test_other_users_are_refused(run):
    if os.getuid() != 0:
        pytest.fail("this test needs root, to become somebody else")
    server = run()
    os.chmod(server.control, 0o666)
    folder = pathlib.Path(server.control)
    code = ("import os, socket, sys\n"
            "sock = socket.socket(socket.AF_UNIX)\n"
            "sock.connect(sys.argv[1])\n"
            "os.write(1, b'connected ')\n"
            "try:\n    sock.sendall(b'{\"command\": \"stop\"}\\n'); os.write(1, b'<' + sock.recv(100) + b'>')\n"
            "except OSError:\n    os.write(1, b'<>')\n")
    moved = pathlib.Path(f"/tmp/sluice-{os.getpid()}-{server.port}.sock")
    moved.unlink(missing_ok=True)
    os.link(folder, moved)  # where others may reach it
    try:
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                               "/usr/bin/python3", "-c", code, str(moved)],
                              capture_output=True, check=True, timeout=sluicelib.DEADLINE)
    finally:
        moved.unlink()
    assert done.stdout == b"connected <>"
    assert server.ask("www.example.com.")


# ---- status of endpoints on disk -----------------------------------------------------------------


def test_status_survives_a_restart(run, tmp_path):
    options = ("--state", str(tmp_path / "state"))
    server = run(*options)
    changes = [statelib.status("one", 2, reason='a "drill"'), statelib.health("two", 2, 4), statelib.health("two", 2, 6)]
    assert statelib.commit(server.control, changes, **{"as": "kim"})["ok"]
    assert rdata(server.ask("cdn.example.com.")) == ["192.0.2.2"]
    server.kill()  # nothing is left to the moment of the end
    server.proc.returncode = 0
    server = run(*options, name="data")
    assert rdata(server.ask("cdn.example.com.")) == ["192.0.2.2"]
    overrides = sluicelib.control(server.control, "status")["overrides"]
    assert [(o["endpoint"], o["kind"], o["value"], o["family"], o["who"], o["reason"]) for o in overrides] == \
        [("one", "status", 2, None, "kim", 'a "drill"'),
         ("two", "health", 2, 4, "kim", None), ("two", "health", 2, 6, "kim", None)]


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 100, b'{"version": 1}', b"[" * 100000])
def test_damaged_status_file(run, tmp_path, content):
    state = tmp_path / "state"
    state.mkdir()
    (state / "status.json").write_bytes(content)
    server = run("--state", str(state))
    server.wait_log("status.json is damaged")
    assert (state / "status.json.damaged").read_bytes() == content
    assert rdata(server.ask("cdn.example.com.")) == ["192.0.2.1"]
    assert statelib.commit(server.control, [statelib.status("one", 2)])["ok"]
    assert rdata(server.ask("cdn.example.com.")) == ["192.0.2.2"]


def test_state_folder_that_cannot_be(data, tmp_path):
    (tmp_path / "file").write_text("")
    port = sluicelib.Port()
    server = sluicelib.Process(sluicelib.program("sluiced"), "--data", data, "--listen",
                               f"127.0.0.1@{port.number}", "--state", tmp_path / "file" / "state")
    assert server.wait() == 1
    assert "file/state" in server.log and len(server.lines) == 1
    port.close()
