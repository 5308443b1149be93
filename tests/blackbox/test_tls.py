# SPDX-License-Identifier: Apache-2.0
"""DNS over TLS (RFC 7858) and zone transfers over it (RFC 9103)."""
import os
import random
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import dns.edns
import dns.message
import pytest

import serverlib
import sluicelib
from serverlib import counters, message, wait_for
from sluicelib import rdata
from tlslib import NAME, Authority, Client, is_closed

TRANSFER = "transfer: {allow: [127.0.0.1]}\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("tls")
    files = sluicelib.config_files({"cdn": serverlib.DOMAIN}, records=serverlib.RECORDS,
                                   zone_yaml=sluicelib.ZONE + TRANSFER)
    return sluicelib.build(sluicelib.write_tree(root / "config", files), root / "data")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


class Server:
    """sluiced with a TLS port: the usual server, with `tls_port`, `cert` and `key`."""

    def __init__(self, start, data, authority, folder, options):
        self.authority = authority
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        if not self.cert.exists():
            authority.issue(self.cert, self.key)
        self.reserved = sluicelib.Port()
        self.tls_port = self.reserved.number
        self.plain = start(data, "--tls-listen", f"127.0.0.1@{self.tls_port}", "--tls-cert", self.cert,
                           "--tls-key", self.key, *options)

    def client(self, shake=True, version=None, alpn=("dot",), **options):
        return Client("127.0.0.1", self.tls_port, self.authority.context(version, alpn), shake, **options)

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.tls_port), sluicelib.DEADLINE)
        return sock

    def counters(self):
        return counters(self.plain)

    def is_well(self):
        with self.client() as client:
            client.send(message(number=7))
            return rdata(dns.message.from_wire(client.read_message())) == ["192.0.2.80"]

    def kdig(self, *words, ca=None, status=0):
        done = sluicelib.run("kdig", "@127.0.0.1", "-p", self.tls_port, f"+tls-ca={ca or self.authority.cert}",
                             "+timeout=20", "+retry=0", *words)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def run(data, authority, tmp_path, start):
    servers = []

    def make(*options):
        copy = tmp_path / f"copy{len(servers)}"
        shutil.copytree(data, copy, symlinks=True)
        servers.append(Server(start, copy, authority, tmp_path, options))
        return servers[-1]

    yield make
    for server in servers:
        server.reserved.close()


# ---- clients that are well ------------------------------------------------------------------------


def test_kdig_verifies_the_certificate(run, tmp_path):
    server = run()
    assert "192.0.2.80" in server.kdig(f"+tls-hostname={NAME}", "+short", "www.example.com")
    out = server.kdig(f"+tls-hostname={NAME}", "www.example.com", "www.example.com", "+keepopen")
    assert out.count("status: NOERROR") == 2 and "TLS1.3" in out
    server.kdig("+tls-hostname=other.example.net", "www.example.com", status=1)
    stranger = Authority(tmp_path / "stranger")
    server.kdig(f"+tls-hostname={NAME}", "www.example.com", ca=stranger.cert, status=1)
    assert server.is_well()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("algorithm", [("ec", "ec_paramgen_curve:P-256"), ("rsa", "rsa_keygen_bits:2048")])
def test_versions_and_keys(run, authority, tmp_path, version, algorithm):
    authority.issue(tmp_path / "cert.pem", tmp_path / "key.pem", algorithm=algorithm)
    server = run()
    with server.client(version=version) as client:
        assert client.tls.version() == version.name.replace("_", ".")
        assert client.tls.selected_alpn_protocol() == "dot"
        client.send(message(number=3))
        assert client.read_message()[:2] == b"\0\3"


def test_alpn(run):
    server = run()
    with server.client(alpn=None) as client:  # RFC 7858 knows none
        client.send(message(number=3))
        assert client.read_message()[:2] == b"\0\3"
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        server.client(alpn=["h2", "http/1.1"])
    wait_for(lambda: server.counters()["tls_failed"] == 1, "the failure is counted")


