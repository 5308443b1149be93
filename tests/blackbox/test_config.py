# SPDX-License-Identifier: Apache-2.0
"""`sluice check`: every rejection has its own message at its exact place."""
import os

import pytest

import sluicelib
from configlib import D, DOMAIN, Z, ZONE, bad, check, domain, good, tree


# ---- domain.yaml: name of the case -> (text, place after the path, words...) ---------------------

DOMAIN_CASES = {
    "no global": (domain(regions="{ca: {a: 1}}"), "2:1", "needs `global`"),
    "no regions": ("endpoints: {a: 192.0.2.1}\n", "1:1", "`regions` is missing"),
    "region: unknown endpoint": (domain(regions="{global: {a: 1, cc: 1}}"), "2:26", "unknown endpoint `cc`",
                                 "`endpoints`"),
    "level: unknown endpoint": ("endpoints: {central: 192.0.2.1}\nregions:\n  global:\n    - {central: 1}\n"
                                "    - {centrel: 1}\n", "5:8", "unknown endpoint `centrel`",
                                "did you mean `central`?"),
    "endpoints are case-sensitive": (domain(regions="{global: {A: 1}}"), "2:20", "unknown endpoint `A`"),
    "profile: unknown endpoint": (domain(rest="profiles:\n  canary: {a: 95, x: 5}\n"), "4:19",
                                  "profile names the unknown endpoint `x`"),
    "profile: nearly an endpoint": ("endpoints: {central: 192.0.2.1}\nregions: {global: {central: 1}}\n"
                                    "profiles: {x: {centrel: 1}}\n", "3:16", "did you mean `central`?"),
    "unknown key": (domain(rest="anwsers: 2\n"), "3:1", "unknown key `anwsers`", "did you mean `answers`?"),
    "unknown key without a near one": (domain(rest="colour: red\n"), "3:1", "unknown key `colour`",
                                       "known are `ttl`"),
    "unknown key of an endpoint": (domain(endpoints="{a: {address: 192.0.2.1}, b: 192.0.2.2}"), "1:17",
                                   "unknown key `address`", "did you mean `addresses`?"),
    "unknown key of health": (domain(rest="health: {type: icmp, intervall: 10s}\n"), "3:22",
                              "did you mean `interval`?"),
    "duplicate key": (domain(rest="ttl: 30\nttl: 60\n"), "4:1", "duplicate key `ttl`", "line 3"),
    "duplicate endpoint": ("endpoints:\n  a: 192.0.2.1\n  a: 192.0.2.2\nregions: {global: {a: 1}}\n", "3:3",
                           "duplicate key `a`"),
    "bad address": (domain(endpoints="{a: 192.0.2.256, b: 192.0.2.2}"), "1:16", "`192.0.2.256` is not an address",
                    "192.0.2.4"),
    "bad IPv6 address": (domain(endpoints='{a: "2001:db8::g", b: 192.0.2.2}'), "1:16", "is not an address"),
    "address with leading zeros": (domain(endpoints="{a: 192.0.02.1, b: 192.0.2.2}"), "1:16", "is not an address"),
    "IPv4-mapped address": (domain(endpoints='{a: "::ffff:192.0.2.1", b: 192.0.2.2}'), "1:16",
                            "`::ffff:192.0.2.1` is an IPv4 address in IPv6 form", "write 192.0.2.1 instead"),
    "mapped address of nobody": (domain(endpoints='{a: "::ffff:224.0.0.1", b: 192.0.2.2}'), "1:16",
                                 "where no endpoint can be"),
    "last label all digits": (domain(endpoints="{a: cdn.example.1, b: 192.0.2.2}"), "1:16", "is not an address"),
    "prefix in the place of an address": (domain(endpoints="{a: 192.0.2.1/32, b: 192.0.2.2}"), "1:16", "`192.0.2.1/32`",
                                          "prefix length"),
    "URL": (domain(endpoints="{a: 'http://a.example', b: 192.0.2.2}"), "1:16", "host name alone"),
    "path": (domain(endpoints="{a: a.example/x, b: 192.0.2.2}"), "1:16", "without a scheme, path"),
    "wildcard as a target": (domain(endpoints="{a: '*.a.example', b: 192.0.2.2}"), "1:16", "pattern"),
    "root as a target": (domain(endpoints="{a: ., b: 192.0.2.2}"), "1:16", "the root is no host"),
    "host without dot": (domain(endpoints="{a: cdn, b: b.example.net}"), "1:16", "has no dot", "cdn.example.com"),
    "host names and addresses in an endpoint": (
        domain(endpoints="{a: [192.0.2.1, b.example.net], b: 192.0.2.2}"), "1:28",
        "either addresses or one host name"),
    "host names and addresses in a domain": (domain(endpoints="{a: 192.0.2.1, b: b.example.net}"), "1:27",
                                             "all addresses or all host names"),
    "level without a type": (domain(endpoints='{a: [192.0.2.1, "2001:db8::1"], b: 192.0.2.2}',
                                    regions="{global: [{a: 1}, {b: 1}]}"), "2:28",
                             "level 2 of `global` cannot answer AAAA", "IPv6"),
    "region without a type": (domain(endpoints='{a: "2001:db8::1", b: 192.0.2.2}',
                                     regions="{global: {a: 1, b: 1}, ca: {a: 1}}"), "2:33",
                              "level 1 of `ca` cannot answer A,"),
    "endpoint is the domain itself": (domain(endpoints="{a: CDN.tm.example.com, b: b.example.net}"), "1:16",
                                      "is this domain itself"),
    "same atom in two regions": (domain(regions="{global: {a: 1}, ca: {a: 1}, 'country:CA': {b: 1}}"), "2:39",
                                 "`ca`", "`country:CA`", "both hold country:ca"),
    "unknown country": (domain(regions="{global: {a: 1}, 'country:qq': {b: 1}}"), "2:27", "unknown country"),
    "unknown country, short": (domain(regions="{global: {a: 1}, xx: {b: 1}}"), "2:27", "`xx`", "unknown country"),
    "malformed subdivision": (domain(regions="{global: {a: 1}, 'subdivision:caqc': {b: 1}}"), "2:27",
                              "`subdivision:caqc`"),
    "net with host bits": (domain(regions="{global: {a: 1}, 192.0.2.1/24: {b: 1}}"), "2:27", "host bits"),
    "net too long": (domain(regions="{global: {a: 1}, 192.0.2.0/33: {b: 1}}"), "2:27", "`192.0.2.0/33`"),
    "bad asn": (domain(regions="{global: {a: 1}, 'asn:4294967296': {b: 1}}"), "2:27", "`asn:4294967296`"),
    "unknown region": (domain(regions="{globel: {a: 1}, global: {a: 1}}"), "2:11", "unknown region `globel`",
                       "did you mean `global`?"),
    "empty level": (domain(regions="{global: [{a: 1}, {}]}"), "2:28", "level 2 of `global` is empty"),
    "no level": (domain(regions="{global: []}"), "2:19", "has no level"),
    "level is no map": (domain(regions="{global: a}"), "2:19", "map endpoints to weights"),
    "no endpoints": ("regions: {global: {a: 1}}\n", "1:1", "no endpoints"),
    "endpoints empty": ("endpoints: {}\nregions: {global: {a: 1}}\n", "1:1", "no endpoints"),
    "endpoint without address": (domain(endpoints="{a: {enabled: false}, b: 192.0.2.2}"), "1:13",
                                 "needs `addresses`"),
    "endpoint with an empty list": (domain(endpoints="{a: [], b: 192.0.2.2}"), "1:16", "at least one address"),
    "endpoint with too many addresses": (
        "endpoints:\n  a:\n" + "".join(f"    - 10.0.{i // 256}.{i % 256}\n" for i in range(2500)) +
        "regions: {global: {a: 1}}\n", "2003:7", "at most 2000 addresses"),
    "TTL too large": (domain(rest="ttl: 2147483648\n"), "3:6", "0 to 2147483647"),
    "TTL negative": (domain(rest="ttl: -1\n"), "3:6", "0 to 2147483647"),
    "TTL with another unit": (domain(rest="ttl: 5y\n"), "3:6", "30, 30s, 5m or 1h"),
    "bad name of an endpoint": (domain(endpoints="{a b: 192.0.2.1, a: 192.0.2.1, b: 192.0.2.2}"), "1:13",
                                "name of an endpoint", "A-Z a-z 0-9 . _ -"),
    "long name of an endpoint": (domain(endpoints="{" + 64 * "x" + ": 192.0.2.1, a: 192.0.2.1, b: 192.0.2.2}"),
                                 "1:13", "1 to 63"),
    "bad name of a profile": (domain(rest="profiles: {'a/b': {a: 1}}\n"), "3:12", "name of a profile"),
    "profile is built in": (domain(rest="profiles: {even: {a: 1}}\n"), "3:12", "built in"),
    "interval below timeout": (domain(rest="health: {type: icmp, interval: 2s, timeout: 3s}\n"), "3:22",
                               "`interval` (2000ms) is shorter than `timeout` (3000ms)"),
    "alert route unknown": (domain(rest="alerts: {to: [edge-oncal]}\n"), "3:15", "alert route `edge-oncal`",
                            "does not exist", "did you mean `edge-oncall`?"),
    "alerts without routes": (domain(rest="alerts: {page: true}\n"), "3:1", "`alerts` needs `to`"),
    "alert event unknown": (domain(rest="alerts: {on: [down], to: [edge-oncall]}\n"), "3:15", "`on` must be one of"),
    "alerts to nobody": (domain(rest="alerts: {to: []}\n"), "3:14", "empty list", "alert route"),
    "alerts about nothing": (domain(rest="alerts: {on: [], to: [edge-oncall]}\n"), "3:14", "`on` must not be an empty list"),
    "alert route is a list": (domain(rest="alerts: {to: [[edge-oncall]]}\n"), "3:15", "must be a text"),
    "control character in the owner": (domain(rest='owner: "a\\e[31m"\n'), "3:8", "`owner`", "control characters"),
    "C1 in the owner": (domain(rest='owner: "a\\x9b31m"\n'), "3:8", "`owner`", "control characters"),
    "invisible line end": (domain(rest="owner: a\u2028b\n"), "3:9", "end of a line"),
    "provider unknown": (domain(rest="providers: {dns-x: {}}\n"), "3:13", "provider `dns-x`", "`dns-a`"),
    "loss unknown": (domain(rest="providers: {dns-a: {allow_loss: [geom]}}\n"), "3:34", "`allow_loss`"),
    "answers above 1 with host names": (
        domain(endpoints="{a: a.example.net, b: b.example.net}", rest="answers: 2\n"), "3:10", "`answers` above 1"),
    "answers too many": (domain(rest="answers: 17\n"), "3:10", "1 to 16"),
    "answers zero": (domain(rest="answers: 0\n"), "3:10", "1 to 16"),
    "types with host names": (domain(endpoints="{a: a.example.net, b: b.example.net}", rest="types: [A]\n"), "3:1",
                              "`types` is for addresses"),
    "types that no endpoint has": (domain(rest="types: [AAAA]\n"), "3:9", "no endpoint has an IPv6 address"),
    "types unknown": (domain(rest="types: [MX]\n"), "3:9", "`types` must be one of"),
    "draw_per": (domain(rest="draw_per: client\n"), "3:11", "`query`, `subnet`"),
    "bool": (domain(endpoints="{a: {addresses: 192.0.2.1, enabled: no}, b: 192.0.2.2}"), "1:48",
             "`true` or `false`"),
    "indented with tabs": ("endpoints:\n\ta: 192.0.2.1\n", "2:1", "with spaces", "tab"),
    "tab behind spaces": ("endpoints:\n  a: 192.0.2.1\nregions:\n  global:\n  \ta: 1\n", "5:3", "tab"),
    "second document after dots": (domain(rest="...\nttl: 30\n"), "4:1", "several documents", "`...`"),
    "several documents": (domain(rest="---\nttl: 30\n"), "3:1", "several documents"),
    "tag": (domain(rest="ttl: !!int 30\n"), "3:6", "tags"),
    "root is a list": ("- a\n", "1:1", "must be a map"),
    "control character": (domain(rest="# \x07\n"), "3:3", "control character"),
    "unclosed": (domain(rest="health: {type: icmp\n"), "4:1", "not valid YAML"),
    "unknown alias": (domain(rest="ttl: *t\n"), "3:6", "`*t` has no anchor"),
    "alias of itself": (domain(rest="profiles: &p {x: *p}\n"), "3:18", "inside the value"),
    "health without type": (domain(rest="health: {port: 80}\n"), "3:1", "needs `type`"),
    "health type": (domain(rest="health: {type: htps}\n"), "3:16", "`https`"),
    "tcp without port": (domain(rest="health: {type: tcp}\n"), "3:1", "needs `port`"),
    "dns without name": (domain(rest="health: {type: dns}\n"), "3:1", "needs `name`"),
    "exec without check": (domain(rest="health: {type: exec}\n"), "3:1", "needs `check`"),
    "path of a tcp check": (domain(rest="health: {type: tcp, port: 1, path: /x}\n"), "3:30",
                            "does not belong to a check of type tcp"),
    "path relative": (domain(rest="health: {type: http, path: ping}\n"), "3:28", "start with `/`"),
    "path with a control character": (domain(rest='health: {type: http, path: "/\\x01"}\n'), "3:28", "control characters"),
    "path outside of ASCII": (domain(rest="health: {type: http, path: /ü}\n"), "3:28", "outside of ASCII"),
    "two lines as host": (domain(rest='health: {type: http, host: "a.example\\r\\nX: y"}\n'), "3:28", "`host` must be a host name"),
    "space in a host": (domain(rest="health: {type: http, host: a b}\n"), "3:28", "`host` must be a host name"),
    "control character in a header": (domain(rest='health: {type: http, headers: {a: "b\\x01"}}\n'), "3:35",
                                      "without control characters"),
    "port 0": (domain(rest="health: {type: tcp, port: 0}\n"), "3:27", "1 to 65535"),
    "port 65536": (domain(rest="health: {type: tcp, port: 65536}\n"), "3:27", "1 to 65535"),
    "status": (domain(rest="health: {type: http, expect: {status: [200-199]}}\n"), "3:40", "100 to 599"),
    "damping": (domain(rest="health: {type: icmp, damping: {changes: 1}}\n"), "3:41", "2 to 1000"),
    "headers": (domain(rest="health: {type: http, headers: {'a b': c}}\n"), "3:32", "HTTP header"),
    "data of a dns check": (domain(rest="health: {type: dns, name: a.example.com, expect: {data: x.y}}\n"), "3:51",
                            "not data of a record of type A"),
    "data of an MX check": (domain(rest='health: {type: dns, name: a.b.c, rrtype: MX, expect: {data: "10"}}\n'), "3:55",
                            "not data of a record of type MX"),
    "endpoint's health": (domain(endpoints="{a: {addresses: 192.0.2.1, health: {port: x}}, b: 192.0.2.2}",
                                 rest="health: {type: tcp, port: 1}\n"), "1:54", "1 to 65535"),
}


