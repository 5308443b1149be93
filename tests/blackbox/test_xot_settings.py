# SPDX-License-Identifier: Apache-2.0
"""The settings of transfers in over TLS: what is wrong in them is told with its place."""
import base64

import pytest

import sluicelib
from primaries import HOST
from tlslib import Authority

PIN = base64.b64encode(b"p" * 32).decode()
SECONDARY = "secondary: [{zone: example.net, primaries: [192.0.2.1], tls: a}]"


def refused(make_config, tmp_path, text):
    data = sluicelib.build(make_config(), tmp_path / "data")
    config = tmp_path / "sluice.yaml"
    config.write_text(text + "\n", encoding="utf-8")
    port = sluicelib.Port(HOST)
    done = sluicelib.run(sluicelib.program("sluiced"), "-c", config, "--data", data, "--listen",
                         f"{HOST}@{port.number}", "--state", tmp_path / "state")
    port.close()
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("text, place, message", [
    ("tls: [a]", "1:6", "`tls`: must be a map"),
    ("tls: {a: b}", "1:10", "`a`: must be a map with `hostname` or `pins`"),
    ("tls: {a: {}}", "1:7", "`a`: needs `hostname` or `pins`"),
    ("tls: {a: {hostnam: ns.example.net}}", "1:11", "did you mean `hostname`?"),
    ("tls: {a: {hostname: 192.0.2.1}}", "1:21", "`hostname`: must be the host name in the primary's certificate"),
    ("tls: {a: {hostname: \"*.example.net\"}}", "1:21", "`hostname`: must be the host name"),
    ("tls: {a: {hostname: \".\"}}", "1:21", "`hostname`: must be the host name"),
    ("tls: {a: {hostname: [ns.example.net]}}", "1:21", "`hostname`: must be the host name"),
    ("tls: {a: {ca_file: /x, pins: \"" + PIN + "\"}}", "1:20", "`ca_file`: needs `hostname`"),
    ("tls: {a: {hostname: ns.example.net, ca_file: []}}", "1:46", "`ca_file`: must be the path"),
    ("tls: {a: {pins: []}}", "1:17", "`pins`: must be a list of 1 to 16 pins"),
    ("tls: {a: {pins: [abc]}}", "1:18", "`pins`: must be the SHA-256 of a public key"),
    ("tls: {a: {pins: [\"" + PIN + "\", \"" + PIN[:-1] + "*\"]}}", "1:66", "`pins`: must be the SHA-256"),
    ("tls: {a: {hostname: ns.example.net, cert_file: /x}}", "1:7", "`cert_file` and `key_file` go together"),
    (SECONDARY, "1:62", "`tls`: there is no `a` in the section `tls:`"),
    (SECONDARY + "\ntls: {b: {hostname: ns.example.net}}", "1:62", "there is no `a` in the section"),
    (SECONDARY.replace("tls: a", "tls: [a]"), "1:62", "`tls`: must be a name of the section `tls:`"),
    (SECONDARY.replace(", tls: a", "").replace("192.0.2.1", "{address: 192.0.2.1, tls: a}"), "1:71",
     "there is no `a`"),
    (SECONDARY.replace(", tls: a", "").replace("192.0.2.1", "{tls: a}") + "\ntls: {a: {hostname: ns.example.net}}",
     "1:45", "`primaries`: `address` is missing"),
    (SECONDARY.replace(", tls: a", "").replace("192.0.2.1", "{adress: 192.0.2.1}"), "1:46", "unknown key"),
])
def test_wrong_settings(make_config, tmp_path, text, place, message):
    found = refused(make_config, tmp_path, text)
    assert f"sluice.yaml:{place}: " in found and message in found, found
    done = sluicelib.run(sluicelib.program("sluice"), "check", "--system", tmp_path / "sluice.yaml")
    assert done.returncode == 1 and f"sluice.yaml:{place}: " in done.stderr, done.stderr


def told(make_config, tmp_path, text, place, message):
    """The start and the check tell the same: at this place of the file, this."""
    line = f"{tmp_path}/sluice.yaml:{place}: {message}"
    found = refused(make_config, tmp_path, text)
    assert found.rstrip("\n").endswith(f": {line}"), (found, line)
    done = sluicelib.run(sluicelib.program("sluice"), "check", "--system", tmp_path / "sluice.yaml")
    assert (done.returncode, done.stderr) == (1, f"sluice: {line}\n")


