"""What must hold in every trace: the invariants pages and metrics build on."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from eagle3_viz.records import Cycle, Distributions, Nodes, NodeState, Pool
from eagle3_viz.trace import Trace

MAX_TOP = 20
ROUNDING = 1e-3  # how far a float32 probability may stray outside [0, 1]


def check(trace: Trace) -> None:
    """Raise ValueError with the first violated invariant of `trace`, naming cycle and value."""
    _require(
        not trace.cycles or trace.prefill is not None, "a trace with cycles must have a prefill"
    )
    if trace.prefill is not None:
        _require(
            trace.prefill.finish is None or not trace.cycles,
            "a run that ended at prefill must have no cycles",
        )
    for position, cycle in enumerate(trace.cycles):
        try:
            _require(cycle.index == position, f"expected index {position}, found {cycle.index}")
            _check_cycle(cycle)
            _check_order(trace, position)
        except ValueError as error:
            raise ValueError(f"cycle {position}: {error}") from error
    missing = _mentioned(trace) - set(trace.token_bytes)
    _require(not missing, f"token_bytes lacks the token ids {sorted(missing)[:5]}")


def _require(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise ValueError(message)


def _mentioned(trace: Trace) -> set[int]:
    ids = set(trace.header.prompt_ids).union(*(cycle.token_ids for cycle in trace.cycles))
    return ids if trace.prefill is None else ids | trace.prefill.token_ids


def _check_order(trace: Trace, position: int) -> None:
    cycle = trace.cycles[position]
    if position == 0:
        assert trace.prefill is not None
        length, root = trace.prefill.prompt_length, trace.prefill.token
    else:
        before = trace.cycles[position - 1]
        _require(before.finish is None, f"the run already ended at cycle {position - 1}")
        length, root = before.prefix_length + len(before.tokens), before.tokens[-1]
    _require(
        (cycle.prefix_length, cycle.root) == (length, root),
        f"expected prefix_length {length} and root {root}, found {cycle.prefix_length} and "
        f"{cycle.root}",
    )


def _check_cycle(cycle: Cycle) -> None:
    sizes = (cycle.prefix_length, cycle.accepted, cycle.drafted, cycle.draft_forwards)
    _require(min(sizes) >= 0 and cycle.verified >= 1, "a size is negative or nothing was verified")
    _require(
        len(cycle.origins) == len(cycle.tokens),
        f"{len(cycle.tokens)} tokens but {len(cycle.origins)} origins",
    )
    whole = cycle.accepted + 1
    _require(
        0 <= len(cycle.tokens) < whole if cycle.cut else len(cycle.tokens) == whole,
        f"{cycle.accepted} accepted and cut={cycle.cut}, but {len(cycle.tokens)} tokens",
    )
    _require(not cycle.cut or cycle.finish is not None, "a cut cycle must carry its finish")
    _require(
        cycle.finish in (None, "eos", "length", "context", "stop"),
        f"unknown finish {str(cycle.finish)[:20]!r}",
    )
    timing = cycle.timing
    _require(
        all(0 <= x < math.inf for x in (timing.total, timing.record, *timing.draft_levels)),
        "a timing is negative or not finite",
    )
    _check_path(cycle)
    if cycle.pool is not None:
        _check_pool(cycle, cycle.pool)
    if cycle.nodes is not None:
        _check_nodes(cycle, cycle.nodes)
    for distributions in cycle.distributions:
        _check_distributions(cycle, distributions)
    if cycle.miss is not None:
        _require(0 <= cycle.miss.node < cycle.verified, f"miss names no node: {cycle.miss.node}")


def _check_path(cycle: Cycle) -> None:
    _require(
        len(cycle.path) == cycle.accepted + 1 and cycle.path[0] == 0,
        f"the path must start at the root and hold {cycle.accepted + 1} nodes, found "
        f"{cycle.path[:8]}",
    )
    _require(
        all(a < b for a, b in pairwise(cycle.path)) and cycle.path[-1] < cycle.verified,
        f"the path must rise within the {cycle.verified} verified nodes, found {cycle.path[:8]}",
    )


def _check_forest(name: str, parent: np.ndarray, depth: np.ndarray, roots: np.ndarray) -> None:
    """Parents come before children and depths grow by one."""
    position = np.arange(len(parent))
    _require((parent < position).all() and (parent >= -1).all(), f"a {name} parent is out of order")
    _require(
        ((parent == -1) == (depth == roots)).all(), f"a {name} entry without parent is not a root"
    )
    child = parent >= 0
    _require(
        (depth[child] == depth[parent[child]] + 1).all(),
        f"a {name} depth is not its parent's plus 1",
    )


def _check_nodes(cycle: Cycle, nodes: Nodes) -> None:
    _require(
        len(nodes) == cycle.verified, f"{cycle.verified} verified, but {len(nodes)} nodes recorded"
    )
    _check_forest("node", nodes.parent, nodes.depth, np.zeros(1, np.int32))
    _require(
        nodes.token[0] == cycle.root and (nodes.parent[1:] >= 0).all(),
        "node 0 alone must be the root",
    )
    path = np.array(cycle.path[1:], np.int64)
    expected = np.isin(np.arange(len(nodes)), path)
    _require(
        ((nodes.state == NodeState.ACCEPTED) == expected).all(),
        "the accepted nodes are not the path",
    )
    allowed = (NodeState.ACCEPTED, NodeState.REJECTED, NodeState.UNREACHED)
    _require(
        nodes.state[0] == NodeState.ROOT and np.isin(nodes.state[1:], allowed).all(),
        "a node state is unknown or out of place",
    )
    _require((nodes.parent[path] == np.array(cycle.path[:-1])).all(), "the path is not connected")
    kept = cycle.tokens[: cycle.accepted]
    _require(
        tuple(nodes.token[path].tolist()[: len(kept)]) == kept,
        "the committed tokens are not those of the path",
    )
    for name in ("p_raw", "p", "p_tested", "accept_probability", "uniform"):
        _check_probabilities(name, getattr(nodes, name))
    if cycle.pool is not None:
        _check_kept(nodes, cycle.pool)


def _check_kept(nodes: Nodes, pool: Pool) -> None:
    index = nodes.pool_index[1:]
    inside = (index >= 0) & (index < len(pool))
    _require(inside.all(), "a node's pool_index is outside the pool")
    _require((pool.token[index] == nodes.token[1:]).all(), "a node's pool entry has another token")


def _check_pool(cycle: Cycle, pool: Pool) -> None:
    _require(
        len(pool) == cycle.drafted, f"{cycle.drafted} drafted, but {len(pool)} candidates recorded"
    )
    _check_forest("pool", pool.parent, pool.depth, np.ones(1, np.int32))


def _check_probabilities(name: str, values: np.ndarray) -> None:
    known = values[~np.isnan(values)]
    inside = (known >= -ROUNDING) & (known <= 1 + ROUNDING)
    _require(inside.all(), f"{name} holds a value outside [0, 1]")


def _check_distributions(cycle: Cycle, distributions: Distributions) -> None:
    _require(
        0 <= distributions.node < cycle.verified,
        f"distributions name no node: {distributions.node}",
    )
    tops = (distributions.p_raw, distributions.p, distributions.q, distributions.residual)
    for top in (top for top in tops if top is not None):
        _require(
            len(top.token) == len(top.probability) <= MAX_TOP,
            f"a distribution lists {len(top.token)} tokens, {len(top.probability)} probabilities, "
            f"at most {MAX_TOP} are allowed",
        )
        _check_probabilities("a distribution", np.append(top.probability, np.float32(top.tail)))
        _require((np.diff(top.probability) <= 0).all(), "a distribution is not sorted")