@pytest.mark.parametrize("case", DOMAIN_CASES)
def test_domain_is_refused(tmp_path, case):
    text, place, *words = DOMAIN_CASES[case]
    defaults = ("alerts: {edge-oncall: {format: slack, secret: s}}\n"
                "providers: {dns-a: {type: powerdns}}\n")
    bad(tmp_path, {"defaults.yaml": defaults, D: text}, (f"{D}:{place}", *words))


WEIGHTS = ["-1", "+1", "1.5", "65536", "4294967296", "18446744073709551616", "many", "010", "08", "0x10", "1_000",
           "22:22", "1e2", '" 5"', "5s", "~", "true", "''", "[1]", "{a: 1}"]


@pytest.mark.parametrize("weight", WEIGHTS)
def test_weight_is_refused(tmp_path, weight):
    bad(tmp_path, {D: f"endpoints: {{a: 192.0.2.1}}\nregions:\n  global:\n    a: {weight}\n"},
        (f"{D}:4:8", "weight of `a`", "0 to 65535"))


@pytest.mark.parametrize("value", ["010", "08", "0x10", "1_000", "22:22", "1e2", "10.5", "+5", "-1", '" 5"', "~", "true",
                                   "4294967296", "18446744073709551616"])
@pytest.mark.parametrize("key", ["ttl: {}", "answers: {}", "health: {{type: tcp, port: {}}}",
                                 "health: {{type: icmp, interval: {}}}", "health: {{type: icmp, rise: {}}}"])
