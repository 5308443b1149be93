# SPDX-License-Identifier: Apache-2.0
"""sluiced as the primary of other servers: AXFR, IXFR, NOTIFY, TSIG and catalog zones."""
import base64
import socket
import struct

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import dns.tsig
import dns.tsigkeyring
import dns.xfr
import dns.zone
import pytest

import secondaries
import serverlib
import sluicelib
from secondaries import HOST, Listener, transfer

ALGORITHMS = ["hmac-md5.sig-alg.reg.int", "hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"]
CDN = "ttl: 30\nendpoints: {one: [192.0.2.1, 2001:db8::1], two: 192.0.2.2}\nregions: {global: {one: 1, two: 1}}\n"
HOSTS = "ttl: 60\nendpoints: {a: a.example.net., b: b.example.net.}\nregions: {global: {a: 10, b: 20}}\n"
RECORDS = ("www: {A: [192.0.2.80]}\n'*.wild': {TXT: [\"found\"]}\nsub: {NS: [ns.sub.example.com.]}\n"
           "ns.sub: {A: [192.0.2.54]}\nalias: {CNAME: www.example.com.}\nold: {DNAME: example.org.}\n"
           "mail: {MX: [\"10 Mail.example.com.\"]}\n")


class Key:
    """A TSIG key."""

    def __init__(self, name="transfer-key", algorithm="hmac-sha256", seed=b"s" * 32):
        self.name, self.algorithm = name, algorithm
        self.secret = base64.b64encode(seed).decode()

    def yaml(self):
        return f"keys: {{{self.name}: {{algorithm: {self.algorithm}, secret: \"{self.secret}\"}}}}\n"

    def options(self):
        ring = dns.tsigkeyring.from_text({f"{self.name}.": (self.algorithm, self.secret)})
        return {"keyring": ring, "keyname": f"{self.name}.", "keyalgorithm": self.algorithm}


class Primary:
    """A sluiced whose zone example.com may be transferred."""

    def __init__(self, start, make_config, folder, key=None):
        self.start_server, self.make_config, self.folder, self.key = start, make_config, folder, key
        self.data = folder / "data"
        self.settings = folder / "sluice.yaml"
        self.settings.write_text(key.yaml() if key else "{}\n", encoding="utf-8")
        self.transfer, self.server, self.builds = "", None, 0

    def build(self, records=RECORDS, transfer=None, **options):
        if transfer is not None:
            self.transfer = transfer
        self.builds += 1
        config = self.make_config({"cdn": CDN, "hosts": HOSTS}, records=records,
                                  zone_yaml=sluicelib.ZONE + self.transfer,
                                  name=f"config{self.builds}", **options)
        sluicelib.build(config, self.data)

    def start(self, *arguments):
        self.server = self.start_server(self.data, "-c", self.settings, *arguments)
        return self.server

    def rebuild(self, records, **options):
        self.build(records, **options)
        self.server.reload()

    def counter(self, name):
        return serverlib.counters(self.server)[name]

    def serial(self, zone="example.com"):
        return self.server.ask(zone, "SOA").answer[0][0].serial


@pytest.fixture
def primary(start, make_config, tmp_path):
    def make(key=None, arguments=(), **options):
        p = Primary(start, make_config, tmp_path, key)
        p.build(**options)
        p.start(*arguments)
        return p
    return make


@pytest.fixture
def follow(tmp_path):
    """Starts secondaries; each is killed at the end."""
    running = []

    def run(kind, primary_port, **options):
        server = secondaries.ALL[kind](tmp_path / f"{kind}{len(running)}", primary_port, **options)
        running.append(server)
        return server

    yield run
    for server in running:
        server.kill()


def allow(*notify, tsig=None):
    """`transfer:` of a zone."""
    text = f"transfer: {{allow: [{HOST}], notify: [{', '.join(notify)}]"
    return text + (f", tsig: {tsig.name}}}\n" if tsig else "}\n")