def test_padding_and_keepalive(run):
    server = run("--tcp-idle", "25")
    options = [dns.edns.GenericOption(12, b"\0" * 20), dns.edns.GenericOption(11, b"")]
    with server.client() as client:
        for name, rdtype in (("www.example.com.", "A"), ("big.example.com.", "TXT"), ("none.example.com.", "A")):
            wire = sluicelib.make_query(name, rdtype, options=options).to_wire()
            client.send(struct.pack("!H", len(wire)) + wire)
            raw = client.read_message()
            assert len(raw) % 468 == 0  # RFC 8467 section 4.1
            reply = dns.message.from_wire(raw)
            keepalive = [o for o in reply.options if o.otype == 11]
            assert [o.to_wire() for o in keepalive] == [struct.pack("!H", 250)]  # in units of 100 ms


def test_pipelined_queries_in_order(run):
    server = run()
    with server.client() as client:
        client.send(b"".join(message(number=i) for i in range(500)))
        for i in range(500):
            assert client.read_message()[:2] == struct.pack("!H", i)


def test_octet_by_octet(run):
    server = run()
    with server.client(shake=False) as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.do_handshake()
        client.flush(step=1)
        client.incoming.write(client.sock.recv(65536))
        client._until(client.tls.do_handshake)
        client.send(message(number=1) + message(number=2), step=1)
        assert client.read_message()[:2] == b"\0\1"
        assert client.read_message()[:2] == b"\0\2"


def test_messages_over_records(run):
    """A message in many records, and many messages in one."""
    server = run()
    with server.client() as client:
        for octet in message(number=1):
            client.tls.write(bytes([octet]))
        client.tls.write(message(number=2) + message(number=3))
        client.flush()
        for number in (b"\0\1", b"\0\2", b"\0\3"):
            assert client.read_message()[:2] == number


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_half_closed_client_gets_all_answers(run, version):
    """After close_notify the client may still read (RFC 7766 section 6.2.4, RFC 8446 section 6.1)."""
    server = run()
    with server.client(version=version) as client:
        client.tls.write(message("big.example.com.", "TXT", number=1) + message(number=2))
        client.end()
        octets = b""
        while part := client.sock.recv(65536):  # Python's client reads no data after its own close_notify
            octets += part
        assert len(octets) > 60000
    with server.client(version=version) as client:
        client.send(message(number=1) + message(number=2))
        client.sock.shutdown(socket.SHUT_WR)  # without close_notify
        assert client.read_message()[:2] == b"\0\1"
        assert client.read_message()[:2] == b"\0\2"
        assert client.read_message() == b""  # and the server says close_notify


def test_resumption(run):
    server = run()
    context = server.authority.context()
    with socket.create_connection(("127.0.0.1", server.tls_port), sluicelib.DEADLINE) as sock, \
            context.wrap_socket(sock, server_hostname=NAME) as tls:
        tls.sendall(message())
        assert tls.recv(1)
        session = tls.session
    with socket.create_connection(("127.0.0.1", server.tls_port), sluicelib.DEADLINE) as sock, \
            context.wrap_socket(sock, server_hostname=NAME, session=session) as tls:
        assert tls.session_reused
        tls.sendall(message())
        assert tls.recv(1)


# ---- transfers ------------------------------------------------------------------------------------


def test_transfer_over_tls(run):
    server = run()
    out = server.kdig(f"+tls-hostname={NAME}", "AXFR", "example.com")
    assert out.count("SOA") == 2 and "big.example.com." in out and "192.0.2.80" in out
    out = server.kdig(f"+tls-hostname={NAME}", "IXFR=1", "example.com")
    assert out.count("SOA") == 1
    done = sluicelib.run("dig", "+tls", "@127.0.0.1", "-p", server.tls_port, "AXFR", "example.com")
    assert done.stdout.count("SOA") == 2
    assert server.counters()["transfers_whole"] == 2


def test_transfer_needs_version_1_3(run):
    """RFC 9103 section 7.2: not over TLS 1.2."""
    server = run()
    with server.client(version=ssl.TLSVersion.TLSv1_2) as client:
        client.send(message("example.com.", "AXFR"))
        assert sluicelib.rcode(dns.message.from_wire(client.read_message())) == "REFUSED"
        client.send(message(number=2))
        assert client.read_message()[:2] == b"\0\2"