def test_number_is_refused(tmp_path, key, value):
    line = key.format(value)
    bad(tmp_path, {D: domain(rest=line + "\n")}, (f"{D}:3:{line.index(value) + 1}", "must be"))


def test_columns_count_characters(tmp_path):
    bad(tmp_path, {"defaults.yaml": "alerts: {e: {format: slack, secret: s}}\n",
                   D: domain(rest='owner: "grüße ☃"\nalerts: {"ö": 1, to: [e]}\n')},
        (f"{D}:4:10", "unknown key `ö`"))
    bad(tmp_path, {D: domain(rest='health: {type: http, headers: {x: "ü☃"}, path: x}\n')}, (f"{D}:3:48", "`path`"))


def test_all_problems_in_one_run(tmp_path):
    bad(tmp_path, {"defaults.yaml": "x: 1\n", D: domain(rest="ttl: x\nanswers: 0\n"),
                   Z: ZONE + "records: {www: {A: [1.2.3]}}\n", "other.example/zone.yml": "x"},
        ("defaults.yaml:1:1", "unknown key `x`"),
        ("other.example/zone.yml:1:1", "close to `zone.yaml`"),
        (f"{D}:3:6", "`ttl`"), (f"{D}:4:10", "`answers`"), (f"{Z}:4:21", "IPv4"))


