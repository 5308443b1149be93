# SPDX-License-Identifier: Apache-2.0
"""`sluice check`: good files pass, with the warnings that they deserve."""
import json
import os

import pytest

import sluicelib
from configlib import D, DOMAIN, Z, ZONE, bad, check, domain, good, tree


def test_empty_directory(tmp_path):
    (tmp_path / "empty").mkdir()
    assert sluicelib.sluice("check", cwd=tmp_path / "empty").stderr == (
        "sluice: warning: there is no zone in .; is it the root of a configuration?\n")


def test_missing_directory(tmp_path):
    done = sluicelib.sluice("check", tmp_path / "none", status=1)
    assert len(done.stderr.splitlines()) == 1 and "No such file" in done.stderr


def test_paths_as_given(tmp_path):
    root = sluicelib.write_tree(tmp_path / "tree", tree({D: "x: 1\n"}))
    first = sluicelib.sluice("check", root, status=1).stderr.splitlines()[0]
    assert first.startswith(f"{root}/{D}:1:1: ")


def test_other_files_are_ignored(tmp_path):
    good(tmp_path, {"README.md": "\xff", "CODEOWNERS": "*", "tm.example.com/notes.txt": "x", "docs/main.yaml": "{",
                    ".github/workflows/domain.yml": "x", "tm.example.com/cdn/more.yaml": ": :"})


def test_spec_example(tmp_path):
    good(tmp_path, {
        "defaults.yaml": """\
            default_zone: tm.example.com
            regions:
              us-east: [us-ny, us-ma, us-va]
              office: [192.0.2.0/24, "2001:db8:1::/48"]
            health: {interval: 10s, timeout: 3s, rise: 2, fall: 3}
            profiles: {}
            alerts:
              edge-oncall: {format: pagerduty, secret: pd-edge}
              edge-chat: {format: slack, secret: slack-edge}
              audit: {format: json, url: https://events.example.com/hook}
            providers:
              dns-a: {type: powerdns, url: https://dns-a.example.net, secret: dns-a, health: pushed}
              dns-b: {type: route53, secret: dns-b}
            """,
        Z: """\
            ttl: 3600
            soa: {mname: ns1.example.com., rname: hostmaster.example.com., refresh: 7200, retry: 900,
                  expire: 1209600, minimum: 60}
            ns: [ns1.example.com., ns2.other-provider.net.]
            records:
              "@":
                MX: ["10 mail.example.com."]
                TXT: ["v=spf1 -all"]
              www: {A: [192.0.2.80], AAAA: ["2001:db8::80"]}
              sub: {NS: [ns.sub.example.net.]}
            zonefile: static.zone
            providers: [sluice, dns-a, dns-b]
            transfer: {allow: [192.0.2.53], tsig: key-name, notify: [192.0.2.53]}
            """,
        "tm.example.com/static.zone": "more 60 IN A 192.0.2.99\n",
        D: """\
            ttl: 30
            owner: streaming-platform
            endpoints:
              central-4: 192.0.2.4
              central-5: [192.0.2.5, 192.0.2.6]
              legacy: {addresses: [192.0.2.9], enabled: false, health: {port: 8080}}
            regions:
              global:
                - {central-4: 100, central-5: 0, legacy: 0}
                - {central-5: 100}
              ca: {central-4: 1}
              ca-qc: {central-5: 1}
              us-east: {central-4: 1}
            health:
              type: https
              port: 443
              path: /ping
              host: cdn.example.com
              expect: {status: [200-299, 301], body: "OK"}
              interval: 10s
              timeout: 3s
              rise: 2
              fall: 3
              damping: {changes: 5, within: 10m, hold: 5m}
            alerts:
              on: [endpoint, failover, all-down, recovered]
              page: true
              to: [edge-oncall]
            profiles:
              canary: {central-4: 95, central-5: 5}
            types: [A]
            answers: 1
            draw_per: query
            providers: {dns-b: {allow_loss: [geo]}}
            """,
        "tm.example.com/@/domain.yaml": DOMAIN,
        "tm.example.com/_wildcard.x/domain.yaml": DOMAIN,
        "tm.example.com/_wildcard/domain.yaml": DOMAIN,
    })


@pytest.mark.parametrize("norway", ["no", "No", "NO", '"no"', "'NO'", "country:no"])
def test_norway(tmp_path, norway):
    good(tmp_path, {"defaults.yaml": "regions: {nordics: [SE, NO, DK]}\n",
                    D: domain(regions=f"{{global: {{a: 1}}, {norway}: {{b: 1}}}}")})


def test_names_keep_their_spelling(tmp_path):
    names = ["no", "on", "y", "1e3", "0x10", "012", "off", "null", "true", "1_000", "1.5"]
    endpoints = "".join(f"  {name}: 192.0.2.{i + 1}\n" for i, name in enumerate(names))
    weights = "".join(f"    {name}: {i}\n" for i, name in enumerate(names))
    profile = "".join(f"    {name}: 1\n" for name in names)
    good(tmp_path, {D: f"endpoints:\n{endpoints}regions:\n  global:\n{weights}profiles:\n  off:\n{profile}"})