def test_transfers_and_queries_on_one_connection(run):
    server = run()
    with server.client() as client:
        client.send(message(number=1) + message("example.com.", "AXFR", number=2) + message(number=3))
        assert client.read_message()[:2] == b"\0\1"
        while (reply := client.read_message())[:2] == b"\0\2":
            pass
        assert reply[:2] == b"\0\3"


# ---- clients that are not well --------------------------------------------------------------------


GARBAGE = [message(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70000,
           b"\x16\x03\x01\0\4\1\xff\xff\xff", b"\x17\x03\x03\0\1x", b"\0" * 100, b"\xff" * 100,
           b"\x16\x03\x01\0\0" * 1000]


@pytest.mark.parametrize("garbage", GARBAGE, ids=["dns", "http", "large", "hello", "data", "zeros", "ones", "empty"])
def test_garbage(run, garbage):
    server = run()
    with server.connect() as sock:
        try:
            sock.sendall(garbage)
        except ConnectionError:
            pass
        answer = b""
        try:
            while part := sock.recv(65536):
                answer += part
        except ConnectionError:
            pass
        assert len(answer) < 16  # an alert at most, and no DNS
    wait_for(lambda: server.counters()["tls_failed"] == 1, "the failure is counted")
    assert server.is_well()
    assert server.plain.ask("www.example.com.")


def test_broken_handshakes_and_records(run):
    """What a good client sends, with octets changed, taken out and put in, before and after the
    handshake."""
    server = run()
    rng = random.Random(20240811)
    for number in range(300):
        late = number % 2 == 1
        with server.client(shake=late) as client:
            try:
                if late:
                    client.tls.write(message())
                else:
                    client.tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            octets = bytearray(client.outgoing.read())
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(octets))
                match rng.randrange(3):
                    case 0:
                        octets[at] ^= 1 << rng.randrange(8)
                    case 1:
                        del octets[at:at + rng.randint(1, 8)]
                    case _:
                        octets[at:at] = rng.randbytes(rng.randint(1, 40))
            try:
                client.sock.sendall(octets)
                client.sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server was faster, and has closed it
            assert is_closed(client.sock)
    assert server.is_well()
    assert server.plain.alive()


def test_handshakes_that_never_end(run):
    """They are closed in time, and the others do not notice."""
    server = run("--tcp-idle", "5")  # a good handshake takes less on a slow machine, too
    with server.connect() as silent, server.client(shake=False) as started, server.connect() as slow:
        with pytest.raises(ssl.SSLWantReadError):
            started.tls.do_handshake()
        hello = started.outgoing.read()
        started.sock.sendall(hello)
        done = threading.Event()

        def drip():
            try:
                for octet in hello:
                    slow.send(bytes([octet]))
                    if done.wait(0.1):
                        return
            except OSError:
                pass

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert server.is_well()
            for sock in (silent, started.sock, slow):
                assert is_closed(sock)
        finally:
            done.set()
            thread.join()
    found = server.counters()
    assert found["tls_timed_out"] >= 3 and found["tls_established"] >= 1
    wait_for(lambda: server.counters()["tls_open"] == 0, "all closed")


def test_many_unfinished_handshakes(run):
    """More than the server keeps: the oldest of the same client make room, those of others do not,
    and whoever is done with it stays."""
    serverlib.raise_own_limit(2048)
    server = run("--tcp-idle", "60")
    with server.client() as good, server.client(shake=False, source="127.0.0.2") as other:
        good.send(message(number=1))
        assert good.read_message()[:2] == b"\0\1"
        waiting = [server.connect() for _ in range(700)]
        try:
            wait_for(lambda: server.counters()["tls_evicted"] >= 701 - 512, "the oldest are gone")
            assert is_closed(waiting[0])
            other.shake()  # the oldest of all
            other.send(message(number=3))
            assert other.read_message()[:2] == b"\0\3"
            assert server.is_well()
            good.send(message(number=2))
            assert good.read_message()[:2] == b"\0\2"
        finally:
            for sock in waiting:
                sock.close()


