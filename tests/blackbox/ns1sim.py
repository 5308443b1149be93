# SPDX-License-Identifier: Apache-2.0
"""A simulator of NS1's API (zones, records and data feeds), and of what its filter chains answer.

It keeps to the rules of the API that matter here: PUT makes and POST updates, names without final
dots, limits for each method with their headers, lists of zones in pages, `tier` above 1 for records
with filters or meta.  Its replies are as awkward as allowed: lists in another order (but for what
has an order: filters, and answers of different regions), more keys than were written, numbers as
text.  A feed that is removed is gone from all records, and a source takes its feeds with it.
Faults can be put at any request, and each can take some time.
"""
import copy
import http.server
import ipaddress
import itertools
import json
import random
import threading
import time

HOST = "127.0.0.1"
KEY = "an-ns1-key"
PREFIXES_MAX = 1000
NOTE_MAX = 256
DEFAULTS = {"netfence_prefix": {"remove_no_ip_prefixes": False}, "netfence_asn": {"remove_no_asn": False},
            "geofence_country": {"remove_no_location": False}, "geofence_regional": {"remove_no_georegion": False},
            "select_first_region": {}, "up": {}, "priority": {"eliminate": False}, "weighted_shuffle": {},
            "select_first_n": {"N": 1}}
GEOREGIONS = {"AFRICA", "EUROPE", "SOUTH-AMERICA", "ASIAPAC", "US-WEST", "US-EAST", "US-CENTRAL"}
CONTINENTS = {"AFRICA": "AF", "EUROPE": "EU", "SOUTH-AMERICA": "SA"}


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status, self.message = status, message


# ---- what the chain answers -----------------------------------------------------------------------


class Client:
    """Who asks: an address, and where it is (codes in upper case)."""

    def __init__(self, address="192.0.2.1", country=None, continent=None, subdivision=None, asn=None):
        self.address = ipaddress.ip_address(address)
        self.country, self.continent, self.subdivision, self.asn = country, continent, subdivision, asn


def meta_of(record, answer):
    region = record.get("regions", {}).get(answer.get("region"), {}).get("meta", {})
    return {**region, **answer.get("meta", {})}


def in_prefixes(client, prefixes):
    return any(client.address in ipaddress.ip_network(p) for p in prefixes
               if ipaddress.ip_network(p).version == client.address.version)


def in_places(client, meta):
    states = {("US", s) for s in meta.get("us_state", [])} | {("CA", s) for s in meta.get("ca_province", [])}
    return client.country in meta.get("country", []) or (client.country, client.subdivision) in states


def in_georegion(client, georegions):
    assert set(georegions) <= GEOREGIONS
    return client.continent in {CONTINENTS.get(g) for g in georegions} - {None}


def fence(items, keys, matches, remove_rest):
    """Answers whose fence does not hold the client go; with `remove_rest` also those without one, if any holds it."""
    fenced = [i for i in items if any(i[1].get(k) for k in keys)]
    inside = [i for i in fenced if matches(i[1])]
    if inside and remove_rest:
        return inside
    return [i for i in items if i in inside or i not in fenced]


def is_up(meta, feeds):
    """Whether the `up` filter lets an answer through; a feed that was never pushed says nothing."""
    up = meta.get("up", True)
    return feeds[up["feed"]] if isinstance(up, dict) else up