def test_sexagesimal_is_no_name(tmp_path):
    bad(tmp_path, {D: domain(endpoints="{1:30: 192.0.2.1, a: 192.0.2.2, b: 192.0.2.3}")},
        (f"{D}:1:13", "name of an endpoint", "`1:30`"))


@pytest.mark.parametrize("text", ["['2001:db8::']", '["2001:db8::1", "2001:db8::2"]', '["::1"]',
                                  "[2001:db8::1, 2001:db8::2]", "2001:db8::1", '{addresses: "::1"}'])
def test_ipv6_forms(tmp_path, text):
    good(tmp_path, {D: f"endpoints:\n  a: {text}\nregions: {{global: {{a: 1}}}}\n"})


@pytest.mark.parametrize("text", ["[2001:db8::]", "[::1]", "{addresses: ::1}"])
def test_ipv6_without_quotes(tmp_path, text):
    lines = check(tmp_path, {D: f"endpoints:\n  a: {text}\nregions: {{global: {{a: 1}}}}\n"}, 1)
    assert len(lines) == 1 and lines[0].startswith(f"{D}:2:") and "quotes" in lines[0], lines


def test_ttl_forms(tmp_path):
    for ttl in ("0", "30", "30s", "5m", "1h", "2d", "1w", "2147483647"):
        good(tmp_path / ttl, {D: domain(rest=f"ttl: {ttl}\n")})


def test_hosts(tmp_path):
    good(tmp_path, {D: domain(endpoints="{a: a.example.net, b: b.example.net.}")})
    good(tmp_path / "x", {D: domain(endpoints="{a: {host: a.example.net}, b: [b.example.net]}")})


@pytest.mark.parametrize("address, what", [
    ("0.0.0.0", "unspecified"), ("0.1.2.3", "unspecified"), ("::", "unspecified"), ("169.254.169.254", "link-local"),
    ("fe80::1", "link-local"), ("febf::1", "link-local"), ("224.0.0.1", "multicast"), ("ff02::1", "multicast"),
    ("240.0.0.1", "reserved"), ("255.255.255.255", "the broadcast address"), ("::ffff:0.0.0.0", "IPv4 address in IPv6")])
def test_addresses_where_no_endpoint_can_be(tmp_path, address, what):
    for endpoint, column in ((f'"{address}"', 16), (f'[192.0.2.1, "{address}"]', 28), (f'{{addresses: "{address}"}}', 28)):
        bad(tmp_path, {D: domain(endpoints=f"{{a: {endpoint}, b: 192.0.2.2}}")},
            (f"{D}:1:{column}", f"`{address}` is", what, "where no endpoint can be"))


def test_private_and_loopback_addresses_are_fine(tmp_path):
    addresses = ["127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "223.255.255.255", "::1", "fd00::1",
                 "fec0::1", "64:ff9b::1", "::1.2.3.4"]
    good(tmp_path, {D: domain(endpoints=f"{{a: {json.dumps(addresses)}, b: [192.0.2.2, '2001:db8::2']}}")})


def test_duplicate_address_is_a_warning(tmp_path):
    good(tmp_path, {D: domain(endpoints="{a: [192.0.2.1, 192.0.2.1], b: 192.0.2.2}")},
         [(f"{D}:1:28", "stands here twice")])


def test_last_endpoint_for_a_type_is_a_warning(tmp_path):
    good(tmp_path, {D: domain(endpoints="{a: [192.0.2.1, '2001:db8::1'], b: 192.0.2.2}")},
         [(f"{D}:2:11", "only the endpoint `a` for AAAA", "draining")])


def test_exec_check_is_a_warning(tmp_path):
    good(tmp_path, {D: domain(rest="health: {type: exec, check: probe}\n")},
         [(f"{D}:3:22", "program `probe`", "machine's settings")])


def test_lone_endpoint_health_is_a_warning(tmp_path):
    good(tmp_path, {D: domain(endpoints="{a: {addresses: 192.0.2.1, health: {type: icmp}}, b: 192.0.2.2}")},
         [(f"{D}:1:47", "no effect")])


def test_alerts_without_health_are_a_warning(tmp_path):
    good(tmp_path, {"defaults.yaml": "alerts: {e: {format: slack, secret: s}}\n", D: domain(rest="alerts: {to: [e]}\n")},
         [(f"{D}:3:1", "no effect", "`health`")])


def test_absolute_directory_name_is_a_warning(tmp_path):
    path = "tm.example.com/www.tm.example.com/domain.yaml"
    good(tmp_path, {path: DOMAIN}, [(f"{path}:1:1", "relative to the zone")])


def test_missing_default_zone_is_a_warning(tmp_path):
    good(tmp_path, {"defaults.yaml": "\ndefault_zone: other.example\n"}, [("defaults.yaml:2:15", "no zone `other.example`")])