# ---- zone.yaml ----------------------------------------------------------------------------------

ZONE_CASES = {
    "no SOA": ("ns: [ns1.example.net.]\n", "1:1", "has no SOA", "`soa:`"),
    "no NS": ("soa: {mname: ns1.example.net., rname: h.example.net.}\n", "1:1", "has no NS", "`ns:`"),
    "soa without mname": ("ns: [ns1.example.net.]\nsoa: {rname: h.example.net.}\n", "2:1", "needs `mname`"),
    "soa without rname": ("ns: [ns1.example.net.]\nsoa: {mname: h.example.net.}\n", "2:1", "needs `rname`"),
    "serial": ("ns: [ns1.example.net.]\nsoa: {mname: a.example., rname: b.example., serial: 5}\n", "2:45",
               "not written by people"),
    "rname with @": ("ns: [ns1.example.net.]\nsoa: {mname: a.example., rname: b@example.net}\n", "2:33",
                     "hostmaster.example.com."),
    "ns without dot": (ZONE.replace("ns2.example.net.", "ns2"), "3:24", "has no dot"),
    "address as ns": (ZONE.replace("ns2.example.net.", "192.0.2.1"), "3:24", "`192.0.2.1`", "it is an address"),
    "address as mname": ("ns: [ns1.example.net.]\nsoa: {mname: 192.0.2.1., rname: b.example.}\n", "2:14", "it is an address"),
    "address as MX": (ZONE + "records: {www: {MX: 10 192.0.2.1}}\n", "4:21", "`192.0.2.1`", "it is an address"),
    "dnssec": (ZONE + "dnssec: {}\n", "4:1", "`dnssec` is reserved"),
    "unknown key": (ZONE + "record: {}\n", "4:1", "did you mean `records`?"),
    "TTL": (ZONE.replace("3600", "2147483648"), "1:6", "0 to 2147483647"),
    "type unknown": (ZONE + "records: {www: {AB: [1]}}\n", "4:17", "unknown record type `AB`", "TYPE65400"),
    "SOA among records": (ZONE + "records: {'@': {SOA: a}}\n", "4:17", "under `soa:`"),
    "A": (ZONE + "records: {www: {A: [192.0.2.1, 192.0.2]}}\n", "4:32", "bad A record `192.0.2`", "IPv4"),
    "AAAA": (ZONE + "records: {www: {AAAA: ['2001:db8']}}\n", "4:24", "bad AAAA record", "IPv6"),
    "MX": (ZONE + "records: {www: {MX: mail.example.net.}}\n", "4:21", "bad MX record", "0 to 65535"),
    "MX without dot": (ZONE + "records: {www: {MX: 10 mail}}\n", "4:21", "`mail`", "no dot"),
    "CNAME without dot": (ZONE + "records: {www: {CNAME: cdn}}\n", "4:24", "`cdn`", "no dot"),
    "CAA": (ZONE + "records: {www: {CAA: ['0 issue']}}\n", "4:23", "bad CAA record"),
    "unknown type as text": (ZONE + "records: {www: {TYPE65400: abc}}\n", "4:28", "\\# LENGTH HEX"),
    "generic of a wrong length": (ZONE + "records: {www: {TYPE65400: '\\# 2 010203'}}\n", "4:28", "length"),
    "generic A of a wrong length": (ZONE + "records: {www: {TYPE1: '\\# 3 010203'}}\n", "4:24", "not the data of a A"),
    "different TTLs": (ZONE + "records:\n  'Www': {A: {ttl: 60, values: [192.0.2.1]}}\n  www: {A: 192.0.2.2}\n",
                       "6:12", "TTL 3600 differs from the TTL 60", "line 5"),
    "CNAME beside other data": (ZONE + "records: {www: {TXT: x, CNAME: a.example.net.}}\n", "4:32",
                                "CNAME of `www.tm.example.com.`", "beside other data", "TXT"),
    "two CNAMEs": (ZONE + "records: {www: {CNAME: [a.example., b.example.]}}\n", "4:37", "several CNAME"),
    "CNAME at the apex": (ZONE + "records: {'@': {CNAME: a.example.}}\n", "4:24", "beside other data"),
    "DNAME beside other data": (ZONE + "records: {www: {TXT: x, DNAME: a.example.net.}}\n", "4:32",
                                "DNAME of `www.tm.example.com.`", "beside other data"),
    "DNAME beside CNAME": (ZONE + "records: {www: {CNAME: b.example., DNAME: a.example.net.}}\n", "4:24",
                           "CNAME", "beside other data", "DNAME"),
    "below a cut": (ZONE + "records: {sub: {NS: ns.example.}, x.sub: {TXT: x}}\n", "4:48",
                    "below the zone cut at `sub.tm.example.com.`"),
    "at a cut": (ZONE + "records: {sub: {NS: ns.example., TXT: x}}\n", "4:39", "at the zone cut"),
    "below a DNAME": (ZONE + "records: {sub: {DNAME: d.example.}, x.sub: {A: 192.0.2.1}}\n", "4:48",
                      "below the DNAME of `sub.tm.example.com.`"),
    "outside of the zone": (ZONE + "records: {www.example.com.: {A: 192.0.2.1}}\n", "4:11", "outside of the zone"),
    "label too long": (ZONE + "records: {" + 64 * "x" + ": {A: 192.0.2.1}}\n", "4:11", "longer than 63 octets"),
    "name too long": (ZONE + "records: {" + ".".join(4 * [60 * "x"]) + ": {A: 192.0.2.1}}\n", "4:11",
                      "longer than 255 octets"),
    "bad character": (ZONE + "records: {'a b': {A: 192.0.2.1}}\n", "4:11", "a space is not allowed"),
    "not ASCII": (ZONE + "records: {'bücher': {A: 192.0.2.1}}\n", "4:11", "xn--"),
    "empty label": (ZONE + "records: {'a..b': {A: 192.0.2.1}}\n", "4:11", "a label is empty"),
    "empty list": (ZONE + "records: {www: {A: []}}\n", "4:20", "empty list"),
    "values missing": (ZONE + "records: {www: {A: {ttl: 60}}}\n", "4:20", "`values` is missing"),
    "value is a map": (ZONE + "records: {www: {AAAA: [2001:db8::]}}\n", "4:33", "quotes"),
    "provider": (ZONE + "providers: [sluice, dns-z]\n", "4:21", "provider `dns-z`"),
    "transfer": (ZONE + "transfer: {allow: [ns.example.net]}\n", "4:20", "192.0.2.0/24"),
    "transfer by an atom": (ZONE + "transfer: {allow: ['net:192.0.2.0/24']}\n", "4:20", "192.0.2.0/24"),
    "transfer: too many": (ZONE + f"transfer: {{notify: [{', '.join(1001 * ['192.0.2.1'])}]}}\n", "4:20", "at most 1000"),
    "transfer: key": (ZONE + "transfer: {tsig: 'a b'}\n", "4:18", "`a b`", "a space is not allowed"),
    "transfer: long key": (ZONE + f"transfer: {{tsig: {64 * 'x'}}}\n", "4:18", "longer than 63 octets"),
    "zonefile missing": (ZONE + "zonefile: no.zone\n", "4:11", "cannot read"),
    "zonefile outside": (ZONE + "zonefile: ../../x.zone\n", "4:11", "leaves the repository"),
    "zonefile absolute": (ZONE + "zonefile: /etc/passwd\n", "4:11", "leaves the repository"),
    "collides with a steered name": (ZONE + "records: {cdn: {A: 192.0.2.1}}\n", "4:20",
                                     "A record collides with the steered name `cdn.tm.example.com.`"),
    "CNAME at a steered name": (ZONE + "records: {cdn: {CNAME: a.example.}}\n", "4:24", "collides"),
    "DNAME at a steered name": (ZONE + "records: {cdn: {DNAME: a.example.}}\n", "4:24", "collides"),
}


