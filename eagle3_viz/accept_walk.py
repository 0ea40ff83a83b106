"""One cycle as a walk: what was drafted, verified, tested, decided and kept, in that order.

The steps repeat what the record holds and compute nothing anew (MATH.md 1 and 2): replaying them
gives the record's states, path and tokens. Sentences are plain text in which the whitespace of
tokens is visible; whoever shows them must not read them as Markdown or HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from eagle3_viz.cycle_view import quoted, stop_node
from eagle3_viz.records import Cycle, Nodes, NodeState, Origin
from eagle3_viz.trace import Trace
from eagle3_viz.wording import counted, rounded

LISTED = 6  # tokens that a sentence names


@dataclass(frozen=True)
class Drafted:
    """One depth of the tree. nodes: those that are verified; the budget may drop others."""

    kind: ClassVar[str] = "draft"
    sentence: str
    depth: int
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Verified:
    """The target's pass over the root and every node, one row of its cache for each."""

    kind: ClassVar[str] = "verify"
    sentence: str
    rows: int


@dataclass(frozen=True)
class Tested:
    """One child put to the test. uniform is NaN where nothing was drawn (greedy, typical)."""

    kind: ClassVar[str] = "test"
    sentence: str
    node: int
    accepted: bool
    p_tested: float  # p of the token after earlier siblings were refused
    accept_probability: float
    uniform: float


@dataclass(frozen=True)
class Decided:
    """The target's own token after the last accepted node.

    token is None where the run ended before it and nothing recorded it; kept says whether it is
    part of the text.
    """

    kind: ClassVar[str] = "decided"
    sentence: str
    after: int
    token: int | None
    origin: Origin
    kept: bool


@dataclass(frozen=True)
class Committed:
    """Rows of the cache that stay, in the order of the path, and rows that are dropped."""

    kind: ClassVar[str] = "commit"
    sentence: str
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    first_position: int  # of the first kept row: the length of the prefix


Step = Drafted | Verified | Tested | Decided | Committed


def walk_steps(trace: Trace, cycle_index: int) -> tuple[Step, ...]:
    """The steps of one cycle; none where its tree was not recorded.

    Raises IndexError when the trace has no such cycle.
    """
    if not 0 <= cycle_index < len(trace.cycles):
        raise IndexError(
            f"the trace has {len(trace.cycles)} cycles, counted from 0; got {cycle_index}"
        )
    cycle = trace.cycles[cycle_index]
    if cycle.nodes is None:
        return ()
    return (
        *_drafting(trace, cycle, cycle.nodes),
        _verification(cycle, cycle.nodes),
        *_tests(trace, cycle, cycle.nodes),
        _decision(trace, cycle, cycle.nodes),
        _commitment(cycle),
    )


def _drafting(trace: Trace, cycle: Cycle, nodes: Nodes) -> Iterator[Drafted]:
    """Depths that hold pruned candidates alone are steps too: the draft paid for them."""
    depths = nodes.depth if cycle.pool is None else np.append(nodes.depth, cycle.pool.depth)
    for depth in range(1, int(depths.max()) + 1):
        level = np.flatnonzero(nodes.depth == depth).tolist()
        sentence = f"Depth {depth}: {_proposal(trace, cycle, depth, level)}"
        if level:
            sentence += f": {_listed(trace, nodes, level)}"
        yield Drafted(f"{sentence}.", depth, tuple(level))


def _proposal(trace: Trace, cycle: Cycle, depth: int, level: Sequence[int]) -> str:
    """How the tokens of a depth came about, and how many the budget dropped again."""
    if trace.header.method == "lookup":
        return f"{counted(len(level), 'token')} copied from earlier text"
    how = "drawn from q" if trace.header.rule == "sample" else "picked by the draft"
    if cycle.pool is None:
        return f"{counted(len(level), 'token')} {how}"
    candidates = int((cycle.pool.depth == depth).sum())
    if candidates == len(level):
        return f"{counted(candidates, 'token')} {how}"
    return f"{counted(candidates, 'token')} {how}, the budget keeps {len(level) or 'none'}"


def _listed(trace: Trace, nodes: Nodes, level: Sequence[int]) -> str:
    names = ", ".join(quoted(trace, nodes.token[node]) for node in level[:LISTED])
    rest = len(level) - LISTED
    return f"{names} and {rest} more" if rest > 0 else names


def _verification(cycle: Cycle, nodes: Nodes) -> Verified:
    rows, drafted = len(nodes), len(nodes) - 1
    prefix = counted(cycle.prefix_length, "cached token")
    if drafted == 0:
        sentence = f"The target reads the root after {prefix}: p of the next token is known."
    else:
        sentence = (
            f"The target reads the root and {counted(drafted, 'node')} in one pass, each after "
            f"{prefix} and its own ancestors: p is known at every node."
        )
    return Verified(sentence, rows)