def loose(records):
    """Without the case of names in data, which NSD and PowerDNS do not keep."""
    return sorted(r if " TXT " in r else r.lower() for r in records)


# ---- real secondaries -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", secondaries.ALL)
@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
def test_secondary(kind, signed, start, make_config, tmp_path, follow):
    """AXFR at first, then NOTIFY and IXFR for each change; what it serves is what we serve."""
    key = Key() if signed else None
    p = Primary(start, make_config, tmp_path, key)
    p.build(transfer=allow())
    p.start()
    secondary = follow(kind, p.server.port, key=key)
    p.rebuild(RECORDS, transfer=allow(secondary.address, tsig=key))
    secondary.start()
    secondary.wait_serial(1)  # who is told is no content of the zone
    assert loose(secondary.transfer()) == loose(transfer(p.server.port, key=key))
    assert p.counter("transfers_whole") >= 1

    for serial, records in ((2, RECORDS + "new: {A: [192.0.2.90]}\n"),
                            (3, RECORDS.replace("192.0.2.80", "192.0.2.81").replace("found", "Found"))):
        before = p.counter("notify_acked")
        p.rebuild(records)
        assert p.serial() == serial
        secondary.wait_serial(serial)
        serverlib.wait_for(lambda: p.counter("notify_acked") > before, "the answer to NOTIFY")
        assert loose(secondary.transfer()) == loose(transfer(p.server.port, key=key))
    assert p.counter("transfers_differences" if secondary.asks_ixfr else "transfers_whole") >= 2


def dig_records(port):
    """All records of example.com as dig shows them: it reads 100 000 faster than Python."""
    done = sluicelib.run("dig", f"@{HOST}", "-p", port, "example.com", "AXFR", "+onesoa", "+noall", "+answer")
    assert done.returncode == 0 and "failed" not in done.stdout, done.stdout[-500:]
    return sorted(line for line in done.stdout.splitlines() if line and not line.startswith(";"))


@pytest.mark.parametrize("kind", secondaries.ALL)
def test_many_records(kind, start, make_config, tmp_path, follow):
    """100 000 records arrive whole, and so does a change of one in a thousand."""
    def text(serial, changed):
        lines = [f"@ 300 IN SOA ns.example.com. host.example.com. {serial} 3600 600 86400 60\n"
                 "@ IN NS ns\nns IN A 192.0.2.53\n"]
        lines += [f"host-{i:06d} IN A 192.0.{i >> 8 & 255}.{(i + (changed if i % 1000 == 0 else 0)) & 255}\n"
                  for i in range(100000)]
        return "$ORIGIN example.com.\n$TTL 300\n" + "".join(lines)

    settings = tmp_path / "sluice.yaml"
    zone, data = tmp_path / "in.zone", tmp_path / "data"

    def build(serial, changed):
        zone.write_text(text(serial, changed), encoding="ascii")
        sluicelib.sluice("build", "--zone-file", zone, "--origin", "example.com", "--out", data)

    build(5, 0)
    probe = follow(kind, 0)
    settings.write_text(f"transfer: {{allow: {HOST}, notify: [{probe.address}]}}\n", encoding="ascii")
    server = start(data, "-c", settings)
    probe.primary = server.port
    probe.start()
    probe.wait_serial(5)
    assert len(dig_records(probe.port)) == 100003
    build(6, 7)
    server.reload()
    probe.wait_serial(6)
    assert serverlib.counters(server)["transfers_differences"] == (1 if probe.asks_ixfr else 0)
    assert dig_records(probe.port) == dig_records(server.port)