@pytest.mark.parametrize("case", ZONE_CASES)
def test_zone_is_refused(tmp_path, case):
    text, place, *words = ZONE_CASES[case]
    bad(tmp_path, {Z: text}, (f"{Z}:{place}", *words))


def test_cname_endpoint_beside_static_record(tmp_path):
    bad(tmp_path, {D: domain(endpoints="{a: a.example.net, b: b.example.net}"),
                   Z: ZONE + "records: {cdn: {TXT: x}}\n"},
        (f"{Z}:4:22", "beside the CNAME of the steered name"))


def test_cname_endpoint_at_the_apex(tmp_path):
    bad(tmp_path, {D: None, "tm.example.com/@/domain.yaml": domain(endpoints="{a: a.example.net, b: b.example.net}")},
        ("tm.example.com/@/domain.yaml:1:13", "apex", "needs addresses"))


@pytest.mark.parametrize("records, what", [("{eu: {NS: ns.example.}}", "below the zone cut (NS)"),
                                           ("{api.eu: {NS: ns.example.}}", "at the zone cut (NS)"),
                                           ("{eu: {DNAME: d.example.}}", "below the DNAME")])
def test_domain_below_a_cut_or_dname(tmp_path, records, what):
    path = "tm.example.com/api.eu/domain.yaml"
    bad(tmp_path, {path: DOMAIN, Z: ZONE + f"records: {records}\n"}, (f"{path}:1:1", what, "line 4"))


# ---- defaults.yaml ------------------------------------------------------------------------------

