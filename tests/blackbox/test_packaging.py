# SPDX-License-Identifier: Apache-2.0
"""Manual pages and shell completion: made from the programs, so that they cannot fall behind."""
import os
import pathlib
import re
import subprocess

import pytest
import sluicelib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLUICE = sluicelib.program("sluice")
INTERNAL = {"sluice hook pre-receive", "sluice hook post-receive"}  # run by git


def run(*args):
    return subprocess.run([SLUICE, *args], capture_output=True, text=True, check=True).stdout


def commands(*words):
    """The command itself and all below it."""
    below = subprocess.run([SLUICE, *words, "--list-commands"], capture_output=True, text=True, check=False)
    result = [" ".join(["sluice", *words])]
    if below.returncode == 0:
        for line in below.stdout.splitlines():
            result += commands(*words, line.split("\t")[0])
    return result


ALL = [c for c in commands() if c not in INTERNAL]


def test_every_command_has_a_manual_page():
    text = (ROOT / "packaging/meson.build").read_text()
    listed = re.findall(r"'(sluice[a-z ]*)'", text[text.index("commands = ["):text.index("foreach command")])
    assert sorted(listed) == sorted(ALL)


@pytest.mark.parametrize("command", ALL)
def test_manual_page_is_sound(command):
    page = run(*command.split()[1:], "--man-page")
    done = subprocess.run(["man", "-l", "--warnings", "-"], input=page, capture_output=True, text=True, check=True,
                          env={**os.environ, "MANWIDTH": "80"})
    assert not done.stderr
    for part in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES"):
        assert part in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 200


@pytest.mark.parametrize("command", ALL)
def test_help_fits_a_terminal_and_has_examples(command):
    text = run(*command.split()[1:], "--help")
    assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("page", sorted(p.name for p in (ROOT / "packaging/man").glob("*.scd")))
def test_written_pages_are_sound(page):
    roff = subprocess.run(["scdoc"], stdin=open(ROOT / "packaging/man" / page, encoding="utf-8"), capture_output=True,
                          text=True, check=True).stdout
    done = subprocess.run(["man", "-l", "--warnings", "-"], input=roff, capture_output=True, text=True, check=True)
    assert not done.stderr and "SEE ALSO" in done.stdout


@pytest.mark.parametrize("program", ["sluiced", "sluice-healthd", "sluice-syncd"])
def test_pages_of_daemons_name_every_option(program):
    text = subprocess.run([sluicelib.program(program), "--help"], capture_output=True, text=True, check=True).stdout
    page = (ROOT / f"packaging/man/{program}.8.scd").read_text()
    for option in set(re.findall(r"--[a-z][a-z-]+", text)):
        assert option in page, option


def path_with_sluice(tmp_path):
    """The programs under the names that completion asks."""
    for name in ("sluice", "endpoints"):
        (tmp_path / name).symlink_to(SLUICE)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def bash_complete(env, line):
    words = line.split(" ")
    script = (f"source {ROOT}/packaging/completion/sluice.bash; COMP_WORDS=({' '.join(repr(w) for w in words)}); "
              f"COMP_CWORD={len(words) - 1}; _sluice; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    return subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True).stdout.split()


def test_bash_completion(tmp_path):
    env = path_with_sluice(tmp_path)
    assert bash_complete(env, "sluice bu") == ["build"]
    assert bash_complete(env, "sluice endpoints pro") == ["profiles"]
    assert bash_complete(env, "endpoints und") == ["undrain"]
    assert bash_complete(env, "sluice check --sys") == ["--system"]
    assert "--reason" in bash_complete(env, "endpoints set cdn --")
    assert bash_complete(env, f"sluice check --system {ROOT}/READ") == [f"{ROOT}/README.md"]


def test_fish_completion(tmp_path):
    env = {**path_with_sluice(tmp_path), "HOME": str(tmp_path)}

    def complete(line):
        script = f"source {ROOT}/packaging/completion/sluice.fish; complete -C '{line}'"
        out = subprocess.run(["fish", "-c", script], env=env, capture_output=True, text=True, check=True).stdout
        return [text.split("\t")[0] for text in out.splitlines()]

    assert complete("sluice bu") == ["build"]
    assert complete("endpoints und") == ["undrain"]
    assert "--system" in complete("sluice check --sy")


def test_zsh_completion_is_sound():
    subprocess.run(["zsh", "-n", ROOT / "packaging/completion/_sluice"], check=True)


def test_units_are_sound(tmp_path):
    """By systemd's own check, with the programs where the units look for them."""
    units = []
    for source in sorted((ROOT / "packaging/systemd").glob("*.service")):
        unit = tmp_path / source.name
        unit.write_text(source.read_text().replace("@BINDIR@", "/bin").replace("/bin/sluice", f"{tmp_path}/sluice"))
        units.append(unit)
    for name in ("sluiced", "sluice-healthd", "sluice-syncd", "sluice"):
        (tmp_path / name).symlink_to("/bin/true")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "sluice" in line]
    assert not ours, ours