@pytest.mark.parametrize("kind", [k for k, c in secondaries.ALL.items() if c.consumes_catalogs])
def test_catalog(kind, start, make_config, tmp_path, follow):
    """A secondary that knows nothing but the catalog zone serves all zones, and loses one that goes."""
    data = tmp_path / "data"
    settings = tmp_path / "sluice.yaml"
    secondary = follow(kind, 0, zones=[], catalog="catalog.example")
    settings.write_text(f"transfer: {{allow: [{HOST}], notify: [{secondary.address}]}}\n", encoding="ascii")
    defaults = "catalog: {zone: catalog.example., members: all}\n"
    files = {"example.net/zone.yaml": sluicelib.ZONE, "example.org/zone.yaml": sluicelib.ZONE}
    sluicelib.build(make_config(defaults=defaults, files=files, name="c1"), data)
    server = start(data, "-c", settings)
    secondary.primary = server.port
    secondary.start()
    for zone in ("example.com", "example.net", "example.org"):
        secondary.wait_serial(1, zone)
    files.pop("example.net/zone.yaml")
    files["example.edu/zone.yaml"] = sluicelib.ZONE
    sluicelib.build(make_config(defaults=defaults, files=files, name="c2"), data)
    server.reload()
    secondary.wait_serial(1, "example.edu")
    serverlib.wait_for(lambda: secondary.serial("example.net") is None, "example.net to go")
    assert secondary.serial("example.com") == 1
    listed = [line for line in transfer(server.port, "catalog.example") if " PTR " in line]
    assert sorted(line.split()[-1] for line in listed) == ["example.com.", "example.edu.", "example.org."]


def test_chain(start, make_config, tmp_path):
    """A zone that came in goes out again: by the machine's settings, and with NOTIFY."""
    listener = Listener()
    p = Primary(start, make_config, tmp_path)
    p.build(transfer=allow())
    p.start()
    settings = tmp_path / "second.yaml"
    settings.write_text(f"secondary: [{{zone: example.com, primaries: [\"{HOST}@{p.server.port}\"]}}]\n"
                        f"transfer: {{allow: [{HOST}], notify: [{listener.address}]}}\n", encoding="ascii")
    data = sluicelib.build(make_config(zone="example.net", name="other"), tmp_path / "data2")
    second = start(data, "-c", settings, "--state", tmp_path / "state")
    serverlib.wait_for(lambda: any(m.question[0].name.to_text() == "example.com." and m.answer
                                   for m, _ in listener.got), "NOTIFY of the zone that came in")
    assert transfer(second.port) == transfer(p.server.port)
    assert transfer(second.port, "example.net")
    listener.close()


# ---- clients --------------------------------------------------------------------------------------


def test_what_is_sent(primary):
    """A steered name stands in a transfer with its default answer; glue and occluded names are there."""
    p = primary(transfer=allow())
    got = transfer(p.server.port)
    for line in ("cdn.example.com. 30 A 192.0.2.1", "cdn.example.com. 30 A 192.0.2.2",
                 "cdn.example.com. 30 AAAA 2001:db8::1", "hosts.example.com. 60 CNAME b.example.net.",
                 "ns.sub.example.com. 3600 A 192.0.2.54", "*.wild.example.com. 3600 TXT \"found\"",
                 "mail.example.com. 3600 MX 10 Mail.example.com."):
        assert line in got, got
    # The master file of the build says the same.
    zone = dns.zone.from_file(str(p.data / "current/zones/example.com.zone"), "example.com", relativize=False)
    assert secondaries.texts(zone) == got


def test_dig(primary):
    p = primary(transfer=allow())
    p.rebuild(RECORDS + "new: {A: [192.0.2.90]}\n")
    done = sluicelib.run("dig", f"@{HOST}", "-p", p.server.port, "example.com", "AXFR", "+onesoa")
    assert done.returncode == 0 and "Transfer failed" not in done.stdout, done.stdout
    assert "new.example.com.\t3600\tIN\tA\t192.0.2.90" in done.stdout.replace("\t\t", "\t")
    done = sluicelib.run("dig", f"@{HOST}", "-p", p.server.port, "example.com", "IXFR=1")
    records = [line for line in done.stdout.splitlines() if line and not line.startswith(";")]
    assert [line.split()[3] for line in records] == ["SOA", "SOA", "SOA", "A", "SOA"], done.stdout
    done = sluicelib.run("kdig", f"@{HOST}", "-p", p.server.port, "example.com", "AXFR")
    assert done.returncode == 0 and "new.example.com." in done.stdout, done.stdout
    done = sluicelib.run("drill", "-p", p.server.port, "AXFR", "example.com", f"@{HOST}")
    assert "new.example.com." in done.stdout, done.stdout


