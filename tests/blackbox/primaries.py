# SPDX-License-Identifier: Apache-2.0
"""Real servers as primaries of a zone, on loopback and a port of their own.

Each has the same interface: Primary(folder, port, zone text, notify=(address, port), key=None);
start(), change(zone text) makes it serve another version and send NOTIFY, stop(), kill().
"""
import base64
import pathlib
import signal
import socket
import subprocess
import threading

import dns.name
import dns.tsigkeyring

import serverlib
import sluicelib

HOST = "127.0.0.1"
ZONE = "example.net."


class Key:
    """A TSIG key."""

    def __init__(self, name="transfer-key", algorithm="hmac-sha256", seed=b"k" * 32):
        self.name, self.algorithm = name, algorithm
        self.secret = base64.b64encode(seed).decode()

    def yaml(self):
        return f"keys: {{{self.name}: {{algorithm: {self.algorithm}, secret: \"{self.secret}\"}}}}\n"

    def ring(self):
        return dns.tsigkeyring.from_text({f"{self.name}.": (self.algorithm, self.secret)})


def zone_text(serial, *records, refresh=3600, retry=600, expire=86400):
    """A small zone in master file format."""
    return (f"$ORIGIN {ZONE}\n$TTL 300\n"
            f"@ 300 IN SOA ns.{ZONE} host.{ZONE} {serial} {refresh} {retry} {expire} 60\n"
            f"@ IN NS ns.{ZONE}\n@ IN MX 10 mail.{ZONE}\nns IN A 192.0.2.53\nmail IN A 192.0.2.25\n"
            "*.wild IN TXT \"found\"\nsub IN NS ns.sub\nns.sub IN A 192.0.2.54\n"
            "alias IN CNAME ns\nold IN DNAME example.org.\n"
            + "".join(f"{record}\n" for record in records))


class Primary:
    """What all of them have in common."""

    def __init__(self, folder, port, text, notify, key=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.notify, self.key, self.process = port, notify, key, None
        self.file = self.folder / "zone"
        self.file.write_text(text, encoding="ascii")

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="ascii")
        return self.folder / name

    def spawn(self, *argv):
        self.process = sluicelib.Process(*argv, cwd=self.folder)

    def serial(self):
        try:
            reply = sluicelib.ask(HOST, self.port, ZONE, "SOA", timeout=2)
        except (OSError, sluicelib.dns.exception.Timeout):
            return None
        return reply.answer[0][0].serial if reply.answer else None

    def wait_serial(self, serial):
        serverlib.wait_for(lambda: self.serial() == serial or not self.process.alive(),
                             f"serial {serial} at the primary")
        assert self.process.alive(), self.process.log

    def change(self, text):
        self.file.write_text(text, encoding="ascii")
        self.process.signal(signal.SIGHUP)

    def kill(self):
        if self.process is not None:
            self.process.kill()


class Nsd(Primary):
    offers_ixfr = True

    def start(self):
        key = self.key.name if self.key else "NOKEY"
        text = (f'server:\n  ip-address: {HOST}@{self.port}\n  port: {self.port}\n  server-count: 1\n'
                f'  username: ""\n  zonesdir: "{self.folder}"\n  database: ""\n  do-ip6: no\n'
                f'  zonelistfile: "{self.folder}/zone.list"\n  xfrdfile: "{self.folder}/xfrd.state"\n'
                f'  xfrdir: "{self.folder}"\n  pidfile: "{self.folder}/nsd.pid"\n  rrl-ratelimit: 0\n'
                'remote-control:\n  control-enable: no\n')
        if self.key:
            text += (f'key:\n  name: "{key}"\n  algorithm: {self.key.algorithm}\n'
                     f'  secret: "{self.key.secret}"\n')
        text += (f'zone:\n  name: "{ZONE}"\n  zonefile: "{self.file}"\n  provide-xfr: {HOST} {key}\n'
                 f'  notify: {HOST}@{self.notify[1]} {key}\n  store-ixfr: yes\n  create-ixfr: yes\n')
        self.spawn("nsd", "-d", "-c", self.write("nsd.conf", text))


class Bind(Primary):
    offers_ixfr = True

    def start(self):
        key = f"key {self.key.name}" if self.key else ""
        text = ""
        if self.key:
            text = (f'key {self.key.name} {{ algorithm {self.key.algorithm}; '
                    f'secret "{self.key.secret}"; }};\n')
        text += (f'options {{ directory "{self.folder}"; listen-on port {self.port} {{ {HOST}; }};'
                 ' listen-on-v6 { none; }; recursion no; pid-file none; dnssec-validation no;'
                 f' session-keyfile "{self.folder}/session.key"; check-integrity no;'
                 ' empty-zones-enable no; notify-rate 1000; startup-notify-rate 1000; };\n'
                 'controls { };\n'
                 f'zone "{ZONE}" {{ type primary; file "{self.file}"; ixfr-from-differences yes;'
                 f' allow-transfer {{ {key + ";" if key else HOST + ";"} }}; notify explicit;'
                 f' notify-delay 0; also-notify {{ {HOST} port {self.notify[1]} {key}; }}; }};\n')
        self.spawn("named", "-4", "-g", "-n", "1", "-c", self.write("named.conf", text))