def test_full_house(run):
    server = run("--tcp-connections", "20", "--tcp-idle", "600")
    clients = [server.client() for _ in range(30)]
    try:
        assert server.is_well()
        found = server.counters()
        assert found["tls_open"] <= 20 and found["tls_evicted"] > 0
        assert server.plain.ask("www.example.com.", tcp=True)  # has its own places
    finally:
        for client in clients:
            client.sock.close()


def test_slow_reader_stops_being_read(run):
    server = run("--tcp-idle", "600")
    ask = message("big.example.com.", "TXT", number=5)  # 60 000 octets each
    count = 1000
    with server.client(SO_RCVBUF=4096) as client:
        problems = []
        for _ in range(count):
            client.tls.write(ask)
        octets = client.outgoing.read()

        def write():
            try:
                client.sock.sendall(octets)
            except OSError as problem:
                problems.append(problem)

        writer = threading.Thread(target=write)
        writer.start()
        wait_for(lambda: server.counters()["responses"] > 0, "a response")
        assert server.is_well()
        assert server.counters()["responses"] < count  # the rest waits for the reader
        for _ in range(count):
            assert client.read_message()[:2] == b"\0\5"
        writer.join()
        assert not problems


def test_reader_that_never_reads_is_closed(run):
    server = run("--tcp-idle", "5")
    with server.client(SO_RCVBUF=4096) as client:
        client.tls.write(message("big.example.com.", "TXT") * 200)
        client.flush()
        wait_for(lambda: server.counters()["tls_timed_out"] == 1, "closed")
    assert server.is_well()


def test_connections_that_go_away(run):
    server = run()
    for i in range(60):
        client = server.client(shake=i % 2 == 0)
        if i % 2 == 0:
            client.send(message("big.example.com.", "TXT") * 3)
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sock.close()  # a reset, with answers under way
    assert server.is_well()
    wait_for(lambda: server.counters()["tls_open"] == 0, "all closed")


