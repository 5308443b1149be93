# SPDX-License-Identifier: Apache-2.0
"""A simulator of Route 53: its API with its limits, over route53sets.py, and what it would answer (route53answers.py).

Every request's signature (AWS signature version 4) is checked by the rules of AWS, a session token
included.  Batches are atomic; an alias needs its target; routing policies do not mix on one name and
type; changes are PENDING until they have been asked for a few times.  An account may hold several
zones, also of one name.
"""
import hashlib
import hmac
import http.server
import socket
import threading
import urllib.parse
import xml.etree.ElementTree

import route53answers
from route53sets import NS, Error, Set, canonical_name, escape, quoted, sort_key, strip, text

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
CREDENTIALS = f"{KEY}:{SECRET}"
BASE = "/2013-04-01"
SERVERS = ["ns-1.awsdns-01.org.", "ns-2.awsdns-02.com."]


class Zone:
    def __init__(self, name, number, reference="x", private=False):
        self.name, self.id, self.reference, self.private = name, number, reference, private
        self.sets = {}


class Route53(route53answers.Answers):
    """An account, served at `url`."""

    def __init__(self, zone="e.test.", page=100, pending=1):
        super().__init__()
        self.zones = {}        # id -> Zone
        self.zone, self.id = zone, self.make_zone(zone).id
        self.page, self.pending = page, pending
        self.checks, self.changes = {}, {}
        self.token = None      # the session token that the credentials need
        self.expired = False   # it is over
        self.references = {}   # CallerReference -> id, or None once removed
        self.requests = []     # (method, path, body)
        self.headers = []      # of each request
        self.fault = lambda index, method, path: None
        self.watch = lambda sim: None  # after each change
        self.lock = threading.Lock()
        sim = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # a reply in one write
            disable_nagle_algorithm = True  # or in two, if it is large
            log_message = lambda self, *args: None

            def serve(self):
                sim.serve(self)

            do_GET = do_POST = do_DELETE = serve

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    # ---- by hand ----------------------------------------------------------------------------------

    @property
    def sets(self):
        """Of the first zone."""
        return self.zones[self.id].sets

    @sets.setter
    def sets(self, sets):
        self.zones[self.id].sets = sets

    def make_zone(self, name, **more):
        zone = Zone(canonical_name(name), f"Z0EXAMPLE{len(self.zones) + 1}", **more)
        self.zones[zone.id] = zone
        for rdtype, values in (("NS", SERVERS),
                               ("SOA", [f"{SERVERS[0]} awsdns-hostmaster.amazon.com. 1 7200 900 1209600 86400"])):
            self.put(name, rdtype, values, ttl=172800, zone=zone)
        return zone

    def put(self, name, rdtype, values, ttl=300, zone=None):
        node = xml.etree.ElementTree.fromstring(
            f"<S><Name>{name}</Name><Type>{rdtype}</Type><TTL>{ttl}</TTL><ResourceRecords>" + "".join(
                f"<ResourceRecord><Value>{v}</Value></ResourceRecord>" for v in values) + "</ResourceRecords></S>")
        item = Set(node)
        (zone.sets if zone else self.sets)[item.key] = item

    def put_xml(self, body):
        item = Set(xml.etree.ElementTree.fromstring(body))
        self.sets[item.key] = item

    def of(self, name, rdtype):
        name = canonical_name(name)
        return [s for s in self.sets.values() if (s.name, s.type) == (name, rdtype)]

    @property
    def writes(self):
        return [r for r in self.requests if r[0] != "GET"]

    # ---- requests ---------------------------------------------------------------------------------

    def serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with self.lock:
            index = len(self.requests)
            self.requests.append((handler.command, handler.path, body))
            self.headers.append(dict(handler.headers))
            fault = self.fault(index, handler.command, handler.path)
            if fault == "kill":  # before anything is done
                handler.close_connection = True
                handler.connection.shutdown(socket.SHUT_RDWR)
                return
            status, reply = 200, b""
            try:
                if fault in ("Throttling", "PriorRequestNotComplete"):
                    raise Error(fault, "Rate exceeded")
                if isinstance(fault, int):
                    raise Error("InternalFailure" if fault >= 500 else "Throttling", "", fault)
                self.check_signature(handler, body)
                status, reply = self.route(handler.command, handler.path, body)
            except Error as error:
                status = error.status
                message = f"[{error.message}]" if error.code == "InvalidChangeBatch" else error.message
                reply = (f'<ErrorResponse xmlns="{NS}"><Error><Type>Sender</Type><Code>{error.code}</Code>'
                         f"<Message>{quoted(message)}</Message></Error><RequestId>1</RequestId></ErrorResponse>")
            if fault == "lost":  # done, but nobody is told
                handler.close_connection = True
                handler.connection.shutdown(socket.SHUT_RDWR)
                return
            reply = reply if isinstance(reply, bytes) else ('<?xml version="1.0"?>\n' + reply).encode()
            if fault == "truncated":
                reply = reply[:len(reply) * 2 // 3]
            handler.send_response(status)
            handler.send_header("Content-Type", "text/xml")
            handler.send_header("Content-Length", str(len(reply)))
            handler.end_headers()
            handler.wfile.write(reply)

    def check_signature(self, handler, body):
        """docs.aws.amazon.com: "Create a signed AWS API request"."""
        given = handler.headers.get("Authorization") or ""
        if not given.startswith("AWS4-HMAC-SHA256 "):
            raise Error("MissingAuthenticationToken", status=403)
        parts = dict(p.strip().split("=", 1) for p in given.split(" ", 1)[1].split(","))
        credential, signed = parts["Credential"], parts["SignedHeaders"].split(";")
        date, scope = handler.headers["X-Amz-Date"], credential.split("/", 1)[1]
        if "host" not in signed or not scope.endswith("/us-east-1/route53/aws4_request"):
            raise Error("SignatureDoesNotMatch", status=403)
        url = urllib.parse.urlsplit(handler.path)
        pairs = sorted(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        query = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in pairs)
        headers = "".join(f"{h}:{' '.join(handler.headers[h].split())}\n" for h in signed)
        request = "\n".join([handler.command, url.path, query, headers, ";".join(signed),
                             hashlib.sha256(body).hexdigest()])
        to_sign = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = ("AWS4" + SECRET).encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        right = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        if credential.split("/")[0] != KEY:
            raise Error("InvalidClientTokenId", "The security token included in the request is invalid.", 403)
        if parts["Signature"] != right:
            raise Error("SignatureDoesNotMatch", status=403)
        token = handler.headers["X-Amz-Security-Token"]
        if token and "x-amz-security-token" not in signed:
            raise Error("SignatureDoesNotMatch", "the token is not signed", 403)
        if token != self.token:
            raise Error("InvalidClientTokenId", "The security token included in the request is invalid.", 403)
        if self.expired:
            raise Error("ExpiredToken", "The security token included in the request is expired", 403)

    def route(self, method, path, body):
        url = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(url.query))
        assert url.path.startswith(BASE), path
        parts = url.path[len(BASE):].strip("/").split("/")
        if method == "GET" and parts == ["hostedzonesbyname"]:
            return 200, self.list_zones(query)
        if parts[0] == "hostedzone":
            return self.route_zone(method, parts[1:], query, body)
        if method == "GET" and parts[0] == "change":
            return 200, self.get_change(parts[1])
        if parts == ["healthcheck"]:
            return (200, self.list_checks(query)) if method == "GET" else self.create_check(body)
        if parts[0] == "healthcheck" and parts[1] in self.checks:
            return 200, self.update_check(parts[1], body) if method == "POST" else self.delete_check(parts[1])
        raise Error("NoSuchHealthCheck", path, status=404)

    # ---- zones ------------------------------------------------------------------------------------

    def route_zone(self, method, parts, query, body):
        if not parts:
            assert method == "POST"
            return self.create_zone(body)
        zone = self.zones.get(parts[0])
        if zone is None:
            raise Error("NoSuchHostedZone", f"No hosted zone found with ID: {parts[0]}", 404)
        if parts[1:] == ["rrset"]:
            return 200, self.list_sets(query, zone) if method == "GET" else self.change(body, zone)
        assert not parts[1:] and method in ("GET", "DELETE")
        if method == "DELETE":
            return 200, self.delete_zone(zone)
        return 200, (f'<GetHostedZoneResponse xmlns="{NS}">{self.zone_xml(zone)}{self.delegation()}'
                     "</GetHostedZoneResponse>")

    @staticmethod
    def zone_xml(zone):
        return (f"<HostedZone><Id>/hostedzone/{zone.id}</Id><Name>{escape(zone.name)}</Name><CallerReference>"
                f"{quoted(zone.reference)}</CallerReference><Config><PrivateZone>{'true' if zone.private else 'false'}"
                f"</PrivateZone></Config><ResourceRecordSetCount>{len(zone.sets)}</ResourceRecordSetCount></HostedZone>")

    @staticmethod
    def delegation():
        servers = "".join(f"<NameServer>{name.rstrip('.')}</NameServer>" for name in SERVERS)
        return f"<DelegationSet><NameServers>{servers}</NameServers></DelegationSet>"

    def list_zones(self, query):
        """In the order of reversed labels, from a name (and id) on."""
        order = lambda zone: (sort_key(zone.name), zone.id)
        items = sorted(self.zones.values(), key=order)
        if "dnsname" in query:
            items = [z for z in items if order(z) >= (sort_key(canonical_name(query["dnsname"])), query.get("hostedzoneid", ""))]
        size = min(self.page, int(query.get("maxitems", 100)), 100)
        more = ""
        if items[size:]:
            more = f"<NextDNSName>{escape(items[size].name)}</NextDNSName><NextHostedZoneId>{items[size].id}</NextHostedZoneId>"
        return (f'<ListHostedZonesByNameResponse xmlns="{NS}"><HostedZones>' + "".join(self.zone_xml(z) for z in items[:size])
                + f"</HostedZones><IsTruncated>{'true' if more else 'false'}</IsTruncated>{more}"
                f"<MaxItems>{size}</MaxItems></ListHostedZonesByNameResponse>")

    def create_zone(self, body):
        tree = strip(xml.etree.ElementTree.fromstring(body))
        assert tree.tag == "CreateHostedZoneRequest" and [child.tag for child in tree][:2] == ["Name", "CallerReference"]
        reference = text(tree, "CallerReference")
        if not 1 <= len(reference) <= 128:
            raise Error("InvalidInput", "CallerReference")
        if any(z.reference == reference for z in self.zones.values()):
            raise Error("HostedZoneAlreadyExists",
                        "A hosted zone has already been created with the specified caller reference.", 409)
        zone = self.make_zone(text(tree, "Name"), reference=reference)
        return 201, (f'<CreateHostedZoneResponse xmlns="{NS}">{self.zone_xml(zone)}{self.note_change()}{self.delegation()}'
                     "</CreateHostedZoneResponse>")

    def delete_zone(self, zone):
        if any((s.name, s.type) not in ((zone.name, "NS"), (zone.name, "SOA")) for s in zone.sets.values()):
            raise Error("HostedZoneNotEmpty", "The specified hosted zone contains non-required resource record sets  "
                        "and so cannot be deleted.")
        del self.zones[zone.id]
        return f'<DeleteHostedZoneResponse xmlns="{NS}">{self.note_change()}</DeleteHostedZoneResponse>'

    def list_sets(self, query, zone):
        order = lambda s: (sort_key(s.name), s.type, s.identifier or "")
        items = sorted(zone.sets.values(), key=order)
        if "name" in query:
            first = (sort_key(canonical_name(query["name"])), query.get("type", ""), query.get("identifier", ""))
            items = [s for s in items if order(s) >= first]
        if not 1 <= int(query.get("maxitems", 300)) <= 300 or "type" in query and "name" not in query:
            raise Error("InvalidInput", "maxitems is 1 to 300, and a type needs a name")
        size = min(self.page, int(query.get("maxitems", 300)))
        rest = items[size:]
        more = ""
        if rest:
            more = f"<NextRecordName>{escape(rest[0].name)}</NextRecordName><NextRecordType>{rest[0].type}</NextRecordType>"
            if rest[0].identifier is not None:
                more += f"<NextRecordIdentifier>{rest[0].identifier}</NextRecordIdentifier>"
        return (f'<ListResourceRecordSetsResponse xmlns="{NS}"><ResourceRecordSets>'
                + "".join(s.xml(shuffled=True) for s in items[:size])
                + f"</ResourceRecordSets><IsTruncated>{'true' if rest else 'false'}</IsTruncated>{more}"
                f"<MaxItems>{size}</MaxItems></ListResourceRecordSetsResponse>")

    # ---- batches ----------------------------------------------------------------------------------

    def change(self, body, zone):
        tree = strip(xml.etree.ElementTree.fromstring(body))
        assert tree.tag == "ChangeResourceRecordSetsRequest"
        changes = [(text(c, "Action"), Set(c.find("ResourceRecordSet"))) for c in tree.findall("ChangeBatch/Changes/Change")]
        times = lambda action: 2 if action == "UPSERT" else 1
        records = sum(times(a) * (len(s.values) or 1) for a, s in changes)
        characters = sum(times(a) * sum(len(v) for v in s.values) for a, s in changes)
        if not changes or records > 1000:
            raise Error("InvalidChangeBatch", f"Number of records limit of 1000 exceeded ({records}).")
        if characters > 32000:
            raise Error("InvalidChangeBatch", f"Number of characters limit of 32000 exceeded ({characters}).")
        sets = dict(zone.sets)
        for action, item in changes:
            if action not in ("CREATE", "DELETE", "UPSERT"):
                raise Error("InvalidInput", "Action")
            if not ("." + item.name).endswith("." + zone.name):
                raise Error("InvalidChangeBatch", f"RRSet with DNS name {item.name} is not permitted in zone {zone.name}")
            self.change_one(sets, action, item, zone)
        self.check_zone(sets)
        zone.sets = sets
        out = (f'<ChangeResourceRecordSetsResponse xmlns="{NS}">{self.note_change()}</ChangeResourceRecordSetsResponse>')
        self.watch(self)
        return out

    def change_one(self, sets, action, item, zone):
        there = sets.get(item.key)
        name = f"{item.name} {item.type} {item.identifier}"
        if action == "CREATE" and there:
            raise Error("InvalidChangeBatch", f"{name} is there already")
        if action == "DELETE":
            if not there or vars(there) | {"values": sorted(there.values)} != vars(item) | {"values": sorted(item.values)}:
                raise Error("InvalidChangeBatch", f"{name} is not as given")
            if item.name == zone.name and item.type in ("NS", "SOA"):
                raise Error("InvalidChangeBatch", "the apex needs NS and SOA")
            del sets[item.key]
            return
        if item.alias:
            target = (item.alias["DNSName"], item.type)
            if item.alias["HostedZoneId"] != zone.id or not any((s.name, s.type) == target for s in sets.values()):
                raise Error("InvalidChangeBatch", f"{name}: the alias target {target} is not there")
        if item.health and item.health not in self.checks:
            raise Error("InvalidChangeBatch", f"{name}: no health check {item.health}")
        sets[item.key] = item

    def check_zone(self, sets):
        groups = {}
        for item in sets.values():
            groups.setdefault((item.name, item.type), []).append(item)
        types = {}
        for (name, rdtype), items in groups.items():
            types.setdefault(name, set()).add(rdtype)
            if len({s.policy for s in items}) > 1:
                raise Error("InvalidChangeBatch", f"{name} {rdtype}: routing policies mix")
            if len({s.ttl for s in items}) > 1 or len(items) > 100 and items[0].policy == "weighted":
                raise Error("InvalidChangeBatch", f"{name} {rdtype}: a group with several TTLs, or too large")
            if items[0].policy == "geo" and len({tuple(s.geo.items()) for s in items}) < len(items):
                raise Error("InvalidChangeBatch", f"{name} {rdtype}: the same place twice")
            if items[0].policy == "failover" and len({s.failover for s in items}) < len(items):
                raise Error("InvalidChangeBatch", f"{name} {rdtype}: two of one role")
            for item in items:
                if item.alias and (item.alias["DNSName"], item.type) not in groups:
                    raise Error("InvalidChangeBatch", f"{name}: its alias target went")
        for name, held in types.items():
            if "CNAME" in held and len(held) > 1:
                raise Error("InvalidChangeBatch", f"{name}: CNAME and others")

    def note_change(self):
        number = f"C{len(self.changes) + 1}"
        self.changes[number] = self.pending
        return self.change_info(number)

    def change_info(self, number):
        status = "INSYNC" if self.changes[number] <= 0 else "PENDING"
        return (f"<ChangeInfo><Id>/change/{number}</Id><Status>{status}</Status>"
                "<SubmittedAt>2026-01-01T00:00:00Z</SubmittedAt></ChangeInfo>")

    def get_change(self, number):
        if number not in self.changes:
            raise Error("NoSuchChange", status=404)
        self.changes[number] -= 1
        return f'<GetChangeResponse xmlns="{NS}">{self.change_info(number)}</GetChangeResponse>'

    # ---- health checks ----------------------------------------------------------------------------

    def check_xml(self, number):
        check = self.checks[number]
        config = "".join(f"<{k}>{quoted(v)}</{k}>" for k, v in check["config"].items())
        return (f"<HealthCheck><Id>{number}</Id><CallerReference>{check['reference']}</CallerReference>"
                f"<HealthCheckConfig>{config}</HealthCheckConfig><HealthCheckVersion>{check['version']}</HealthCheckVersion>"
                "</HealthCheck>")

    def list_checks(self, query):
        items = sorted(self.checks)
        items = [i for i in items if i >= query.get("marker", "")]
        size = min(self.page, int(query.get("maxitems", 100)))
        more = f"<NextMarker>{items[size]}</NextMarker>" if items[size:] else ""
        return (f'<ListHealthChecksResponse xmlns="{NS}"><HealthChecks>' + "".join(self.check_xml(i) for i in items[:size])
                + f"</HealthChecks><IsTruncated>{'true' if more else 'false'}</IsTruncated>{more}"
                f"<MaxItems>{size}</MaxItems></ListHealthChecksResponse>")

    def create_check(self, body):
        tree = strip(xml.etree.ElementTree.fromstring(body))
        reference = text(tree, "CallerReference")
        config = {child.tag: child.text for child in tree.find("HealthCheckConfig")}
        if not 1 <= len(reference) <= 64:
            raise Error("InvalidInput", "CallerReference")
        number = self.references.get(reference, "")
        if number is None or number and self.checks[number]["config"] != config:
            raise Error("HealthCheckAlreadyExists", status=409)
        if not number:
            if "IPAddress" not in config and "FullyQualifiedDomainName" not in config:
                raise Error("InvalidInput", "no target")
            if config["RequestInterval"] not in ("10", "30") or not 1 <= int(config["FailureThreshold"]) <= 10:
                raise Error("InvalidInput", "times")
            if config["Type"] not in ("HTTP", "HTTPS", "TCP", "HTTP_STR_MATCH", "HTTPS_STR_MATCH"):
                raise Error("InvalidInput", "Type")
            if not (1 <= len(config["SearchString"]) <= 255 if "STR_MATCH" in config["Type"] else "SearchString" not in config):
                raise Error("InvalidInput", "SearchString")
            if not 1 <= int(config["Port"]) <= 65535 or len(config.get("ResourcePath", "")) > 255:
                raise Error("InvalidInput", "Port or ResourcePath")
            number = f"{len(self.references) + 1:08x}-0000-4000-8000-000000000000"
            self.references[reference] = number
            self.checks[number] = {"reference": reference, "config": config, "version": 1}
        return 201, f'<CreateHealthCheckResponse xmlns="{NS}">{self.check_xml(number)}</CreateHealthCheckResponse>'

    def update_check(self, number, body):
        tree = strip(xml.etree.ElementTree.fromstring(body))
        check = self.checks[number]
        if int(text(tree, "HealthCheckVersion", check["version"])) != check["version"]:
            raise Error("HealthCheckVersionMismatch", status=409)
        for child in tree:
            if child.tag in ("Type", "RequestInterval"):
                raise Error("InvalidInput", f"{child.tag} cannot change")
            if child.tag != "HealthCheckVersion":
                check["config"][child.tag] = child.text
        check["version"] += 1
        return f'<UpdateHealthCheckResponse xmlns="{NS}">{self.check_xml(number)}</UpdateHealthCheckResponse>'

    def delete_check(self, number):
        if any(s.health == number for zone in self.zones.values() for s in zone.sets.values()):
            raise Error("HealthCheckInUse")
        if any(left > 0 for left in self.changes.values()):
            self.changes = {change: left - 1 for change, left in self.changes.items()}  # time passes
            raise Error("HealthCheckInUse", "a change is still PENDING")
        self.references[self.checks.pop(number)["reference"]] = None
        return f'<DeleteHealthCheckResponse xmlns="{NS}"></DeleteHealthCheckResponse>'