def test_wrong_files(make_config, tmp_path):
    authority = Authority(tmp_path / "ca")
    cert, key, other, folder = (tmp_path / name for name in ("cert.pem", "key.pem", "other.pem", "ca"))
    authority.issue(cert, other)
    authority.issue(cert, key)
    readable = "; name a PEM file that this program may read"
    block = "it must hold whole `-----BEGIN CERTIFICATE-----` blocks"
    for more, at, message in (
            ("ca_file: /none", "/none",
             f"ca_file: cannot read /none: No such file or directory{readable}"),
            (f"ca_file: {key}", key, f"ca_file: no certificate in {key}{readable}"),
            (f"cert_file: /none, key_file: {key}", "/none",
             f"cert_file: cannot read /none: No such file or directory{readable}"),
            (f"key_file: {key}, cert_file: {folder}", folder,
             f"cert_file: cannot read {folder}: it is not a regular file{readable}"),
            (f"cert_file: {key}, key_file: {key}", key,
             f"cert_file: {key} is not a certificate (chain) in PEM form; {block}"),
            (f"cert_file: {cert}, key_file: /none", "/none",
             f"key_file: cannot read /none: No such file or directory{readable}"),
            (f"cert_file: {cert}, key_file: {cert}", f"{cert}}}",
             f"key_file: {cert} is not a private key in PEM form; it must hold a whole `-----BEGIN PRIVATE KEY-----` "
             "block"),
            (f"cert_file: {cert}, key_file: {other}", other,
             f"key_file: the key in {other} is not that of the certificate in {cert}; name two files that belong "
             "together")):
        text = f"tls:\n  a: {{hostname: ns.example.net, {more}}}"
        column = text.splitlines()[1].index(str(at)) + 1
        told(make_config, tmp_path, text, f"2:{column}", f"tls `a`: {message}")


def test_a_key_that_is_not_there(make_config, tmp_path):
    told(make_config, tmp_path, "secondary:\n"
         "  - {zone: example.net, primaries: [192.0.2.1], tsig: here}\n"
         "  - {zone: example.org, primaries: [192.0.2.1], tsig: nokey}\n"
         "keys: {here: {secret: c2VjcmV0}}", "3:55",
         "`tsig`: there is no key nokey. in `keys:`; add it there, or name one of them")


def test_a_zone_that_is_there_twice(make_config, tmp_path):
    told(make_config, tmp_path, "secondary:\n  - {zone: E.net., primaries: [192.0.2.1]}\n"
         "  - {zone: a.net, primaries: [192.0.2.1]}\n  - {primaries: [192.0.2.1], zone: e.net}", "4:36",
         "`secondary`: zone e.net. is given twice (line 2, column 12); remove one")


def test_the_check_tells_all(tmp_path):
    config = tmp_path / "sluice.yaml"
    config.write_text("secondary:\n"
                      "  - {zone: example.net, primaries: [192.0.2.1], tsig: nokey}\n"
                      "  - {zone: example.org, primaries: [192.0.2.1], tsig: nokey}\n"
                      "tls:\n"
                      "  a: {hostname: ns.example.net, ca_file: /none}\n"
                      "  b: {hostname: ns.example.net, cert_file: /none, key_file: /none}\n", encoding="utf-8")
    done = sluicelib.run(sluicelib.program("sluice"), "check", "--system", config)
    assert done.returncode == 1
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == [
        f"{config}:{place}" for place in ("2:55", "3:55", "5:42", "6:44")]


def test_zones_without_a_folder(make_config, tmp_path):
    data = sluicelib.build(make_config(), tmp_path / "data")
    config = tmp_path / "sluice.yaml"
    port = sluicelib.Port(HOST)
    config.write_text(f"data: {data}\nlisten: {HOST}@{port.number}\n"
                      "secondary: [{zone: example.net, primaries: [192.0.2.1]}]\n", encoding="utf-8")
    line = f"{config}:3:12: `secondary`: the zones need a folder to be kept in; set `state`\n"
    done = sluicelib.run(sluicelib.program("sluiced"), "-c", config)
    port.close()
    assert done.returncode == 1 and done.stderr.endswith(f": {line}")
    done = sluicelib.run(sluicelib.program("sluice"), "check", "--system", config)
    assert (done.returncode, done.stderr) == (1, f"sluice: {line}")


def test_the_port_is_853_unless_given(start, make_config, tmp_path):
    config = tmp_path / "sluice.yaml"
    config.write_text("secondary: [{zone: example.net, tls: a, primaries: [127.0.0.1, \"::1@8853\"]},\n"
                      "            {zone: example.org, primaries: [127.0.0.1, {address: 127.0.0.2, tls: a}]}]\n"
                      "tls: {a: {hostname: ns.example.net.}}\n", encoding="utf-8")
    server = start(make_config(), "-c", config, "--state", tmp_path / "state")
    zones = {zone["zone"]: zone for zone in sluicelib.control(server.control, "status")["secondary"]}
    assert zones["example.net."]["primaries"] == ["127.0.0.1@853", "::1@8853"]
    assert zones["example.org."]["primaries"] == ["127.0.0.1@53", "127.0.0.2@853"]
    assert zones["example.org."]["tls"] == [None, "a"]
