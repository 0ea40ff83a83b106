"""Intervals against their definitions."""

from __future__ import annotations

from statistics import NormalDist, fmean, stdev

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_viz.analysis.intervals import mean_interval, wilson, with_wilson


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_bounds_are_the_shares_whose_score_test_is_just_not_rejected(
    counts: tuple[int, int],
) -> None:
    """Wilson 1927: |k/n - p| = z sqrt(p (1 - p) / n), a quadratic in p, solved numerically."""
    k, n = counts
    z2, share = NormalDist().inv_cdf(0.975) ** 2, k / n
    roots = np.roots([1 + z2 / n, -(2 * share + z2 / n), share**2])
    low, high = wilson(k, n)
    assert (low, high) == pytest.approx(tuple(sorted(roots.real)), abs=1e-7)
    assert 0 <= low <= share <= high <= 1


def test_shares_have_the_published_bounds() -> None:
    """Newcombe 1998, Statistics in Medicine 17, table I: 0/20 gives 0 to 0.1611."""
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_no_trials_have_no_share_and_no_interval() -> None:
    table = with_wilson(pd.DataFrame({"k": [0, 3], "n": [0, 4]}), "k", "n", "rate")
    assert np.isnan(table.iloc[0][["rate", "rate_low", "rate_high"]].astype(float)).all()
    assert table.rate[1] == 0.75 and table.rate_low[1] < 0.75 < table.rate_high[1]


@given(st.lists(st.integers(1, 9), min_size=2, max_size=40))
def test_the_interval_of_a_mean_is_its_standard_error_times_z(values: list[int]) -> None:
    array = np.array(values, float)
    low, high = mean_interval(array.sum(), (array**2).sum(), np.float64(len(array)))
    half = 1.959963984540054 * stdev(values) / len(values) ** 0.5
    assert (low, high) == pytest.approx((fmean(values) - half, fmean(values) + half), abs=1e-6)


def test_one_value_has_a_mean_without_an_interval() -> None:
    assert np.isnan(mean_interval(np.float64(3), np.float64(9), np.float64(1))).all()
