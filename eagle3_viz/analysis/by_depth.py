"""Acceptance by depth and by the draft's rank, each share with its n and its interval."""

from __future__ import annotations

import numpy as np
import pandas as pd

from eagle3_viz.analysis.drafted_nodes import STATES_TESTED
from eagle3_viz.analysis.intervals import with_wilson
from eagle3_viz.metrics import acceptance_by_depth
from eagle3_viz.records import NodeState
from eagle3_viz.trace import Trace

LAST_RANK = 10  # ranks from here on share a row: `sample` draws from the whole vocabulary


def acceptance_with_intervals(trace: Trace) -> pd.DataFrame:
    """`metrics.acceptance_by_depth` with the Wilson bounds of both shares (MATH.md 4).

    Columns: depth, accepted, tested, cycles, conditional = accepted / tested, unconditional =
    accepted / cycles, and `_low`, `_high` of both.
    """
    table = acceptance_by_depth(trace)
    table = with_wilson(table, "accepted", "tested", "conditional")
    return with_wilson(table, "accepted", "cycles", "unconditional")


def acceptance_by_rank(nodes: pd.DataFrame) -> pd.DataFrame:
    """How often a node of each depth and draft rank was tested, and then accepted.

    nodes: of `drafted_nodes`. One row for each depth and rank that was verified, by both: `depth`;
    `rank`, 1 for the draft's most likely token, `LAST_RANK` for that and all less likely ones;
    `verified`, nodes there; `tested`, those the walk came to; `accepted`; `rate` = accepted /
    tested with `rate_low` and `rate_high`. A sibling is tested after those before it were refused,
    so the rate of a later rank is that of the cases the earlier ones left.
    """
    table = pd.DataFrame(
        {
            "depth": nodes.depth,
            "rank": (nodes.q_rank + 1).clip(upper=LAST_RANK).astype(int),
            "verified": 1,
            "tested": np.isin(nodes.state, STATES_TESTED),
            "accepted": nodes.state == NodeState.ACCEPTED,
        }
    )
    sums = table.groupby(["depth", "rank"], as_index=False).sum()
    return with_wilson(sums, "accepted", "tested", "rate")
