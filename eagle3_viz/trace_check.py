"""What must hold in every trace: the invariants pages and metrics build on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from eagle3_viz import trace_limits, trace_values
from eagle3_viz.records import Cycle, Nodes, NodeState, Origin, Pool
from eagle3_viz.trace import Trace
from eagle3_viz.trace_values import require


def check(trace: Trace) -> None:
    """Raise ValueError with the first violated invariant of `trace`, naming cycle and value."""
    trace_limits.check_header(trace.header)
    require(
        not trace.cycles or trace.prefill is not None, "a trace with cycles must have a prefill"
    )
    if trace.prefill is not None:
        trace_values.check_prefill(trace.prefill)
        asked, read = len(trace.header.prompt_ids), trace.prefill.prompt_length
        require(asked == read, f"the prompt has {asked} tokens, but prefill read {read}")
        require(
            trace.prefill.finish is None or not trace.cycles,
            "a run that ended at prefill must have no cycles",
        )
    for position, cycle in enumerate(trace.cycles):
        try:
            require(cycle.index == position, f"expected index {position}, found {cycle.index}")
            _check_cycle(cycle, trace.header.rule)
            _check_order(trace, position)
        except ValueError as error:
            raise ValueError(f"cycle {position}: {error}") from error
    mentioned = _mentioned(trace)
    trace_limits.check_tokens(trace, mentioned)
    missing = mentioned - set(trace.token_bytes)
    require(not missing, f"token_bytes lacks the token ids {sorted(missing)[:5]}")


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
        require(before.finish is None, f"the run already ended at cycle {position - 1}")
        length, root = before.prefix_length + len(before.tokens), before.tokens[-1]
    require(
        (cycle.prefix_length, cycle.root) == (length, root),
        f"expected prefix_length {length} and root {root}, found {cycle.prefix_length} and "
        f"{cycle.root}",
    )


def _check_cycle(cycle: Cycle, rule: str) -> None:
    sizes = (cycle.prefix_length, cycle.accepted, cycle.drafted, cycle.draft_forwards)
    require(min(sizes) >= 0 and cycle.verified >= 1, "a size is negative or nothing was verified")
    require(
        len(cycle.origins) == len(cycle.tokens),
        f"{len(cycle.tokens)} tokens but {len(cycle.origins)} origins",
    )
    whole = cycle.accepted + 1
    require(
        0 <= len(cycle.tokens) < whole if cycle.cut else len(cycle.tokens) == whole,
        f"{cycle.accepted} accepted and cut={cycle.cut}, but {len(cycle.tokens)} tokens",
    )
    accepted = [origin == Origin.ACCEPTED for origin in cycle.origins]
    require(
        all(accepted[: cycle.accepted]) and not any(accepted[cycle.accepted :]),
        f"{cycle.accepted} accepted, but the origins are {cycle.origins[:8]}",
    )
    require(not cycle.cut or cycle.finish is not None, "a cut cycle must carry its finish")
    require(
        cycle.finish in (None, "eos", "length", "context", "stop"),
        f"unknown finish {str(cycle.finish)[:20]!r}",
    )
    trace_values.check_timing(cycle.timing)
    trace_values.check_draws(cycle.draws)
    _check_path(cycle)
    _check_recorded(cycle, rule)


def _check_recorded(cycle: Cycle, rule: str) -> None:
    """What the record level of the run left in the cycle."""
    if cycle.nodes is None:
        bare = cycle.pool is None and not cycle.distributions and cycle.miss is None
        require(bare, "pool, distributions or miss are recorded without nodes")
        return
    if cycle.pool is not None:
        _check_pool(cycle, cycle.pool)
    _check_nodes(cycle, cycle.nodes)
    trace_values.check_nodes(cycle.nodes, rule)
    _check_distributions(cycle)
    if cycle.miss is not None:
        require(
            cycle.miss.node == cycle.path[-1],
            f"miss names node {cycle.miss.node}, but the walk stopped at {cycle.path[-1]}",
        )
        trace_values.check_miss(cycle.miss)


def _check_path(cycle: Cycle) -> None:
    require(
        len(cycle.path) == cycle.accepted + 1 and cycle.path[0] == 0,
        f"the path must start at the root and hold {cycle.accepted + 1} nodes, found "
        f"{cycle.path[:8]}",
    )
    require(
        all(a < b for a, b in pairwise(cycle.path)) and cycle.path[-1] < cycle.verified,
        f"the path must rise within the {cycle.verified} verified nodes, found {cycle.path[:8]}",
    )


def _check_forest(name: str, parent: np.ndarray, depth: np.ndarray, roots: np.ndarray) -> None:
    """Parents come before children and depths grow by one."""
    position = np.arange(len(parent))
    require((parent < position).all() and (parent >= -1).all(), f"a {name} parent is out of order")
    require(
        ((parent == -1) == (depth == roots)).all(), f"a {name} entry without parent is not a root"
    )
    child = parent >= 0
    require(
        (depth[child] == depth[parent[child]] + 1).all(),
        f"a {name} depth is not its parent's plus 1",
    )


def _check_nodes(cycle: Cycle, nodes: Nodes) -> None:
    require(
        len(nodes) == cycle.verified, f"{cycle.verified} verified, but {len(nodes)} nodes recorded"
    )
    _check_forest("node", nodes.parent, nodes.depth, np.zeros(1, np.int32))
    require(
        nodes.token[0] == cycle.root and (nodes.parent[1:] >= 0).all(),
        "node 0 alone must be the root",
    )
    path = np.array(cycle.path[1:], np.int64)
    expected = np.isin(np.arange(len(nodes)), path)
    require(
        ((nodes.state == NodeState.ACCEPTED) == expected).all(),
        "the accepted nodes are not the path",
    )
    allowed = (NodeState.ACCEPTED, NodeState.REJECTED, NodeState.UNREACHED)
    require(
        nodes.state[0] == NodeState.ROOT and np.isin(nodes.state[1:], allowed).all(),
        "a node state is unknown or out of place",
    )
    require((nodes.parent[path] == np.array(cycle.path[:-1])).all(), "the path is not connected")
    kept = cycle.tokens[: cycle.accepted]
    require(
        tuple(nodes.token[path].tolist()[: len(kept)]) == kept,
        "the committed tokens are not those of the path",
    )
    _check_walk(cycle.path, nodes)
    if cycle.pool is not None:
        _check_kept(nodes, cycle.pool)


def _check_walk(path: tuple[int, ...], nodes: Nodes) -> None:
    """Children of the path's nodes are tested in order until one is accepted, and no others."""
    expected = np.full(len(nodes), NodeState.UNREACHED, np.int8)
    for node, accepted in zip(path, (*path[1:], len(nodes)), strict=True):
        children = np.flatnonzero(nodes.parent == node)
        expected[children[children < accepted]] = NodeState.REJECTED
    expected[list(path[1:])] = NodeState.ACCEPTED
    require((nodes.state[1:] == expected[1:]).all(), "a node state does not follow from the path")


