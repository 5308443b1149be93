# SPDX-License-Identifier: Apache-2.0
"""Real servers as secondaries of zones, on loopback and a port of their own.

Each has the same interface: Secondary(folder, primary port, zones, key=None, catalog=None); start(),
serial(zone), transfer(zone), kill().  `catalog` is a catalog zone to be followed.
"""
import pathlib
import socket
import threading

import dns.message
import dns.query
import dns.xfr
import dns.zone

import serverlib
import sluicelib

HOST = "127.0.0.1"


class Secondary:
    """What all of them have in common."""

    consumes_catalogs = True
    asks_ixfr = True

    def __init__(self, folder, primary_port, zones=("example.com",), key=None, catalog=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.reserved = sluicelib.Port(HOST)
        self.port = self.reserved.number
        self.primary, self.zones, self.key, self.catalog = primary_port, list(zones), key, catalog
        self.process = None

    @property
    def address(self):
        return f"{HOST}@{self.port}"

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="ascii")
        return self.folder / name

    def spawn(self, *argv):
        self.process = sluicelib.Process(*argv, cwd=self.folder)

    def serial(self, zone="example.com"):
        """The serial that it serves; None if it serves nothing (yet)."""
        try:
            reply = sluicelib.ask(HOST, self.port, zone, "SOA", timeout=2)
        except (OSError, sluicelib.dns.exception.Timeout):
            return None
        return reply.answer[0][0].serial if reply.answer else None

    def wait_serial(self, serial, zone="example.com"):
        serverlib.wait_for(lambda: self.serial(zone) == serial or not self.process.alive(),
                           f"serial {serial} of {zone} at {type(self).__name__}")
        assert self.process.alive(), self.process.log

    def transfer(self, zone="example.com"):
        """The whole zone as it has it."""
        return transfer(self.port, zone)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            if self.process.log:
                print(f"--- {type(self).__name__}\n{self.process.log[-3000:]}")
        self.reserved.close()


def transfer(port, zone="example.com", key=None, **options):
    """AXFR; the records of the zone as sorted texts."""
    result = dns.zone.Zone(zone, relativize=False)
    query, _ = dns.xfr.make_query(result, **(key.options() if key else {}))
    dns.query.inbound_xfr(HOST, result, query=query, port=port, timeout=sluicelib.DEADLINE,
                          lifetime=sluicelib.DEADLINE, **options)
    return texts(result)


def texts(zone):
    return sorted(f"{name.to_text().lower()} {ttl} {data.rdtype.name} {data.to_text()}"
                  for name, ttl, data in zone.iterate_rdatas())


class Nsd(Secondary):
    consumes_catalogs = False  # version 4.6 has none

    def start(self):
        key = self.key.name if self.key else "NOKEY"
        text = (f'server:\n  ip-address: {HOST}@{self.port}\n  port: {self.port}\n  server-count: 1\n'
                f'  username: ""\n  zonesdir: "{self.folder}"\n  database: ""\n  do-ip6: no\n'
                f'  zonelistfile: "{self.folder}/zone.list"\n  xfrdfile: "{self.folder}/xfrd.state"\n'
                f'  xfrdir: "{self.folder}"\n  pidfile: "{self.folder}/nsd.pid"\n  rrl-ratelimit: 0\n'
                '  verbosity: 2\n  xfrd-reload-timeout: 0\nremote-control:\n  control-enable: no\n')
        if self.key:
            text += (f'key:\n  name: "{key}"\n  algorithm: {self.key.algorithm}\n'
                     f'  secret: "{self.key.secret}"\n')
        for zone in self.zones:
            text += (f'zone:\n  name: "{zone}"\n  zonefile: "{zone}.zone"\n'
                     f'  request-xfr: {HOST}@{self.primary} {key}\n  allow-notify: {HOST} {key}\n'
                     f'  provide-xfr: {HOST} NOKEY\n')
        self.spawn("nsd", "-d", "-c", self.write("nsd.conf", text))


class Bind(Secondary):
    def start(self):
        key = f" key {self.key.name}" if self.key else ""
        primaries = f"{{ {HOST} port {self.primary}{key}; }}"
        text = ""
        if self.key:
            text = (f'key {self.key.name} {{ algorithm {self.key.algorithm}; '
                    f'secret "{self.key.secret}"; }};\n')
        catalog = ""
        if self.catalog:
            catalog = (f' catalog-zones {{ zone "{self.catalog}" default-primaries {primaries}'
                       f' zone-directory "{self.folder}" min-update-interval 1; }};')
        text += (f'options {{ directory "{self.folder}"; listen-on port {self.port} {{ {HOST}; }};'
                 ' listen-on-v6 { none; }; recursion no; pid-file none; dnssec-validation no;'
                 f' session-keyfile "{self.folder}/session.key"; empty-zones-enable no; notify no;'
                 ' serial-query-rate 1000; min-refresh-time 1; min-retry-time 1;'
                 f' allow-transfer {{ {HOST}; }};{catalog} }};\ncontrols {{ }};\n')
        for zone in self.zones + ([self.catalog] if self.catalog else []):
            text += (f'zone "{zone}" {{ type secondary; primaries {primaries}; file "{zone}.db";'
                     f' allow-notify {{ {HOST}; }}; }};\n')
        self.spawn("named", "-4", "-g", "-n", "1", "-c", self.write("named.conf", text))


