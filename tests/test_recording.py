"""What a full record says of each cycle, recomputed from stock forwards and the definitions.

p comes from transformers' eager model over the whole text of each node, q from the draft's own
logits at that text, both in float64; nothing of the engine's trees or tensors is used.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.distributions import HEAD
from eagle3_viz.fixed_tree import DEFAULT_FIXED, PUBLISHED_FIXED
from eagle3_viz.records import Cycle, Distributions, NodeState, Origin, Prefill, Top
from eagle3_viz.target import TargetModel
from tests.tiny_models import (
    OracleDraft,
    decode_all,
    path_to,
    random_ids,
    stock_forward,
    stock_model,
    tiny_target,
)
from tests.toy_rules import some_accepted, threshold, trials

FLOAT32 = 4e-5  # p from two float32 forwards of sharp logits
V = 31
PROMPT = random_ids(8, 60, V)
IDS = [token for token in range(V) if token % 4 != 3]
RULES: dict[str, dict] = {
    "greedy": {"shape": TreeShape(9, 3, 3)},
    "topk": {"shape": TreeShape(20, 2, 3), "sampling": Sampling(1.0), "rule": "topk"},
    "topk warped": {
        "shape": TreeShape(9, 3, 3),
        "sampling": Sampling(0.8, top_k=9),
        "rule": "topk",
    },
    "sample chain": {"shape": TreeShape(3, 1, 1), "sampling": Sampling(0.7), "rule": "sample"},
    "sample": {"shape": TreeShape(9, 2, 3), "sampling": Sampling(0.7), "rule": "sample"},
    "sample warped": {
        "shape": TreeShape(9, 3, 3),
        "sampling": Sampling(0.8, top_k=9),
        "draft_temperature": 1.2,
        "rule": "sample",
    },
    "typical": {"shape": TreeShape(9, 3, 3), "sampling": Sampling(1.0), "rule": "typical"},
    "fixed": {
        "method": "eagle1",
        "fixed": PUBLISHED_FIXED,
        "sampling": Sampling(1.0),
        "rule": "topk",
    },
    "fixed sample": {
        "method": "eagle1",
        "fixed": DEFAULT_FIXED,
        "sampling": Sampling(0.7),
        "rule": "sample",
    },
    "ar": {"method": "ar", "sampling": Sampling(0.7)},
}


@cache
def target() -> TargetModel:
    return tiny_target(vocab_size=V, seed=6)


@cache
def stock() -> Any:
    return stock_model(target())


@cache
def draft() -> OracleDraft:
    return OracleDraft(stock(), PROMPT, IDS, noise=2.0)


@cache
def run(rule: str) -> tuple[Prefill, list[Cycle]]:
    return decode_all(target(), draft(), PROMPT, max_new_tokens=40, seed=2, **RULES[rule])


@cache
def target_logits(text: tuple[int, ...]) -> torch.Tensor:
    return stock_forward(stock(), text)[0][-1].double()


def p_raw_after(text: tuple[int, ...]) -> torch.Tensor:
    return target_logits(text).softmax(-1)


def p_after(text: tuple[int, ...], rule: str) -> torch.Tensor:
    logits, sampling = target_logits(text), RULES[rule].get("sampling", Sampling())
    if sampling.temperature == 0.0:
        return torch.eye(V, dtype=torch.float64)[logits.argmax()]
    return warped(logits, sampling.temperature, sampling.top_k)


def warped(logits: torch.Tensor, temperature: float, top_k: int) -> torch.Tensor:
    logits = logits / temperature
    if top_k:
        least = logits.sort(descending=True).values[top_k - 1]
        logits = logits.where(logits >= least, -math.inf)
    return logits.softmax(-1)


def q_after(text: tuple[int, ...], rule: str) -> torch.Tensor:
    """q over the target's vocabulary, [V]."""
    draft().text = list(text)
    logits = draft().logits_of([]).double()
    q, temperature, top_k = torch.zeros(V, dtype=torch.float64), 1.0, 0
    if RULES[rule].get("rule") == "sample":
        sampling = RULES[rule]["sampling"]
        temperature, top_k = sampling.temperature, sampling.top_k
        temperature = RULES[rule].get("draft_temperature", temperature)
    q[IDS] = warped(logits, temperature, top_k)
    return q


def levels_of(rule: str) -> int:
    return RULES[rule].get("fixed", RULES[rule].get("shape")).levels


