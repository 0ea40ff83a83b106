"""Whether the draft's confidence means what it says (MATH.md 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from eagle3_viz.analysis.intervals import wilson
from eagle3_viz.records import NodeState

BINS = 10  # of equal width over [0, 1]


@dataclass(frozen=True)
class Reliability:
    """A reliability table and what it amounts to.

    bins   one row for each bin that has nodes: `low_edge`, `high_edge`; `n`; `confidence`, the mean
           of the draft's probability; `outcome`, the mean of what it is held against. Where the
           outcome is a yes or no, `outcome_low` and `outcome_high` are its Wilson bounds, else NaN.
    error  expected calibration error: sum over bins of n / N |confidence - outcome|; NaN for N = 0.
    n      nodes in all, N.
    """

    bins: pd.DataFrame
    error: float
    n: int


def token_reliability(nodes: pd.DataFrame) -> Reliability:
    """The draft's q of every verified node against the target's p_raw of the same token.

    nodes: of `drafted_nodes`. No verdict of a rule takes part: both are probabilities of one token
    after the same context.
    """
    return _reliability(nodes.q.to_numpy(float), nodes.p_raw.to_numpy(float), binary=False)


def path_reliability(nodes: pd.DataFrame) -> Reliability:
    """Cumulative confidence of every verified node against whether its whole path was accepted.

    nodes: of `drafted_nodes`. Under `topk` and `greedy` a path is accepted with the product of the
    p along it, whatever its siblings are, so a perfect draft lies on the diagonal. The nodes of one
    tree exclude each other, which the Wilson bounds do not know.
    """
    accepted = (nodes.state == NodeState.ACCEPTED).to_numpy(float)
    return _reliability(nodes.path_q.to_numpy(float), accepted, binary=True)


def _reliability(confidence: np.ndarray, outcome: np.ndarray, *, binary: bool) -> Reliability:
    """Bins of confidence [N] in [0, 1] with the means of outcome [N]; NaN in either is left out."""
    known = ~(np.isnan(confidence) | np.isnan(outcome))
    confidence, outcome = confidence[known], outcome[known]
    place = np.clip((confidence * BINS).astype(int), 0, BINS - 1)
    n = np.bincount(place, minlength=BINS)
    sums = [np.bincount(place, weights, BINS) for weights in (confidence, outcome)]
    filled = np.flatnonzero(n)
    low, high = wilson(sums[1][filled], n[filled]) if binary else (np.nan, np.nan)
    bins = pd.DataFrame(
        {
            "low_edge": filled / BINS,
            "high_edge": (filled + 1) / BINS,
            "n": n[filled],
            "confidence": sums[0][filled] / n[filled],
            "outcome": sums[1][filled] / n[filled],
            "outcome_low": low,
            "outcome_high": high,
        }
    )
    gap = (bins.confidence - bins.outcome).abs()
    error = float((gap * bins.n).sum() / len(confidence)) if len(confidence) else np.nan
    return Reliability(bins, error, len(confidence))