class Knot(Primary):
    offers_ixfr = True

    def start(self):
        text = (f"server:\n    listen: {HOST}@{self.port}\n    rundir: {self.folder}\n"
                f"    pidfile: {self.folder}/knot.pid\n    udp-workers: 1\n    tcp-workers: 1\n"
                f"    background-workers: 1\ncontrol:\n    listen: {self.folder}/knot.sock\n"
                f"log:\n  - target: stderr\n    any: info\ndatabase:\n    storage: {self.folder}/kdb\n")
        key = f"    key: {self.key.name}\n" if self.key else ""
        if self.key:
            text += (f"key:\n  - id: {self.key.name}\n    algorithm: {self.key.algorithm}\n"
                     f"    secret: {self.key.secret}\n")
        text += (f"remote:\n  - id: sluice\n    address: {HOST}@{self.notify[1]}\n{key}"
                 f"acl:\n  - id: transfer\n    address: {HOST}\n    action: transfer\n{key}"
                 f'zone:\n  - domain: "{ZONE}"\n    storage: {self.folder}\n    file: "{self.file}"\n'
                 "    notify: sluice\n    acl: transfer\n    zonefile-load: difference\n"
                 "    zonefile-sync: -1\n    journal-content: changes\n    semantic-checks: off\n")
        (self.folder / "kdb").mkdir(exist_ok=True)
        self.spawn("knotd", "-c", self.write("knot.conf", text))


class Pdns(Primary):
    offers_ixfr = False

    def start(self):
        self.write("bind.conf", f'options {{ directory "{self.folder}"; }};\n'
                   f'zone "{ZONE}" {{ type master; file "{self.file}"; }};\n')
        self.write("pdns.conf",
                   f"launch=bind\nbind-config={self.folder}/bind.conf\n"
                   f"bind-dnssec-db={self.folder}/keys.db\nlocal-address={HOST}\n"
                   f"local-port={self.port}\nsocket-dir={self.folder}\ndaemon=no\nguardian=no\n"
                   "cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\nsecurity-poll-suffix=\n"
                   "receiver-threads=1\ndistributor-threads=1\ndisable-syslog=yes\nwrite-pid=no\n"
                   f"dname-processing=yes\nloglevel=4\nmaster=yes\nallow-axfr-ips={HOST}\n"
                   f"also-notify={HOST}:{self.notify[1]}\nonly-notify=\nslave-cycle-interval=1\n"
                   "setuid=\nsetgid=\n")
        conf = f"--config-dir={self.folder}"
        sluicelib.run("pdnsutil", conf, "create-bind-db", self.folder / "keys.db")
        if self.key:
            for args in (("import-tsig-key", self.key.name, self.key.algorithm, self.key.secret),
                         ("activate-tsig-key", ZONE, self.key.name, "primary")):
                done = sluicelib.run("pdnsutil", conf, *args)
                assert done.returncode == 0, done.stderr
        self.spawn("pdns_server", conf)

    def change(self, text):
        self.file.write_text(text, encoding="ascii")
        for command in (("bind-reload-now", ZONE), ("notify", ZONE)):
            done = subprocess.run(["pdns_control", f"--socket-dir={self.folder}",
                                   f"--config-dir={self.folder}", *command],
                                  capture_output=True, text=True, timeout=sluicelib.DEADLINE, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


ALL = {"nsd": Nsd, "bind": Bind, "knot": Knot, "pdns": Pdns}


# ---- a primary that does as it is told ------------------------------------------------------------


class Scripted:
    """A primary of a few lines: `soa(query)` and `transfer(query, socket)` say what it does."""

    def __init__(self, port, soa, transfer, host=HOST):
        self.soa, self.transfer = soa, transfer
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((host, port))
        self.tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind((host, port))
        self.tcp.listen(16)
        self.transfers = 0
        self.threads = [threading.Thread(target=self._udp, daemon=True),
                        threading.Thread(target=self._tcp, daemon=True)]
        for thread in self.threads:
            thread.start()

    def _udp(self):
        while True:
            try:
                wire, client = self.udp.recvfrom(65535)
                if not wire:  # shut down
                    return
                reply = self.soa(wire)
                if reply is not None:
                    self.udp.sendto(reply, client)
            except OSError:
                return

    def _tcp(self):
        while True:
            try:
                sock, _ = self.tcp.accept()
            except OSError:
                return
            self.transfers += 1
            with sock:
                try:
                    length = sluicelib.receive(sock, 2)
                    wire = sluicelib.receive(sock, int.from_bytes(length, "big"))
                    if wire:
                        self.transfer(wire, sock)
                except OSError:
                    pass

    def close(self):
        for sock in (self.udp, self.tcp):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(sluicelib.DEADLINE)
        self.udp.close()
        self.tcp.close()
