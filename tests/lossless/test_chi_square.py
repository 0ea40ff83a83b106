from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from eagle3_viz.lossless.chi_square import (
    LEAST_EXPECTED,
    POWER,
    chi_square,
    critical,
    detectable_distance,
    holm,
    noncentral_survival,
    pooled,
    survival,
)


@pytest.mark.parametrize(
    ("statistic", "freedom", "p"),
    [(3.841459, 1, 0.05), (18.307038, 10, 0.05), (50.892181, 30, 0.01), (149.449253, 100, 0.001)],
)
def test_survival_gives_the_values_of_printed_tables(statistic, freedom, p) -> None:
    assert survival(statistic, freedom) == pytest.approx(p, rel=1e-5)
    assert critical(p, freedom) == pytest.approx(statistic, rel=1e-5)


def test_survival_for_even_freedom_is_a_poisson_sum() -> None:
    x, half = 13.7, 4
    poisson = sum(math.exp(-x / 2) * (x / 2) ** k / math.factorial(k) for k in range(half))
    assert survival(x, 2 * half) == pytest.approx(poisson, rel=1e-12)


def test_noncentral_survival_is_that_of_shifted_normal_variables() -> None:
    rng = np.random.default_rng(0)
    shift = np.array([2.0, 1.0, 0.0, 0.5])
    squares = ((rng.normal(size=(400_000, 4)) + shift) ** 2).sum(-1)
    expected = (squares > 9.0).mean()
    assert noncentral_survival(9.0, 4, float((shift**2).sum())) == pytest.approx(expected, abs=4e-3)
    assert noncentral_survival(9.0, 4, 0.0) == pytest.approx(survival(9.0, 4), rel=1e-9)


def test_rare_texts_share_a_cell_and_nothing_is_lost() -> None:
    exact = {(0,): 0.6, (1,): 0.3, (2,): 0.04, (3,): 0.03}  # .03 more on texts not named
    seen = Counter({(0,): 58, (1,): 30, (2,): 4, (3,): 2, (9,): 6})
    cells = pooled(seen, exact, 100)
    assert [cell.text for cell in cells] == [(0,), (1,), None]
    assert cells[-1].seen == 12
    assert sum(cell.seen for cell in cells) == 100
    assert sum(cell.expected for cell in cells) == pytest.approx(100)


def test_a_rest_that_is_too_rare_joins_the_rarest_cell() -> None:
    cells = pooled(Counter({(0,): 80, (1,): 19, (7,): 1}), {(0,): 0.8, (1,): 0.19}, 100)
    assert [(cell.text, cell.seen) for cell in cells] == [((0,), 80), (None, 20)]
    assert cells[-1].expected == pytest.approx(20) and cells[-1].expected >= LEAST_EXPECTED


def test_the_statistic_is_pearsons() -> None:
    found = chi_square([(0,)] * 30 + [(1,)] * 50 + [(2,)] * 20, {(0,): 0.4, (1,): 0.4, (2,): 0.2})
    assert found.statistic == pytest.approx(100 / 40 + 100 / 40 + 0)
    assert (found.freedom, found.distance) == (2, pytest.approx(0.1))
    assert found.p_value == pytest.approx(math.exp(-found.statistic / 2))  # two degrees


def test_texts_of_probability_zero_are_counted_against_the_rule() -> None:
    exact = {(0,): 0.5, (1,): 0.5}
    assert chi_square([(0,), (1,)] * 50, exact).p_value > 0.9
    assert chi_square([(0,), (1,)] * 40 + [(5,)] * 20, exact).p_value < 0.05


def test_too_few_draws_are_refused() -> None:
    with pytest.raises(ValueError, match="4 draws leave fewer than two cells"):
        chi_square([(0,), (1,)] * 2, {(0,): 0.5, (1,): 0.5})


def test_p_values_of_right_draws_are_uniform() -> None:
    rng = np.random.default_rng(1)
    p = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    exact = {(token,): float(mass) for token, mass in enumerate(p)}
    values = [
        chi_square(((int(t),) for t in rng.choice(6, size=400, p=p)), exact).p_value
        for _ in range(400)
    ]
    assert np.mean(np.array(values) < 0.1) == pytest.approx(0.1, abs=0.05)
    assert np.mean(values) == pytest.approx(0.5, abs=0.05)


def test_a_distance_that_is_said_to_be_detectable_is_detected() -> None:
    """The least favourable deviations are in proportion to p: then the bound is attained."""
    draws, level = 500, 0.001
    p = np.full(10, 0.1)
    distance = detectable_distance(draws, 9, level)
    q = p + np.where(np.arange(10) < 5, distance / 5, -distance / 5)
    rng = np.random.default_rng(2)
    exact = {(token,): float(mass) for token, mass in enumerate(p)}
    found = [
        chi_square(((int(t),) for t in rng.choice(10, size=draws, p=q)), exact).p_value < level
        for _ in range(400)
    ]
    assert np.mean(found) == pytest.approx(POWER, abs=0.07)


def test_more_draws_detect_less() -> None:
    few, many = (detectable_distance(n, 20, 1e-4) for n in (500, 2000))
    assert few == pytest.approx(2 * many)


def test_holm_multiplies_by_the_tests_that_are_left_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
