# SPDX-License-Identifier: Apache-2.0
"""The test statistics themselves, against known values and planted errors."""
import math

import pytest

import stats


@pytest.mark.parametrize("statistic, freedom, chance", [
    (3.841458820694124, 1, 0.05),
    (5.991464547107979, 2, 0.05),
    (18.307038053275146, 10, 0.05),
    (37.32489311, 1, 1.0e-9),
    (124.3421134, 100, 0.05),
])
def test_chi_square_quantiles(statistic, freedom, chance):
    assert stats.gamma_q(freedom / 2, statistic / 2) == pytest.approx(chance, rel=2e-3)


def test_two_degrees_are_an_exponential():
    for x in (0.1, 1.0, 5.0, 20.0, 45.0):
        assert stats.gamma_q(1.0, x / 2) == pytest.approx(math.exp(-x / 2), rel=1e-12)


def test_poisson_tail():
    assert stats.poisson_tail(0, 0.03) == 1.0
    assert stats.poisson_tail(1, 0.03) == pytest.approx(1 - math.exp(-0.03), rel=1e-9)
    assert stats.poisson_tail(6, 0.03) < 1e-9


def test_good_shares_pass_and_wrong_ones_fail():
    even = {"a": 0.5, "b": 0.5}
    assert stats.shares_p({"a": 1010, "b": 990}, even, 2000) > 0.1
    assert stats.shares_p({"a": 1200, "b": 800}, even, 2000) < 1e-9
    canary = {"a": 0.95, "b": 0.05}
    assert stats.shares_p({"a": 1902, "b": 98}, canary, 2000) > 0.1
    assert stats.shares_p({"a": 2000}, canary, 2000) < 1e-9
    rare = {"a": 65535 / 65536, "b": 1 / 65536}
    assert stats.shares_p({"a": 2000}, rare, 2000) > 0.9
    assert stats.shares_p({"a": 1990, "b": 10}, rare, 2000) < 1e-9
