# SPDX-License-Identifier: Apache-2.0
"""The machine's settings, as `sluice check` judges them."""
import json
import os
import pathlib
import re
import subprocess
import tempfile

import pytest

import sluicelib
import toollib
from tlslib import Authority


def test_exec_checks_are_looked_up_in_the_machines_settings(make_config, tmp_path):
    own = toollib.DOMAIN.replace(
        'one: [192.0.2.1, "2001:db8::1"]',
        'one: {addresses: [192.0.2.1, "2001:db8::1"], health: {check: own}}')
    config = make_config({"cdn": own + "health:\n  type: exec\n  check: disk\n"})
    sluicelib.write_tree(tmp_path, {
        "good.yaml": "checks:\n  disk: {command: [/bin/true]}\n  own: {command: [/bin/true]}\n",
        "bad.yaml": "checks:\n  disc: {command: [/bin/true]}\n",
        "odd.yaml": "checks: [disk]\n", "broken.yaml": "checks: [\n"})

    def check(*args, status):
        return sluicelib.sluice("check", config, *args, status=status).stderr

    assert check("--system", tmp_path / "good.yaml", status=0) == ""
    file = f"{config}/example.com/cdn/domain.yaml"
    column = 1 + own.splitlines()[3].index("check: own")
    places = [f"{file}:4:{column}: ", f"{file}:14:3: "]
    lines = check(status=0).splitlines()
    assert all(line.startswith(f"{place}warning: ") for line, place in zip(lines, places, strict=True))
    bad = tmp_path / "bad.yaml"
    assert check("--system", bad, status=1).splitlines() == [
        f"{places[0]}{bad} defines no check `own`; add it there under `checks:`",
        f"{places[1]}{bad} defines no check `disk`; add it there under `checks:`"]
    assert check("--system", tmp_path / "odd.yaml", status=1).startswith(f"{tmp_path}/odd.yaml:1:9: `checks`")
    assert "broken.yaml:2:1: " in check("--system", tmp_path / "broken.yaml", status=1)
    assert "none.yaml:1:1: cannot read" in check("--system", tmp_path / "none.yaml", status=1)


def test_one_settings_file_for_check_and_server(make_config, tmp_path):
    """Sections of other programs do not keep sluiced from starting."""
    config = make_config({"cdn": toollib.DOMAIN + "health: {type: exec, check: disk}\n"})
    data = sluicelib.build(config, tmp_path / "data")
    port = sluicelib.Port()
    settings = tmp_path / "sluice.yaml"
    settings.write_text(f"data: {data}\nlisten: 127.0.0.1@{port.number}\ncontrol: {tmp_path}/sock\n"
                        "threads: 1\nchecks:\n  disk: {command: [/bin/true], timeout: 2s}\n"
                        "healthd: {workers: 4}\n", encoding="utf-8")
    assert not sluicelib.sluice("check", config, "--system", settings).stderr
    server = sluicelib.Process(sluicelib.program("sluiced"), "-c", settings)
    try:
        server.wait_log(r"\bready\b")
        assert "example.com." in sluicelib.sluice("status", "--socket", tmp_path / "sock").stdout
        assert "3 priority  level 1" in sluicelib.sluice("explain", "cdn", "--client", "::1", "-c", settings).stdout
        server.stop()
    finally:
        server.kill()
        port.close()


