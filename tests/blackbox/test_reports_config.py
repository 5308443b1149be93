# SPDX-License-Identifier: Apache-2.0
"""Faults that were reported of other servers: configuration, and files that nobody should trust."""
import os
import shutil

import dns.name
import dns.rdatatype
import pytest

import reportlib
import sluicelib
from reportlib import NORWAY, domain
from sluicelib import rcode, rdata

ONE = "ttl: 20\nendpoints: {a: 192.0.2.1, b: 192.0.2.2}\nregions: {global: {a: 1, b: 1}}\n"


def check(tmp_path, domains=None, files=None, status=1, **config):
    """`sluice check`: its lines."""
    tree = sluicelib.config_files(domains, **config)
    tree.update(files or {})
    done = sluicelib.sluice("check", sluicelib.write_tree(tmp_path / "config", tree), status=status)
    return done.stderr.splitlines()


# ---- B19: numbers ----------------------------------------------------------------------------------

FIELDS = {
    "weight": "endpoints: {{a: 192.0.2.1}}\nregions: {{global: {{a: {}}}}}\n",
    "ttl": ONE + "ttl: {}\n",
    "answers": ONE + "answers: {}\n",
    "port": ONE + "health: {{type: tcp, port: {}}}\n",
    "interval": ONE + "health: {{type: icmp, interval: {}}}\n",
    "rise": ONE + "health: {{type: icmp, rise: {}}}\n",
}
NUMBERS = ["010", "08", "0x10", "1_000", "22:22", "1e2", "10.5", "+5", "-1", '" 5"', "~", "true", "4294967296",
           "18446744073709551616"]


@pytest.mark.parametrize("field", FIELDS)
def test_b19_only_plain_decimal_numbers(tmp_path, field):
    for i, number in enumerate(NUMBERS):
        text = FIELDS[field].replace(ONE, ONE.replace("{", "{{").replace("}", "}}")).format(number)
        if field == "ttl":
            text = text.replace("ttl: 20\n", "", 1)
        lines = check(tmp_path / str(i), {"www": text})
        assert len(lines) == 1 and f"example.com/www/domain.yaml:{text.count(chr(10))}:" in lines[0], (number, lines)
        assert field in lines[0], lines


@pytest.mark.parametrize("field", ["weight", "answers", "port", "rise"])
def test_b19_a_duration_is_no_number(tmp_path, field):
    text = FIELDS[field].replace(ONE, ONE.replace("{", "{{").replace("}", "}}")).format("5s")
    lines = check(tmp_path, {"www": text})
    assert len(lines) == 1 and field in lines[0]


# ---- B21: a bad file -------------------------------------------------------------------------------


def test_b21_a_bad_file_does_not_damage_the_good_state(tmp_path):
    def files(value, second=None):
        padding = "# nothing\n" * 38
        domains = {name: padding + domain({"x": f"192.0.2.{value}"}, {"global": {"x": 1}}) for name in ("d1", "d2", "d3")}
        if second is not None:
            domains["d2"] = second
        return sluicelib.config_files(domains)

    def serves(value):
        for name in ("d1", "d2", "d3"):
            assert rdata(server.ask(f"{name}.example.com.")) == [f"192.0.2.{value}"]

    config, data = sluicelib.write_tree(tmp_path / "config", files(1)), tmp_path / "data"
    sluicelib.build(config, data)
    with sluicelib.Server(data) as server:
        serves(1)
        broken = files(2)["example.com/d2/domain.yaml"].replace("192.0.2.2", "192.0.2.")
        sluicelib.write_tree(config, files(2, broken))
        done = sluicelib.sluice("build", config, "--out", data, status=1)
        assert "d2/domain.yaml:40:" in done.stderr and len(done.stderr.splitlines()) == 1
        server.reload()
        serves(1)
        sluicelib.write_tree(config, files(2))  # repaired
        sluicelib.build(config, data)
        server.reload()
        serves(2)
        sluicelib.write_tree(config, files(3, broken))
        sluicelib.sluice("build", config, "--out", data, status=1)
        shutil.rmtree(config / "example.com" / "d2")  # or taken away
        sluicelib.build(config, data)
        server.reload()
        assert rcode(server.ask("d2.example.com.")) == "NXDOMAIN"
        assert rdata(server.ask("d1.example.com.")) == rdata(server.ask("d3.example.com.")) == ["192.0.2.3"]


