# SPDX-License-Identifier: Apache-2.0
"""Zones from primaries over TLS (RFC 9103): BIND, NSD and sluiced itself, and primaries that are hostile."""
import base64
import contextlib
import functools
import hashlib
import socket
import ssl
import subprocess
import threading

import dns.message
import dns.rdatatype
import pytest

import certlib
import primaries
import serverlib
import sluicelib
from primaries import HOST, ZONE, Key, zone_text
from secondarylib import NS, A, answer, framed, notify, secondary, soa  # noqa: F401
from tlslib import NAME, Authority

MANY = [f"r{i} IN TXT \"{i} {'x' * 180}\"" for i in range(1000)]  # many TLS records


class Certificates:
    """An authority and its certificate for NAME, and one of ours."""

    def __init__(self, folder):
        self.authority = Authority(folder)
        self.ca = self.authority.cert
        self.cert, self.key = folder / "server.crt", folder / "server.key"
        self.authority.issue(self.cert, self.key)
        self.our_cert, self.our_key = folder / "our.crt", folder / "our.key"
        self.authority.issue(self.our_cert, self.our_key, serial=2, name="secondary.example.org")


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path / "ca")


def pin(cert):
    public = subprocess.run(["openssl", "x509", "-in", cert, "-noout", "-pubkey"], capture_output=True, check=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=public, capture_output=True,
                         check=True).stdout
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def over_tls(**settings):
    """The options of `secondary` for a primary that is reached with these settings."""
    inside = ", ".join(f"{key}: {value}" for key, value in settings.items() if value is not None)
    return {"extra": ", tls: to-primary", "below": f"tls: {{to-primary: {{{inside}}}}}\n"}


def by_name(certificates, **more):
    return over_tls(hostname=NAME, ca_file=certificates.ca, **more)


def wait_error(mine, *words):
    """Waits for an error with all these words, that the log has too."""
    found = []

    def is_there():
        found[:] = [mine.status()["error"] or ""]
        return all(word in found[0] for word in words)
    serverlib.wait_for(is_there, f"{words}; the log is:\n{mine.server.log}")
    serverlib.wait_for(lambda: found[0] in mine.server.log, f"a line in the log: {found[0]}")


# ---- real servers --------------------------------------------------------------------------------


class Bind(primaries.Primary):
    """Gives the zone over TLS only; `port` is for questions of the test."""
    offers_ixfr = True
    client_ca = None

    def start(self):
        key = f"key {self.key.name}" if self.key else ""
        text = (f'tls own {{ cert-file "{self.certificates.cert}"; key-file "{self.certificates.key}";'
                f'{f" ca-file {chr(34)}{self.client_ca}{chr(34)};" if self.client_ca else ""}'
                ' protocols { TLSv1.3; }; };\n')
        if self.key:
            text += (f'key {self.key.name} {{ algorithm {self.key.algorithm};'
                     f' secret "{self.key.secret}"; }};\n')
        text += (f'options {{ directory "{self.folder}"; listen-on port {self.port} {{ {HOST}; }};'
                 f' listen-on port {self.tls_port} tls own {{ {HOST}; }};'
                 ' listen-on-v6 { none; }; recursion no; pid-file none; dnssec-validation no;'
                 f' session-keyfile "{self.folder}/session.key"; check-integrity no;'
                 ' empty-zones-enable no; notify-rate 1000; startup-notify-rate 1000; };\n'
                 'controls { };\n'
                 f'zone "{ZONE}" {{ type primary; file "{self.file}"; ixfr-from-differences yes;'
                 f' allow-transfer port {self.tls_port} transport tls {{ {key + ";" if key else HOST + ";"} }};'
                 f' notify explicit; notify-delay 0;'
                 f' also-notify {{ {HOST} port {self.notify[1]} {key}; }}; }};\n')
        self.spawn("named", "-4", "-g", "-n", "1", "-c", self.write("named.conf", text))