def test_check_system_reads_the_settings_of_every_program(tmp_path):
    settings = tmp_path / "sluice.yaml"

    def check():
        done = subprocess.run([sluicelib.program("sluice"), "check", "--system", settings], capture_output=True,
                              text=True, check=False, cwd="/")
        return done.returncode, done.stdout + done.stderr

    settings.write_text("data: /var/lib/sluice\nlisten: [127.0.0.1]\nhealthd: {rate: 10}\n"
                        "checks: {disk: {command: [/bin/true]}}\nas: [chatbot]\n")
    assert check() == (0, f"no errors in {settings}\n")
    settings.write_text("data: /var/lib/sluice\nlisten: [127.0.0.1]\nhelthd: {rate: 10}\nhealthd: {fed: /x}\n"
                        "deploy: {repo: /x}\n")
    status, text = check()
    assert status == 1
    assert f"{settings}:3:1: unknown section `helthd`; did you mean healthd?" in text
    assert f"{settings}:4:11: `fed`: unknown key (did you mean `feed`?)" in text
    assert f"{settings}:5:10: unknown key `repo` in `deploy`" in text
    settings.write_text("data: /var/lib/sluice\nlisten: [127.0.0.300]\n")
    status, text = check()
    assert status == 1 and f"{settings}:2:10: `listen`" in text
    settings.write_text("deploy: {repository: /srv/dns.git}\n")  # a git host
    assert check()[0] == 0
    settings.write_text("keys: {k: {secret: c2VjcmV0}}\n")  # of a server whose addresses are flags
    assert check()[0] == 0
    settings.write_text("- a\n")
    assert check()[0] == 1
    settings.unlink()
    status, text = check()
    assert status == 1 and len(text.splitlines()) == 1


# ---- where a slip is, when it shows only after the file was read ------------------------------------


@pytest.fixture
def refused(make_config, tmp_path):
    """refused(text): what the start of a server says of settings that end with `text`, from line 3 on."""
    data = sluicelib.build(make_config(), tmp_path / "data")
    settings = tmp_path / "sluice.yaml"
    port = sluicelib.Port()

    def refuse(text):
        settings.write_text(f"data: {data}\nlisten: [127.0.0.1@{port.number}]\n{text}\n")
        start = sluicelib.run(sluicelib.program("sluiced"), "-c", settings)
        assert start.returncode == 1, start.stderr
        return start.stderr.splitlines()[-1]

    yield refuse
    port.close()


@pytest.fixture
def judged(refused, tmp_path):
    """judged(text): the same, and all that the check says of them."""
    return lambda text: (refused(text), fails_with(tmp_path / "sluice.yaml"))


@pytest.mark.parametrize("text, place, message", [
    (f"nsid:  {'n' * 129}", "3:8", "`nsid`: at most 128 octets are possible"),
    (f"health: /{'h' * 120}", "3:9", "`health`: the path of a socket has at most 107 octets"),
    ("cookies: maybe", "3:10", "`cookies`: `maybe` is neither `on` nor `off`"),
    ("cookie-secrets: /none\ncookies: off", "3:17",
     "`cookie-secrets`: it has no use with `cookies: off`; remove one of the two"),
    ("cookie-secrets: /none", "3:17", "`cookie-secrets`: cannot read /none: No such file or directory"),
    (f"chaos-id: {'i' * 256}", "3:11", "`chaos-id`: at most 255 octets are possible"),
    (f"chaos-version: {'v' * 256}", "3:16", "`chaos-version`: at most 255 octets are possible"),
    ("tls-listen: [127.0.0.1]", "3:13",
     "`tls-listen`: tls-cert is missing: tls-listen, tls-cert and tls-key go together"),
    ("tls-cert: /c\ntls-key: /k", "3:11",
     "`tls-cert`: tls-listen is missing: tls-listen, tls-cert and tls-key go together"),
    ("tls-key: /k\ntls-listen: [127.0.0.1]", "4:13",
     "`tls-listen`: tls-cert is missing: tls-listen, tls-cert and tls-key go together"),
    ("user: no-such-one", "3:7", "`user`: user `no-such-one`: there is no such user; create it, or name another"),
    ("group: no-such\ncontrol: /tmp/sluice-no-such-socket", "3:8",
     "`group`: group `no-such`: there is no such group; create it, or name another"),
    ("keys:\n  k: {secret: c2VjcmV0, algorithm: rot13}", "4:36",
     "`k`: TSIG key `k`: unknown algorithm `rot13`; use hmac-sha256, or hmac-sha1, -sha224, -sha384, -sha512, -md5"),
    ("keys:\n  k: {secret_file: /none}", "4:20", "`k`: cannot read /none: No such file or directory"),
    ("transfer:\n  allow: [192.0.2.1, any]", "4:22",
     "`transfer`: `allow`: `any` is not an address or prefix (192.0.2.53, 2001:db8::/48)"),
    ("transfer:\n  notify: any", "4:11", "`transfer`: `notify`: `any` is not an address (192.0.2.53, 192.0.2.53@5353)"),
    ("transfer: {tsig: nokey}", "3:18", "`tsig`: there is no key nokey. in `keys:`; add it there, or name one of them"),
    ("transfer:\n  allow: [192.0.2.1]\n  tsig: Transferkey.\nkeys:\n  other: {secret: c2VjcmV0}\n"
     "  transfer-key: {secret: c2VjcmV0}\n  transfer-keys: {secret: c2VjcmV0}", "5:9",
     "`tsig`: there is no key Transferkey. in `keys:` (did you mean `transfer-key.`?)"),
    ("geo: /none", "3:6", "`geo`: cannot read /none: No such file or directory"),
    ("asn:  /none", "3:7", "`asn`: cannot read /none: No such file or directory"),
    ("geo: /dev/null", "3:6", "`geo`: cannot read /dev/null: not a regular file"),
    ("nsid: x\nasn: /dev/null", "4:6", "`asn`: cannot read /dev/null: not a regular file"),
])
def test_the_place_of_a_slip(judged, tmp_path, text, place, message):
    start, check = judged(text)
    line = f"{tmp_path}/sluice.yaml:{place}: {message}"
    assert start.endswith(f": {line}"), (start, line)
    assert check == [f"sluice: {line}"]


