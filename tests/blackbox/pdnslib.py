# SPDX-License-Identifier: Apache-2.0
"""A PowerDNS server with its API, its own sqlite database and the location data of tests/geo."""
import collections
import http.server
import ipaddress
import json
import pathlib
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.request

import dns.message

import serverlib
import sluicelib

HOST = "127.0.0.1"
ZONE = "e.test."
KEY = "an-api-key"
SCHEMA = pathlib.Path("/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql")
# A geoip backend without any domain ends the server at its start.
GEO_ZONE = """\
domains:
- domain: geo.invalid
  ttl: 30
  records:
    geo.invalid:
    - soa: ns.geo.invalid hostmaster.geo.invalid 1 7200 3600 86400 60
"""


class Pdns:
    def __init__(self, folder, asn=True, settings=""):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.dns, self.web = sluicelib.Port(), sluicelib.Port()
        self.port = self.dns.number
        self.url = f"http://{HOST}:{self.web.number}"
        database = sqlite3.connect(self.folder / "pdns.db")
        database.executescript(SCHEMA.read_text(encoding="ascii"))
        database.close()
        (self.folder / "geo.yaml").write_text(GEO_ZONE, encoding="ascii")
        files = f"mmdb:{sluicelib.REPO}/tests/geo/test-city.mmdb"
        if asn:
            done = sluicelib.run("python3", sluicelib.REPO / "tests/geo/make_mmdb.py", "--schema", "asn",
                                 sluicelib.REPO / "tests/geo/asns.json", self.folder / "asn.mmdb")
            assert done.returncode == 0, done.stderr
            files += f" mmdb:{self.folder}/asn.mmdb"
        config = {
            "launch": "gsqlite3,geoip", "gsqlite3-database": self.folder / "pdns.db",
            "geoip-database-files": files, "geoip-zones-file": self.folder / "geo.yaml",
            "enable-lua-records": "yes", "edns-subnet-processing": "yes", "local-address": HOST,
            "local-port": self.port, "api": "yes", "api-key": KEY, "webserver": "yes",
            "webserver-address": HOST, "webserver-port": self.web.number, "socket-dir": self.folder,
            "daemon": "no", "guardian": "no", "disable-syslog": "yes", "write-pid": "no",
            "security-poll-suffix": "", "receiver-threads": 1, "distributor-threads": 1, "loglevel": 4,
            "lua-health-checks-interval": 1, "setuid": "", "setgid": "",
        }
        config.update(dict(line.split("=", 1) for line in settings.splitlines()))
        text = "".join(f"{key}={value}\n" for key, value in config.items()
                       if "geoip" in config["launch"] or not key.startswith("geoip-"))
        (self.folder / "pdns.conf").write_text(text, encoding="ascii")
        self.process = sluicelib.Process("pdns_server", f"--config-dir={self.folder}", cwd=self.folder)
        serverlib.wait_for(self.is_up, "the API of PowerDNS")

    def is_up(self):
        assert self.process.alive(), self.process.log
        try:
            return self.api("GET", "")[0] == 200
        except OSError:
            return False

    def api(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self.url}/api/v1/servers/localhost{path}", method=method, headers={"X-API-Key": KEY},
            data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=sluicelib.DEADLINE) as reply:
                data = reply.read()
                return reply.status, json.loads(data) if data else None
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def make_zone(self, zone=ZONE):
        """Each change is one serial more, also at midnight."""
        status, text = self.api("POST", "/zones", {"name": zone, "kind": "Native", "nameservers": [f"ns1.{zone}"],
                                                   "soa_edit_api": "INCREASE"})
        assert status == 201, text

    def put(self, name, rdtype, contents, ttl=30, zone=ZONE, **more):
        """Makes an RRset by hand."""
        status, text = self.api("PATCH", f"/zones/{zone}", {"rrsets": [dict({
            "name": name, "type": rdtype, "ttl": ttl, "changetype": "REPLACE",
            "records": [{"content": c, "disabled": False} for c in contents]}, **more)]})
        assert status == 204, text

    def rrset(self, name, rdtype, zone=ZONE):
        for rrset in self.api("GET", f"/zones/{zone}")[1]["rrsets"]:
            if (rrset["name"], rrset["type"]) == (name, rdtype) and rrset["records"]:
                return rrset
        return None

    def serial(self, zone=ZONE):
        return self.api("GET", f"/zones/{zone}")[1]["serial"]

    def ask(self, name, rdtype="A", **options):
        return sluicelib.ask(HOST, self.port, name, rdtype, **options)

    def draws(self, name, count, rdtype="A", ecs=None):
        """Counts of the answers to `count` queries; an answer is its data, sorted, with spaces."""
        query = sluicelib.make_query(name, rdtype, ecs=ecs)
        counts = collections.Counter()
        replies = sluicelib.flood(HOST, self.port, query.to_wire(), count, window=16)
        for wire, times in replies.items():
            reply = dns.message.from_wire(b"\0\0" + wire)
            assert sluicelib.rcode(reply) == "NOERROR" and reply.answer, reply
            counts[" ".join(sorted(sluicelib.rdata(reply)))] += times
        return counts

    def close(self):
        self.process.kill()
        self.dns.close()
        self.web.close()