@pytest.fixture
def bind(tmp_path, certificates):
    made = []

    def make(mine, text, key=None, client_ca=None):
        reserved = sluicelib.Port(HOST)
        one = Bind(tmp_path / "bind", reserved.number, text, (HOST, mine.server.port), key)
        one.tls_port, one.certificates, one.client_ca, one.reserved = mine.primary_port, certificates, client_ca, reserved
        made.append(one)
        one.start()
        one.wait_serial(1)
        return one

    yield make
    for one in made:
        one.kill()


@pytest.mark.parametrize("algorithm", [None, "hmac-sha256"])
def test_bind(secondary, bind, certificates, algorithm):
    key = Key(algorithm=algorithm) if algorithm else None
    mine = secondary(key, **by_name(certificates))
    other = bind(mine, zone_text(1, "one IN A 192.0.2.1", *MANY), key)
    mine.wait_serial(1)
    assert sluicelib.rdata(mine.ask(f"one.{ZONE}")) == ["192.0.2.1"]
    assert sluicelib.rdata(mine.ask(f"r999.{ZONE}", "TXT")) == [f"\"999 {'x' * 180}\""]
    assert mine.status()["tls"] == ["to-primary"]
    other.change(zone_text(2, "two IN A 192.0.2.2", *MANY))
    mine.wait_serial(2)
    assert sluicelib.rdata(mine.ask(f"two.{ZONE}")) == ["192.0.2.2"]
    assert mine.counter("ixfr") == 1 and mine.counter("axfr") == 1
    assert mine.status()["error"] is None
    # The SOA query and the transfer that follows it share a connection (RFC 9103 section 6.3.1).
    found = serverlib.counters(mine.server)
    assert found["secondary_tls"] == found["secondary_soa_queries"]


def test_mutual_tls(secondary, bind, certificates):
    mine = secondary(**by_name(certificates))
    bind(mine, zone_text(1), client_ca=certificates.ca)
    wait_error(mine, "without an answer (does it want a certificate?)")  # BIND does not say
    mine.server.stop()
    text = mine.config.read_text(encoding="utf-8")
    more = f"hostname: {NAME}, cert_file: {certificates.our_cert}, key_file: {certificates.our_key}"
    mine.config.write_text(text.replace(f"hostname: {NAME}", more), encoding="utf-8")
    mine.run()
    mine.wait_serial(1)


@pytest.mark.parametrize("show, words", [
    (None, "TLS: it wants a certificate of ours (cert_file)"),
    ("stranger", "TLS: it does not accept our certificate (cert_file)"), ("our", None)])
def test_a_primary_that_wants_to_know_us(secondary, script, certificates, show, words):
    context = good(certificates)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.ca)
    files = {}
    if show == "stranger":
        pem = certlib.self_signed(certificates.authority.folder, "stranger")
        files = {"cert_file": pem, "key_file": pem}
    elif show == "our":
        files = {"cert_file": certificates.our_cert, "key_file": certificates.our_key}
    mine = secondary(**by_name(certificates, **files))
    script(mine, context)
    if words:
        wait_error(mine, words)
    else:
        mine.wait_serial(1)


class Nsd(primaries.Primary):
    def start(self):
        text = (f'server:\n  ip-address: {HOST}@{self.port}\n  ip-address: {HOST}@{self.tls_port}\n'
                f'  port: {self.port}\n  server-count: 1\n  tls-port: {self.tls_port}\n'
                f'  tls-service-key: "{self.certificates.key}"\n  tls-service-pem: "{self.certificates.cert}"\n'
                f'  username: ""\n  zonesdir: "{self.folder}"\n  database: ""\n  do-ip6: no\n'
                f'  zonelistfile: "{self.folder}/zone.list"\n  xfrdfile: "{self.folder}/xfrd.state"\n'
                f'  xfrdir: "{self.folder}"\n  pidfile: "{self.folder}/nsd.pid"\n  rrl-ratelimit: 0\n'
                'remote-control:\n  control-enable: no\n'
                f'zone:\n  name: "{ZONE}"\n  zonefile: "{self.file}"\n  provide-xfr: {HOST} NOKEY\n')
        self.spawn("nsd", "-d", "-c", self.write("nsd.conf", text))


