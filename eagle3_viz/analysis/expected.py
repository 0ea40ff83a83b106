"""Expected acceptance by the rule's own formula beside what was counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from eagle3_viz.analysis.intervals import Z, with_wilson
from eagle3_viz.trace import Trace


def judged_visits(trace: Trace) -> pd.DataFrame:
    """The visits of the acceptance walk to nodes with children, one row a visit.

    Columns: `cycle`; `depth` of the children; `expected`, the probability by the rule's formula
    that one of them is accepted (`Distributions.expected_acceptance`, MATH.md 4); `accepted`,
    whether one was. Cycles that did not record distributions have no row.
    """
    rows = []
    for cycle in trace.cycles:
        if cycle.nodes is None:
            continue
        expected = {at.node: at.expected_acceptance for at in cycle.distributions}
        parents = set(cycle.nodes.parent.tolist())
        for place, node in enumerate(cycle.path):
            if node in parents and node in expected:
                rows.append((cycle.index, place + 1, expected[node], place < cycle.accepted))
    kinds = {"cycle": "int64", "depth": "int64", "expected": "float64", "accepted": "bool"}
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def expected_by_depth(visits: pd.DataFrame) -> pd.DataFrame:
    """Expected and counted acceptance of the same visits, one row a depth.

    Columns: `depth`; `n` visits; `accepted`; `counted` = accepted / n with `counted_low` and
    `counted_high` (Wilson); `expected`, the mean over the visits; `chance`, how far counted may lie
    from expected by chance at 95 %: z sqrt(sum e (1 - e)) / n. Given a visit, `accepted` is one
    draw with probability `expected`, so the difference has mean zero; `chance` is 0 where the rule
    draws nothing (greedy, typical).
    """
    spread = visits.assign(variance=visits.expected * (1 - visits.expected))
    table = spread.groupby("depth", as_index=False).agg(
        n=("accepted", "size"),
        accepted=("accepted", "sum"),
        expected=("expected", "mean"),
        variance=("variance", "sum"),
    )
    chance = Z * np.sqrt(table.variance.clip(lower=0.0)) / table.n
    table = with_wilson(table, "accepted", "n", "counted")
    return table.assign(chance=chance).drop(columns="variance")


@dataclass(frozen=True)
class Overall:
    """Accepted drafts per cycle over all depths. chance: as in `expected_by_depth`."""

    cycles: int
    expected: float
    counted: float
    chance: float


def expected_overall(visits: pd.DataFrame, cycles: int) -> Overall | None:
    """Both sums over all visits per cycle; None without visits.

    cycles: those the visits come from. A visit below another one happens only when that one
    accepted, and its own expectation is taken given that, so the sums still differ by chance alone.
    """
    if visits.empty or not cycles:
        return None
    variance = float((visits.expected * (1 - visits.expected)).clip(lower=0.0).sum())
    return Overall(
        cycles=cycles,
        expected=float(visits.expected.sum()) / cycles,
        counted=float(visits.accepted.sum()) / cycles,
        chance=Z * float(np.sqrt(variance)) / cycles,
    )