def shares(record, client, feeds=None):
    """Value of the answer (texts, sorted, with spaces) -> its chance.

    `feeds`: ID -> what the feed says (Simulator.feed_values())."""
    items = [(a, meta_of(record, a)) for a in record["answers"]]
    weighted = False
    first_n = None
    for step in record["filters"]:
        name, config = step["filter"], {**DEFAULTS[step["filter"]], **step.get("config", {})}
        assert first_n is None and (not weighted or name == "select_first_n"), f"{name} behind what orders at random"
        if name == "netfence_prefix":
            items = fence(items, ["ip_prefixes"], lambda m: in_prefixes(client, m["ip_prefixes"]),
                          config["remove_no_ip_prefixes"])
        elif name == "netfence_asn":
            items = fence(items, ["asn"], lambda m: client.asn in m["asn"], config["remove_no_asn"])
        elif name == "geofence_country":
            items = fence(items, ["country", "us_state", "ca_province"], lambda m: in_places(client, m),
                          config["remove_no_location"])
        elif name == "geofence_regional":
            items = fence(items, ["georegion"], lambda m: in_georegion(client, m["georegion"]),
                          config["remove_no_georegion"])
        elif name == "select_first_region":
            items = [i for i in items if i[0].get("region") == items[0][0].get("region")]
        elif name == "up":
            items = [i for i in items if is_up(i[1], feeds or {})]
        elif name == "priority":
            best = min(i[1]["priority"] for i in items)
            items = [i for i in items if i[1]["priority"] == best or not config["eliminate"]]
        elif name == "weighted_shuffle":
            weighted = True
        else:
            first_n = config["N"]
    assert weighted and first_n and items
    return draws([(" ".join(i[0]["answer"]), i[1]["weight"]) for i in items], first_n)


def draws(items, count):
    """Chances of the sets that are the first `count` of a weighted shuffle."""
    out = {}
    if count >= len(items):
        return {" ".join(sorted({v for v, _ in items})): 1.0}
    for order in itertools.permutations(range(len(items)), count):
        left = sum(w for _, w in items)
        chance = 1.0
        for i in order:
            chance *= items[i][1] / left
            left -= items[i][1]
        key = " ".join(sorted({items[i][0] for i in order}))
        out[key] = out.get(key, 0.0) + chance
    return out


# ---- the API --------------------------------------------------------------------------------------


def check_record(record):
    """What NS1 refuses."""
    if not record.get("answers"):
        raise Refused(400, "answers: must not be empty")
    for answer in record["answers"]:
        parts = answer["answer"]
        if not isinstance(parts, list) or not parts:
            raise Refused(400, "answers: not a list")
        if record["type"] in ("A", "AAAA"):
            address = ipaddress.ip_address(parts[0])
            if len(parts) != 1 or address.version != (4 if record["type"] == "A" else 6):
                raise Refused(400, f"invalid rdata {parts}")
        if record["type"] == "TXT" and len(parts) != 1:
            raise Refused(400, "a TXT answer is one text")
        if answer.get("region") and answer["region"] not in record.get("regions", {}):
            raise Refused(400, f"answer in unknown region {answer['region']}")
    if record["type"] == "CNAME" and len(record["answers"]) > 1 and not record.get("filters"):
        raise Refused(400, "several CNAME answers need filters")
    metas = [a.get("meta", {}) for a in record["answers"]]
    metas += [r.get("meta", {}) for r in record.get("regions", {}).values()]
    for meta in metas:
        if len(meta.get("note", "")) > NOTE_MAX:
            raise Refused(400, "note: longer than 256 characters")
        if len(meta.get("ip_prefixes", [])) > PREFIXES_MAX or len(meta.get("asn", [])) > PREFIXES_MAX:
            raise Refused(400, "ip_prefixes: more than 1000")
        if not isinstance(meta.get("weight", 1), (int, float)) or meta.get("weight", 1) <= 0:
            raise Refused(400, "weight: must be positive")
        if not set(meta.get("georegion", [])) <= GEOREGIONS:
            raise Refused(400, "georegion: unknown")
    for step in record.get("filters", []):
        if step["filter"] not in DEFAULTS:
            raise Refused(400, f"unknown filter {step['filter']}")


def is_plain(record):
    return not (record.get("filters") or record.get("regions") or record.get("meta") or
                any(a.get("meta") for a in record["answers"]))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # several connections come at once