def test_nsd(secondary, tmp_path, certificates):
    """NSD 4.6 knows no ALPN, and RFC 9103 section 7.1 wants it: an error that says so."""
    mine = secondary(**by_name(certificates))
    reserved = sluicelib.Port(HOST)
    other = Nsd(tmp_path / "nsd", reserved.number, zone_text(1), (HOST, mine.server.port))
    other.tls_port, other.certificates = mine.primary_port, certificates
    other.start()
    try:
        other.wait_serial(1)
        wait_error(mine, "TLS: no connection: it does not choose the protocol `dot` (ALPN)")
    finally:
        other.kill()


def test_sluiced(secondary, start, tmp_path, certificates):
    """Our own server as the primary; the connection is in the clear for nobody."""
    mine = secondary(**by_name(certificates))
    config, data = tmp_path / "primary", tmp_path / "primary-data"

    def write(address):
        zone = f"transfer: {{allow: [{HOST}], notify: [\"{HOST}@{mine.server.port}\"]}}\n"
        files = sluicelib.config_files({}, zone="example.net", records=f"new: {{A: [{address}]}}\n")
        path, = [path for path in files if path.endswith("zone.yaml")]
        files[path] += zone
        sluicelib.build(sluicelib.write_tree(config, files), data)
    write("192.0.2.1")
    server = start(data, "--tls-listen", f"{HOST}@{mine.primary_port}", "--tls-cert", certificates.cert,
                   "--tls-key", certificates.key)
    serverlib.wait_for(lambda: sluicelib.rdata(mine.ask(f"new.{ZONE}")) == ["192.0.2.1"], mine.server.log)
    write("192.0.2.2")
    server.reload()
    serverlib.wait_for(lambda: sluicelib.rdata(mine.ask(f"new.{ZONE}")) == ["192.0.2.2"], mine.server.log)
    found = serverlib.counters(server)
    assert found["tls_established"] >= 2 and found["tls_failed"] == 0
    assert mine.counter("ixfr") == 1


# ---- primaries that do as they are told ----------------------------------------------------------


class Script:
    """A primary over TLS: `reply(wire, sock)` answers a question, `greet(sock)` makes the session.  It is asked
    at once, so what it is to answer first must be given here: `first(script, wire, sock)`."""

    def __init__(self, mine, context=None, first=None, greet=None):
        self.serial, self.asked, self.connections, self.clear = 1, [], 0, []
        self.context, self.greet = context, greet or self.shake
        self.reply = functools.partial(first, self) if first else self.serve
        self.stop = threading.Event()
        self.tcp = socket.create_server((HOST, mine.primary_port), backlog=16)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((HOST, mine.primary_port))
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.accept, self.listen)]
        for thread in self.threads:
            thread.start()

    def shake(self, sock):
        return self.context.wrap_socket(sock, server_side=True)

    def serve(self, wire, sock):
        first = soa(self.serial)
        if self.asked[-1] == "SOA":
            sock.sendall(framed(answer(wire, first)))
        else:
            sock.sendall(framed(answer(wire, first, NS, A)) + framed(answer(wire, first)))

    def listen(self):
        """Nothing must come in the clear."""
        try:
            while not self.stop.is_set():
                wire = self.udp.recvfrom(65535)[0]
                if wire:  # else shut down
                    self.clear.append(wire)
        except OSError:
            pass

    def accept(self):
        while not self.stop.is_set():
            try:
                sock, _ = self.tcp.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.talk, args=(sock,), daemon=True).start()

    def talk(self, sock):
        with sock:
            try:
                with self.greet(sock) as session:
                    while True:
                        length = sluicelib.receive(session, 2)
                        wire = sluicelib.receive(session, int.from_bytes(length, "big"))
                        if not wire:
                            return
                        self.asked.append(dns.rdatatype.to_text(dns.message.from_wire(wire).question[0].rdtype))
                        if self.reply(wire, session) == "close":
                            return
            except (OSError, EOFError):
                pass

    def close(self):
        self.stop.set()
        for sock, thread in zip((self.tcp, self.udp), self.threads):
            with contextlib.suppress(OSError):  # the thread ends, though UDP is not connected
                sock.shutdown(socket.SHUT_RDWR)
            thread.join(sluicelib.DEADLINE)
            sock.close()


