"""Intervals by the bootstrap: prompts are drawn anew, with replacement, from those measured."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

LEVEL = 0.95
RESAMPLES = 4000
_BLOCK = 4_000_000  # counts in memory at once

Statistic = Callable[[np.ndarray], np.ndarray]
"""From sums over prompts, [..., k], to the quantity, [...]."""


def interval(
    rows: np.ndarray, statistic: Statistic, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of `statistic` of the sums of `rows`, at `LEVEL`.

    rows [n, k] float64, one a prompt: everything of a prompt is drawn together, so what its turns
    or two settings share stays shared. The same rows and seed give the same interval. NaN twice
    for fewer than two prompts: one says nothing about others.
    """
    n = len(rows)
    if n < 2:
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    found = []
    for start in range(0, resamples, block := max(1, _BLOCK // n)):
        size = min(block, resamples - start)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=size)  # how often each is drawn
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append(statistic(counts @ rows))
    values = np.concatenate(found)
    values = values[np.isfinite(values)]  # a draw without any cycle has no tau
    if not len(values):
        return math.nan, math.nan
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