def incremental(port, serial, zone="example.com", tcp=True, **options):
    """Asks IXFR; all answer records."""
    query, _ = dns.xfr.make_query(dns.zone.Zone(zone), serial=serial, **options)
    if not tcp:
        reply = dns.query.udp(query, HOST, sluicelib.DEADLINE, port)
        return reply, [rr for rrset in reply.answer for rr in rrset]
    with socket.create_connection((HOST, port), sluicelib.DEADLINE) as sock:
        wire = query.to_wire()
        sock.sendall(struct.pack("!H", len(wire)) + wire)
        reply = dns.message.from_wire(serverlib.read_message(sock), one_rr_per_rrset=True,
                                      keyring=query.keyring, request_mac=query.request_mac, xfr=True)
    return reply, [rr for rrset in reply.answer for rr in rrset]


def test_ixfr_kinds(primary):
    p = primary(transfer=allow())
    for i in range(3):
        p.rebuild(RECORDS + f"new: {{A: [192.0.2.9{i}]}}\n")
    assert p.serial() == 4
    port = p.server.port
    _, records = incremental(port, 4)  # current
    assert [r.rdtype.name for r in records] == ["SOA"]
    _, records = incremental(port, 5)  # newer than ours
    assert [r.rdtype.name for r in records] == ["SOA"] and records[0].serial == 4
    _, records = incremental(port, 1)  # from the oldest: one difference
    assert [r.rdtype.name for r in records] == ["SOA", "SOA", "SOA", "A", "SOA"]
    assert [r.serial for r in records if r.rdtype.name == "SOA"] == [4, 1, 4, 4]
    _, records = incremental(port, 3)
    assert [r.rdtype.name for r in records] == ["SOA", "SOA", "A", "SOA", "A", "SOA"]
    _, records = incremental(port, 0)  # never seen: the whole zone
    assert len(records) > 15 and records[1].rdtype.name != "SOA"
    reply, records = incremental(port, 1, tcp=False)  # over UDP: the SOA, which says "use TCP"
    assert [r.rdtype.name for r in records] == ["SOA"] and reply.flags & dns.flags.AA
    assert p.counter("transfers_differences") == 2 and p.counter("transfers_current") == 2
    assert p.counter("transfers_whole") == 1


def test_history_is_bounded(primary):
    """What is older than the kept builds is answered with the whole zone."""
    p = primary(transfer=allow())
    for i in range(10):
        p.rebuild(RECORDS + f"new: {{A: [192.0.2.{100 + i}]}}\n")
    _, records = incremental(p.server.port, 1)
    assert records[1].rdtype.name != "SOA" and len(records) > 15
    _, records = incremental(p.server.port, 9)
    assert [r.rdtype.name for r in records] == ["SOA", "SOA", "A", "SOA", "A", "SOA"]


# ---- who may --------------------------------------------------------------------------------------


def refused(port, zone="example.com", source=HOST, **options):
    """The RCODE of a refused AXFR."""
    query = dns.message.make_query(zone, "AXFR")
    if options:
        query.use_tsig(**options)
    reply = dns.query.tcp(query, HOST, sluicelib.DEADLINE, port, source=source)
    assert not reply.answer
    return dns.rcode.to_text(reply.rcode())


def test_nobody_by_default(primary):
    p = primary()
    assert refused(p.server.port) == "REFUSED"
    assert refused(p.server.port, "www.example.com") == "NOTAUTH"
    assert refused(p.server.port, "example.org") == "NOTAUTH"
    reply = p.server.ask("example.com", "AXFR")
    assert sluicelib.rcode(reply) == "REFUSED" and not reply.answer
    assert p.counter("transfer_refused") == 2
    p.server.wait_log("transfer refused to 127.0.0.1")