@pytest.mark.parametrize("text, place, message", [
    ("control: {folder}/none/socket", "3:10",
     "`control`: cannot listen at {folder}/none/socket: No such file or directory"),
    ("state: {folder}/file", "3:8", "`state`: cannot make folder {folder}/file: Not a directory"),
    ("secondary: [{{zone: example.net, primaries: [192.0.2.1]}}]\nstate:  {folder}", "4:9",
     "`state`: cannot make folder {folder}/secondary: Not a directory"),
])
def test_the_place_of_what_cannot_be_made(refused, tmp_path, text, place, message):
    """The check makes nothing, so that only the server finds out."""
    folder = tmp_path / "here"
    sluicelib.write_tree(folder, {"file": "", "secondary": ""})
    start = refused(text.format(folder=folder))
    assert start.endswith(f": {tmp_path}/sluice.yaml:{place}: {message.format(folder=folder)}"), start


def test_the_place_of_location_files_that_are_broken(judged, tmp_path, city_mmdb):
    """Each is told at its own place, though one path is in the other."""
    (tmp_path / "geo").write_text("no database\n")
    (tmp_path / "geo.asn").write_text("nor this\n")
    start, check = judged(f"geo: {tmp_path}/geo\nasn: {tmp_path}/geo.asn")
    lines = [f"{tmp_path}/sluice.yaml:{line}:6: `{key}`: {tmp_path}/{name}: not a MaxMind DB, or its metadata is "
             "damaged or cut off" for line, key, name in ((3, "geo", "geo"), (4, "asn", "geo.asn"))]
    assert start.endswith(f": {lines[0]}") and check == [f"sluice: {line}" for line in lines], (start, check)
    (tmp_path / "geo").write_bytes(pathlib.Path(city_mmdb).read_bytes())
    start, check = judged(f"geo: {tmp_path}/geo\nasn: {tmp_path}/geo.asn")
    assert start.endswith(f": {lines[1]}") and check == [f"sluice: {lines[1]}"], (start, check)


def test_a_key_of_transfers_may_stand_behind_them(tmp_path):
    """In any case, with a final dot or not; of a machine without a server, too."""
    settings = tmp_path / "sluice.yaml"
    settings.write_text("transfer: {tsig: A-Key.}\nkeys: {a-key: {secret: c2VjcmV0}}\n")
    assert sluicelib.sluice("check", "--system", settings).stderr == ""
    settings.write_text("transfer: {tsig: a-key}\nkeys: {b: {secret: c2VjcmV0}}\n")
    assert fails_with(settings) == [f"sluice: {settings}:1:18: `tsig`: there is no key a-key. in `keys:`; "
                                    "add it there, or name one of them"]


