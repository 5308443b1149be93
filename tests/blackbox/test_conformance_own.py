# SPDX-License-Identifier: Apache-2.0
"""Answers of 186 zones against those of NSD, Knot DNS, BIND 9 and PowerDNS (tests/conformance)."""
import pytest

import conformance

ALLOWED = conformance.allowed()


def glue_ignored(view):
    return view[:4]


def compare(server, placed, peers, recorded):
    """Differences of the served zones from every peer, as texts."""
    questions = [(p, number, text, name, rdtype) for p in placed
                 for number, (text, name, rdtype) in enumerate(p.questions())]
    wires = conformance.ask_all(server, [(name, rdtype) for *_, name, rdtype in questions])
    wrong = []
    for (one, number, text, name, rdtype), wire in zip(questions, wires):
        case = one.case["id"]
        ours = conformance.view(wire, one, name, rdtype)
        views = conformance.peer_views(recorded[case], peers, number)
        same = {glue_ignored(v) for v in views}
        if glue_ignored(ours) in same:
            # Glue is required (RFC 9471): where all peers agree on it, so must we.
            glue = {v[4] for v in views}
            if len(views) > 1 or ours[4] in glue:
                continue
        if (case, text.rsplit(" ", 1)[0] or ".", rdtype) in ALLOWED:
            continue
        wrong.append(f"{case} {text}:\n  ours  {show(ours)}\n" + "".join(
            f"  {'/'.join(who)}  {show(v)}\n" for v, who in views.items()))
    return wrong


def show(view):
    return " | ".join(part if isinstance(part, str) else ", ".join(sorted(part)) for part in view)


def check_loading(cases, refused, peers, recorded):
    wrong = []
    for case in cases:
        unloaded = recorded[case["id"]].get("unloaded", [])
        if (case["id"], "-", "load") in ALLOWED:
            continue
        if case["id"] in refused and not unloaded:
            wrong.append(f"{case['id']}: refused, but all peers load it: {refused[case['id']]}")
        if case["id"] not in refused and len(unloaded) == len(peers):
            wrong.append(f"{case['id']}: loaded, but no peer does")
    return wrong


@pytest.mark.parametrize("stem", ["own", "gen"])
def test_against_peers(stem, tmp_path, start):
    cases, peers, recorded = conformance.load(stem)
    together = [conformance.Placed(c, f"c{i}.") for i, c in enumerate(cases) if not c.get("solo")]
    groups = [together] + [[conformance.Placed(c, "")] for c in cases if c.get("solo")]
    wrong, asked = [], 0
    for number, group in enumerate(groups):
        refused, data = conformance.build(group, tmp_path / f"group{number}")
        wrong += check_loading([p.case for p in group], refused, peers, recorded)
        served = [p for p in group if p.case["id"] not in refused
                  and len(recorded[p.case["id"]].get("unloaded", [])) < len(peers)]
        if not served:
            continue
        server = start(data, control=str(tmp_path / f"control{number}"))
        wrong += compare(server, served, peers, recorded)
        asked += sum(len(p.case["q"]) for p in served)
        server.stop()
    assert asked > 200, "too few questions were asked to show anything"
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:20])