def test_name_server_without_address_is_a_warning(tmp_path):
    inside = ZONE.replace("ns2.example.net.", "ns2.tm.example.com")
    warning = (f"{Z}:3:24", "`ns2.tm.example.com.`", "no A or AAAA")
    good(tmp_path / "1", {Z: inside}, [warning])
    good(tmp_path / "2", {Z: inside + "records: {ns2: {TXT: x}}\n"}, [warning])
    good(tmp_path / "3", {Z: inside, "tm.example.com/ns2/domain.yaml": domain(endpoints="{a: a.example, b: b.example}")},
         [warning])
    good(tmp_path / "4", {Z: inside + "records: {ns2: {AAAA: '2001:db8::53'}}\n"})
    good(tmp_path / "5", {Z: inside + "records: {'*': {A: 192.0.2.53}}\n"})
    good(tmp_path / "6", {Z: inside, "tm.example.com/ns2/domain.yaml": DOMAIN})


def test_region_of_many_nets_some_twice(tmp_path):
    nets = "".join(f"    - 10.{i // 256}.{i % 256}.0/24\n" for i in range(60000))
    good(tmp_path, {"defaults.yaml": f"regions:\n  office:\n{nets}{nets}", D: domain(regions="{global: {a: 1}, office: {b: 1}}")})


def test_hints_end_before_a_hostile_file_does(tmp_path):
    """The nearest name of thousands, for each of thousands, would take minutes."""
    files = {D: "endpoints:\n" + "".join(f"  endpoint{i}: 10.0.{i // 256}.{i % 256}\n" for i in range(2000)) +
             "regions:\n  global:\n" + "".join(f"    endpointx{i}: 1\n" for i in range(2000))}
    lines = check(tmp_path, files, 1)
    assert len(lines) == 2000 and all("unknown endpoint" in line for line in lines)
    assert "did you mean" in lines[0] and "did you mean" not in lines[-1]


def test_aliases_are_fine(tmp_path):
    good(tmp_path, {D: "endpoints: &e {a: 192.0.2.1, b: 192.0.2.2}\n"
                       "regions: {global: &g {a: 1, b: 1}, ca: *g}\nprofiles: {same: *g}\n"})


def test_byte_order_mark(tmp_path):
    good(tmp_path, {D: b"\xef\xbb\xbf" + DOMAIN.encode()})


def test_all_record_types(tmp_path):
    good(tmp_path, {D: None, Z: ZONE + r"""
records:
  a: {A: 192.0.2.1, AAAA: "2001:db8::1", MX: [10 mail.example.net, 20 mail2.example.net.], TXT: 'x "y" \z; w'}
  b: {SRV: 0 5 443 www.example.net., CAA: '0 issue "ca.example; x=y"', NAPTR: '100 10 "S" "SIP+D2U" "" _sip._udp.example.com.'}
  c: {HTTPS: '1 . alpn="h2,h3" port=443', SVCB: 0 svc.example.net., TLSA: 3 1 1 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff}
  d: {LOC: 51 30 12.748 N 0 7 39.611 W 0.00m 0.00m 0.00m 0.00m, URI: '10 1 "ftp://ftp.example.net/"', HINFO: PC Linux}
  e: {TYPE65400: '\# 3 010203', TYPE65401: '\# 0', TYPE1: '\# 4 C0000201', SSHFP: 1 1 0123456789012345678901234567890123456789}
  f: {NS: [ns.example.net], DS: 12345 13 2 00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF}
  g: {CNAME: example.net}
  h: {DNAME: example.net}
  _acme-challenge.cdn: {TXT: {ttl: 60, values: [one, two]}}
  _sip._tcp: {SRV: [0 0 5060 sip.example.net.]}
  xn--bcher-kva: {A: 192.0.2.1}
  'a\.b': {A: 192.0.2.1}
  1.2: {PTR: www.example.net}
  '*.*': {A: 192.0.2.1}
  '0/25': {NS: ns.example.net}
  big: {TXT: """ + 4000 * "t" + """}
  www.tm.example.com.: {A: 192.0.2.1}
  """ + 63 * "x" + """: {A: 192.0.2.1}
"""})


def test_comments_change_nothing(tmp_path):
    """The serial goes up only when the content changes."""
    root = sluicelib.write_tree(tmp_path / "tree", tree({}))
    sluicelib.sluice("build", root, "--out", tmp_path / "data")
    before = os.readlink(tmp_path / "data" / "current")
    (root / D).write_text("# a comment\n" + DOMAIN)
    sluicelib.sluice("build", root, "--out", tmp_path / "data")
    assert os.readlink(tmp_path / "data" / "current") == before
    (root / D).write_text(DOMAIN.replace("b: 1}", "b: 2}"))
    sluicelib.sluice("build", root, "--out", tmp_path / "data")
    assert os.readlink(tmp_path / "data" / "current") != before