def test_the_place_of_an_address_that_is_taken(judged, tmp_path):
    judged("cookies: maybe")
    text = (tmp_path / "sluice.yaml").read_text()
    address = text.split("[")[1].split("]")[0]
    start, check = judged(f"tls-cert: /c\ntls-key: /k\ntls-listen: [127.0.0.1, {address}]")
    line = (f"{tmp_path}/sluice.yaml:5:25: `tls-listen`: {address} is in both listen and tls-listen; "
            "give each a port of its own")
    assert start.endswith(f": {line}") and check == [f"sluice: {line}"]


@pytest.mark.parametrize("text, place, key", [
    ("listen: [{}, 192.0.2.1@5300]", "2:27", "listen"),
    ("tls-cert: /c\ntls-key: /k\nlisten: {}\ntls-listen: [192.0.2.1@5300]", "5:14", "tls-listen"),
])
def test_the_place_of_an_address_that_is_not_ours(tmp_path, text, place, key):
    settings, port = tmp_path / "sluice.yaml", sluicelib.Port()
    own = f"127.0.0.1@{port.number}"
    settings.write_text("data: /d\n" + text.format(own) + "\n")
    done = sluicelib.run(sluicelib.program("sluiced"), "-c", settings)
    port.close()
    assert done.returncode == 1
    assert f": {settings}:{place}: `{key}`: cannot listen on 192.0.2.1@5300 (TCP): " in done.stderr, done.stderr


@pytest.mark.parametrize("text, message", [
    ("data: /d\n", "1:1: `listen` is missing; add it, or give --listen ADDRESS@PORT"),
    ("listen: [127.0.0.1]\n", "1:1: `data` is missing; add it, or give --data DIR"),
    ("- data\n", "1:1: must be a map of settings such as `data: DIR`"),
    ("# nothing\n\n  [data]\n", "3:3: must be a map of settings such as `data: DIR`"),
    (None, "1:1: cannot read {}: No such file or directory"),
])
def test_a_file_that_is_not_whole(tmp_path, text, message):
    settings = tmp_path / "sluice.yaml"
    if text is not None:
        settings.write_text(text)
    line = f"{settings}:{message.format(settings)}"
    done = sluicelib.run(sluicelib.program("sluiced"), "-c", settings)
    assert done.returncode == 1 and done.stderr.rstrip().endswith(f": {line}"), done.stderr
    if text != "data: /d\n":  # a git host needs no `listen`
        assert fails_with(settings) == [f"sluice: {line}"]


def test_a_flag_has_no_place(judged, tmp_path):
    judged("cookies: maybe")
    done = sluicelib.run(sluicelib.program("sluiced"), "-c", tmp_path / "sluice.yaml", "--cookies", "perhaps")
    assert done.returncode == 1 and done.stderr.endswith(": --cookies: `perhaps` is neither `on` nor `off`\n")


def tls_settings(cert, key, port, *more):
    return "\n".join([f"tls-cert: {cert}", f"tls-key:  {key}", f"tls-listen: 127.0.0.1@{port.number}", *more])


def test_the_place_of_tls_files(judged, tmp_path):
    authority = Authority(tmp_path / "ca")
    cert, key, other, port = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "other.pem", sluicelib.Port()
    authority.issue(tmp_path / "spare.pem", other)
    authority.issue(cert, key)
    for pair, place, message in (
            (("/none", key), "3:11", "`tls-cert`: cannot read /none: No such file or directory; "
                                     "name a PEM file that this program may read"),
            ((cert, "/none"), "4:11", "`tls-key`: cannot read /none: No such file or directory; "
                                      "name a PEM file that this program may read"),
            ((key, key), "3:11", f"`tls-cert`: {key} is not a certificate (chain) in PEM form; "
                                 "it must hold whole `-----BEGIN CERTIFICATE-----` blocks"),
            ((cert, cert), "4:11", f"`tls-key`: {cert} is not a private key in PEM form; "
                                   "it must hold a whole `-----BEGIN PRIVATE KEY-----` block"),
            ((cert, other), "4:11", f"`tls-key`: the key in {other} is not that of the certificate in {cert}; "
                                    "name two files that belong together")):
        start, check = judged(tls_settings(*pair, port))
        line = f"{tmp_path}/sluice.yaml:{place}: {message}"
        assert start.endswith(f": {line}") and check == [f"sluice: {line}"], (start, check)
    port.close()