def test_b21_cold_start_with_a_bad_file(tmp_path):
    """Nothing is built, and a server without a build does not start."""
    tree = sluicelib.config_files({"d1": ONE, "d2": "endpoints: {a: 192.0.2.}\n"})
    sluicelib.sluice("build", sluicelib.write_tree(tmp_path / "config", tree), "--out", tmp_path / "data", status=1)
    server = sluicelib.Server(tmp_path / "data", wait=False)
    assert server.wait() == 1
    server.reserved.close()
    assert len(server.lines) == 1 and str(tmp_path / "data") in server.log


# ---- B50, B98: what nobody should trust ------------------------------------------------------------


@pytest.mark.parametrize("value", ["127.0.0.1;touch /tmp/pwn", "$(id)", "-rf", "`id`", "127.0.0.1 x", "../../bin/sh",
                                   r"127.0.0.1\n127.0.0.2"])
def test_b50_endpoint_that_is_no_address_is_refused(tmp_path, value):
    lines = check(tmp_path, {"www": f'endpoints:\n  a: "{value}"\nregions: {{global: {{a: 1}}}}\n'.replace(r"\\n", r"\n")})
    assert len(lines) == 1 and "domain.yaml:2:" in lines[0], lines


@pytest.mark.parametrize("name", ["../../bin/sh", "/bin/sh", "x y", "a;b", ""])
def test_b50_pushed_configuration_only_names_programs(tmp_path, name):
    text = ONE + f'health: {{type: exec, check: "{name}"}}\n'
    lines = check(tmp_path, {"www": text})
    assert len(lines) == 1 and "check" in lines[0], lines


@pytest.mark.parametrize("key", ["command", "exec", "env", "program"])
def test_b50_programs_do_not_stand_in_pushed_configuration(tmp_path, key):
    lines = check(tmp_path, {"www": ONE + f"health: {{type: exec, check: ok, {key}: /bin/sh}}\n"})
    assert any(f"unknown key `{key}`" in line for line in lines), lines


@pytest.mark.parametrize("make, place", [
    (lambda z: os.symlink("/etc/shadow", z / "www" / "domain.yaml"), "example.com/www/domain.yaml"),
    (lambda z: os.symlink("/etc", z / "linked"), "example.com/linked"),
    (lambda z: os.mkfifo(z / "www" / "domain.yaml"), "example.com/www/domain.yaml"),
    (lambda z: (z / "www" / "domain.yaml").write_bytes(b""), "example.com/www/domain.yaml"),
    (lambda z: ((z / "a;b").mkdir(), (z / "a;b" / "domain.yaml").write_text(ONE)), "a;b"),
    (lambda z: ((z / "a\nb").mkdir(), (z / "a\nb" / "domain.yaml").write_text(ONE)), "example.com/a"),
    (lambda z: ((z / "-x y").mkdir(), (z / "-x y" / "domain.yaml").write_text(ONE)), "-x y"),
], ids=["linked file", "linked folder", "pipe", "empty", "semicolon", "newline", "blank"])
def test_b98_odd_files_are_refused_by_name(tmp_path, make, place):
    root = sluicelib.write_tree(tmp_path / "config", sluicelib.config_files())
    (root / "example.com" / "www").mkdir()
    make(root / "example.com")
    done = sluicelib.sluice("check", root, status=1)
    assert place in done.stderr and "root:" not in done.stderr, done.stderr
    built = sluicelib.sluice("build", root, "--out", tmp_path / "data", status=1)
    assert place in built.stderr and not (tmp_path / "data" / "current").exists()