# ---- the driver -----------------------------------------------------------------------------------


def once(server, *steps, domains=(), status=0, zone=ZONE, **more):
    """Runs tests/providers/provider_once; `server` may be an address."""
    url = server if isinstance(server, str) else server.url
    document = {"settings": {"type": "powerdns", "url": url, "secret": "key"}, "key": KEY,
                "zone": zone, "domains": list(domains), "do": list(steps), "deadline": 60000}
    document.update(more)
    done = subprocess.run([sluicelib.BUILD / "tests/providers/provider_once"], input=json.dumps(document),
                          capture_output=True, text=True, timeout=3 * sluicelib.DEADLINE,
                          env=sluicelib.environment(), check=False)
    assert not sluicelib.SANITIZER.search(done.stderr), done.stderr
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def domain(regions, endpoints, name="cdn", ttl=30, answers=1, pushed=True, **more):
    """A document of a domain for once().

    endpoints: {name: [addresses] or host name, or (that, False) when disabled};
    regions: {name: (atoms, [{endpoint: weight}, ...])}
    """
    items = []
    families = set()
    for key, value in endpoints.items():
        value, enabled = value if isinstance(value, tuple) else (value, True)
        where = {"host": value} if isinstance(value, str) else {"addresses": value}
        families |= {"CNAME"} if isinstance(value, str) else {
            "AAAA" if ipaddress.ip_address(a).version == 6 else "A" for a in value}
        items.append({"name": key, "enabled": enabled, **where})
    steer = {"owner": f"{name}.{ZONE}", "ttl": ttl, "answers": answers, "draw_per": "query",
             "types": sorted(families), "endpoints": items,
             "regions": [{"name": key, "atoms": atoms, "levels": [[list(e) for e in level.items()] for level in levels]}
                         for key, (atoms, levels) in regions.items()]}
    return {"steer": steer, "pushed": pushed, **more}


# ---- faults -----------------------------------------------------------------------------------------


class Faulty(http.server.ThreadingHTTPServer):
    """Stands before a server; from request `first` (from 1) on, requests fail as `fault` says:
    "refused" (never forwarded), "lost" (forwarded, no reply), "cut" (half of the reply), or a status."""

    def __init__(self, pdns, first, fault):
        self.pdns, self.first, self.fault, self.seen = pdns, first, fault, []
        super().__init__((HOST, 0), _FaultyHandler)
        self.url = f"http://{HOST}:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class _FaultyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(self.command)
        bad = len(self.server.seen) >= self.server.first
        fault = self.server.fault if bad else None
        if fault == "refused":
            self.close_connection = True
            return
        if isinstance(fault, int):
            self.answer(fault, b"no")
            return
        request = urllib.request.Request(self.server.pdns.url + self.path, method=self.command, data=body or None,
                                         headers={"X-API-Key": self.headers["X-API-Key"]})
        try:
            with urllib.request.urlopen(request, timeout=sluicelib.DEADLINE) as reply:
                status, data = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            status, data = error.code, error.read()
        if fault == "lost":
            self.close_connection = True
            return
        self.answer(status, data, cut=fault == "cut")

    def answer(self, status, data, cut=False):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) + cut))
        self.end_headers()
        self.wfile.write(data[:len(data) // 2] if cut else data)
        self.close_connection = self.close_connection or cut

    do_GET = do_PATCH = do_POST = do_DELETE = handle_any

    def log_message(self, *args):
        pass