def test_files_that_the_user_of_the_server_may_not_read(judged):
    """The check tells it, too, though root may read all."""
    assert os.geteuid() == 0, "only root can become another user"
    port = sluicelib.Port()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o755)
        cert, key = pathlib.Path(folder) / "cert.pem", pathlib.Path(folder) / "key.pem"
        Authority(pathlib.Path(folder) / "ca").issue(cert, key)
        cert.chmod(0o644)
        key.chmod(0o600)
        start, check = judged(tls_settings(cert, key, port, "user: nobody"))
        line = f":4:11: `tls-key`: cannot read {key}: Permission denied; name a PEM file that this program may read"
        assert start.endswith(line) and len(check) == 1 and check[0].endswith(line), (start, check)
    port.close()


def test_the_place_of_what_cannot_be_read_again(make_config, tmp_path, city_mmdb):
    """What a reload leaves as it was is told with its place."""
    data = sluicelib.build(make_config(), tmp_path / "data")
    authority = Authority(tmp_path / "ca")
    cert, key, ours, geo, cookies = (tmp_path / name for name in ("cert", "key", "ours", "geo", "cookies"))
    authority.issue(cert, key)
    ours.write_bytes(authority.cert.read_bytes())
    geo.write_bytes(pathlib.Path(city_mmdb).read_bytes())
    cookies.write_text("00112233445566778899aabbccddeeff\n")
    settings, port, tls_port = tmp_path / "sluice.yaml", sluicelib.Port(), sluicelib.Port()
    settings.write_text(
        f"data: {data}\nlisten: 127.0.0.1@{port.number}\ncontrol: {tmp_path}/sock\nthreads: 1\n"
        + tls_settings(cert, key, tls_port, f"tls: {{a: {{hostname: ns.example.net, ca_file: {ours}}}}}",
                       f"geo: {geo}", f"cookie-secrets: {cookies}") + "\n")
    assert not sluicelib.sluice("check", "--system", settings).stderr
    server = sluicelib.Process(sluicelib.program("sluiced"), "-c", settings)
    try:
        server.wait_log(r"\bready\b")
        for file, said in (
                (key, f"the zones are loaded, but the old TLS certificate stays in use: {settings}:6:11: `tls-key`: "
                      f"cannot read {key}: "),
                (ours, f"the zones are loaded, but the old files of tls `a` stay in use: {settings}:8:46: tls `a`: "
                       f"ca_file: cannot read {ours}: "),
                (geo, f"the zones are loaded, but the old location data stay in use: {settings}:9:6: `geo`: "
                      f"cannot read {geo}: ")):
            kept = file.rename(f"{file}.kept")
            done = sluicelib.sluice("reload", "--socket", tmp_path / "sock", status=3)
            assert said in done.stderr, done.stderr
            kept.rename(file)
        cookies.write_text("no secret\n")
        sluicelib.sluice("reload", "--socket", tmp_path / "sock")
        server.wait_log(re.escape(f"the old cookie secrets stay in use: {settings}:10:17: `cookie-secrets`: {cookies}: "))
        server.stop()
    finally:
        server.kill()
        port.close()
        tls_port.close()


# ---- secrets of alert routes -----------------------------------------------------------------------

ROUTES = """\
alerts:
  oncall: {format: pagerduty, secret: pd-edge}
  chat: {format: slack, secret: slack-edge}
  audit:
    format: json
    url: https://events.example.com/hook
    secret: audit-token
  again: {format: pagerduty, secret: pd-edge}
  open: {format: json, url: https://events.example.com/open}
"""
VALUE = "https://hooks.example.com/very-secret-value"


