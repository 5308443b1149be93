# SPDX-License-Identifier: Apache-2.0
"""The machine's settings, as `sluice check` judges them."""
import subprocess

import sluicelib
import toollib


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
    settings.write_text("- a\n")
    assert check()[0] == 1
    settings.unlink()
    status, text = check()
    assert status == 1 and len(text.splitlines()) == 1