DEFAULTS_CASES = {
    "unknown key": ("region: {}\n", "1:1", "did you mean `regions`?"),
    "shadows a country": ("regions: {ca: [us-ny]}\n", "1:11", "would hide a built-in"),
    "shadows a subdivision": ("regions: {us-all: [us-ny]}\n", "1:11", "would hide a built-in"),
    "shadows global": ("regions: {global: [us-ny]}\n", "1:11", "would hide a built-in"),
    "name inside": ("regions: {east-coast: [us-ny], all-coasts: [east-coast]}\n", "1:45", "name of a region"),
    "too many regions": ("regions:\n" + "".join(f"  region{i}: [ca]\n" for i in range(10001)), "2:3", "at most 10000"),
    "no atom": ("regions: {office: [somewhere]}\n", "1:20", "`somewhere` is no atom"),
    "unknown country": ("regions: {office: ['country:qq']}\n", "1:20", "unknown country"),
    "host bits": ("regions: {office: [192.0.2.1/24]}\n", "1:20", "host bits"),
    "empty region": ("regions: {office: []}\n", "1:19", "is empty"),
    "region twice": ("regions: {office: [us-ny], Office: [us-ma]}\n", "1:28", "case does not matter"),
    "bad name": ("regions: {'my office': [us-ny]}\n", "1:11", "name of a region"),
    "default zone": ("default_zone: 'a b'\n", "1:15", "a space is not allowed"),
    "health": ("health: {interval: soon}\n", "1:20", "10s"),
    "interval below timeout": ("health: {interval: 1s, timeout: 3s}\n", "1:10", "shorter than `timeout` (3000ms);"),
    "route without format": ("alerts: {a: {secret: s}}\n", "1:10", "needs `format`"),
    "route format": ("alerts: {a: {format: email, secret: s}}\n", "1:22", "`pagerduty`"),
    "route without target": ("alerts: {a: {format: json}}\n", "1:10", "needs `secret` or `url`"),
    "pagerduty without secret": ("alerts: {a: {format: pagerduty, url: https://x}}\n", "1:10", "needs `secret`",
                                 "routing key"),
    "slack with an address": ("alerts: {a: {format: slack, url: https://x}}\n", "1:34", "itself a secret"),
    "route url": ("alerts: {a: {format: json, url: ftp://x}}\n", "1:33", "https://"),
    "control character in a URL": ('alerts: {a: {format: json, url: "https://a\\x01"}}\n', "1:33", "https://"),
    "provider without type": ("providers: {a: {secret: s}}\n", "1:13", "needs `type`"),
    "provider sluice": ("providers: {sluice: {type: ns1}}\n", "1:13", "this server itself"),
    "provider health": ("providers: {a: {type: ns1, health: yes}}\n", "1:36", "`pushed`"),
    "provider timeout": ("providers: {a: {type: ns1, timeout: 6m}}\n", "1:37", "from 1ms to 300s"),
    "provider type": ("providers: {a: {type: powerdsn}}\n", "1:23", "`powerdns`"),
    "provider address": ("providers: {a: {type: rfc2136, address: ns1.example.net}}\n", "1:41", "192.0.2.53@5353"),
    "profile": ("profiles: {x: {a: -1}}\n", "1:19", "0 to 65535"),
}


@pytest.mark.parametrize("case", DEFAULTS_CASES)
def test_defaults_are_refused(tmp_path, case):
    text, place, *words = DEFAULTS_CASES[case]
    bad(tmp_path, {"defaults.yaml": text}, (f"defaults.yaml:{place}", *words))


# ---- the tree -----------------------------------------------------------------------------------

TREE_CASES = {
    "domain.yml": ({"tm.example.com/x/domain.yml": DOMAIN}, "tm.example.com/x/domain.yml", "close to `domain.yaml`"),
    "domains.yaml": ({"tm.example.com/x/domains.yaml": ""}, "tm.example.com/x/domains.yaml", "`domain.yaml`"),
    "Domain.yaml": ({"tm.example.com/x/Domain.yaml": ""}, "tm.example.com/x/Domain.yaml", "`domain.yaml`"),
    "domain.yml too deep": ({"tm.example.com/x/y/domain.yml": DOMAIN}, "tm.example.com/x/y/domain.yml",
                            "close to `domain.yaml`"),
    "zone.yml": ({"x.example/zone.yml": ZONE}, "x.example/zone.yml", "close to `zone.yaml`"),
    "default.yaml": ({"default.yaml": ""}, "default.yaml", "close to `defaults.yaml`"),
    "no zone": ({"x.example/a/domain.yaml": DOMAIN}, "x.example/a/domain.yaml", "`x.example/zone.yaml` is missing"),
    "domain at the root": ({"domain.yaml": DOMAIN}, "domain.yaml", "directory of its own"),
    "domain too deep": ({"tm.example.com/eu/api/domain.yaml": DOMAIN}, "tm.example.com/eu/api/domain.yaml",
                        "directory of its own"),
    "zone at the root": ({"zone.yaml": ZONE}, "zone.yaml", "directory of its zone"),
    "defaults too deep": ({"tm.example.com/defaults.yaml": ""}, "tm.example.com/defaults.yaml", "root"),
    "same zone": ({"TM.example.com/zone.yaml": ZONE}, "tm.example.com/zone.yaml", "stands in TM.example.com/zone.yaml"),
    "same domain": ({"tm.example.com/CDN/domain.yaml": DOMAIN}, "tm.example.com/cdn/domain.yaml",
                    "gives the name `cdn.tm.example.com.`"),
    "same domain in two zones": ({"example.com/zone.yaml": ZONE, "example.com/cdn.tm/domain.yaml": DOMAIN},
                                 "tm.example.com/cdn/domain.yaml", "example.com/cdn.tm/domain.yaml"),
    "same wildcard": ({"tm.example.com/_WILDCARD.x/domain.yaml": DOMAIN, "tm.example.com/_wildcard.x/domain.yaml": DOMAIN},
                      "tm.example.com/_wildcard.x/domain.yaml", "tm.example.com/_WILDCARD.x/domain.yaml"),
    "domain of the zone below": ({"example.com/zone.yaml": ZONE, "example.com/foo.tm/domain.yaml": DOMAIN},
                                 "example.com/foo.tm/domain.yaml", "`foo.tm.example.com.` belongs to the zone `tm.example.com.`"),
    "domain at the apex of the zone below": ({"example.com/zone.yaml": ZONE, "example.com/tm/domain.yaml": DOMAIN},
                                             "example.com/tm/domain.yaml", "belongs to the zone `tm.example.com.`"),
    "record of the zone below": ({"example.com/zone.yaml": ZONE + "records: {foo.tm: {TXT: x}}\n"},
                                 "example.com/zone.yaml:4:25", "TXT of `foo.tm.example.com.`",
                                 "belongs to the zone `tm.example.com.`"),
    "bad name of a domain": ({"tm.example.com/a b/domain.yaml": DOMAIN}, "tm.example.com/a b/domain.yaml",
                             "a space is not allowed"),
    "star": ({"tm.example.com/*/domain.yaml": DOMAIN}, "tm.example.com/*/domain.yaml", "_wildcard"),
    "wildcard inside": ({"tm.example.com/a._wildcard/domain.yaml": DOMAIN}, "tm.example.com/a._wildcard/domain.yaml",
                        "first label"),
    "long label": ({f"tm.example.com/{64 * 'x'}/domain.yaml": DOMAIN}, f"tm.example.com/{64 * 'x'}/domain.yaml",
                   "longer than 63 octets"),
    "bad name of a zone": ({"ex ample/zone.yaml": ZONE}, "ex ample/zone.yaml", "not the name of a zone"),
    "zone with final dot": ({"x.example./zone.yaml": ZONE}, "x.example./zone.yaml", "without the final dot"),
    "not UTF-8": ({D: DOMAIN.encode() + b"owner: \xff\n"}, f"{D}:6:8", "not UTF-8"),
    "UTF-16": ({D: DOMAIN.encode("utf-16")}, f"{D}:1:1", "not UTF-8"),
    "NUL": ({D: DOMAIN.encode() + b"owner: a\0b\n"}, f"{D}:6:9", "control character"),
    "NUL escaped": ({D: DOMAIN + 'owner: "a\\0b"\n'}, f"{D}:6:8", "NUL"),
    "too large": ({D: b"#" * (4 * 1024 * 1024) + b"\n"}, D, "too large"),
    "too deep": ({D: DOMAIN + "profiles: " + 33 * "[" + 33 * "]" + "\n"}, f"{D}:6:42", "too deep"),
    "too deep by aliases": ({D: DOMAIN + "x: &a " + 20 * "[" + 20 * "]" + "\ny: " + 15 * "[" + "*a" + 15 * "]" + "\n"},
                            f"{D}:7:19", "too deep"),
    "bomb": ({D: "a0: &a0 [x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join(8 * [f'*a{i - 1}'])}]\n" for i in range(1, 9))}, f"{D}:7:20", "aliases"),
}