def test_secrets_of_alert_routes_are_looked_up_in_the_machines_settings(make_config, tmp_path):
    """With a configuration: the names only, where they are written.  Builds do not ask."""
    config = make_config({"cdn": toollib.DOMAIN}, files={"defaults.yaml": ROUTES})
    settings = tmp_path / "sluice.yaml"
    settings.write_text("secrets: {pd-edge: {env: NOT_SET}, audit-tokens: {file: /none}, provider: {file: /none}}\n")
    lines = fails_with(config, settings)
    places = [(i + 1, line.index("secret:") + 9) for i, line in enumerate(ROUTES.splitlines()) if "secret:" in line]
    assert lines == [
        f"{config}/defaults.yaml:{places[1][0]}:{places[1][1]}: {settings} has no secret `slack-edge`; "
        "add it there under `secrets:`",
        f"{config}/defaults.yaml:{places[2][0]}:{places[2][1]}: {settings} has no secret `audit-token`; "
        "add it there under `secrets:`"]
    problems = json.loads(sluicelib.sluice("check", config, "--system", settings, "--json", status=1).stdout)["problems"]
    assert [(p["line"], p["column"]) for p in problems] == places[1:3]
    sluicelib.sluice("check", config)
    sluicelib.sluice("build", config, "--out", tmp_path / "data", "--system", settings)
    settings.write_text("data: /none\n")
    assert len(fails_with(config, settings)) == 4  # each route that names one


def fails_with(*args):
    *config, settings = args
    done = sluicelib.sluice("check", *config, "--system", settings, status=1)
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.fixture
def machine(make_config, tmp_path, monkeypatch):
    """write(secrets) gives settings of a machine whose current build has ROUTES."""
    data = sluicelib.build(make_config({"cdn": toollib.DOMAIN}, files={"defaults.yaml": ROUTES}), tmp_path / "data")
    settings = tmp_path / "sluice.yaml"
    (tmp_path / "pd").write_text("routing-key\n")
    (tmp_path / "pd").chmod(0o600)
    monkeypatch.setenv("SLACK_EDGE", VALUE)

    def write(**secrets):
        good = {"pd-edge": f"{{file: {tmp_path}/pd}}", "slack-edge": "{env: SLACK_EDGE}",
                "audit-token": "{command: [/bin/echo, token]}", "provider": "{file: /none}"}
        good.update({name.replace("_", "-"): place for name, place in secrets.items()})
        lines = [f"  {name}: {place}" for name, place in good.items() if place]
        settings.write_text("\n".join([f"data: {data}", "secrets:", *lines]) + "\n")
        return settings
    return write


def test_secrets_of_the_current_build_can_be_had(machine):
    """Those that its alert routes name; who reads another's need not be us."""
    settings = machine()
    done = sluicelib.sluice("check", "--system", settings)
    assert (done.stdout, done.stderr) == (f"no errors in {settings}\n", "")


def test_a_secret_that_cannot_be_had(machine, tmp_path):
    bad = {
        "pd_edge": [("{file: /none}", "3:12", "secret pd-edge: cannot read /none: No such file or directory"),
                    (f"{{file: {tmp_path}}}", "3:12", f"secret pd-edge: {tmp_path} is not a regular file")],
        "slack_edge": [(f"{{command: [{tmp_path}/none]}}", "4:15",
                        f"secret slack-edge: cannot run {tmp_path}/none: No such file or directory"),
                       ("{env: SLACK_EDGE, file: /x}", "4:15",
                        "secret slack-edge needs one of `file: PATH`, `env: VARIABLE` or `command: [PATH, ...]`"),
                       (None, "2:1", "the alert route `chat` of the current build names the secret `slack-edge`, "
                                     "which is not here; add it under `secrets`")],
        "audit_token": [("{command: [/bin/sh, -c, 'echo very-secret-value; exit 3']}", "5:16",
                         "secret audit-token: /bin/sh failed with exit status 3"),
                        ("{command: [/bin/true]}", "5:16", "secret audit-token: it is empty"),
                        ("{command: [sh]}", "5:16", "secret audit-token: `command` must be a list of texts that "
                                                    "begins with an absolute path")],
        # Nobody asks for its value here, but for its form.
        "provider": [("{fiel: /x}", "6:13",
                      "secret provider needs one of `file: PATH`, `env: VARIABLE` or `command: [PATH, ...]`")]}
    for name, cases in bad.items():
        for place, at, message in cases:
            settings = machine(**{name: place})
            assert fails_with(settings) == [f"sluice: {settings}:{at}: {message}"]


def test_a_secret_that_others_can_read(machine, tmp_path):
    for mode in (0o644, 0o660, 0o604):
        (tmp_path / "pd").chmod(mode)
        settings = machine()
        assert fails_with(settings) == [f"sluice: {settings}:3:12: secret pd-edge: {tmp_path}/pd is open to others "
                                        f"(mode {mode:04o}); make it 0600 or 0640"]


