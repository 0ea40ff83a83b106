"""Nothing that breaks an invariant is saved, and nothing that breaks one is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from eagle3_viz import trace_file, trace_json
from eagle3_viz.config import METHODS, RULES, Method, Rule, TreeShape
from eagle3_viz.records import NodeState, Top
from eagle3_viz.trace import Trace
from eagle3_viz.trace_check import check
from eagle3_viz.trace_file import TraceFileError, from_bytes, to_bytes
from tests.altered_traces import (
    put,
    with_cycle,
    with_distribution,
    with_header,
    with_nodes,
    with_pool,
)
from tests.synthetic import make_trace

Change = Callable[[Trace], Trace]
NAN, INFINITE = math.nan, math.inf

STRUCTURE: dict[str, tuple[Change, str]] = {
    "parent after child": (lambda t: with_nodes(t, parent=put(1, 5)), "parent is out of order"),
    "second root": (lambda t: with_nodes(t, parent=put(2, -1)), "without parent"),
    "depth": (lambda t: with_nodes(t, depth=put(3, 7)), "depth"),
    "state": (lambda t: with_nodes(t, state=put(9, 9)), "state"),
    "pruned node": (lambda t: with_nodes(t, state=put(9, NodeState.PRUNED)), "state"),
    "accepted off the path": (
        lambda t: with_nodes(t, state=put(9, NodeState.ACCEPTED)),
        "not the path",
    ),
    "pool index": (lambda t: with_nodes(t, pool_index=put(1, 999)), "outside the pool"),
    "pool token": (lambda t: with_nodes(t, pool_index=put(1, 1)), "another token"),
    "probability": (lambda t: with_nodes(t, p_raw=put(1, 1.5)), "p_raw holds a value outside"),
    "root": (lambda t: with_cycle(t, root=0), "node 0 alone must be the root"),
    "prefix": (lambda t: with_cycle(t, prefix_length=3), "expected prefix_length"),
    "index": (lambda t: with_cycle(t, index=3), "expected index 0, found 3"),
    "origins": (lambda t: with_cycle(t, origins=()), "0 origins"),
    "path": (lambda t: with_cycle(t, path=(0, 99)), "path"),
    "empty path": (lambda t: with_cycle(t, path=()), "path"),
    "verified": (lambda t: with_cycle(t, verified=11), "11 verified, but 10 nodes"),
    "drafted": (lambda t: with_cycle(t, drafted=3), "3 drafted, but 52 candidates"),
    "cut without end": (lambda t: with_cycle(t, cut=True), "cut"),
    "finish": (lambda t: with_cycle(t, finish="tired"), "unknown finish"),
    "ended before": (lambda t: with_cycle(t, finish="eos"), "already ended at cycle 0"),
    "timing": (
        lambda t: with_cycle(t, timing=replace(t.cycles[0].timing, verify=math.nan)),
        "timing",
    ),
    "miss": (lambda t: with_cycle(t, miss=replace(t.cycles[0].miss, node=10)), "miss names"),
    "distribution": (
        lambda t: with_cycle(t, distributions=(replace(t.cycles[0].distributions[0], node=-1),)),
        "distributions name no node",
    ),
    "no prefill": (lambda t: replace(t, prefill=None), "must have a prefill"),
}


def node_in(trace: Trace, state: NodeState) -> int:
    """The first node of the first cycle in a state."""
    nodes = trace.cycles[0].nodes
    assert nodes is not None
    return int(np.flatnonzero(nodes.state == state)[0])


def at_first(trace: Trace, found: NodeState, **values: float) -> Trace:
    """Columns of the first node in a state set to values."""
    node = node_in(trace, found)
    return with_nodes(trace, **{name: put(node, value) for name, value in values.items()})


def flipped(trace: Trace) -> Trace:
    """The draw of the first tested node on the other side of its accept probability."""
    nodes = trace.cycles[0].nodes
    assert nodes is not None
    kept = nodes.state[1] == NodeState.ACCEPTED
    assert 0 < nodes.accept_probability[1] < 1
    return with_nodes(trace, uniform=put(1, 1.0 if kept else 0.0))


def below_another(trace: Trace) -> Trace:
    """The candidate of a node at depth 2 put below another candidate of depth 1."""
    nodes, pool = trace.cycles[0].nodes, trace.cycles[0].pool
    assert nodes is not None and pool is not None
    entry = int(nodes.pool_index[np.flatnonzero(nodes.depth == 2)[0]])
    others = np.flatnonzero((pool.depth == 1) & (np.arange(len(pool)) != pool.parent[entry]))
    return with_pool(trace, parent=put(entry, int(others[0])))


def twice_the_same(trace: Trace) -> Trace:
    """Two unreached siblings that are one candidate, the second without children."""
    nodes = trace.cycles[0].nodes
    assert nodes is not None
    off = nodes.state == NodeState.UNREACHED
    leaf = ~np.isin(np.arange(len(nodes)), nodes.parent)
    siblings = (nodes.parent[:, None] == nodes.parent) & off[:, None] & (off & leaf)
    first, second = np.argwhere(np.triu(siblings, 1))[0]
    return with_nodes(
        trace,
        token=put(second, nodes.token[first]),
        pool_index=put(second, nodes.pool_index[first]),
    )


def top(trace: Trace, **changes: object) -> Trace:
    """The head of p_raw at the first root changed."""
    head = trace.cycles[0].distributions[0].p_raw
    return with_distribution(trace, p_raw=replace(head, **changes))  # type: ignore[arg-type]


def head(*probabilities: float, tail: float, tokens: tuple[int, ...] | None = None) -> Top:
    ids = range(len(probabilities)) if tokens is None else tokens
    return Top(np.array(list(ids), np.int32), np.array(probabilities, np.float32), tail)


TESTED, UNREACHED = NodeState.REJECTED, NodeState.UNREACHED
VALUES: dict[str, tuple[Change, str]] = {
    "p_raw NaN": (lambda t: with_nodes(t, p_raw=put(1, NAN)), "p_raw is NaN"),
    "p_raw infinite": (lambda t: with_nodes(t, p_raw=put(1, INFINITE)), "p_raw holds a value out"),
    "p NaN": (lambda t: with_nodes(t, p=put(1, NAN)), "p is NaN where a value must exist"),
    "p of the root": (lambda t: with_nodes(t, p=put(0, 0.5)), "p has a value where none can"),
    "logprob NaN": (lambda t: with_nodes(t, draft_logprob=put(1, NAN)), "draft_logprob is NaN"),
    "logprob infinite": (
        lambda t: with_nodes(t, draft_logprob=put(1, -INFINITE)),
        "draft_logprob holds a value that is not finite",
    ),
    "logprob above 0": (lambda t: with_nodes(t, draft_logprob=put(1, 0.5)), "above 0"),
    "score NaN": (lambda t: with_nodes(t, score=put(1, NAN)), "score holds a value that is not"),
    "q_rank": (lambda t: with_nodes(t, q_rank=put(1, -1)), "q_rank of a drafted node is negative"),
    "p_rank": (lambda t: with_nodes(t, p_rank=put(1, -1)), "p_rank of a drafted node is negative"),
    "p_tested missing": (lambda t: with_nodes(t, p_tested=put(1, NAN)), "p_tested is NaN"),
    "p_tested of an untested node": (
        lambda t: at_first(t, UNREACHED, p_tested=0.5),
        "p_tested has a value where none can exist",
    ),
    "accept probability missing": (
        lambda t: with_nodes(t, accept_probability=put(1, NAN)),
        "accept_probability is NaN",
    ),
    "draw missing": (lambda t: with_nodes(t, uniform=put(1, NAN)), "uniform is NaN"),
    "draw of an untested node": (
        lambda t: at_first(t, UNREACHED, uniform=0.5),
        "uniform has a value where none can exist",
    ),
    "decision": (flipped, "contradicts its accept probability"),
    "tested out of turn": (
        lambda t: at_first(t, UNREACHED, state=TESTED),
        "state does not follow from the path",
    ),
    "candidate NaN": (lambda t: with_pool(t, draft_logprob=put(0, NAN)), "draft_logprob is NaN"),
    "candidate infinite": (lambda t: with_pool(t, score=put(0, -INFINITE)), "score holds a value"),
    "candidate below another": (below_another, "another parent"),
    "candidate twice": (twice_the_same, "two nodes have the same pool entry"),
    "head NaN": (lambda t: with_distribution(t, p_raw=head(NAN, tail=0.0)), "distribution is NaN"),
    "head infinite": (
        lambda t: with_distribution(t, q=head(INFINITE, tail=0.0)),
        "a distribution holds a value outside",
    ),
    "head not sorted": (
        lambda t: with_distribution(t, p_raw=head(0.2, 0.8, tail=0.0)),
        "not sorted",
    ),
    "head lists a token twice": (
        lambda t: with_distribution(t, p_raw=head(0.5, 0.5, tail=0.0, tokens=(1, 1))),
        "lists a token twice",
    ),
    "head and tail": (lambda t: with_distribution(t, p_raw=head(0.5, tail=0.4)), "sum to 0.9"),
    "tail NaN": (lambda t: top(t, tail=NAN), "a distribution is NaN"),
    "tail infinite": (lambda t: top(t, tail=INFINITE), "a distribution holds a value outside"),
    "21 tokens": (
        lambda t: with_distribution(t, p_raw=head(*[1 / 21] * 21, tail=0.0)),
        "at most 20 are allowed",
    ),
    "overlap NaN": (lambda t: with_distribution(t, overlap=NAN), "overlap is NaN"),
    "overlap without q": (lambda t: with_distribution(t, q=None), "where none can exist"),
    "kl infinite": (lambda t: with_distribution(t, kl=INFINITE), "kl is negative or not finite"),
    "entropy NaN": (lambda t: with_distribution(t, entropy_p=NAN), "entropy_p is NaN"),
    "expected acceptance": (
        lambda t: with_distribution(t, expected_acceptance=1.2),
        "expected_acceptance holds a value outside",
    ),
    "distributions missing": (
        lambda t: with_cycle(t, distributions=(t.cycles[0].distributions[0],) * 2),
        "expected those of the path",
    ),
    "missed q": (
        lambda t: with_cycle(t, miss=replace(t.cycles[0].miss, q=NAN, expanded=True)),  # type: ignore[type-var]
        "q of the missed token is NaN",
    ),
    "draw": (lambda t: with_cycle(t, draws=(1.5,)), "a draw is outside"),
    "draw NaN": (lambda t: with_cycle(t, draws=(NAN,)), "a draw is outside"),
    "one phase negative": (
        lambda t: with_cycle(t, timing=replace(t.cycles[0].timing, tree=-0.1)),
        "a timing is negative",
    ),
    "candidates without nodes": (lambda t: with_cycle(t, nodes=None), "without nodes"),
    "origins out of order": (
        lambda t: with_cycle(t, origins=t.cycles[0].origins[::-1]),
        "but the origins are",
    ),
    "token id": (
        lambda t: with_header(t, prompt_ids=(-1, *t.header.prompt_ids[1:])),
        "-1 is no token id",
    ),
    "prompt length": (
        lambda t: with_header(t, prompt_ids=t.header.prompt_ids[1:]),
        "but prefill read",
    ),
    "token bytes": (
        lambda t: replace(t, token_bytes={**t.token_bytes, 0: b"x" * 5000}),
        "a token of 5000 bytes",
    ),
}

HEADERS: dict[str, tuple[Change, str]] = {
    "method": (lambda t: with_header(t, method="eagle9"), "unknown method 'eagle9'"),
    "rule": (lambda t: with_header(t, rule="<b>"), "unknown rule '<b>'"),
    "pair": (lambda t: with_header(t, pair="x" * 10_000), "pair has 10000 characters"),
    "prompt": (lambda t: with_header(t, prompt="x" * 3_000_000), "prompt has 3000000 characters"),
    "version": (lambda t: with_header(t, versions={"torch": "1" * 400}), "version of a package"),
    "seed": (lambda t: with_header(t, seed=10**400), "seed is no count"),
    "parameters": (
        lambda t: with_header(t, target=replace(t.header.target, parameters=10**400)),
        "parameters is no count",
    ),
    "baseline": (
        lambda t: with_header(t, baseline=replace(t.header.baseline, ms_per_token=0.0)),  # type: ignore[type-var]
        "the baseline took 0.0 ms",
    ),
    "prefill NaN": (
        lambda t: replace(t, prefill=replace(t.prefill, target_ms=NAN)),  # type: ignore[type-var]
        "a timing is negative or not finite",
    ),
    "deep config": (lambda t: with_header(t, config=nested(500)), "nested deeper than 8 levels"),
    "config number": (lambda t: with_header(t, config={"x": [-INFINITE]}), "not finite"),
}


def nested(depth: int) -> dict[str, object]:
    config: dict[str, object] = {}
    for _ in range(depth):
        config = {"x": config}
    return config


def unchecked(monkeypatch: pytest.MonkeyPatch, write: Callable[[Trace], bytes], t: Trace) -> bytes:
    """A file of a trace that may be broken."""
    with monkeypatch.context() as without:
        without.setattr(trace_file.trace_check, "check", lambda _: None)
        return write(t)


def made(case: str) -> Trace:
    """A trace with an accepted node and two siblings that were never reached in its first cycle."""
    rule: Rule = "greedy" if case in STRUCTURE else "topk"
    return make_trace(rule=rule, seed=0 if case in STRUCTURE else 3)


@pytest.mark.parametrize("case", STRUCTURE | VALUES)
def test_a_broken_invariant_is_refused_on_both_ways(
    monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    change, match = (STRUCTURE | VALUES)[case]
    trace = change(made(case))
    with pytest.raises(ValueError, match=match):
        to_bytes(trace)
    with pytest.raises(TraceFileError, match=match):
        from_bytes(unchecked(monkeypatch, to_bytes, trace))


@pytest.mark.parametrize("case", [case for case in VALUES if "infinite" not in case])
def test_a_broken_value_is_refused_in_json(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    change, match = VALUES[case]
    data = unchecked(monkeypatch, trace_json.dumps, change(made(case)))
    with pytest.raises(TraceFileError, match=match):
        trace_json.loads(data)


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_no_page_could_show_is_refused(case: str) -> None:
    change, match = HEADERS[case]
    with pytest.raises(ValueError, match=match):
        check(change(make_trace(cycles=1)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rule", RULES)
def test_what_the_rules_yield_is_never_refused(method: Method, rule: Rule) -> None:
    if (method, rule) == ("lookup", "sample"):
        pytest.skip("a copied text cannot be drawn from q")
    for seed in range(4):
        check(make_trace(seed=seed, method=method, rule=rule, shape=TreeShape(12, 3, 3)))