def server_context(cert, key=None, alpn=("dot",), **options):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    for name, value in options.items():
        setattr(context, name, value)
    return context


@pytest.fixture
def script():
    made = []

    def make(*args, **keywords):
        made.append(Script(*args, **keywords))
        return made[-1]

    yield make
    for one in made:
        one.close()


def good(certificates):
    return server_context(certificates.cert, certificates.key)


def expired(certificates):
    return server_context(certlib.issue(certificates.authority, NAME, f"DNS:{NAME}",
                                        dates=("20200101000000Z", "20210102000000Z")))


def not_yet_valid(certificates):
    return server_context(certlib.issue(certificates.authority, NAME, f"DNS:{NAME}",
                                        dates=("20980101000000Z", "20990102000000Z")))


def other_name(certificates):
    return server_context(certlib.issue(certificates.authority, "other", "DNS:other.example.net"))


def name_in_subject_only(certificates):
    return server_context(certlib.issue(certificates.authority, NAME))


def self_signed(certificates):
    return server_context(certlib.self_signed(certificates.authority.folder, NAME))


def other_authority(certificates):
    stranger = Authority(certificates.authority.folder / "stranger")
    return server_context(certlib.issue(stranger, NAME, f"DNS:{NAME}"))


def no_alpn(certificates):
    return server_context(certificates.cert, certificates.key, alpn=())


def tls_1_2(certificates):
    return server_context(certificates.cert, certificates.key, maximum_version=ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize("make, words", [
    (expired, "certificate expired on 2021-01-02"),
    (not_yet_valid, "certificate is not valid before 2098-01-01"),
    (other_name, f"its certificate is not for {NAME}"),
    (name_in_subject_only, f"its certificate is not for {NAME}"),
    (self_signed, "certificate not trusted: self-signed"),
    (other_authority, "certificate not trusted: unknown authority"),
    (no_alpn, "it does not choose the protocol `dot` (ALPN)"),
    (tls_1_2, "it does not speak TLS 1.3"),
], ids=lambda value: value.__name__ if callable(value) else "")
def test_a_primary_that_is_not_accepted(secondary, script, certificates, make, words):
    mine = secondary(**by_name(certificates))
    other = script(mine, make(certificates))
    wait_error(mine, f"{HOST}@{mine.primary_port}: TLS: no connection: ", words)
    assert other.asked == [] and other.clear == []  # it heard no question
    assert mine.status()["serial"] is None and sluicelib.rcode(mine.ask(ZONE, "SOA")) == "SERVFAIL"


def test_a_server_of_another_protocol(secondary, certificates):
    mine = secondary(**by_name(certificates))
    other = sluicelib.Process("openssl", "s_server", "-accept", f"{HOST}:{mine.primary_port}", "-cert", certificates.cert,
                              "-key", certificates.key, "-alpn", "h2", "-quiet")
    try:
        wait_error(mine, "TLS: no connection: it does not take the protocol `dot` (ALPN)")
    finally:
        other.kill()


def silence(sock):
    while sock.recv(65536):
        pass
    return sock


def dribble(sock):
    """A handshake record of which one octet comes now and then: it goes on, and never ends."""
    sock.sendall(b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xf0")
    sock.settimeout(0.2)
    while True:
        try:
            if not sock.recv(65536):
                return sock
        except socket.timeout:
            sock.sendall(b"\x00")


def noise(sock):
    sock.recv(65536)
    sock.sendall(bytes(range(256)) * 100)
    return sock


def speaks_dns(sock):
    sock.recv(65536)
    sock.sendall(framed(b"\x00" * 200))
    return sock


def hangs_up(sock):
    sock.recv(65536)
    sock.shutdown(socket.SHUT_RDWR)
    return sock


def cut_hello(sock):
    sock.recv(65536)
    sock.sendall(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03")
    sock.shutdown(socket.SHUT_RDWR)
    return sock


@pytest.mark.parametrize("greet, words", [
    (silence, "the handshake takes more than 10 s"),
    (dribble, "the handshake takes more than 10 s"),
    (noise, ""),
    (speaks_dns, "it does not speak TLS"),
    (hangs_up, "the primary ends it in the handshake"),
    (cut_hello, "the primary ends it in the handshake"),
], ids=lambda value: value.__name__ if callable(value) else "")
def test_a_handshake_that_fails(secondary, script, certificates, greet, words):
    mine = secondary(**by_name(certificates))
    other = script(mine, greet=greet)
    wait_error(mine, "TLS: no connection: ", words)
    assert other.clear == []
    assert mine.status()["serial"] is None


def cut_in_order(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS)))
    try:
        sock.unwrap()
    except ssl.SSLError:
        pass
    return "close"


def cut_without_a_word(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS))[:-3])
    socket.socket.shutdown(sock, socket.SHUT_RDWR)
    return "close"


