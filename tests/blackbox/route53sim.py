# SPDX-License-Identifier: Apache-2.0
"""A simulator of Route 53: its API with its limits, and what it would answer.

Every request's signature (AWS signature version 4) is checked by the rules of AWS.  Batches are
atomic; an alias needs its target; routing policies do not mix on one name and type; changes are
PENDING until they have been asked for a few times.  The evaluator follows AWS's documented rules.
"""
import fractions
import hashlib
import hmac
import http.server
import socket
import threading
import urllib.parse
import xml.etree.ElementTree
import xml.sax.saxutils

NS = "https://route53.amazonaws.com/doc/2013-04-01/"
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
CREDENTIALS = f"{KEY}:{SECRET}"
BASE = "/2013-04-01"


class Error(Exception):
    def __init__(self, code, message="", status=400):
        super().__init__(code, message)
        self.code, self.message, self.status = code, message, status


def strip(tree):
    """Removes the namespace, and tells whether it was the right one."""
    for node in tree.iter():
        assert node.tag.startswith("{" + NS + "}"), node.tag
        node.tag = node.tag.split("}")[1]
    return tree


def text(node, path, otherwise=None):
    found = node.find(path)
    return otherwise if found is None else (found.text or "")


def quoted(value):
    return xml.sax.saxutils.escape(str(value))


def escape(name):
    """Names as Route 53 tells them: octal escapes of all but a-z 0-9 - _ ."""
    return "".join(c if c.isalnum() or c in "-_.\\" else f"\\{ord(c):03o}" for c in name.lower())


def canonical_name(name):
    name = name.lower().replace("*", "\\052")
    return name if name.endswith(".") else name + "."


def sort_key(name):
    return name.rstrip(".").split(".")[::-1]


class Set:
    """One resource record set."""
    ORDER = ["Name", "Type", "SetIdentifier", "Weight", "Region", "GeoLocation", "Failover", "MultiValueAnswer", "TTL",
             "ResourceRecords", "AliasTarget", "HealthCheckId"]

    def __init__(self, node):
        tags = [child.tag for child in node]
        if tags != sorted(tags, key=self.ORDER.index):
            raise Error("InvalidInput", f"order of elements: {tags}")
        self.name, self.type = canonical_name(text(node, "Name")), text(node, "Type")
        self.identifier = text(node, "SetIdentifier")
        self.weight = None if text(node, "Weight") is None else int(text(node, "Weight"))
        self.geo = None
        if node.find("GeoLocation") is not None:
            self.geo = {child.tag: child.text for child in node.find("GeoLocation")}
        self.failover, self.region = text(node, "Failover"), text(node, "Region")
        self.ttl = None if text(node, "TTL") is None else int(text(node, "TTL"))
        self.values = [v.text for v in node.findall("ResourceRecords/ResourceRecord/Value")]
        self.alias = None
        if node.find("AliasTarget") is not None:
            self.alias = {child.tag: child.text for child in node.find("AliasTarget")}
            self.alias["DNSName"] = canonical_name(self.alias["DNSName"])
        self.health = text(node, "HealthCheckId")
        self.check()

    @property
    def key(self):
        return (self.name, self.type, self.identifier)

    @property
    def policy(self):
        return ("weighted" if self.weight is not None else "geo" if self.geo else
                "failover" if self.failover else "latency" if self.region else "simple")

    def check(self):
        policies = sum([self.weight is not None, bool(self.geo), bool(self.failover), bool(self.region)])
        if policies > 1 or (policies == 1) != (self.identifier is not None):
            raise Error("InvalidInput", "a set has one routing policy, and then an identifier")
        if self.identifier is not None and not 1 <= len(self.identifier) <= 128:
            raise Error("InvalidInput", "SetIdentifier")
        if self.alias and (self.ttl is not None or self.values):
            raise Error("InvalidInput", "an alias has no TTL")
        if not self.alias and (self.ttl is None or not self.values):
            raise Error("InvalidInput", "TTL or values are missing")
        if self.weight is not None and not 0 <= self.weight <= 255:
            raise Error("InvalidInput", "Weight")
        if self.type == "CNAME" and not self.alias and len(self.values) != 1:
            raise Error("InvalidInput", "several CNAMEs")
        if self.geo:
            sub = self.geo.get("SubdivisionCode")
            if sub and self.geo.get("CountryCode") != "US":
                raise Error("InvalidInput", "only states of the US")
            if "ContinentCode" in self.geo and len(self.geo) > 1:
                raise Error("InvalidInput", "a continent stands alone")

    def __eq__(self, other):
        return vars(self) == vars(other)

    def xml(self, shuffled=False):
        out = f"<Name>{escape(self.name)}</Name><Type>{self.type}</Type>"
        if self.identifier is not None:
            out += f"<SetIdentifier>{quoted(self.identifier)}</SetIdentifier>"
        if self.weight is not None:
            out += f"<Weight>{self.weight}</Weight>"
        if self.region:
            out += f"<Region>{self.region}</Region>"
        if self.geo:
            out += "<GeoLocation>" + "".join(f"<{k}>{v}</{k}>" for k, v in self.geo.items()) + "</GeoLocation>"
        if self.failover:
            out += f"<Failover>{self.failover}</Failover>"
        if self.ttl is not None:
            values = self.values[::-1] if shuffled else self.values
            out += f"<TTL>{self.ttl}</TTL><ResourceRecords>" + "".join(
                f"<ResourceRecord><Value>{quoted(v)}</Value></ResourceRecord>" for v in values) + "</ResourceRecords>"
        if self.alias:
            out += "<AliasTarget>" + "".join(
                f"<{k}>{escape(v) if k == 'DNSName' else v}</{k}>" for k, v in self.alias.items()) + "</AliasTarget>"
        if self.health:
            out += f"<HealthCheckId>{self.health}</HealthCheckId>"
        return f"<ResourceRecordSet>{out}</ResourceRecordSet>"