def rank(values: torch.Tensor, token: int) -> int:
    return int((values > values[token]).sum())


def texts_of(rule: str) -> list[tuple[Cycle, list[tuple[int, ...]]]]:
    """Each cycle with the whole text up to and including each of its nodes."""
    prefill, cycles = run(rule)
    text, result = (*PROMPT, prefill.token), []
    for cycle in cycles:
        assert cycle.nodes is not None
        parents, tokens = cycle.nodes.parent.tolist(), cycle.nodes.token.tolist()
        assert (len(text) - 1, text[-1]) == (cycle.prefix_length, cycle.root)
        node_texts = [
            (*text, *(tokens[n] for n in path_to(parents, node)[1:])) for node in range(len(tokens))
        ]
        result.append((cycle, node_texts))
        text = (*text, *cycle.tokens)
    return result


@pytest.mark.parametrize("rule", RULES)
def test_p_of_every_node_is_the_stock_targets(rule: str) -> None:
    for cycle, texts in texts_of(rule):
        nodes = cycle.nodes
        assert math.isnan(nodes.p_raw[0])
        assert math.isnan(nodes.p[0])
        assert nodes.p_rank[0] == -1
        for node in range(1, len(nodes)):
            before, token = texts[nodes.parent[node]], int(nodes.token[node])
            p_raw = p_raw_after(before)
            assert nodes.p_raw[node] == pytest.approx(float(p_raw[token]), rel=1e-4, abs=1e-6)
            assert nodes.p[node] == pytest.approx(float(p_after(before, rule)[token]), abs=FLOAT32)
            assert nodes.p_rank[node] == rank(p_raw, token)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "ar"])
def test_q_of_every_candidate_is_the_drafts(rule: str) -> None:
    for cycle, texts in texts_of(rule):
        nodes, pool = cycle.nodes, cycle.pool
        assert pool is not None
        assert len(pool) == cycle.drafted
        pool_texts: list[tuple[int, ...]] = []
        for entry in range(len(pool)):
            parent, token = int(pool.parent[entry]), int(pool.token[entry])
            before = texts[0] if parent < 0 else pool_texts[parent]
            score = 0.0 if parent < 0 else float(pool.score[parent])
            q = q_after(before, rule)
            logprob = float(q[token].log())
            pool_texts.append((*before, token))
            assert pool.draft_logprob[entry] == pytest.approx(logprob, abs=1e-4)
            assert pool.score[entry] == pytest.approx(score + logprob, abs=1e-4)
            assert pool.depth[entry] == len(pool_texts[-1]) - len(texts[0])
        for node in range(1, len(nodes)):
            entry, q = int(nodes.pool_index[node]), q_after(texts[nodes.parent[node]], rule)
            assert pool_texts[entry] == texts[node]
            assert nodes.draft_logprob[node] == pool.draft_logprob[entry]
            assert nodes.score[node] == pool.score[entry]
            assert nodes.q_rank[node] == rank(q, int(nodes.token[node]))
            assert nodes.depth[node] == pool.depth[entry]
        parents_in_pool = set(pool.parent.tolist())
        expected = [int(index) in parents_in_pool for index in nodes.pool_index]
        assert nodes.expanded.tolist() == expected
        assert (nodes.q_rank[0], nodes.pool_index[0], nodes.score[0]) == (-1, -1, 0.0)


def expected_test(rule: str, before: tuple[int, ...], token: int, earlier: list[int]) -> tuple:
    """(p when tested, probability of acceptance) of a child, from MATH.md 1."""
    p, kind = p_after(before, rule), RULES[rule].get("rule")
    if kind in ("sample", "typical"):
        q = q_after(before, rule).numpy()
        trial = trials(kind, p.numpy(), q, [*earlier, token])[0][-1]
        return trial.p, trial.chance
    left = 1.0 - sum(float(p[sibling]) for sibling in earlier)
    tested = float(p[token]) / left if left > 1e-9 else 0.0
    return tested, tested