def test_b98_thousands_of_other_files_change_nothing(tmp_path):
    root = sluicelib.write_tree(tmp_path / "config", sluicelib.config_files({"www": ONE}))
    for i in range(5000):
        (root / "example.com" / f"note{i}.txt").write_text("x")
    (root / "example.com" / "run.sh").write_text("#!/bin/sh\ntouch /tmp/pwn\n")
    (root / "example.com" / "run.sh").chmod(0o755)
    (root / ".gitattributes").write_text("* export-ignore filter=x\n")
    sluicelib.sluice("check", root)
    sluicelib.build(root, tmp_path / "data")


# ---- B61, B111: YAML -------------------------------------------------------------------------------


def test_b61_norway_and_other_words_are_text(tmp_path):
    """NO is Norway in every spelling, `on`, `y` and `off` are names like any other."""
    endpoints = {"on": "192.0.2.1", "y": "192.0.2.2", "no": "192.0.2.3"}
    forms = ["NO", "no", "No", '"NO"', "'no'", "country:no"]
    text = "ttl: 20\nendpoints: {" + ", ".join(f"{k}: {v}" for k, v in endpoints.items()) + "}\n"
    domains = {f"n{i}": text + f"regions:\n  global: {{on: 1}}\n  {form}: {{no: 1}}\n  ca-on: {{y: 1}}\nprofiles: {{off: {{on: 1}}}}\n"
               for i, form in enumerate(forms)}
    domains["list"] = text + "regions: {global: {on: 1}, nordics: {no: 1}}\n"
    defaults = "default_zone: example.com\nregions: {nordics: [SE, NO, DK]}\n"
    with reportlib.serve(tmp_path, domains, geo=reportlib.make_mmdb(tmp_path), defaults=defaults) as server:
        for name in domains:
            assert rdata(server.ask(f"{name}.example.com.", ecs=NORWAY)) == ["192.0.2.3"], name
            assert rdata(server.ask(f"{name}.example.com.", ecs="192.0.2.9")) == ["192.0.2.1"], name


@pytest.mark.parametrize("code", ["on", "Y", "off", "true"])
def test_b61_words_that_are_no_place_are_refused(tmp_path, code):
    lines = check(tmp_path, {"www": f"endpoints: {{a: 192.0.2.1}}\nregions:\n  global: {{a: 1}}\n  {code}: {{a: 1}}\n"})
    assert len(lines) == 1 and "domain.yaml:4:3" in lines[0] and code.lower() in lines[0].lower(), lines


@pytest.mark.parametrize("text", ['["2001:db8::"]', "[2001:db8::1, 2001:db8::2]", '["::1"]', '{addresses: "::1"}',
                                  "\n    - 2001:db8::1\n    - '2001:db8::'"])
def test_b111_ipv6_addresses_load(tmp_path, text):
    check(tmp_path, {"www": f"endpoints:\n  a: {text}\nregions: {{global: {{a: 1}}}}\n"}, status=0)


@pytest.mark.parametrize("text", ["[2001:db8::]", "[::1]", "{address: ::1}", "{addresses: ::1}"])
def test_b111_an_address_that_is_no_text_is_explained(tmp_path, text):
    lines = check(tmp_path, {"www": f"endpoints:\n  a: {text}\nregions: {{global: {{a: 1}}}}\n"})
    assert len(lines) == 1 and "domain.yaml:2:" in lines[0] and 'must stand in quotes, as "' in lines[0], lines


# ---- B86, B88: names -------------------------------------------------------------------------------

HOST = "endpoints: {a: cdn.test.}\nregions: {global: {a: 1}}\n"


