# SPDX-License-Identifier: Apache-2.0
"""What the tests of `sluice check` share: a small good tree, and what is said of changes to it."""
import textwrap

import sluicelib

ZONE = """\
ttl: 3600
soa: {mname: ns1.example.net., rname: hostmaster.example.net.}
ns: [ns1.example.net., ns2.example.net.]
"""
DOMAIN = """\
endpoints:
  a: 192.0.2.1
  b: 192.0.2.2
regions:
  global: {a: 1, b: 1}
"""
Z = "tm.example.com/zone.yaml"
D = "tm.example.com/cdn/domain.yaml"


def tree(files):
    """The smallest good tree with `files` in it; None leaves a file out."""
    result = {Z: ZONE, D: DOMAIN}
    result.update(files)
    return {path: textwrap.dedent(text) if isinstance(text, str) else text
            for path, text in result.items() if text is not None}


def check(tmp_path, files, status):
    root = sluicelib.write_tree(tmp_path / "tree", tree(files))
    done = sluicelib.sluice("check", status=status, cwd=root)
    return done.stderr.splitlines()


def good(tmp_path, files, warnings=()):
    lines = check(tmp_path, files, 0)
    assert len(lines) == len(warnings), lines
    for line, (place, *words) in zip(lines, warnings):
        expect_line(line, place + ": warning", words)


def expect_line(line, place, words):
    assert line.startswith(place + ": "), (line, place)
    message = line[len(place) + 2:]
    for word in words:
        assert word in message, (line, word)


def bad(tmp_path, files, *expected):
    """Each of `expected` is (place, word...); these and no others are reported, in this order."""
    lines = [line for line in check(tmp_path, files, 1) if ": warning: " not in line]
    assert len(lines) == len(expected), lines
    for line, (place, *words) in zip(lines, expected):
        expect_line(line, place, words)


def domain(endpoints="{a: 192.0.2.1, b: 192.0.2.2}", regions="{global: {a: 1, b: 1}}", rest=""):
    return f"endpoints: {endpoints}\nregions: {regions}\n{rest}"