@pytest.mark.parametrize("rule", RULES)
def test_the_walk_follows_from_p_q_and_the_recorded_draws(rule: str) -> None:
    for cycle, texts in texts_of(rule):
        nodes, tokens = cycle.nodes, cycle.nodes.token.tolist()
        states = {0: NodeState.ROOT}
        path = [0]
        while True:
            node, earlier = path[-1], []
            for child in np.flatnonzero(nodes.parent == node).tolist():
                tested, chance = expected_test(rule, texts[node], tokens[child], earlier)
                assert nodes.p_tested[child] == pytest.approx(tested, abs=2e-4)
                assert nodes.accept_probability[child] == pytest.approx(chance, abs=2e-4)
                u = nodes.uniform[child]
                undrawn = rule in ("greedy", "typical")
                assert math.isnan(u) == undrawn
                accepted = chance == 1.0 if undrawn else u < chance
                states[child] = NodeState.ACCEPTED if accepted else NodeState.REJECTED
                if accepted:
                    path.append(child)
                    break
                earlier.append(tokens[child])
            if path[-1] == node:
                break
        assert cycle.path == tuple(path)
        for node in range(len(nodes)):
            state = states.get(node, NodeState.UNREACHED)
            assert nodes.state[node] == state
            untested = state in (NodeState.ROOT, NodeState.UNREACHED)
            assert math.isnan(nodes.p_tested[node]) == untested
            assert math.isnan(nodes.accept_probability[node]) == untested


@pytest.mark.parametrize("rule", RULES)
def test_committed_tokens_are_those_of_the_walk_and_say_where_they_came_from(rule: str) -> None:
    seen = set()
    for cycle, texts in texts_of(rule):
        nodes, last = cycle.nodes, cycle.path[-1]
        children = set(nodes.token[nodes.parent == last].tolist())
        origin = Origin.RECOVERED if children else Origin.BONUS
        origin = Origin.PLAIN if len(nodes) == 1 else origin
        kept = [int(nodes.token[node]) for node in cycle.path[1:]]
        assert list(cycle.tokens[: cycle.accepted]) == kept[: len(cycle.tokens)]
        assert cycle.cut == (len(cycle.tokens) <= cycle.accepted)
        if not cycle.cut:
            assert cycle.origins[-1] == origin
            assert rule == "typical" or cycle.tokens[-1] not in children
            assert float(p_after(texts[last], rule)[cycle.tokens[-1]]) > 0
            seen.add(origin)
    expected = {Origin.PLAIN} if rule == "ar" else {Origin.RECOVERED, Origin.BONUS}
    assert seen == expected


def assert_top(top: Top | None, expected: torch.Tensor | None, atol: float = 1e-5) -> None:
    """`top` lists the most likely tokens of the distribution `expected` [V], or neither exists."""
    assert (top is None) == (expected is None)
    if top is None or expected is None:
        return
    head = expected.sort(descending=True).values[:HEAD]
    head = head[head > 1e-9]
    listed = top.probability[: len(head)]
    assert len(top.token) <= HEAD
    assert np.allclose(listed, head.numpy(), atol=atol)
    assert np.allclose(top.probability, expected[top.token.astype(int)].numpy(), atol=atol)
    assert top.tail == pytest.approx(max(0.0, 1.0 - float(top.probability.sum())), abs=FLOAT32)


def assert_distributions(rule: str, at: Distributions, cycle: Cycle, text: tuple[int, ...]) -> None:
    nodes = cycle.nodes
    p_raw, p = p_raw_after(text), p_after(text, rule)
    children = [int(t) for t in nodes.token[nodes.parent == at.node]]
    q = q_after(text, rule) if nodes.expanded[at.node] else None
    assert_top(at.p_raw, p_raw)
    assert_top(at.p, None if RULES[rule].get("sampling") == Sampling(1.0) else p)
    assert_top(at.q, q)
    assert at.children_mass == pytest.approx(float(p_raw[children].sum()), abs=FLOAT32)
    assert at.entropy_p == pytest.approx(float(-(p_raw * p_raw.log()).sum()), abs=1e-4)
    if q is None:
        assert all(math.isnan(x) for x in (at.overlap, at.kl, at.entropy_q))
    else:
        inside, outside = q[q > 0], p_raw[q > 0]
        assert at.overlap == pytest.approx(float(torch.minimum(p_raw, q).sum()), abs=FLOAT32)
        kl = float((inside * (inside / outside).log()).sum())
        assert at.kl == pytest.approx(kl, rel=1e-4, abs=1e-4)
        assert at.entropy_q == pytest.approx(float(-(inside * inside.log()).sum()), abs=1e-4)
    assert_rule(rule, at, p, q, children)