def test_addresses(primary):
    p = primary(transfer="transfer: {allow: [127.0.0.2, 127.0.1.0/24]}\n")
    assert refused(p.server.port) == "REFUSED"
    assert refused(p.server.port, source="127.0.2.1") == "REFUSED"
    for source in ("127.0.0.2", "127.0.1.77"):
        assert transfer(p.server.port, source=source)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithms(algorithm, primary):
    key = Key(algorithm=algorithm)
    p = primary(key, transfer=f"transfer: {{tsig: {key.name}}}\n")
    assert transfer(p.server.port, key=key)
    assert refused(p.server.port) == "REFUSED"


def test_wrong_keys(primary):
    key = Key()
    p = primary(key, transfer=f"transfer: {{allow: [{HOST}], tsig: {key.name}}}\n")
    assert transfer(p.server.port, key=key)
    for wrong in (Key(seed=b"x" * 32), Key(name="other-key"), Key(algorithm="hmac-sha512")):
        with pytest.raises((dns.tsig.PeerError, dns.xfr.TransferError, dns.tsig.BadSignature,
                            dns.message.UnknownTSIGKey)):
            transfer(p.server.port, key=wrong)
    assert refused(p.server.port) == "REFUSED"
    assert p.counter("tsig_bad") == 3
    assert key.secret not in p.server.log
    # The same, seen by dig: the error is told and signed where it can be.
    done = sluicelib.run("dig", f"@{HOST}", "-p", p.server.port, "example.com", "SOA", "-y",
                         f"hmac-sha256:nobody:{key.secret}")
    assert "NOTAUTH" in done.stdout and "BADKEY" in done.stdout, done.stdout
    done = sluicelib.run("dig", f"@{HOST}", "-p", p.server.port, "example.com", "SOA", "-y",
                         f"hmac-sha256:{key.name}:{Key(seed=b'y' * 32).secret}")
    assert "NOTAUTH" in done.stdout and "BADSIG" in done.stdout, done.stdout
    done = sluicelib.run("dig", f"@{HOST}", "-p", p.server.port, "www.example.com", "A", "-y",
                         f"hmac-sha256:{key.name}:{key.secret}")
    assert "NOERROR" in done.stdout and "192.0.2.80" in done.stdout, done.stdout
    assert "verify" not in done.stdout.lower(), done.stdout


def test_key_and_address_must_both_hold(primary):
    key = Key()
    p = primary(key, transfer=f"transfer: {{allow: [127.0.0.2], tsig: {key.name}}}\n")
    assert refused(p.server.port, source="127.0.0.2") == "REFUSED"
    with pytest.raises(dns.xfr.TransferError, match="REFUSED"):
        transfer(p.server.port, key=key)
    assert transfer(p.server.port, key=key, source="127.0.0.2")


@pytest.mark.parametrize("text,says", [
    ("keys: {k: {algorithm: hmac-rot13, secret: c2VjcmV0}}", "`k`"),
    ("keys: {k: {secret: \"@@@\"}}", "`k`"),
    ("transfer: {allow: [any]}", "`any` is not an address or prefix"),
    ("transfer: {tsig: a, secret: c2VjcmV0}", "`secret`: unknown key"),
])
def test_bad_settings(make_config, tmp_path, text, says):
    data = sluicelib.build(make_config(), tmp_path / "data")
    settings = sluicelib.write_tree(tmp_path / "s", {"sluice.yaml": text + "\n"}) / "sluice.yaml"
    server = sluicelib.Server(data, "-c", settings, wait=False)
    assert server.wait() == 1
    assert says in server.log and "c2VjcmV0" not in server.log and "@@@" not in server.log, server.log
    server.reserved.close()


# ---- the stream -----------------------------------------------------------------------------------