@pytest.mark.parametrize("domains, records, said", [
    ({}, "www: {CNAME: x.test., TXT: [t]}\n", "CNAME"),
    ({"www": ONE}, "www: {CNAME: x.test.}\n", "www"),
    ({"@": HOST}, "", "apex"),
    ({"www": HOST}, "www: {TXT: [t]}\n", "www"),
    ({"www": HOST.replace("cdn.test.", "www.example.com.")}, "", "www.example.com"),
    ({"www": HOST.replace("cdn.test.", "localname")}, "", "dot"),
    ({}, "www.example.net.: {A: [192.0.2.1]}\n", "outside"),
], ids=["beside TXT", "beside a steered name", "apex", "steered beside TXT", "itself", "no dot", "outside"])
def test_b86_impossible_mixtures_are_refused(tmp_path, domains, records, said):
    lines = check(tmp_path, domains, records=records)
    assert lines and said in lines[0], lines


def test_b86_a_missing_dot_is_read_by_one_rule(tmp_path):
    """With a dot inside, a target is absolute, with a dot at its end or not."""
    domains = {"one": HOST, "two": HOST.replace("cdn.test.", "cdn.test")}
    with reportlib.serve(tmp_path, domains, records="three: {CNAME: cdn.test}\n") as server:
        for name in ("one", "two", "three"):
            assert rdata(server.ask(f"{name}.example.com.")) == ["cdn.test."]
        zonefile = next((server.data / "current" / "zones").glob("example.com.*zone"))
        assert zonefile.read_text(encoding="utf-8").count("cdn.test.") == 3


LABEL = "a" * 63
LONGEST = ".".join(["b" * 63, "c" * 63, "d" * 63, "e" * (255 - 3 * 64 - 13 - 1)])  # 255 octets with the zone
TEXT = "".join(chr(33 + i % 90) for i in range(4000)).replace("'", "x")


def test_b88_odd_but_legal_names_are_served_as_they_are(tmp_path):
    records = f"""\
_acme-challenge.www: {{TXT: ["token"]}}
_sip._tcp: {{SRV: ["10 20 5060 mail.example.com."]}}
xn--bcher-kva: {{A: [192.0.2.1]}}
{LABEL}: {{A: [192.0.2.2]}}
{LONGEST}: {{A: [192.0.2.3]}}
'a\\.b': {{A: [192.0.2.4]}}
"1.2": {{A: [192.0.2.5]}}
"*.*": {{A: [192.0.2.6]}}
t255: {{TXT: ['{TEXT[:255]}']}}
t256: {{TXT: ['{TEXT[:256]}']}}
t4000: {{TXT: ['{TEXT}']}}
"""
    with reportlib.serve(tmp_path, {"www": ONE}, records=records) as server:
        assert rdata(server.ask("_acme-challenge.www.example.com.", "TXT")) == ['"token"']
        assert rdata(server.ask("_sip._tcp.example.com.", "SRV")) == ["10 20 5060 mail.example.com."]
        zone = dns.name.from_text("example.com.")
        for labels, last in ((["xn--bcher-kva"], 1), ([LABEL], 2), (LONGEST.split("."), 3), (["a.b"], 4),
                             (["1", "2"], 5), (["*", "*"], 6), (["any", "*"], 6)):
            name = dns.name.Name([label.encode() for label in labels]).concatenate(zone)
            assert rdata(server.ask(name, "A")) == [f"192.0.2.{last}"], labels
        assert len(dns.name.from_text(LONGEST + ".example.com.").to_wire()) == 255
        for size in (255, 256, 4000):
            (rrset,) = server.ask(f"t{size}.example.com.", "TXT", tcp=True).answer
            strings = rrset[0].strings
            assert b"".join(strings).decode() == TEXT[:size]
            assert [len(s) for s in strings[:-1]] == [255] * (len(strings) - 1)


@pytest.mark.parametrize("name, said", [("a" * 64, "63"), ("x." + LONGEST, "255"), ("a..b", "empty"),
                                        ("b" + LONGEST, "")], ids=["label", "one label more", "empty label", "64"])
def test_b88_illegal_names_are_refused_with_their_place(tmp_path, name, said):
    lines = check(tmp_path, records=f"ok: {{A: [192.0.2.1]}}\n{name}: {{A: [192.0.2.1]}}\n")
    assert len(lines) == 1 and "example.com/zone.yaml:" in lines[0] and said in lines[0], lines