@pytest.mark.parametrize("case", TREE_CASES)
def test_tree_is_refused(tmp_path, case):
    files, place, *words = TREE_CASES[case]
    if ".yaml:" not in place:
        place += ":1:1"
    bad(tmp_path, files, (place, *words))


def test_symbolic_links_are_refused(tmp_path):
    root = sluicelib.write_tree(tmp_path / "tree", tree({}))
    outside = sluicelib.write_tree(tmp_path / "outside", {"domain.yaml": DOMAIN, "x.zone": "secret\n"})
    os.symlink(outside, root / "tm.example.com" / "linked")
    (root / "tm.example.com" / "x").mkdir()
    os.symlink(outside / "domain.yaml", root / "tm.example.com" / "x" / "domain.yaml")
    lines = sluicelib.sluice("check", status=1, cwd=root).stderr.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["tm.example.com/linked:1:1",
                                                       "tm.example.com/x/domain.yaml:1:1"]
    assert all("symbolic links are not followed" in line for line in lines)
    assert "secret" not in "".join(lines)


def test_linked_zonefile_and_include_are_refused(tmp_path):
    root = sluicelib.write_tree(tmp_path / "tree", tree({
        Z: ZONE + "zonefile: a.zone\n", "tm.example.com/a.zone": "$INCLUDE b.zone\n$INCLUDE ../../x.zone\n"
                                                                  "$INCLUDE /etc/hostname\n"}))
    (tmp_path / "x.zone").write_text("secret 60 A 192.0.2.1\n")
    os.symlink(tmp_path / "x.zone", root / "tm.example.com" / "b.zone")
    lines = sluicelib.sluice("check", status=1, cwd=root).stderr.splitlines()
    places = ["tm.example.com/a.zone:1:10", "tm.example.com/a.zone:2:10", "tm.example.com/a.zone:3:10",
              "tm.example.com/b.zone:1:1"]
    assert [line.split(": ")[0] for line in lines] == places
    assert "symbolic links" in lines[0] and "symbolic links" in lines[3]
    assert "leaves the repository" in lines[1] and "leaves the repository" in lines[2]


def test_submodule_is_refused(tmp_path):
    bad(tmp_path, {"sub.example.com/.git": "gitdir: ../.git/modules/x\n", "sub.example.com/zone.yaml": ZONE},
        ("sub.example.com:1:1", "submodule"))


# ---- master files -------------------------------------------------------------------------------

HEAD = "$TTL 3600\n@ SOA ns1.example.net. h.example.net. 1 2 3 4 5\n@ NS ns1.example.net.\n"
F = "x.example/x.zone"