class Route53:
    def __init__(self, zone="e.test.", page=100, pending=1):
        self.zone, self.id = zone, "Z0EXAMPLE1"
        self.page, self.pending = page, pending
        self.sets, self.checks, self.changes = {}, {}, {}
        self.healthy = {}      # health check id -> what its probes say
        self.references = {}   # CallerReference -> id, or None once removed
        self.requests = []     # (method, path, body)
        self.fault = lambda index, method, path: None
        self.watch = lambda sim: None  # after each change
        self.lock = threading.Lock()
        for rdtype, values in (("NS", ["ns-1.awsdns-01.org.", "ns-2.awsdns-02.com."]),
                               ("SOA", ["ns-1.awsdns-01.org. awsdns-hostmaster.amazon.com. 1 7200 900 1209600 86400"])):
            self.put(zone, rdtype, values, ttl=172800)
        sim = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # a reply in one write
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

    def put(self, name, rdtype, values, ttl=300):
        node = xml.etree.ElementTree.fromstring(
            f"<S><Name>{name}</Name><Type>{rdtype}</Type><TTL>{ttl}</TTL><ResourceRecords>" + "".join(
                f"<ResourceRecord><Value>{v}</Value></ResourceRecord>" for v in values) + "</ResourceRecords></S>")
        item = Set(node)
        self.sets[item.key] = item

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
        if parts["Signature"] != right or credential.split("/")[0] != KEY:
            raise Error("SignatureDoesNotMatch", status=403)

    def route(self, method, path, body):
        url = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(url.query))
        assert url.path.startswith(BASE), path
        parts = url.path[len(BASE):].strip("/").split("/")
        if method == "GET" and parts == ["hostedzonesbyname"]:
            return 200, self.list_zones(query)
        if parts[0] == "hostedzone" and parts[1] != self.id:
            raise Error("NoSuchHostedZone", status=404)
        if method == "GET" and parts == ["hostedzone", self.id]:
            servers = "".join(f"<NameServer>{v.rstrip('.')}</NameServer>" for v in self.sets[(self.zone, "NS", None)].values)
            return 200, (f'<GetHostedZoneResponse xmlns="{NS}"><DelegationSet><NameServers>{servers}'
                         "</NameServers></DelegationSet></GetHostedZoneResponse>")
        if parts[2:] == ["rrset"]:
            return 200, self.list_sets(query) if method == "GET" else self.change(body)
        if method == "GET" and parts[0] == "change":
            return 200, self.get_change(parts[1])
        if parts == ["healthcheck"]:
            return (200, self.list_checks(query)) if method == "GET" else self.create_check(body)
        if parts[0] == "healthcheck" and parts[1] in self.checks:
            return 200, self.update_check(parts[1], body) if method == "POST" else self.delete_check(parts[1])
        raise Error("NoSuchHealthCheck", path, status=404)

    def list_zones(self, query):
        zones = ""
        if canonical_name(query["dnsname"]) <= self.zone:
            zones = (f"<HostedZone><Id>/hostedzone/{self.id}</Id><Name>{escape(self.zone)}</Name><CallerReference>x"
                     "</CallerReference><Config><PrivateZone>false</PrivateZone></Config></HostedZone>")
        return (f'<ListHostedZonesByNameResponse xmlns="{NS}"><HostedZones>{zones}</HostedZones>'
                "<IsTruncated>false</IsTruncated><MaxItems>10</MaxItems></ListHostedZonesByNameResponse>")

    def list_sets(self, query):
        order = lambda s: (sort_key(s.name), s.type, s.identifier or "")
        items = sorted(self.sets.values(), key=order)
        if "name" in query:
            first = (sort_key(canonical_name(query["name"])), query.get("type", ""), query.get("identifier", ""))
            items = [s for s in items if order(s) >= first]
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

    def change(self, body):
        tree = strip(xml.etree.ElementTree.fromstring(body))
        assert tree.tag == "ChangeResourceRecordSetsRequest"
        changes = [(text(c, "Action"), Set(c.find("ResourceRecordSet"))) for c in tree.findall("ChangeBatch/Changes/Change")]
        times = lambda action: 2 if action == "UPSERT" else 1
        if (not changes or sum(times(a) * (len(s.values) or 1) for a, s in changes) > 1000
                or sum(times(a) * sum(len(v) for v in s.values) for a, s in changes) > 32000):
            raise Error("InvalidChangeBatch", "the limits of a batch")
        sets = dict(self.sets)
        for action, item in changes:
            self.change_one(sets, action, item)
        self.check_zone(sets)
        self.sets = sets
        number = f"C{len(self.changes) + 1}"
        self.changes[number] = self.pending
        self.watch(self)
        return self.change_info("ChangeResourceRecordSetsResponse", number)

    def change_one(self, sets, action, item):
        there = sets.get(item.key)
        name = f"{item.name} {item.type} {item.identifier}"
        if action == "CREATE" and there:
            raise Error("InvalidChangeBatch", f"{name} is there already")
        if action == "DELETE":
            if not there or vars(there) | {"values": sorted(there.values)} != vars(item) | {"values": sorted(item.values)}:
                raise Error("InvalidChangeBatch", f"{name} is not as given")
            if item.name == self.zone and item.type in ("NS", "SOA"):
                raise Error("InvalidChangeBatch", "the apex needs NS and SOA")
            del sets[item.key]
            return
        if item.alias:
            target = (item.alias["DNSName"], item.type)
            if item.alias["HostedZoneId"] != self.id or not any((s.name, s.type) == target for s in sets.values()):
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

    def change_info(self, root, number):
        status = "INSYNC" if self.changes[number] <= 0 else "PENDING"
        return (f'<{root} xmlns="{NS}"><ChangeInfo><Id>/change/{number}</Id><Status>{status}</Status>'
                f"<SubmittedAt>2026-01-01T00:00:00Z</SubmittedAt></ChangeInfo></{root}>")

    def get_change(self, number):
        if number not in self.changes:
            raise Error("NoSuchChange", status=404)
        self.changes[number] -= 1
        return self.change_info("GetChangeResponse", number)

    # ---- health checks ----------------------------------------------------------------------------

    def check_xml(self, number):
        check = self.checks[number]
        config = "".join(f"<{k}>{quoted(v)}</{k}>" for k, v in check["config"].items())
        return (f"<HealthCheck><Id>{number}</Id><CallerReference>{check['reference']}</CallerReference>"
                f"<HealthCheckConfig>{config}</HealthCheckConfig><HealthCheckVersion>{check['version']}</HealthCheckVersion></HealthCheck>")

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
        if any(s.health == number for s in self.sets.values()):
            raise Error("HealthCheckInUse")
        if any(left > 0 for left in self.changes.values()):
            raise Error("HealthCheckInUse", "a change is still PENDING")
        self.references[self.checks.pop(number)["reference"]] = None
        return f'<DeleteHealthCheckResponse xmlns="{NS}"></DeleteHealthCheckResponse>'

    # ---- answers ----------------------------------------------------------------------------------

    def is_up(self, number):
        config = self.checks[number]["config"]
        up = True if config.get("Disabled") == "true" else self.healthy.get(number, True)
        return up != (config.get("Inverted") == "true")

    def is_healthy(self, item):
        """A record without a check is healthy; an alias that evaluates its target is if any there is."""
        if item.health and not self.is_up(item.health):
            return False
        if item.alias and item.alias["EvaluateTargetHealth"] == "true":
            return any(self.is_healthy(s) for s in self.of(item.alias["DNSName"], item.type))
        return True

    def answer(self, name, rdtype, place):
        """{values: probability}; place: (continent, country, state)."""
        items = self.of(name, rdtype)
        if not items:
            return {}
        policy = items[0].policy
        if policy == "geo":
            item = self.choose_place(items, place)
            return {} if item is None else self.follow(item, place)
        if policy == "failover":
            primary = next(s for s in items if s.failover == "PRIMARY")
            secondary = next((s for s in items if s.failover == "SECONDARY"), None)
            use = secondary if secondary and not self.is_healthy(primary) and self.is_healthy(secondary) else primary
            return self.follow(use, place)
        if policy == "weighted":
            return self.draw(items, place)
        return self.follow(items[0], place)

    def follow(self, item, place):
        return self.answer(item.alias["DNSName"], item.type, place) if item.alias else {tuple(sorted(item.values)): fractions.Fraction(1)}

    @staticmethod
    def choose_place(items, place):
        continent, country, state = place
        for wanted in ({"CountryCode": country, "SubdivisionCode": state}, {"CountryCode": country},
                       {"ContinentCode": continent}, {"CountryCode": "*"}):
            for item in items:
                if item.geo == wanted:
                    return item
        return None

    def draw(self, items, place):
        """Non-zero weights first; zero ones when no other is healthy; all when none is."""
        heavy = [s for s in items if s.weight > 0]
        group = ([s for s in heavy if self.is_healthy(s)] or [s for s in items if s.weight == 0 and self.is_healthy(s)]
                 or heavy or items)
        total = sum(s.weight for s in group)
        out = {}
        for item in group:
            share = fractions.Fraction(item.weight, total) if total else fractions.Fraction(1, len(group))
            for values, chance in self.follow(item, place).items():
                out[values] = out.get(values, 0) + share * chance
        return {values: chance for values, chance in out.items() if chance}
