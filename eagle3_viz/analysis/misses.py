"""Why the token that the target decided was not in the tree."""

from __future__ import annotations

from enum import StrEnum

import pandas as pd

from eagle3_viz.analysis.intervals import with_wilson
from eagle3_viz.records import Cycle
from eagle3_viz.trace import Trace


class Cause(StrEnum):
    """What explains a miss. The first that holds is the one, so every miss has exactly one."""

    VOCABULARY = "outside the draft vocabulary"
    DEPTH = "beyond the depth"
    UNEXPANDED = "parent not expanded"
    LOST = "present, lost the draw"
    PRUNED = "pruned by the budget"
    RANK = "outside the draft's top-k"


class Ending(StrEnum):
    """Why a cycle has no miss to explain."""

    CUT = "the run ended inside the cycle"
    UNDRAFTED = "nothing was drafted"
    UNRECORDED = "not recorded"


def cause_of(cycle: Cycle) -> Cause | Ending:
    """The cause of the miss that ended `cycle`, in the order of `records.Miss`.

    `LOST` is a token that stood among the refused children of the node: no lossless rule gives it
    then, typical acceptance may. It comes before the budget, which cannot have pruned it.
    """
    miss = cycle.miss
    if cycle.cut:
        return Ending.CUT
    if cycle.drafted == 0:
        return Ending.UNDRAFTED
    if miss is None:
        return Ending.UNRECORDED
    if not miss.in_draft_vocabulary:
        return Cause.VOCABULARY
    if miss.beyond_depth:
        return Cause.DEPTH
    if not miss.expanded:
        return Cause.UNEXPANDED
    if _was_verified(cycle, miss.node, miss.token):
        return Cause.LOST
    return Cause.PRUNED if miss.pruned else Cause.RANK


def _was_verified(cycle: Cycle, node: int, token: int) -> bool:
    nodes = cycle.nodes
    return nodes is not None and token in nodes.token[nodes.parent == node]


def cycle_endings(trace: Trace) -> pd.DataFrame:
    """One row a cycle: `cycle`; `depth` at which the decided token stands, 1 below the root;
    `ending`, a `Cause` or an `Ending`; `q` and `q_rank` (from 0) that the draft gave the token
    there, NaN and -1 where unknown."""
    rows = [
        (
            cycle.index,
            len(cycle.path),
            cause_of(cycle).value,
            float("nan") if cycle.miss is None else cycle.miss.q,
            -1 if cycle.miss is None else cycle.miss.q_rank,
        )
        for cycle in trace.cycles
    ]
    kinds = {
        "cycle": "int64",
        "depth": "int64",
        "ending": "str",
        "q": "float64",
        "q_rank": "int64",
    }
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def misses_by_depth(endings: pd.DataFrame) -> pd.DataFrame:
    """Counts of misses, one row a `Cause` in its order, one column a depth.

    endings: of `cycle_endings`. Empty where no miss was recorded.
    """
    missed = endings[endings.ending.isin(list(Cause))]
    counts = pd.crosstab(missed.ending, missed.depth)
    return counts.reindex([cause.value for cause in Cause], fill_value=0)


def miss_shares(endings: pd.DataFrame) -> pd.DataFrame:
    """One row a `Cause`: cause, misses, of (all explained misses), share with share_low and
    share_high (Wilson)."""
    counts = endings.ending.value_counts().reindex([c.value for c in Cause], fill_value=0)
    table = pd.DataFrame(
        {"cause": counts.index, "misses": counts.to_numpy(), "of": int(counts.sum())}
    )
    return with_wilson(table, "misses", "of", "share")
