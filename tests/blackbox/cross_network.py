# SPDX-License-Identifier: Apache-2.0
"""Run in a network namespace of its own by test_cross_provider.py: a group of models whose providers check by
themselves, with real endpoints.  Arguments: FIRST-LAST of the models' numbers, an empty folder."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import crossmodels  # noqa: E402
import test_cross_provider  # noqa: E402
from wildcard_address import loopback_up  # noqa: E402


def main():
    first, last = map(int, sys.argv[1].split("-"))
    loopback_up()
    made = test_cross_provider.group_of(list(range(first, last + 1)), crossmodels.OwnMaker)
    test_cross_provider.check(pathlib.Path(sys.argv[2]), made, own=True)


if __name__ == "__main__":
    main()
