"""Bootstrap intervals against the distribution over every possible draw."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from eagle3_viz.suite import bootstrap
from eagle3_viz.suite.bootstrap import interval


def quotient(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


ROWS = np.array([[30.0, 10.0], [8.0, 4.0], [21.0, 5.0], [12.0, 12.0], [40.0, 9.0]])


def every_draw(rows: np.ndarray) -> np.ndarray:
    """The statistic of each of the n^n equally likely draws of n prompts."""
    draws = itertools.product(range(len(rows)), repeat=len(rows))
    return np.array([quotient(sum(rows[i] for i in draw)) for draw in draws])


def test_the_interval_holds_the_middle_95_percent_of_all_draws() -> None:
    low, high = interval(ROWS, quotient, resamples=40_000)
    values = every_draw(ROWS)
    assert len(values) == 5**5
    # 40000 draws place a 2.5 % quantile to within 0.08 % of the draws, taken at four deviations
    for bound, share in ((low, 0.025), (high, 0.975)):
        assert (values < bound).mean() <= share + 0.0032
        assert (values <= bound).mean() >= share - 0.0032


def test_the_same_seed_gives_the_same_interval_and_another_one_does_not() -> None:
    found = interval(ROWS, quotient, resamples=50)
    assert interval(ROWS, quotient, resamples=50) == found
    assert interval(ROWS, quotient, resamples=50, seed=1) != found


def test_prompts_that_agree_leave_no_room() -> None:
    assert interval(np.array([[6.0, 2.0]] * 4), quotient) == (3.0, 3.0)


def test_one_prompt_says_nothing_about_others() -> None:
    assert all(math.isnan(bound) for bound in interval(ROWS[:1], quotient))
    assert all(math.isnan(bound) for bound in interval(ROWS[:0], quotient))


def test_a_draw_without_anything_to_divide_by_is_left_out() -> None:
    low, high = interval(np.array([[0.0, 0.0], [6.0, 2.0]]), quotient)
    assert (low, high) == (3.0, 3.0)
    assert all(math.isnan(bound) for bound in interval(np.zeros((3, 2)), quotient))


def test_many_prompts_are_drawn_in_blocks_with_the_same_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(1, 9, (40, 2))
    whole = interval(rows, quotient, resamples=4000)
    monkeypatch.setattr(bootstrap, "_BLOCK", 40 * 100)
    assert interval(rows, quotient, resamples=4000) == pytest.approx(whole, rel=0.02)
