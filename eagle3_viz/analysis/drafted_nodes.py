"""Every verified draft of a run in one table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from eagle3_viz.records import Nodes, NodeState
from eagle3_viz.trace import Trace

STATES_TESTED = (NodeState.ACCEPTED, NodeState.REJECTED)
_COLUMNS = ("depth", "q_rank", "p_raw", "p", "state")


def drafted_nodes(trace: Trace) -> pd.DataFrame:
    """One row a verified node, roots left out, in the order of cycles and nodes.

    Columns: `cycle`, `node`, `depth`, `q_rank` from 0, `p_raw` and `p` of the node given its
    parent, `state` (NodeState); `q` = exp(draft_logprob), the draft's confidence in it, and
    `path_q` = exp(score), that in the whole path. Empty where the run recorded no nodes.
    """
    recorded = [(cycle.index, cycle.nodes) for cycle in trace.cycles if cycle.nodes is not None]
    sizes = [len(nodes) - 1 for _, nodes in recorded]
    trees = [nodes for _, nodes in recorded]
    columns = {
        "cycle": np.repeat(np.array([index for index, _ in recorded], np.int64), sizes),
        "node": _joined([np.arange(1, size + 1) for size in sizes], np.int64),
        **{name: _column(trees, name) for name in _COLUMNS},
        "q": np.exp(_column(trees, "draft_logprob").astype(float)),
        "path_q": np.exp(_column(trees, "score").astype(float)),
    }
    return pd.DataFrame(columns)


def _column(trees: list[Nodes], name: str) -> np.ndarray:
    return _joined([getattr(nodes, name)[1:] for nodes in trees], np.float64)


def _joined(parts: list[np.ndarray], empty: type) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0, empty)