class Knot(Secondary):
    def start(self):
        key = f"    key: {self.key.name}\n" if self.key else ""
        text = (f"server:\n    listen: {HOST}@{self.port}\n    rundir: {self.folder}\n"
                f"    pidfile: {self.folder}/knot.pid\n    udp-workers: 1\n    tcp-workers: 1\n"
                f"    background-workers: 1\ncontrol:\n    listen: {self.folder}/knot.sock\n"
                f"log:\n  - target: stderr\n    any: info\ndatabase:\n    storage: {self.folder}/kdb\n")
        if self.key:
            text += (f"key:\n  - id: {self.key.name}\n    algorithm: {self.key.algorithm}\n"
                     f"    secret: {self.key.secret}\n")
        text += (f"remote:\n  - id: sluice\n    address: {HOST}@{self.primary}\n{key}"
                 f"acl:\n  - id: notify\n    address: {HOST}\n    action: notify\n{key}"
                 f"  - id: transfer\n    address: {HOST}\n    action: transfer\n"
                 "template:\n  - id: member\n    master: sluice\n    acl: [notify, transfer]\n"
                 f"    storage: {self.folder}\n    journal-content: none\nzone:\n")
        for zone in self.zones:
            text += f"  - domain: {zone}\n    template: member\n"
        if self.catalog:
            text += (f"  - domain: {self.catalog}\n    template: member\n"
                     "    catalog-role: interpret\n    catalog-template: member\n")
        (self.folder / "kdb").mkdir(exist_ok=True)
        self.spawn("knotd", "-c", self.write("knot.conf", text))


class Pdns(Secondary):
    consumes_catalogs = False  # since 4.8
    asks_ixfr = False  # the backend of plain files takes whole zones only

    def start(self):
        zones = "".join(f'zone "{zone}" {{ type slave; masters {{ {HOST}:{self.primary}; }};'
                        f' file "{self.folder}/{zone}.zone"; }};\n' for zone in self.zones)
        self.write("bind.conf", f'options {{ directory "{self.folder}"; }};\n{zones}')
        self.write("pdns.conf",
                   f"launch=bind\nbind-config={self.folder}/bind.conf\n"
                   f"bind-dnssec-db={self.folder}/keys.db\nlocal-address={HOST}\n"
                   f"local-port={self.port}\nsocket-dir={self.folder}\ndaemon=no\nguardian=no\n"
                   "cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\nzone-cache-refresh-interval=0\n"
                   "security-poll-suffix=\nreceiver-threads=1\ndistributor-threads=1\n"
                   "disable-syslog=yes\nwrite-pid=no\ndname-processing=yes\nloglevel=5\nslave=yes\n"
                   f"slave-cycle-interval=1\nallow-axfr-ips={HOST}\nsetuid=\nsetgid=\n")
        conf = f"--config-dir={self.folder}"
        commands = [("create-bind-db", self.folder / "keys.db")]
        if self.key:
            commands.append(("import-tsig-key", self.key.name, self.key.algorithm, self.key.secret))
            for zone in self.zones:
                commands.append(("activate-tsig-key", zone, self.key.name, "secondary"))
        for command in commands:
            done = sluicelib.run("pdnsutil", conf, *command)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
        self.spawn("pdns_server", conf)


ALL = {"nsd": Nsd, "bind": Bind, "knot": Knot, "pdns": Pdns}


# ---- one that only listens ------------------------------------------------------------------------


class Listener:
    """Takes NOTIFY messages, and answers them if `answer`."""

    def __init__(self, answer=True):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((HOST, 0))
        self.answer = answer
        self.got = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @property
    def address(self):
        return f"{HOST}@{self.sock.getsockname()[1]}"

    def _run(self):
        while True:
            wire, peer = self.sock.recvfrom(65535)
            if not wire:  # shut down
                return
            message = dns.message.from_wire(wire)
            self.got.append((message, peer))
            if self.answer:
                self.sock.sendto(dns.message.make_response(message).to_wire(), peer)

    def serials(self):
        """Of all messages, repetitions left out: those are told apart by their IDs."""
        return [serial for _, serial in dict.fromkeys((m.id, m.answer[0][0].serial) for m, _ in self.got)]

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is not connected; the thread ends all the same
        self.thread.join(sluicelib.DEADLINE)
        self.sock.close()
