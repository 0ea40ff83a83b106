"""How many tokens a cycle brings: their distribution, their mean, and both over the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from eagle3_viz.analysis.intervals import mean_interval, with_wilson
from eagle3_viz.suite.bootstrap import interval
from eagle3_viz.suite.table import quotient
from eagle3_viz.trace import Trace

WINDOW = 16  # cycles of the moving tau


@dataclass(frozen=True)
class Estimate:
    """A number, its 95 % interval (NaN where there is none) and the n it comes from."""

    value: float
    low: float
    high: float
    n: int


def tau_estimate(trace: Trace) -> Estimate | None:
    """tau with its bootstrap interval over the uncut cycles of this run; None without one.

    The cycles are drawn as if they did not depend on each other, and they are one prompt's: the
    interval says nothing about other prompts.
    """
    tokens = np.array([len(c.tokens) for c in trace.cycles if not c.cut], dtype=float)
    if not len(tokens):
        return None
    rows = np.stack([tokens, np.ones_like(tokens)], axis=1)
    return Estimate(float(tokens.mean()), *interval(rows, quotient), len(tokens))


def accepted_lengths(trace: Trace) -> pd.DataFrame:
    """How many uncut cycles accepted each number of drafts, from 0 to the most that occurred.

    Columns: accepted, cycles, of (all uncut cycles), share = cycles / of, share_low, share_high.
    """
    counts = np.bincount(np.array([c.accepted for c in trace.cycles if not c.cut], np.int64))
    table = pd.DataFrame(
        {"accepted": np.arange(len(counts)), "cycles": counts, "of": int(counts.sum())}
    )
    return with_wilson(table, "cycles", "of", "share")


def running_tau(trace: Trace) -> pd.DataFrame:
    """tau so far and over the last `WINDOW` cycles, one row an uncut cycle.

    Columns: `cycle`, its index; `position`, tokens generated up to its end, prefill's included;
    `tokens` it committed; `n`, uncut cycles so far; `tau`, their mean, with `low` and `high` by
    the central limit theorem (NaN for the first cycle); `moving`, the mean over the last `WINDOW`
    of them, NaN for the cycles before there are so many.
    """
    lengths = np.array([len(c.tokens) for c in trace.cycles], dtype=float)
    position = np.cumsum(lengths) + (trace.prefill is not None)
    uncut = np.array([not c.cut for c in trace.cycles], dtype=bool)
    tokens = lengths[uncut]
    n = np.arange(1, len(tokens) + 1, dtype=float)
    total = np.cumsum(tokens)
    low, high = mean_interval(total, np.cumsum(tokens**2), n)
    return pd.DataFrame(
        {
            "cycle": np.flatnonzero(uncut),
            "position": position[uncut].astype(int),
            "tokens": tokens.astype(int),
            "n": n.astype(int),
            "tau": total / n,
            "low": low,
            "high": high,
            "moving": pd.Series(tokens).rolling(WINDOW).mean().to_numpy(),
        }
    )
