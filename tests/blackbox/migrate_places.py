# SPDX-License-Identifier: Apache-2.0
"""The providers of migrations under faults (migrate_faults_network.py): each behind a proxy, with what it holds,
and a record of somebody else.

Every place has: proxy; rewrite(text), which puts the proxy's address into defaults.yaml; put_foreign(); and
dump(): {(kind, name, type): something comparable} of all that it holds, but for the SOA."""
import json
import os
import pathlib
import re
import socket
import threading

import dns.query
import dns.xfr
import dns.zone

import faultlib
import migrate_world
import secondaries
import serverlib
import sluicelib
from checkers_network import add_address
from migrate_world import ADDRESSES, KEY, NAMES, PARENT, PROVIDER, ZONE

BIND = ("127.0.8.1", "127.0.8.2")
DNS_MODES = {"429": "SERVFAIL", "500": "REFUSED", "503": "SERVFAIL", "denied": "REFUSED"}
SOCKET_MODES = {"429": "denied", "500": "denied", "503": "denied", "reset": "close"}


class Place:
    modes = {}        # what a fault is called here
    foreign = ()      # keys of dump()
    settings = ", timeout: {}"

    def __init__(self, world, label, faults):
        self.world, self.label = world, label

    def rewrite(self, line, timeout):
        """A line of defaults.yaml."""
        if self.old not in line:
            return line
        line = re.sub(r", timeout: \w+", "", line.replace(self.old, self.new)).rstrip("}\n")
        return f"{line}{self.settings.format(timeout)}}}\n"

    def put_foreign(self):
        pass

    def dump(self):
        return {}

    def has_zone(self):
        return any(rdtype.startswith("NS") for _, _, rdtype in self.dump())

    def close(self):
        self.proxy.close()


class HttpPlace(Place):
    def __init__(self, world, label, faults):
        super().__init__(world, label, faults)
        self.proxy = faultlib.HttpProxy(self.url, faults)
        self.old, self.new = f"url: '{self.url}'", f"url: '{self.proxy.url}'"


class PowerDns(HttpPlace):
    foreign = (("pdns", "theirs." + ZONE, "A"),)

    @property
    def url(self):
        return self.world.servers["pdns"].url

    def put_foreign(self):
        self.world.servers["pdns"].put("theirs." + ZONE, "A", ["192.0.2.66"], zone=ZONE)

    def dump(self):
        status, zone = self.world.servers["pdns"].api("GET", f"/zones/{ZONE}")
        out = {("pdns", "zone", str(status)): []}
        for rrset in zone["rrsets"] if status == 200 else []:
            if rrset["type"] != "SOA":
                records = sorted(json.dumps(r, sort_keys=True) for r in rrset["records"])
                out["pdns", rrset["name"], rrset["type"]] = [str(rrset["ttl"]), *records]
        return out


class Route53(HttpPlace):
    foreign = (("r53", "theirs." + ZONE, "A/None"),)

    @property
    def url(self):
        return self.world.sim.url

    def zone(self):
        return next((z for z in self.world.sim.zones.values() if z.name == ZONE), None)

    def put_foreign(self):
        with self.world.sim.lock:
            self.world.sim.put("theirs." + ZONE, "A", ["192.0.2.66"], zone=self.zone())

    def dump(self):
        with self.world.sim.lock:
            zones = [z for z in self.world.sim.zones.values() if z.name == ZONE]
            assert len(zones) < 2, zones  # one that was made twice
            sets = zones[0].sets.items() if zones else ()
            return {("r53", "zone", str(len(zones))): [],
                    **{("r53", name, f"{rdtype}/{identifier}"): [json.dumps({**vars(item), "values": sorted(item.values)}, sort_keys=True)]
                       for (name, rdtype, identifier), item in sets if rdtype != "SOA"}}


class Ns1(HttpPlace):
    foreign = (("ns1", "theirs." + ZONE, "A"),)

    @property
    def url(self):
        return self.world.sim.url

    def put_foreign(self):
        with self.world.sim.lock:
            self.world.sim.put("theirs." + ZONE.rstrip("."), "A", [["192.0.2.66"]], zone=ZONE.rstrip("."))

    def dump(self):
        with self.world.sim.lock:
            records = self.world.sim.zones.get(ZONE.rstrip("."))
            labels = {i: f["config"]["label"] for feeds in self.world.sim.feeds.values() for i, f in feeds.items()}
            out = {("ns1", "zone", str(records is not None)): [], ("ns1", "feeds", ""): sorted(labels.values())}
            for (name, rdtype), record in (records or {}).items():
                text = json.dumps(record, sort_keys=True)
                for number, label in labels.items():
                    text = text.replace(number, label)
                out["ns1", f"{name}.", rdtype] = [text]
            return out