PATIENT = "--tcp-idle", "600"  # with who does not read, however slow the machine is
BIG = "\n".join(f"host-{i:05d}: {{TXT: [\"{'x' * 200} {i}\"]}}" for i in range(15000)) + "\n"


def ask_axfr(sock, number=7):
    query = dns.message.make_query("example.com", "AXFR")
    query.id = number
    wire = query.to_wire()
    sock.sendall(struct.pack("!H", len(wire)) + wire)


def read_axfr(sock, number=7):
    """Reads one transfer; returns the records."""
    records, soas = [], 0
    while soas < 2:
        wire = serverlib.read_message(sock)
        assert wire, "the connection ended within the transfer"
        assert struct.unpack("!H", wire[:2])[0] == number
        reply = dns.message.from_wire(wire, one_rr_per_rrset=True, xfr=True)
        assert reply.rcode() == dns.rcode.NOERROR
        records += reply.answer
        soas = sum(1 for rrset in records if rrset.rdtype == dns.rdatatype.SOA)
    return records


def test_slow_reader_blocks_nobody(primary):
    """Twenty clients that do not read: others are answered over UDP and TCP, and then they get it all."""
    p = primary(records=BIG, transfer=allow(), arguments=PATIENT)
    socks = [serverlib.connect(p.server, SO_RCVBUF=4096) for _ in range(20)]
    for sock in socks:
        ask_axfr(sock)
    serverlib.wait_for(lambda: p.counter("transfers_whole") == 20, "all transfers to begin")
    for _ in range(50):
        assert p.server.ask("host-00001.example.com", "TXT").answer
        assert p.server.ask("host-00001.example.com", "TXT", tcp=True).answer
    assert len(read_axfr(socks[0])) > 15000
    for sock in socks:
        sock.close()
    assert p.server.ask("host-00001.example.com", "TXT").answer


def test_reader_that_never_reads_is_dropped(primary):
    p = primary(records=BIG, transfer=allow())
    sock = serverlib.connect(p.server, SO_RCVBUF=4096)
    ask_axfr(sock)
    serverlib.wait_for(lambda: p.counter("tcp_timed_out") == 1, "the idle limit")
    serverlib.wait_for(lambda: p.counter("tcp_open") == 0, "the connection to go")


def test_pipelined(primary):
    """Queries and transfers on one connection are answered in the order that they were asked."""
    p = primary(records=BIG, transfer=allow())
    with serverlib.connect(p.server) as sock:
        sock.sendall(serverlib.message("host-00001.example.com.", "TXT", 1))
        ask_axfr(sock, 2)
        sock.sendall(serverlib.message("host-00002.example.com.", "TXT", 3))
        ask_axfr(sock, 4)
        sock.sendall(serverlib.message("host-00003.example.com.", "TXT", 5))
        assert serverlib.read_message(sock)[:2] == b"\0\1"
        first = read_axfr(sock, 2)
        assert serverlib.read_message(sock)[:2] == b"\0\3"
        second = read_axfr(sock, 4)
        assert first == second
        assert serverlib.read_message(sock)[:2] == b"\0\5"
        sock.shutdown(socket.SHUT_WR)
        assert serverlib.read_message(sock) == b""


@pytest.mark.parametrize("algorithm", ["hmac-sha256", "hmac-sha512"])
def test_signed_stream(algorithm, primary):
    """Every one of many messages carries a signature that holds."""
    key = Key(algorithm=algorithm)
    p = primary(key, records=BIG, transfer=f"transfer: {{tsig: {key.name}}}\n")
    done = sluicelib.run("dig", f"@{HOST}", "-p", p.server.port, "example.com", "AXFR", "-y",
                         f"{algorithm}:{key.name}:{key.secret}")
    assert done.returncode == 0 and "failed" not in done.stdout, done.stdout[-1000:]
    # By the column: signatures are letters too, and some hold "TXT".
    types = [line.split()[3] for line in done.stdout.splitlines() if len(line.split()) > 3 and line[0] != ";"]
    assert types.count("TSIG") > 100
    assert types.count("TXT") == 15000


