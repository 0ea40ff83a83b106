"""Cycles and nodes of a trace as CSV.

As on the screen, cycles and ranks count from 1 and nodes from 0, the root. What does not exist is
an empty cell. Token texts stand in quotes with their whitespace visible, so that no spreadsheet
takes one for a formula; the ids beside them are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from eagle3_viz.cycle_view import STATES, quoted
from eagle3_viz.records import Cycle, Nodes, NodeState
from eagle3_viz.tokens import visible
from eagle3_viz.trace import Trace

NO_TREES = (
    "the trace keeps no trees: it was recorded with record off; record it again with outcomes or "
    "full"
)


def cycles_csv(trace: Trace) -> str:
    """One row a cycle: what it drafted and committed, and its times in ms.

    Lists (`token_ids`, `origins`, `draft_levels_ms`) are separated by spaces.
    """
    rows = [_cycle_row(trace, cycle) for cycle in tuple(trace.cycles)]
    return _csv(pd.DataFrame(rows, columns=list(CYCLE_COLUMNS)))


def _cycle_row(trace: Trace, cycle: Cycle) -> list[object]:
    text = visible(b"".join(trace.token_bytes[token] for token in cycle.tokens))
    timing = cycle.timing
    values: dict[str, object] = {
        "cycle": cycle.index + 1,
        "root_id": cycle.root,
        "root": quoted(trace, cycle.root),
        "token_ids": _spaced(cycle.tokens),
        "text": f"'{text}'",
        "origins": _spaced(origin.name.lower() for origin in cycle.origins),
        "draft_levels_ms": _spaced(timing.draft_levels),
    }
    phases = ("draft", "tree", "verify", "accept", "commit", "total", "record")
    values |= {f"{phase}_ms": getattr(timing, phase) for phase in phases}
    return [values[name] if name in values else getattr(cycle, name) for name in CYCLE_COLUMNS]


CYCLE_COLUMNS = (
    *("cycle", "prefix_length", "root_id", "root", "token_ids", "text", "origins"),
    *("accepted", "verified", "drafted", "draft_forwards", "cut", "finish"),
    *("draft_levels_ms", "draft_ms", "tree_ms", "verify_ms", "accept_ms", "commit_ms"),
    *("total_ms", "record_ms"),
)


def _spaced(values: Iterable[object]) -> str:
    return " ".join(map(str, values))


def nodes_csv(trace: Trace) -> str:
    """One row a verified node of every cycle, the root included.

    q is the draft's probability of the token after its parent, cumulative_q the product along the
    path, p_raw the target's at temperature 1 and p the same after warping; p_tested,
    accept_probability and uniform exist where a node was tested (MATH.md 1). Raises ValueError
    when the trace has cycles and keeps no trees.
    """
    cycles = tuple(trace.cycles)
    kept = [(cycle.index + 1, cycle.nodes) for cycle in cycles if cycle.nodes is not None]
    if cycles and not kept:
        raise ValueError(NO_TREES)
    tables = [nodes for _, nodes in kept]
    sizes = [len(nodes) for nodes in tables]
    tokens = _column(tables, lambda nodes: nodes.token, np.int32)
    texts = {int(token): quoted(trace, int(token)) for token in np.unique(tokens)}
    states = _column(tables, lambda nodes: nodes.state, np.int8).tolist()
    columns: dict[str, object] = {
        "cycle": np.repeat(np.array([number for number, _ in kept], np.int64), sizes),
        "node": np.concatenate([np.arange(size) for size in [0, *sizes]]),
        "parent": _counted(_column(tables, lambda nodes: nodes.parent, np.int32), first=0),
        "depth": _column(tables, lambda nodes: nodes.depth, np.int32),
        "token_id": tokens,
        "token": [texts[token] for token in tokens.tolist()],
        "state": [STATES[NodeState(state)] for state in states],
        "q": _column(tables, lambda nodes: np.exp(nodes.draft_logprob), np.float32),
        "cumulative_q": _column(tables, lambda nodes: np.exp(nodes.score), np.float32),
        "q_rank": _counted(_column(tables, lambda nodes: nodes.q_rank, np.int32), first=1),
        "p_raw": _column(tables, lambda nodes: nodes.p_raw, np.float32),
        "p": _column(tables, lambda nodes: nodes.p, np.float32),
        "p_rank": _counted(_column(tables, lambda nodes: nodes.p_rank, np.int32), first=1),
        "p_tested": _column(tables, lambda nodes: nodes.p_tested, np.float32),
        "accept_probability": _column(tables, lambda nodes: nodes.accept_probability, np.float32),
        "uniform": _column(tables, lambda nodes: nodes.uniform, np.float32),
        "expanded": _column(tables, lambda nodes: nodes.expanded, np.bool_),
    }
    return _csv(pd.DataFrame(columns))


def _column(
    tables: Sequence[Nodes], of: Callable[[Nodes], np.ndarray], kind: type[np.generic]
) -> np.ndarray:
    """One array over the nodes of all cycles."""
    return np.concatenate([np.zeros(0, kind), *map(of, tables)])


def _counted(values: np.ndarray, first: int) -> pd.Series:
    """Numbers that are -1 in the record where they do not exist, counted from `first`."""
    return pd.Series(values.astype(np.int64) + first, dtype="Int64").mask(values < 0)


def _csv(table: pd.DataFrame) -> str:
    return str(table.to_csv(index=False, lineterminator="\n"))
