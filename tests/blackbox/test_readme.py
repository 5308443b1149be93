# SPDX-License-Identifier: Apache-2.0
"""The README's tour of deploys and endpoints, command by command, with the output that it shows."""
import os
import pathlib
import re
import subprocess

import sluicelib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAPTER = "## Deploys by push, traffic by hand"
MARK = "==next=="


def tour():
    """[command, the lines that it prints]..."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text[text.index(CHAPTER):text.index("\n## Documents")]
    steps = []
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append([line[2:], []])
            elif line.startswith("> "):
                steps[-1][0] += "\n" + line[2:]
            else:
                steps[-1][1].append(line)
    return steps


def normal(text, where):
    """What differs from run to run, by one word each; where lines break does not count."""
    text = re.sub(r"\s+", " ", text.replace(str(where), "DIR").replace("/root/sluice/tour", "DIR")).strip()
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{12,40}\b", "HASH", text)
    text = re.sub(r"\d+ s ago", "N s ago", text)
    return re.sub(r"\bby [a-z_]\S*( \S+ \(LIVE\)| \S+(?= HASH))?", "by SOMEONE", text)


def test_the_tour_is_as_written(tmp_path):
    steps = tour()
    assert len(steps) > 20 and steps[0][0].startswith("export PATH=")
    port = sluicelib.Port()
    build = pathlib.Path(os.environ["SLUICE_BUILD"])
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script = [f"export PATH={build}/server:{build}/healthcheck:{build}/tools:$PATH"]
    for command, _ in steps[1:]:
        command = command.replace("5301", str(port.number))
        script += [f"echo '{MARK}'", command]
        if command.endswith("&"):  # at the prompt there is time; here, until it answers
            log = re.search(r"2> (\S+)", command)[1]
            script.append(f"until grep -qs ready: {log}; do read -rt 0.02 <> <(:); done")
    script.append("wait")
    env = {**os.environ, "HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"), "LC_ALL": "C.UTF-8"}
    (tmp_path / "gitconfig").write_text("[user]\n\tname = Someone\n\temail = someone@example.com\n")
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=tmp_path, env=env, text=True, timeout=4 * sluicelib.DEADLINE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    port.close()
    parts = done.stdout.split(MARK + "\n")[1:]
    assert len(parts) == len(steps) - 1, done.stdout
    for (command, expected), printed in zip(steps[1:], parts):
        got = normal("\n".join(line for line in printed.splitlines() if "Terminated" not in line), tmp_path / "tour")
        assert got == normal("\n".join(expected), tmp_path / "tour"), f"{command}\n{done.stdout}"