MASTER_CASES = {
    "unknown type": (HEAD + "a FOO x\n", "4:3", "unknown type `FOO`"),
    "no type": (HEAD + "a 60\n", "4:3", "no type"),
    "class": (HEAD + "a CH TXT x\n", "4:3", "class must be IN"),
    "address": (HEAD + "a A 192.0.2.\n", "4:5", "IPv4"),
    "more text": (HEAD + "a A 192.0.2.1 192.0.2.2\n", "4:15", "more text"),
    "mx": (HEAD + "a MX mail\n", "4:6", "0 to 65535"),
    "ttl": (HEAD + "a 2147483648 A 192.0.2.1\n", "4:3", "2147483647"),
    "quotes": (HEAD + 'a TXT "x\n', "4:7", "quotes are not closed"),
    "parenthesis": (HEAD + "a TXT ( x\n", "4:7", "not closed"),
    "closing": (HEAD + "a TXT x )\n", "4:9", "without a `(`"),
    "label": (HEAD + 64 * "a" + " A 192.0.2.1\n", "4:1", "longer than 63 octets"),
    "escape": (HEAD + "a\\999 A 192.0.2.1\n", "4:1", "bad escape"),
    "outside": (HEAD + "www.example.net. A 192.0.2.1\n", "4:1", "outside of the zone"),
    "directive": (HEAD + "$GENERATE 1-2 a$ A 192.0.2.$\n", "4:1", "unknown directive"),
    "ttl directive": ("$TTL x\n" + HEAD, "1:6", "3600 or 1h30m"),
    "origin": (HEAD + "$ORIGIN a..b.\n", "4:9", "a label is empty"),
    "include": (HEAD + "$INCLUDE no.zone\n", "4:10", "cannot read"),
    "include loop": (HEAD + "$INCLUDE x.zone\n", "4:10", "nested too deep"),
    "nul": (HEAD + "a TXT x\0y\n", "4:8", "NUL"),
    "no SOA": ("$TTL 1\n@ NS ns1.example.net.\n", None, "no SOA"),
    "two SOA": (HEAD + "@ SOA ns1.example.net. h.example.net. 2 2 3 4 6\n", "4:1", "several SOA"),
    "SOA elsewhere": (HEAD + "a SOA ns1.example.net. h.example.net. 2 2 3 4 5\n", "4:1", "not at the apex"),
    "cname": (HEAD + "a CNAME b\na TXT x\n", "4:1", "beside other data"),
    "cnames": (HEAD + "a CNAME b\na CNAME c\n", "5:1", "several CNAME"),
    "dname": (HEAD + "a DNAME b\nb.a TXT x\n", "5:1", "below the DNAME"),
    "ttls": (HEAD + "a 60 A 192.0.2.1\na 61 A 192.0.2.2\n", "5:1", "TTL 61 differs", "line 4"),
    "rr column": (HEAD + 'ü TXT "ä" x\nü\\032 A x\n', "5:9", "IPv4"),
    "no TTL": ("@ NS ns1.example.net.\n", "1:3", "$TTL 3600"),
}


@pytest.mark.parametrize("case", MASTER_CASES)
def test_master_file_is_refused(tmp_path, case):
    text, place, *words = MASTER_CASES[case]
    where = "x.example/zone.yaml:1:1" if place is None else f"{F}:{place}"
    files = {"x.example/zone.yaml": "zonefile: x.zone\n", F: text}
    if case == "include loop":
        lines = check(tmp_path, files, 1)
        assert any("nested too deep" in line and line.startswith(where) for line in lines)
        return
    bad(tmp_path, files, (where, *words))


def test_delegation_to_a_zone_of_the_same_configuration(tmp_path):
    good(tmp_path, {"example.com/zone.yaml": ZONE + "records: {tm: {NS: ns.tm.example.com., DS: 1 13 2 00}, "
                                                    "ns.tm: {A: 192.0.2.53}}\n"})


@pytest.mark.parametrize("host", ["x.tm.example.com", "y.x.tm.example.com.", "X.TM.example.com"])
def test_wildcard_that_answers_with_itself(tmp_path, host):
    path = "tm.example.com/_wildcard/domain.yaml"
    bad(tmp_path, {path: domain(endpoints=f"{{a: {host}}}", regions="{global: {a: 1}}")},
        (f"{path}:1:1", "the endpoint `a`", "this wildcard itself answers for"))


@pytest.mark.parametrize("host", ["cdn.tm.example.com", "y.x.tm.example.com", "tm.example.com", "x.example.com"])
def test_wildcard_that_answers_with_a_name_beside_it(tmp_path, host):
    good(tmp_path, {"tm.example.com/_wildcard/domain.yaml": domain(endpoints=f"{{a: {host}}}", regions="{global: {a: 1}}"),
                    Z: ZONE + "records: {z.x: {A: 192.0.2.1}}\n"})


def test_place_in_another_file_is_named(tmp_path):
    bad(tmp_path, {Z: ZONE + "records: {a: {A: 192.0.2.1}, b: {TXT: x}, c: {DNAME: c.example.}, x.d: {TXT: x}}\n"
                             "zonefile: s.zone\n",
                   "tm.example.com/s.zone": "a 60 A 192.0.2.2\nb 60 CNAME x.example.\nx.c 60 TXT x\nd 60 NS x.example.\n"},
        ("tm.example.com/s.zone:1:1", "TTL 60 differs", f"({Z}, line 4)"),
        ("tm.example.com/s.zone:2:1", "beside other data", f"(TXT, {Z}, line 4)"),
        ("tm.example.com/s.zone:3:1", "below the DNAME", f"({Z}, line 4)"),
        (f"{Z}:4:78", "below the zone cut", "(NS in tm.example.com/s.zone, line 4)"))


def test_files_of_git_are_not_included(tmp_path):
    files = {Z: ZONE + "zonefile: s.zone\n", "tm.example.com/s.zone": "$INCLUDE ../.git/config\n", ".git/config": "secret\n"}
    bad(tmp_path, files, ("tm.example.com/s.zone:1:10", "leaves the repository"))


def test_times_of_defaults_that_do_not_fit_name_their_source(tmp_path):
    bad(tmp_path, {"defaults.yaml": "health: {interval: 2s}\n", D: domain(rest="health: {type: icmp}\n")},
        (f"{D}:3:1", "`interval` (2000ms)", "defaults.yaml"))
    good(tmp_path / "x", {"defaults.yaml": "health: {interval: 2s}\n", D: domain(rest="health: {type: icmp, timeout: 1s}\n")})


def test_soa_twice_in_one_zone(tmp_path):
    bad(tmp_path, {"x.example/zone.yaml": ZONE + "zonefile: x.zone\n",
                   F: HEAD.replace("@ NS ns1.example.net.\n", "")},
        ("x.example/zone.yaml:2:1", "the SOA stands here and in x.example/x.zone (line 2)"))


def test_occluded_data_in_a_master_file_is_a_warning(tmp_path):
    good(tmp_path, {"x.example/zone.yaml": "zonefile: x.zone\n", F: HEAD + "s NS ns.s\nns.s A 192.0.2.1\na.s TXT x\n"},
         [(f"{F}:6:1", "below the zone cut at `s.x.example.`")])