class NameServer(Place):
    """A primary that is transferred from and updated."""
    modes = DNS_MODES
    zone = ZONE

    def __init__(self, world, label, faults):
        super().__init__(world, label, faults)
        self.proxy = faultlib.DnsProxy(53, faults)
        self.proxy.target = (self.address, 53)
        self.old, self.new = f"address: {self.address},", f"address: 127.0.0.1@{self.proxy.port},"

    @property
    def address(self):
        return ADDRESSES[self.label][0]

    @property
    def foreign(self):
        return ((self.label, "alien." + self.zone, "TXT"),)

    def put_foreign(self):
        migrate_world.update(self.address, self.zone, lambda m: m.add("alien." + self.zone, 30, "TXT", '"theirs"'))

    def dump(self):
        result = dns.zone.Zone(self.zone, relativize=False)
        query, _ = dns.xfr.make_query(result, keyring=KEY.ring(), keyname=KEY.name, keyalgorithm=KEY.algorithm)
        dns.query.inbound_xfr(self.address, result, query=query, lifetime=sluicelib.DEADLINE)
        out = {}
        for line in secondaries.texts(result):
            name, ttl, rdtype, data = line.split(" ", 3)
            if rdtype != "SOA":
                out.setdefault((self.label, name, rdtype), []).append(f"{ttl} {data}")
        return {key: sorted(value) for key, value in out.items()}


class Parent(NameServer):
    zone, address = "example.", PARENT
    settings = f", timeout: {{}}, servers: [{PARENT}]"


class SocketProxy:
    """Before a control socket: a line, and a line in reply."""

    def __init__(self, target, path, faults):
        self.target, self.path, self.faults = str(target), str(path), faults
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join(sluicelib.DEADLINE)
        self.listener.close()
        os.unlink(self.path)

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            client.settimeout(sluicelib.DEADLINE)
            try:
                line = client.makefile("rb").readline()
                if line:
                    self.answer(client, line)
            except OSError:
                pass  # a killed client

    def answer(self, client, line):
        request = self.faults.arrive("ASK", "", False)
        mode = request.mode
        if mode == "before":
            self.faults.kill()
        elif mode == "silent":
            faultlib.wait_for_end(client)
        elif mode in ("garbage", "denied"):
            client.sendall(faultlib.HOTEL + b"\n" if mode == "garbage" else b'{"ok": false, "code": 1, "error": "injected"}\n')
        if mode in ("before", "silent", "garbage", "denied", "close"):
            return
        with socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(self.target)
            upstream.sendall(line)
            reply = upstream.makefile("rb").readline()
        if mode == "after":
            self.faults.kill()
        if mode in ("after", "lost"):
            return
        client.sendall(reply[:len(reply) // 2] + (b"\n" if mode == "short" else b"") if mode in ("cut", "short") else reply)


class Own(Place):
    """Our own server, which changes by deploys only."""
    modes = SOCKET_MODES

    def __init__(self, world, label, faults):
        super().__init__(world, label, faults)
        self.proxy = SocketProxy(world.control, f"{world.control}.proxy", faults)

    def rewrite(self, line, timeout):
        return line


PLACES = {"pdns": PowerDns, "r53": Route53, "ns1": Ns1, "knot": NameServer, "bind": NameServer, "parent": Parent, "own": Own}


class Bind:
    """One named for the zone that the key may transfer and update."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        for number, address in enumerate(BIND, 1):
            add_address(address, number)  # it listens only where an interface has the address
        (self.folder / "zone").write_text(f"$ORIGIN {ZONE}\n" + migrate_world.soa() + "".join(f"@ 1 IN NS {n}\n" for n in NAMES["bind"]),
                                          encoding="ascii")
        (self.folder / "named.conf").write_text(f"""\
key {KEY.name} {{ algorithm {KEY.algorithm}; secret "{KEY.secret}"; }};
options {{ directory "{self.folder}"; listen-on {{ {"; ".join(BIND)}; }}; listen-on-v6 {{ none; }};
  recursion no; pid-file none; dnssec-validation no; session-keyfile "{self.folder}/session.key";
  empty-zones-enable no; notify no; }};
controls {{ }};
zone "{ZONE}" {{ type primary; file "{self.folder}/zone"; allow-transfer {{ key {KEY.name}; }};
  allow-update {{ key {KEY.name}; }}; check-integrity no; }};
""", encoding="ascii")
        self.process = sluicelib.Process("named", "-4", "-g", "-n", "1", "-c", self.folder / "named.conf", cwd=self.folder)

    def close(self):
        self.process.kill()


class BindWorld(migrate_world.World):
    """Beside PowerDNS, BIND has the zone."""

    def __init__(self, folder, at):
        ADDRESSES["bind"], NAMES["bind"] = BIND, tuple(f"ns{i}.bind.example." for i in (1, 2))
        PROVIDER["bind"] = "dns-bind"
        super().__init__(folder, at=at, kinds=("pdns",))

    def start_parent(self):
        super().start_parent()
        self.servers["bind"] = Bind(self.folder / "target")
        serverlib.wait_for(lambda: self.is_up(BIND[0], ZONE), "BIND")

    def write(self, **options):
        text = options.pop("domain", migrate_world.DOMAIN)
        super().write(domain=text.replace("dns-knot:", "dns-bind:"), **options)
        with open(self.folder / "config/defaults.yaml", "a", encoding="ascii") as defaults:
            defaults.write(f"  dns-bind: {{type: rfc2136, address: {BIND[0]}, secret: tsig, timeout: 30s}}\n")