def test_few_descriptors(data, authority, tmp_path):
    """With 96 open files, 200 TLS clients neither stop UDP and TCP nor make the server spin."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    authority.issue(cert, key)
    port, tls_port = sluicelib.Port(), sluicelib.Port()
    process = sluicelib.Process("sh", "-c", 'ulimit -n 96; exec "$0" "$@"', sluicelib.program("sluiced"),
                                "--data", data, "--listen", f"127.0.0.1@{port.number}", "--threads", "2",
                                "--tls-listen", f"127.0.0.1@{tls_port.number}", "--tls-cert", cert, "--tls-key", key)
    socks = []
    try:
        process.wait_log(r"\bready\b")
        socks = [socket.create_connection(("127.0.0.1", tls_port.number), sluicelib.DEADLINE) for _ in range(200)]
        with Client("127.0.0.1", tls_port.number, authority.context()) as client:
            client.send(message(number=1))
            assert client.read_message()[:2] == b"\0\1"
        assert sluicelib.ask("127.0.0.1", port.number, "www.example.com.")
        assert sluicelib.ask("127.0.0.1", port.number, "www.example.com.", tcp=True)
        before = serverlib.cpu_seconds(process.proc.pid)
        threading.Event().wait(1.0)
        assert serverlib.cpu_seconds(process.proc.pid) - before < 0.5
        assert process.stop() == 0
    finally:
        for sock in socks:
            sock.close()
        process.kill()
        port.close()
        tls_port.close()


# ---- certificates ---------------------------------------------------------------------------------


def test_reload_under_open_connections(run, authority):
    server = run("--tcp-idle", "600")
    with server.client() as old:
        assert old.serial() == 1
        authority.issue(server.cert, server.key, serial=2)
        with server.client() as between:
            assert between.serial() == 1  # the files are not looked at before the reload
        server.plain.reload()
        with server.client() as new:
            assert new.serial() == 2
            for number, client in enumerate((old, new)):
                client.send(message(number=number))
                assert client.read_message()[:2] == struct.pack("!H", number)
        authority.issue(server.cert, server.key, serial=3)
        server.plain.signal(signal.SIGHUP)

        def renewed():
            with server.client() as newest:
                return newest.serial() == 3
        wait_for(renewed, "the third certificate")


@pytest.mark.parametrize("damage", ["missing", "garbage", "other key", "encrypted key", "cut"])
def test_bad_pair_changes_nothing(run, authority, damage, tmp_path):
    server = run()
    good_key = server.key.read_bytes()
    match damage:
        case "missing":
            server.cert.unlink()
        case "garbage":
            server.cert.write_bytes(os.urandom(1000))
        case "other key":
            authority.issue(tmp_path / "other", server.key, serial=9)
        case "encrypted key":
            sealed = tmp_path / "sealed"
            subprocess.run(["openssl", "pkey", "-in", server.key, "-aes128", "-passout", "pass:secret",
                            "-out", sealed], check=True)
            server.key.write_bytes(sealed.read_bytes())
        case "cut":
            server.key.write_bytes(good_key[:len(good_key) // 2])
    done = sluicelib.sluice("reload", "--socket", server.plain.control, status=3)
    assert "the old TLS certificate stays in use" in done.stderr and str(tmp_path) in done.stderr
    server.plain.wait_log("warning: the old TLS certificate stays in use")
    with server.client() as client:
        assert client.serial() == 1
    status = server.plain.sluice("status").stdout
    assert "NOT RELOADED" in status
    authority.issue(server.cert, server.key, serial=2)
    server.plain.reload()
    with server.client() as client:
        assert client.serial() == 2
    assert "NOT RELOADED" not in server.plain.sluice("status").stdout


def test_status_tells_the_expiry(run, authority):
    server = run()
    tls = sluicelib.control(server.plain.control, "status")["tls"]
    assert tls["listen"] == [f"127.0.0.1@{server.tls_port}"] and tls["certificate"] == str(server.cert)
    assert 19 * 86400 < tls["expires"] - time.time() <= 20 * 86400
    assert "good until" in server.plain.sluice("status").stdout
    authority.issue(server.cert, server.key, serial=2, days=3)
    server.plain.reload()
    server.plain.wait_log("expires within 3 days")


def test_expired_certificate(run, authority, tmp_path):
    authority.issue(tmp_path / "cert.pem", tmp_path / "key.pem", days=-1)
    server = run()
    assert "expired" in server.plain.log
    assert "EXPIRED" in server.plain.sluice("status").stdout
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        server.client()


@pytest.mark.parametrize("cert, key, said", [
    ("none.pem", "key.pem", "none.pem"), ("key.pem", "key.pem", "not a certificate"),
    ("cert.pem", "cert.pem", "not a private key"), ("cert.pem", "other.pem", "not that of the certificate"),
])
def test_bad_pair_at_the_start(data, authority, tmp_path, cert, key, said):
    authority.issue(tmp_path / "cert.pem", tmp_path / "key.pem")
    authority.issue(tmp_path / "spare", tmp_path / "other.pem")
    port, tls_port = sluicelib.Port(), sluicelib.Port()
    server = sluicelib.Process(sluicelib.program("sluiced"), "--data", data, "--listen", f"127.0.0.1@{port.number}",
                               "--tls-listen", f"127.0.0.1@{tls_port.number}", "--tls-cert", tmp_path / cert,
                               "--tls-key", tmp_path / key)
    assert server.wait() == 1
    assert said in server.lines[-1]
    port.close()
    tls_port.close()


# ---- the end --------------------------------------------------------------------------------------


def test_end_with_open_sessions(run):
    """Idle and unfinished sessions do not hold up the end; idle ones are told of it."""
    server = run()
    with server.client() as idle, server.connect() as silent:
        idle.send(message(number=1))
        assert idle.read_message()[:2] == b"\0\1"
        assert server.plain.stop() == 0
        assert idle.receive(1) == b""  # close_notify
        assert is_closed(silent)


def test_what_has_arrived_is_answered_before_the_end(run):
    server = run()
    with server.client() as client:
        client.send(message(number=1000))
        assert client.read_message()[:2] == struct.pack("!H", 1000)
        server.plain.signal(signal.SIGSTOP)
        client.send(b"".join(message(number=i) for i in range(100)))
        server.plain.signal(signal.SIGTERM)
        server.plain.signal(signal.SIGCONT)
        assert [client.read_message()[:2] for _ in range(100)] == [struct.pack("!H", i) for i in range(100)]
    assert server.plain.wait() == 0
