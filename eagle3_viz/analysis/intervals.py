"""Intervals of shares and means that were counted in one run."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pandas as pd

from eagle3_viz.suite.bootstrap import LEVEL

Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)  # 1.96 at 95 %

Floats = npt.NDArray[np.float64]


def wilson(hits: npt.ArrayLike, n: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Bounds of the score interval of a share of `hits` in `n` trials, at `LEVEL`.

    hits, n [...], 0 <= hits <= n; NaN where n is 0. It stays inside [0, 1] and keeps its coverage
    near both ends and for few trials. Source: E. B. Wilson, Probable inference, the law of
    succession, and statistical inference, JASA 22 (1927) 209-212.
    """
    k, trials = np.asarray(hits, dtype=float), np.asarray(n, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = k / trials
        wide = 1 + Z**2 / trials
        centre = (share + Z**2 / (2 * trials)) / wide
        half = Z / wide * np.sqrt(share * (1 - share) / trials + (Z / (2 * trials)) ** 2)
        known = np.where(trials > 0, 0.0, np.nan)
        # at 0 and n the bound is 0 or 1 exactly, which rounding would miss
        low = np.where(k == 0, 0.0, np.maximum(0.0, centre - half))
        high = np.where(k == trials, 1.0, np.minimum(1.0, centre + half))
    return low + known, high + known


def with_wilson(table: pd.DataFrame, hits: str, n: str, rate: str) -> pd.DataFrame:
    """`table` with the columns `rate` = hits / n, `rate`_low and `rate`_high; NaN where n is 0."""
    low, high = wilson(table[hits].to_numpy(), table[n].to_numpy())
    share = table[hits].to_numpy(float) / table[n].where(table[n] > 0).to_numpy(float)
    return table.assign(**{rate: share, f"{rate}_low": low, f"{rate}_high": high})


def mean_interval(total: Floats, squares: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Bounds of the mean of n values with the given sum and sum of squares, at `LEVEL`.

    All [...]. By the central limit theorem, mean +- z s / sqrt(n); NaN for fewer than two values.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        variance = np.maximum(0.0, squares - n * mean**2) / np.where(n > 1, n - 1, np.nan)
        half = Z * np.sqrt(variance / n)
    return mean - half, mean + half
