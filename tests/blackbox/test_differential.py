# SPDX-License-Identifier: Apache-2.0
"""The same broken and whole queries to sluiced and to NSD, with the same zones (tests/fuzz/differential.py)."""
import pathlib
import sys

import pytest

import sluicelib

sys.path.insert(0, str(sluicelib.REPO / "tests/fuzz"))

import differential  # noqa: E402


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = pathlib.Path(tmp_path_factory.mktemp("differential"))
    zones = differential.write_zones(folder / "zones")
    theirs = differential.Nsd(folder, zones)
    try:
        with differential.start_sluiced(folder, zones) as ours:
            yield differential.Run(ours, theirs)
    finally:
        theirs.end()


def test_whole_queries(run):
    """Every name with every type, well-formed: the servers agree but for what is known."""
    maker = differential.Maker(1)
    packets = [maker.plain(name, rdtype) for name in maker.names
               for rdtype in (1, 2, 5, 6, 15, 16, 39, 43, 255, 257, 65280)]
    run.fuzz_these(packets)
    assert not run.unknown, "\n".join(run.unknown)
    assert set(run.count) <= {"packets", "same octets", "same", "any_type", "truncated, compared over TCP"}
    assert run.count["any_type"] < len(maker.names)


def test_mutated_queries(run):
    run.fuzz(differential.DEFAULT_SEED, differential.DEFAULT_COUNT)
    assert not run.unknown, "\n".join(run.unknown)
    assert run.count["same octets"] > differential.DEFAULT_COUNT / 3