def _check_kept(nodes: Nodes, pool: Pool) -> None:
    index = nodes.pool_index[1:]
    inside = (index >= 0) & (index < len(pool))
    require(inside.all(), "a node's pool_index is outside the pool")
    require((pool.token[index] == nodes.token[1:]).all(), "a node's pool entry has another token")
    above = nodes.pool_index[nodes.parent[1:]]
    require((pool.parent[index] == above).all(), "a node's pool entry has another parent")
    require(len(np.unique(index)) == len(index), "two nodes have the same pool entry")


def _check_pool(cycle: Cycle, pool: Pool) -> None:
    require(
        len(pool) == cycle.drafted, f"{cycle.drafted} drafted, but {len(pool)} candidates recorded"
    )
    _check_forest("pool", pool.parent, pool.depth, np.ones(1, np.int32))
    trace_values.check_pool(pool)


def _check_distributions(cycle: Cycle) -> None:
    """One for each node of the walk, in its order, or none at all."""
    found = tuple(at.node for at in cycle.distributions)
    for node in found:
        require(0 <= node < cycle.verified, f"distributions name no node: {node}")
    require(
        not found or found == cycle.path,
        f"distributions stand at the nodes {found[:8]}, expected those of the path",
    )
    for at in cycle.distributions:
        trace_values.check_distributions(at)
