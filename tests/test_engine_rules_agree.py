"""The engine's rules on tensors agree with the enumeration of the same tree (MATH.md 5.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_viz import acceptance
from eagle3_viz.acceptance import Verdict, accept_sample, accept_topk, accept_typical
from eagle3_viz.sampling import Draws
from eagle3_viz.toy_node import NodeRule, walk
from eagle3_viz.tree import DraftTree, make_tree
from tests.enumeration import ScriptedDraws, exact_distribution

EXACT = 1e-12
NODES, DEPTH, V = 8, 3, 4
EXAMPLES = settings(max_examples=120, derandomize=True, database=None, deadline=None)


@dataclass(frozen=True)
class Tree:
    """Node 0 is the root; tokens and parents [T], p and q [T, V] after each node."""

    tokens: list[int]
    parents: list[int]
    p: np.ndarray
    q: np.ndarray
    rows: list[int]  # nodes with children, in the order of the draft's rows

    def children(self, node: int) -> list[int]:
        return [child for child, parent in enumerate(self.parents) if parent == node]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Up to 8 nodes down to depth 3; zeros in p and q, but no child that q cannot propose."""
    tokens, parents, depth = [0], [-1], [0]
    for _ in range(draw(st.integers(0, NODES - 1))):
        free = [
            (parent, token)
            for parent in range(len(tokens))
            if depth[parent] < DEPTH
            for token in range(V)
            if not any(parents[n] == parent and tokens[n] == token for n in range(len(tokens)))
        ]
        parent, token = draw(st.sampled_from(free))
        tokens.append(token)
        parents.append(parent)
        depth.append(depth[parent] + 1)
    weights = st.lists(st.integers(0, 9), min_size=V, max_size=V).filter(any)
    p, q = (np.array([draw(weights) for _ in tokens], dtype=float) for _ in range(2))
    for token, parent in zip(tokens[1:], parents[1:], strict=True):
        q[parent, token] = max(q[parent, token], 1.0)
    rows = draw(st.permutations(sorted(set(parents[1:]))))
    return Tree(
        tokens, parents, p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True), list(rows)
    )


def engine_tree(tree: Tree) -> DraftTree:
    depth = [0]
    for parent in tree.parents[1:]:
        depth.append(depth[parent] + 1)
    tensor = torch.tensor
    return make_tree(
        token=tensor(tree.tokens),
        parent=tensor(tree.parents),
        depth=tensor(depth),
        pool_index=torch.arange(-1, len(tree.tokens) - 1),
        pool=None,
        expanded=tensor(tree.rows, dtype=torch.int64) - 1,
        q_logprobs=(),
        levels=max(depth),
    )


def verdict(rule: NodeRule, tree: Tree, draws: Draws | ScriptedDraws) -> Verdict:
    drafted, p = engine_tree(tree), torch.from_numpy(tree.p)
    match rule:
        case "topk":
            return accept_topk(drafted, p, draws)
        case "typical":
            return accept_typical(drafted, p, draws)
        case _:
            q = torch.from_numpy(tree.q)[torch.tensor(tree.rows, dtype=torch.int64)]
            return accept_sample(drafted, p, q, draws)


def committed(rule: NodeRule, tree: Tree, node: int = 0) -> dict[tuple[int, ...], float]:
    """Probability of each text that one cycle commits below `node`, node by node."""
    children = tree.children(node)
    outcome = walk(rule, tree.p[node], tree.q[node], tuple(tree.tokens[n] for n in children))
    mass: dict[tuple[int, ...], float] = defaultdict(float)
    for child, test in zip(children, outcome.tests, strict=True):
        for text, below in committed(rule, tree, child).items():
            mass[test.token, *text] += test.reach * test.accept * below
    for token, left in enumerate(outcome.refused * outcome.residual):
        mass[token,] += float(left)
    return mass


def difference(rule: NodeRule, tree: Tree) -> float:
    found = exact_distribution(lambda draws: verdict(rule, tree, draws).tokens)
    expected = committed(rule, tree)
    texts = found.keys() | expected.keys()
    return max(abs(found.get(text, 0.0) - expected.get(text, 0.0)) for text in texts)


@EXAMPLES
@given(trees())
def test_topk_commits_every_text_with_the_enumerated_probability(tree: Tree) -> None:
    assert difference("topk", tree) < EXACT


@EXAMPLES
@given(trees())
def test_sample_commits_every_text_with_the_enumerated_probability(tree: Tree) -> None:
    assert difference("sample", tree) < EXACT


@EXAMPLES
@given(trees())
def test_typical_commits_every_text_with_the_enumerated_probability(tree: Tree) -> None:
    assert difference("typical", tree) < EXACT


class Refusing:
    """Refuses whatever may be refused."""

    def accepts(self, probability: float) -> tuple[bool, float]:
        return probability >= 1.0, 1.0

    def token(self, weights: torch.Tensor) -> torch.Tensor:
        return weights.argmax()


@pytest.mark.parametrize("rule", ["topk", "sample", "typical"])
def test_what_is_recorded_of_each_test_is_what_the_enumeration_has(rule: NodeRule) -> None:
    @EXAMPLES
    @given(trees())
    def agrees(tree: Tree) -> None:
        recorded = [t for t in verdict(rule, tree, Refusing()).tests if tree.parents[t.node] == 0]
        tokens = tuple(tree.tokens[n] for n in tree.children(0))
        expected = walk(rule, tree.p[0], tree.q[0], tokens).tests[: len(recorded)]
        for found, test in zip(recorded, expected, strict=True):
            assert tree.tokens[found.node] == test.token
            assert found.p_tested == pytest.approx(test.p, abs=1e-9)
            assert found.accept_probability == pytest.approx(test.accept, abs=1e-9)

    agrees()


P, Q = np.array([0.40, 0.25, 0.20, 0.15]), np.array([0.10, 0.50, 0.15, 0.25])
NAMED = Tree([0, 1, 3, 0, 2], [-1, 0, 0, 1, 1], np.tile(P, (5, 1)), np.tile(Q, (5, 1)), rows=[1, 0])


@pytest.mark.parametrize(
    ("rule", "name", "broken"),
    [
        ("topk", "residual_topk", lambda p, refused: p),
        ("sample", "residual_sample", lambda p, q: p),
        ("typical", "typical_threshold", lambda p: torch.full(p.shape[:-1], 0.3)),
    ],
)
def test_a_broken_engine_rule_disagrees(
    rule: NodeRule, name: str, broken: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert difference(rule, NAMED) < EXACT
    monkeypatch.setattr(acceptance, name, broken)
    assert difference(rule, NAMED) > 0.05