def garbage_in_the_stream(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS)))
    plain = socket.socket(fileno=sock.detach())
    plain.sendall(b"\x17\x03\x03\x00\x40" + b"\x00" * 64)
    plain.close()
    return "close"


def behind_the_end(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS, A, soa(2))) + b"more")


def records_behind_the_end(wire, sock):
    sock.sendall(framed(answer(wire, soa(2), NS, A, soa(2), A)))


def other_message(wire, sock):
    sock.sendall(framed(b"\x00" * 12))


@pytest.mark.parametrize("broken, words", [
    (cut_in_order, "the primary ends the connection in mid-transfer"),
    (cut_without_a_word, "the primary ends the connection in mid-transfer"),
    (garbage_in_the_stream, "TLS: decryption failed"),
    (behind_the_end, "there are octets behind the last message"),
    (records_behind_the_end, "there are records behind the last SOA"),
    (other_message, "the ID of another request"),
], ids=lambda value: value.__name__ if callable(value) else "")
def test_a_broken_transfer(secondary, script, certificates, broken, words):
    mine = secondary(**by_name(certificates))
    other = script(mine, good(certificates))
    mine.wait_serial(1)
    other.serial = 2
    other.reply = lambda wire, sock: (other.serve(wire, sock) if other.asked[-1] == "SOA" else broken(wire, sock))
    notify(mine.server)
    wait_error(mine, words)
    assert mine.serial() == 1 and mine.status()["serial"] == 1
    other.reply = other.serve
    serverlib.wait_for(lambda: not mine.status()["busy"], "the end of it")
    notify(mine.server)
    mine.wait_serial(2)
    assert mine.status()["error"] is None and other.clear == []


def test_a_connection_that_is_closed_after_the_first_answer(secondary, script, certificates):
    """The transfer is asked for over another one, and nothing is wrong."""
    mine = secondary(**by_name(certificates))
    other = script(mine, good(certificates), lambda other, *question: other.serve(*question) or "close")
    mine.wait_serial(1)
    assert other.asked == ["SOA", "AXFR"] and other.connections == 2
    assert mine.status()["error"] is None and "closed" not in mine.server.log


def test_octets_behind_the_answer_to_the_first_question(secondary, script, certificates):
    """They are not taken for the answer to the next one: that has a connection of its own."""
    def first(other, wire, sock):
        if other.asked[-1] == "SOA":
            sock.sendall(framed(answer(wire, soa(1))) + framed(answer(wire, soa(9), NS, A, soa(9))))
        else:
            other.serve(wire, sock)
    mine = secondary(**by_name(certificates))
    other = script(mine, good(certificates), first)
    mine.wait_serial(1)
    assert other.asked == ["SOA", "AXFR"] and other.connections == 2