class Simulator:
    def __init__(self, page=100, limit=None, period=1, seed=1, latency=0):
        self.zones = {}           # zone -> {(domain, type): record}
        self.sources = {}         # ID -> data source
        self.feeds = {}           # ID of the source -> {ID: feed}
        self.torn = []            # records that went by a feed when it was removed
        self.latency = latency    # seconds that each request takes
        self.page, self.limit, self.period = page, limit, period
        self.random = random.Random(seed)
        self.awkward = True
        self.gate = None          # called before each request, by as many threads as there are under way
        self.requests = []        # (method, path)
        self.bodies = []          # (method, path, body)
        self.faults = {}          # index of a request -> what happens instead
        self.watch = None         # called after each request, with the zones
        self.used = {}            # method -> [start of the period, count]
        self.refused = 0          # requests over the limit
        self.hooks = {}           # path -> function that makes the reply
        self.lock = threading.Lock()
        simulator = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                simulator.serve(self, body)
            do_GET = do_PUT = do_POST = do_DELETE = serve

        self.http = Server((HOST, 0), Handler)
        self.url = f"http://{HOST}:{self.http.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def make_zone(self, zone="e.test"):
        self.zones[zone] = {}

    def put(self, domain, rtype, answers, ttl=30, zone="e.test", **more):
        """Makes a record by hand."""
        self.zones[zone][domain, rtype] = {"zone": zone, "domain": domain, "type": rtype, "ttl": ttl,
                                           "answers": [{"answer": a} for a in answers], "filters": [],
                                           "regions": {}, **more}

    def feed_values(self):
        """ID of a feed -> what it says."""
        return {i: f["data"].get("up", True) for feeds in self.feeds.values() for i, f in feeds.items()}

    def users(self, feed):
        """The (domain, type) of records that go by the feed."""
        return [key for records in self.zones.values() for key, r in records.items()
                if any(a.get("meta", {}).get("up") == {"feed": feed} for a in r["answers"])]

    # -- one request --

    def serve(self, handler, body):
        time.sleep(self.latency)
        if self.gate:
            self.gate(handler.command, handler.path)
        with self.lock:
            index = len(self.requests)
            path = handler.path
            self.requests.append((handler.command, path))
            self.bodies.append((handler.command, path, body))
            fault = self.faults.get(index)
            headers = {}
            try:
                if handler.headers.get("X-NSONE-Key") != KEY:
                    raise Refused(401, "Unauthorized")
                self.spend(handler.command, headers)
                if fault in ("403", "429", "500"):
                    raise Refused(int(fault), "injected")
                if fault == "kill":
                    handler.close_connection = True
                    return
                reply = self.act(handler.command, path, json.loads(body) if body else None, headers)
                status = 200
            except Refused as error:
                status, reply = error.status, {"message": error.message}
            except (KeyError, TypeError, ValueError) as error:
                status, reply = 400, {"message": f"malformed: {error}"}
            if self.watch and handler.command != "GET":
                self.watch(self.zones)
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        if fault == "truncated":  # with a Content-Length that agrees
            data = data[:len(data) // 2]
        if fault == "lost":  # it was done, but the reply does not come
            handler.close_connection = True
            return
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data) + (100 if fault == "short" else 0)))
        if fault == "short":
            handler.close_connection = True
        handler.end_headers()
        handler.wfile.write(data)

    def spend(self, method, headers):
        if not self.limit:
            return
        limit = self.limit.get(method, 1000)
        now = time.monotonic()
        entry = self.used.setdefault(method, [now, 0])
        if now - entry[0] >= self.period:
            entry[:] = [now, 0]
        headers.update({"X-Ratelimit-Limit": limit, "X-Ratelimit-Period": self.period,
                        "X-Ratelimit-Remaining": max(0, limit - entry[1] - 1)})
        if entry[1] >= limit:
            self.refused += 1
            raise Refused(429, "rate limit exceeded")
        entry[1] += 1

    def act(self, method, path, body, headers):
        path, _, query = path.partition("?")
        if path in self.hooks:
            return self.hooks[path](query)
        parts = path.strip("/").split("/")
        assert parts[0] == "v1" and not path.endswith("."), path
        if parts[1] == "data":
            return self.data(method, parts[2:], query, body, headers)
        if parts[1] == "feed":
            return self.publish(method, parts[2], body)
        assert parts[1] == "zones", path
        zone = parts[2].replace("%2F", "/")
        if len(parts) == 3:
            return self.zone(method, zone, query, headers)
        if zone not in self.zones:
            raise Refused(404, "zone not found")
        return self.record(method, zone, parts[3], parts[4], body)

    def zone(self, method, zone, query, headers):
        if method == "PUT":
            if zone in self.zones:
                raise Refused(409, "zone already exists")
            self.zones[zone] = {}
        elif zone not in self.zones:
            raise Refused(404, "zone not found")
        elif method == "DELETE":
            del self.zones[zone]
            return {}
        keys = self.paged(sorted(self.zones[zone]), f"zones/{zone}", query, headers)
        items = [self.item(self.zones[zone][key]) for key in keys]
        if self.awkward:
            self.random.shuffle(items)
        return {"zone": zone, "id": "0123", "records": items, "dns_servers": ["dns1.p01.nsone.net", "dns2.p01.nsone.net"],
                "networks": [0], "ttl": 3600, "primary_master": "dns1.p01.nsone.net", "hostmaster": "host.master@nsone.net",
                "serial": 1700000000, "refresh": 43200, "retry": 7200, "expiry": 1209600, "nx_ttl": 3600}

    def paged(self, keys, path, query, headers):
        start = int(query.partition("after=")[2] or 0)
        if start + self.page < len(keys):
            headers["Link"] = f'<{self.url}/{path}?after={start + self.page}>; rel="next"'
        return keys[start:start + self.page]

    # -- data sources and feeds --

    def data(self, method, parts, query, body, headers):
        kind, *ids = parts
        if kind == "sources":
            return self.source(method, ids, query, body, headers)
        assert kind == "feeds", kind
        if ids[0] not in self.sources:
            raise Refused(404, "data source not found")
        return self.feed(method, ids[0], ids[1:], query, body, headers)

    def source(self, method, ids, query, body, headers):
        if method == "PUT" and not ids:
            if body["sourcetype"] not in ("nsone_v1", "nsone_monitoring") or not body["name"]:
                raise Refused(400, "invalid sourcetype or name")
            return self.make_source(**body)
        if method == "GET" and not ids:
            keys = self.paged(sorted(self.sources), "data/sources", query, headers)
            return [self.show_data(self.sources[key]) for key in keys]
        if ids[0] not in self.sources:
            raise Refused(404, "data source not found")
        assert method == "DELETE"
        for feed in list(self.feeds[ids[0]]):
            self.remove_feed(ids[0], feed)
        del self.sources[ids[0]], self.feeds[ids[0]]
        return {}

    def make_source(self, name, sourcetype="nsone_v1", config=None):
        source = {"id": self.fresh_id(), "name": name, "sourcetype": sourcetype, "config": config or {}, "status": "ok"}
        self.sources[source["id"]], self.feeds[source["id"]] = source, {}
        return source

    def fresh_id(self):
        return f"{self.random.randrange(1 << 96):024x}"

    def feed(self, method, source, ids, query, body, headers):
        feeds = self.feeds[source]
        if method == "PUT" and not ids:
            label = body["config"]["label"]
            if not body["name"] or not label or any(f["config"]["label"] == label for f in feeds.values()):
                raise Refused(400, "a feed with this label already exists")
            return self.make_feed(source, body["name"], label)
        if method == "GET" and not ids:
            keys = self.paged(sorted(feeds), f"data/feeds/{source}", query, headers)
            return [self.show_data(feeds[key]) for key in keys]
        if ids[0] not in feeds:
            raise Refused(404, "feed not found")
        assert method == "DELETE"
        self.remove_feed(source, ids[0])
        return {}

    def make_feed(self, source, name, label):
        feed = {"id": self.fresh_id(), "name": name, "config": {"label": label}, "data": {}}
        self.feeds[source][feed["id"]] = feed
        return feed

    def remove_feed(self, source, feed):
        """The feed is taken away from all records."""
        self.torn += self.users(feed)
        for records in self.zones.values():
            for record in records.values():
                for answer in record["answers"]:
                    if answer.get("meta", {}).get("up") == {"feed": feed}:
                        del answer["meta"]["up"]
        del self.feeds[source][feed]

    def publish(self, method, source, body):
        """Values of labels; those that no feed has are ignored."""
        assert method == "POST"
        if source not in self.sources:
            raise Refused(404, "data source not found")
        for feed in self.feeds[source].values():
            value = body.get(feed["config"]["label"])
            if value is not None:
                if not isinstance(value["up"], bool):
                    raise Refused(400, "up: must be a boolean")
                feed["data"].update(value)
        return {}

    def show_data(self, document):
        document = copy.deepcopy(document)
        if self.awkward:
            document.update({"networks": [0], "destinations": []})
            if "up" in document.get("data", {}):
                document["data"]["up"] = self.random.choice([bool, int, lambda v: str(int(v))])(document["data"]["up"])
        return document

    # -- records --

    def check_feeds(self, record):
        """A record goes by feeds that are there, and that have a value."""
        known = {i: f for feeds in self.feeds.values() for i, f in feeds.items()}
        for answer in record["answers"]:
            up = answer.get("meta", {}).get("up")
            if isinstance(up, dict):
                if up["feed"] not in known:
                    raise Refused(400, f"unknown feed {up['feed']}")
                if "up" not in known[up["feed"]]["data"]:
                    raise Refused(400, f"feed {up['feed']} was never pushed")  # stricter than the API

    def item(self, record):
        short = [" ".join(str(p) for p in a["answer"]) for a in record["answers"]]
        if self.awkward:
            self.random.shuffle(short)
        return {"domain": record["domain"], "type": record["type"], "ttl": record["ttl"], "id": "4567",
                "tier": 1 if is_plain(record) else 3, "short_answers": short, "link": None,
                "domain_status": "ok", "blocked_tags": []}

    def record(self, method, zone, domain, rtype, body):
        records = self.zones[zone]
        key = (domain, rtype)
        if method == "PUT" and key in records:
            raise Refused(400, "record already exists")
        if method != "PUT" and key not in records:
            raise Refused(404, "record not found")
        if method == "DELETE":
            del records[key]
            return {}
        if method != "GET":
            if (body.get("domain"), body.get("type"), body.get("zone")) != (domain, rtype, zone):
                raise Refused(400, "the body is of another record")
            record = {**records.get(key, {}), **copy.deepcopy(body)}
            check_record(record)
            self.check_feeds(record)
            others = {t for d, t in records if d == domain} - {rtype}
            if others and (rtype == "CNAME" or "CNAME" in others):
                raise Refused(400, "CNAME must be the only record of a name")
            records[key] = record
        return self.show(records[key])

    def show(self, record):
        record = copy.deepcopy(record)
        if not self.awkward:
            return record
        shuffle = self.random.shuffle
        groups = {}
        for answer in record["answers"]:
            groups.setdefault(answer.get("region"), []).append(answer)
        for group in groups.values():
            shuffle(group)
        record["answers"] = [a for group in groups.values() for a in group]
        regions = list(record.get("regions", {}).items())
        shuffle(regions)
        record["regions"] = dict(regions)
        for meta in [a.get("meta", {}) for a in record["answers"]] + [r["meta"] for _, r in regions]:
            for value in meta.values():
                if isinstance(value, list):
                    shuffle(value)
        for answer in record["answers"]:
            answer.update({"id": f"{self.random.randrange(1 << 32):x}", "feeds": []})
            if "weight" in answer.get("meta", {}):
                answer["meta"]["weight"] = self.random.choice([float, str, int])(answer["meta"]["weight"])
        for step in record.get("filters", []):
            step["config"] = {**DEFAULTS[step["filter"]], **step.get("config", {}), "new_default": 5}
            step["disabled"] = False
        record.update({"id": "89ab", "tier": 3, "networks": [0], "meta": {}, "link": None, "override_ttl": False})
        return record