def test_all_secrets_that_cannot_be_had_are_told_once(machine, tmp_path):
    (tmp_path / "pd").unlink()
    settings = machine(audit_token="{file: /none}")
    assert sorted(line.split(": ")[1] for line in fails_with(settings)) == [f"{settings}:3:12", f"{settings}:5:16"]


def test_a_variable_that_is_not_set_here_is_a_warning(machine, monkeypatch):
    """The checker has an environment of its own."""
    monkeypatch.delenv("SLACK_EDGE")
    settings = machine()
    done = sluicelib.sluice("check", "--system", settings)
    assert done.stderr == f"sluice: {settings}:4:15: warning: secret slack-edge: the environment variable SLACK_EDGE is not set\n"
    monkeypatch.setenv("SLACK_EDGE", "very-secret-välue")
    assert fails_with(settings) == [f"sluice: {settings}:4:15: secret slack-edge: it must be one line of printable ASCII"]


def test_without_a_build_secrets_are_not_read(machine, tmp_path):
    settings = machine(pd_edge="{file: /none}")
    (tmp_path / "data" / "current").unlink()
    sluicelib.sluice("check", "--system", settings)


# ---- secrets of providers --------------------------------------------------------------------------

PROVIDERS = """\
providers:
  dns-a: {type: powerdns, url: https://dns-a.example.net, secret: dns-a}
  dns-b:
    type: rfc2136
    address: 192.0.2.53
    secret: dns-b-tsig
  dns-c: {type: ns1, secret: dns-a}
  dns-d: {type: ns1, secret: pd-edge}
alerts:
  oncall: {format: pagerduty, secret: pd-edge}
"""


@pytest.fixture
def syncing(make_config, tmp_path):
    """write(text) gives settings of a machine that keeps PROVIDERS level: `secrets:` begins at line 4."""
    config = make_config({"cdn": toollib.DOMAIN}, files={"defaults.yaml": PROVIDERS})
    data = sluicelib.build(config, tmp_path / "data")
    settings = tmp_path / "sluice.yaml"
    (tmp_path / "good").write_text("value\n")
    (tmp_path / "good").chmod(0o600)

    def write(text, syncd="syncd: {check: 5m}"):
        settings.write_text(f"data: {data}\ncontrol: /run/c\n{syncd}\nsecrets:\n  pd-edge: {{file: {tmp_path}/good}}\n{text}\n")
        return config, settings

    return write


def test_secrets_of_providers_can_be_had(syncing, tmp_path):
    config, settings = syncing(f"  dns-a: {{file: {tmp_path}/good}}\n  dns-b-tsig: {{command: [/bin/echo, a]}}")
    assert sluicelib.sluice("check", "--system", settings).stderr == ""
    assert sluicelib.sluice("check", config, "--system", settings).stderr == ""


def test_secrets_of_providers_that_cannot_be_had(syncing):
    """All of them, each once, at its place."""
    config, settings = syncing("  dns-a: {file: /none}")
    assert fails_with(settings) == [
        f"sluice: {settings}:6:10: secret dns-a: cannot read /none: No such file or directory",
        f"sluice: {settings}:4:1: the provider `dns-b` of the current build names the secret `dns-b-tsig`, "
        "which is not here; add it under `secrets`"]
    assert fails_with(config, settings) == [
        f"{config}/defaults.yaml:6:13: {settings} has no secret `dns-b-tsig`; add it there under `secrets:`"]
    config, settings = syncing("  dns-a: {env: NOT_SET}\n  dns-b-tsig: {command: [/bin/echo, a]}")
    assert sluicelib.sluice("check", "--system", settings).stderr == (
        f"sluice: {settings}:6:10: warning: secret dns-a: the environment variable NOT_SET is not set\n")


def test_a_machine_without_syncd_has_no_secrets_of_providers(syncing):
    config, settings = syncing("  dns-a: {file: /none}", syncd="# none")
    assert sluicelib.sluice("check", "--system", settings).stderr == ""
    assert sluicelib.sluice("check", config, "--system", settings).stderr == ""