def test_half_closed(primary):
    p = primary(records=BIG, transfer=allow())
    with serverlib.connect(p.server) as sock:
        ask_axfr(sock)
        sock.shutdown(socket.SHUT_WR)
        assert len(read_axfr(sock)) > 15000
        assert serverlib.read_message(sock) == b""


def test_reload_in_the_middle(primary):
    """A transfer that has begun is of one version, however often that is replaced meanwhile."""
    p = primary(records=BIG, transfer=allow(), arguments=PATIENT)
    with serverlib.connect(p.server, SO_RCVBUF=4096) as sock:
        ask_axfr(sock)
        serverlib.wait_for(lambda: p.counter("transfers_whole") == 1, "the transfer to begin")
        for i in range(9):  # even its build is removed
            p.rebuild(RECORDS + f"new: {{A: [192.0.2.{i}]}}\n")
        records = read_axfr(sock)
    assert records[0] == records[-1] and records[0][0].serial == 1
    assert len({rrset.name for rrset in records if rrset.rdtype == dns.rdatatype.TXT}) == 15000
    assert len(transfer(p.server.port)) < 100


def test_clients_that_leave(primary):
    p = primary(records=BIG, transfer=allow())
    for _ in range(50):
        sock = serverlib.connect(p.server)
        ask_axfr(sock)
        sock.close()
    serverlib.wait_for(lambda: p.counter("tcp_open") == 0, "all connections to go")
    assert len(transfer(p.server.port)) > 15000


def test_stop_in_the_middle(primary):
    p = primary(records=BIG, transfer=allow())
    sock = serverlib.connect(p.server, SO_RCVBUF=4096)
    ask_axfr(sock)
    serverlib.wait_for(lambda: p.counter("transfers_whole") == 1, "the transfer to begin")
    p.server.stop()
    sock.close()


def test_missing_records(primary):
    """The build of a served zone was damaged: SERVFAIL, one line in the log, and queries go on."""
    p = primary(transfer=allow())
    (p.data / "current/zones/example.com.records").unlink()
    assert refused(p.server.port) == "SERVFAIL"
    assert p.counter("transfers_failed") == 1
    p.server.wait_log("cannot be transferred")
    assert p.server.ask("www.example.com").answer


# ---- NOTIFY ---------------------------------------------------------------------------------------


def test_notify_message(primary, tmp_path):
    listener = Listener()
    p = primary(transfer=allow(listener.address))
    serverlib.wait_for(lambda: p.counter("notify_acked") == 1, "NOTIFY at start")
    message, peer = listener.got[0]
    assert message.opcode() == dns.opcode.NOTIFY and message.flags & dns.flags.AA
    assert peer[0] == HOST
    assert message.question[0].to_text() == "example.com. IN SOA"
    assert message.answer[0][0].serial == 1
    p.rebuild(RECORDS + "new: {A: [192.0.2.1]}\n")
    serverlib.wait_for(lambda: p.counter("notify_acked") == 2, "NOTIFY after a change")
    assert listener.got[-1][0].answer[0][0].serial == 2
    p.server.reload()  # nothing changed
    p.rebuild(RECORDS)
    serverlib.wait_for(lambda: p.counter("notify_acked") == 3, "NOTIFY after a change")
    assert listener.serials() == [1, 2, 3]
    assert p.counter("notify_failed") == 0
    listener.close()


def test_notify_is_repeated(primary):
    listener = Listener(answer=False)
    p = primary(transfer=allow(listener.address))
    serverlib.wait_for(lambda: len(listener.got) >= 3, "two repetitions")
    assert len({message.id for message, _ in listener.got}) == 1
    assert 3 <= p.counter("notify_sent") <= 5 and p.counter("notify_acked") == 0
    listener.answer = True
    serverlib.wait_for(lambda: p.counter("notify_acked") == 1, "the answer")
    listener.close()