def _tests(trace: Trace, cycle: Cycle, nodes: Nodes) -> Iterator[Tested]:
    """In the order of the walk: the children of each node on the path, until one is accepted."""
    for parent in cycle.path:
        for child in np.flatnonzero(nodes.parent == parent).tolist():
            chance = float(nodes.accept_probability[child])
            if not isfinite(chance):
                break
            accepted = bool(nodes.state[child] == NodeState.ACCEPTED)
            yield Tested(
                _test_sentence(trace, nodes, child, accepted),
                child,
                accepted,
                float(nodes.p_tested[child]),
                chance,
                float(nodes.uniform[child]),
            )
            if accepted:
                break


def _test_sentence(trace: Trace, nodes: Nodes, node: int, accepted: bool) -> str:
    token, verdict = quoted(trace, nodes.token[node]), "accepted" if accepted else "refused"
    rule = trace.header.rule
    if rule == "greedy":
        return f"{token} is {'' if accepted else 'not '}the target's arg-max: {verdict}."
    if rule == "typical":
        likely = "likely enough" if accepted else "too unlikely"
        p = rounded(nodes.p[node])
        return f"{token} has p {p}, {likely} for how open the choice is: {verdict}."
    chance, draw = rounded(nodes.accept_probability[node]), rounded(nodes.uniform[node])
    return f"{token}: {_chance(rule, nodes, node, chance)}; drew {draw}: {verdict}."


def _chance(rule: str, nodes: Nodes, node: int, chance: str) -> str:
    """Where the accept probability comes from."""
    tested = rounded(nodes.p_tested[node])
    before = rounded(nodes.p[node])
    changed = "" if tested == before else f" (p was {before} before its siblings were refused)"
    if rule == "sample":
        return f"p {tested} when tested{changed}, accept probability min(1, p/q) = {chance}"
    return f"accept probability = p = {chance} when tested{changed}"


def _decision(trace: Trace, cycle: Cycle, nodes: Nodes) -> Decided:
    node = stop_node(cycle)
    origin, kept = _origin(cycle, nodes), not cycle.cut
    token = cycle.tokens[-1] if kept else None if cycle.miss is None else cycle.miss.token
    at = quoted(trace, nodes.token[node])
    if token is None:
        sentence = "The run ended before a token of the target's own was kept."
    else:
        sentence = _decided_sentence(trace, origin, at, quoted(trace, token))
        if not kept:
            sentence += f" The run ended before it ({cycle.finish}): it is not part of the text."
    return Decided(sentence, node, token, origin, kept)


def _origin(cycle: Cycle, nodes: Nodes) -> Origin:
    """What the token decided at the end is: the record says so unless the run was cut off."""
    if not cycle.cut:
        return cycle.origins[-1]
    if (nodes.parent == stop_node(cycle)).any():
        return Origin.RECOVERED
    return Origin.BONUS if len(nodes) > 1 else Origin.PLAIN


def _decided_sentence(trace: Trace, origin: Origin, at: str, token: str) -> str:
    rule = trace.header.rule
    greedy = rule == "greedy"
    if origin is Origin.PLAIN:
        how = "takes its arg-max" if greedy else "draws from p"
        return f"Nothing was drafted: the target {how}, {token}."
    if origin is Origin.BONUS:
        how = "adds its arg-max" if greedy else "adds a token drawn from p"
        return f"Nothing hangs below {at}, which was kept: the target {how}, the bonus {token}."
    source = {
        "greedy": "the target's arg-max takes their place",
        "topk": "the residual, p without them, gives the recovered token",
        "sample": "the residual, what q leaves of p, gives the recovered token",
        "typical": "p gives the recovered token",
    }[rule]
    return f"Every child of {at} was refused: {source}, {token}."


def _commitment(cycle: Cycle) -> Committed:
    kept = cycle.path
    dropped = tuple(node for node in range(cycle.verified) if node not in kept)
    first, last = cycle.prefix_length, cycle.prefix_length + len(kept) - 1
    where = f"position {first}" if first == last else f"positions {first} to {last}"
    nodes = "the root's row" if len(kept) == 1 else f"the rows of the root and {cycle.accepted} "
    if len(kept) > 1:
        nodes += "accepted " + ("node" if cycle.accepted == 1 else "nodes")
    sentence = f"The cache keeps {nodes} at {where} and drops {counted(len(dropped), 'row')}."
    if cycle.cut:
        text = counted(len(cycle.tokens), "token")
        sentence += f" The run ends here ({cycle.finish}), with {text} of this cycle in the text."
    return Committed(sentence, kept, dropped, first)