# ---- pins ----------------------------------------------------------------------------------------


def test_pins(secondary, script, certificates, tmp_path):
    """The key decides: who signed, for which name and until when do not."""
    pem = certlib.self_signed(tmp_path, "whoever")
    mine = secondary(**over_tls(pins=f"[\"{pin(certificates.cert)}\", \"{pin(pem)}\"]"))
    script(mine, server_context(pem))
    mine.wait_serial(1)


@pytest.mark.parametrize("named", [False, True])
def test_another_key_than_the_pinned_one(secondary, script, certificates, named):
    options = {"hostname": NAME, "ca_file": certificates.ca} if named else {}
    mine = secondary(**over_tls(pins=f"\"{pin(certificates.our_cert)}\"", **options))
    other = script(mine, good(certificates))
    wait_error(mine, "TLS: no connection: its key is none of the `pins`")
    assert other.asked == []


def test_a_pinned_key_with_a_name_needs_both(secondary, script, certificates):
    pem = certlib.issue(certificates.authority, "other", "DNS:other.example.net")
    mine = secondary(**over_tls(hostname=NAME, ca_file=certificates.ca, pins=f"\"{pin(pem)}\""))
    script(mine, server_context(pem))
    wait_error(mine, f"its certificate is not for {NAME}")


def test_the_systems_authorities(secondary, script, certificates):
    mine = secondary(**over_tls(hostname=NAME))
    script(mine, good(certificates))
    wait_error(mine, "TLS: no connection: certificate not trusted: ")


# ---- more than one primary, files ----------------------------------------------------------------


def test_the_next_primary_is_asked(secondary, script, certificates):
    """One that is not accepted, then one with settings of its own."""
    reserved = sluicelib.Port(HOST)
    section = (f"tls: {{to-primary: {{hostname: {NAME}, ca_file: {certificates.ca}}},"
               f" pinned: {{pins: [\"{pin(certificates.our_cert)}\"]}}}}\n")
    mine = secondary(extra=", tls: to-primary", below=section)
    mine.server.stop()
    text = mine.config.read_text(encoding="utf-8")
    more = f"\", {{address: \"{HOST}@{reserved.number}\", tls: pinned}}]"
    mine.config.write_text(text.replace("\"]", more, 1), encoding="utf-8")
    first = script(mine, expired(certificates))
    mine.run()
    mine.primary_port = reserved.number
    script(mine, server_context(certificates.our_cert, certificates.our_key))
    mine.wait_serial(1)
    assert first.asked == [] and mine.status()["tls"] == ["to-primary", "pinned"]
    mine.server.wait_log("certificate expired on 2021-01-02")


def test_files_are_read_again(secondary, script, certificates):
    stranger = Authority(certificates.authority.folder / "stranger")
    mine = secondary(**by_name(certificates))
    other = script(mine, good(certificates))
    mine.wait_serial(1)
    right, wrong = certificates.ca.read_text(encoding="ascii"), stranger.cert.read_text(encoding="ascii")
    certificates.ca.write_text("no certificate\n", encoding="ascii")
    done = mine.server.sluice("reload", status=None)
    assert done.returncode == 3 and "the old files of tls `to-primary` stay in use" in done.stderr, done
    other.serial = 2
    notify(mine.server)
    mine.wait_serial(2)
    certificates.ca.write_text(wrong, encoding="ascii")
    assert mine.server.reload().returncode == 0
    notify(mine.server)
    wait_error(mine, "certificate not trusted: ")
    certificates.ca.write_text(right, encoding="ascii")
    assert mine.server.reload().returncode == 0
    other.serial = 3
    notify(mine.server)
    mine.wait_serial(3)