def assert_rule(
    rule: str, at: Distributions, p: torch.Tensor, q: torch.Tensor | None, children: list[int]
) -> None:
    """Residual, its mass and the expected acceptance, from MATH.md 1 and 4."""
    kind = RULES[rule].get("rule")
    if not children:
        expected, left = 0.0, None
    elif kind == "sample":
        assert q is not None
        made, rest = trials(kind, p.numpy(), q.numpy(), children)
        alone = float(torch.minimum(p, q).sum())  # of one child, whatever was drawn
        expected = alone if len(children) == 1 else some_accepted(made)
        left = torch.from_numpy(rest)
    elif kind == "typical":
        expected, left = float((p[children] > threshold(p.numpy())).any()), p
    else:
        expected = float(p[children].sum())
        left = p.clone()
        left[children] = 0.0
    residual = left / left.sum() if left is not None and left.sum() > 1e-7 else None
    # differences of float32: a small rest is known less well than what it is a rest of
    assert_top(at.residual, None if rule == "greedy" else residual, atol=2e-4)
    assert at.expected_acceptance == pytest.approx(expected, abs=FLOAT32)
    assert at.residual_mass == pytest.approx(1.0 - expected, abs=FLOAT32)


@pytest.mark.parametrize("rule", RULES)
def test_distributions_at_visited_nodes_follow_their_formulas(rule: str) -> None:
    for cycle, texts in texts_of(rule):
        assert [at.node for at in cycle.distributions] == list(cycle.path)
        for at in cycle.distributions:
            assert_distributions(rule, at, cycle, texts[at.node])


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "ar"])
def test_a_miss_says_why_the_decided_token_was_not_in_the_tree(rule: str) -> None:
    for cycle, texts in texts_of(rule):
        miss, nodes, pool = cycle.miss, cycle.nodes, cycle.pool
        node = cycle.path[-1]
        assert miss.node == node
        if not cycle.cut:
            assert miss.token == cycle.tokens[-1]
        assert miss.in_draft_vocabulary == (miss.token in IDS)
        assert miss.expanded == bool(nodes.expanded[node])
        assert miss.beyond_depth == (nodes.depth[node] == levels_of(rule))
        offered = set(pool.token[pool.parent == nodes.pool_index[node]].tolist())
        verified = set(nodes.token[nodes.parent == node].tolist())
        assert miss.pruned == (miss.token in offered - verified)
        if not miss.expanded:
            assert math.isnan(miss.q)
            assert miss.q_rank == -1
        elif not miss.in_draft_vocabulary:
            assert (miss.q, miss.q_rank) == (0.0, -1)
        else:
            q = q_after(texts[node], rule)
            assert miss.q == pytest.approx(float(q[miss.token]), abs=FLOAT32)
            assert miss.q_rank == rank(q, miss.token)


def test_these_runs_show_every_cause_of_a_miss() -> None:
    """Else the test above would prove less than it says."""
    misses = [cycle.miss for rule in RULES for cycle in run(rule)[1] if cycle.miss is not None]
    assert any(not miss.in_draft_vocabulary for miss in misses)
    assert any(miss.beyond_depth for miss in misses)
    assert any(not miss.expanded and not miss.beyond_depth for miss in misses)
    assert any(miss.pruned for miss in misses)
    assert any(
        miss.expanded and miss.in_draft_vocabulary and not miss.pruned and miss.q_rank >= 0
        for miss in misses
    )


def test_autoregression_has_no_tree_to_miss() -> None:
    for cycle in run("ar")[1]:
        assert cycle.miss is None
        assert cycle.pool is None
        assert cycle.distributions[0].q is None
        assert cycle.distributions[0].residual is None


def test_a_child_that_typical_refused_and_then_drew_is_not_called_pruned() -> None:
    _, cycles = decode_all(
        target(),
        OracleDraft(stock(), PROMPT, IDS, noise=6.0),  # seldom offers what is likely
        PROMPT,
        max_new_tokens=40,
        seed=3,
        rule="typical",
        shape=TreeShape(9, 2, 8),
        sampling=Sampling(0.5),
    )
    drawn = [
        cycle.miss.pruned
        for cycle in cycles
        if not cycle.cut
        and cycle.miss.token in cycle.nodes.token[cycle.nodes.parent == cycle.path[-1]]
    ]
    assert drawn and not any(drawn)
