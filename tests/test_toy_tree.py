"""Two levels whose expansion depends on what was drawn (MATH.md 1.4): exact, or seen not to be."""

from __future__ import annotations

import numpy as np
import pytest

from tests import toy_tree
from tests.toy_distributions import KINDS, random_pair
from tests.toy_tree import TwoTokens, two_level_output

EXACT = 1e-12
SHAPES = [(1, 3), (2, 4), (2, 5), (3, 5), (3, 6)]  # (top_k, total): most end inside a group


def random_models(kind: str, size: int, seed: int) -> tuple[TwoTokens, TwoTokens]:
    """Target and draft, with pairs of `kind` after every text."""
    first, *after = (random_pair(kind, size, 100 * seed + place) for place in range(size + 1))
    p, q = zip(*after, strict=True)
    return TwoTokens(first[0], np.stack(p)), TwoTokens(first[1], np.stack(q))


def error(rule: str, p: TwoTokens, q: TwoTokens, top_k: int, total: int) -> float:
    joint = two_level_output(rule, p, q, top_k=top_k, total=total)
    return float(np.abs(joint - p.joint).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("top_k", "total"), SHAPES)
@pytest.mark.parametrize("rule", ["topk", "sample"])
def test_two_tokens_have_the_targets_joint_distribution(rule, top_k, total, kind) -> None:
    for seed in range(3):
        assert error(rule, *random_models(kind, 4, seed), top_k, total) < EXACT


@pytest.mark.parametrize("size", [5, 6])
@pytest.mark.parametrize("rule", ["topk", "sample"])
def test_two_tokens_have_the_targets_joint_distribution_over_larger_vocabularies(
    rule, size
) -> None:
    for kind in KINDS:
        assert error(rule, *random_models(kind, size, 1), 2, 4) < EXACT


FIRST_P, FIRST_Q = [0.40, 0.30, 0.20, 0.10], [0.25, 0.40, 0.15, 0.20]
NAMED = (
    TwoTokens(np.array(FIRST_P), np.stack([np.roll(FIRST_P, x) for x in range(4)])),
    TwoTokens(np.array(FIRST_Q), np.stack([np.roll(FIRST_Q, x) for x in range(4)])),
)


@pytest.mark.parametrize(
    ("top_k", "total", "margin"), [(2, 3, 0.029), (2, 4, 0.068), (3, 4, 0.045)]
)
def test_dropping_the_worst_drawn_node_is_seen_on_a_named_case(top_k, total, margin) -> None:
    assert error("rerank", *NAMED, top_k, total) > margin
    assert error("sample", *NAMED, top_k, total) < EXACT


def test_the_expanded_node_and_its_children_depend_on_the_tokens_drawn() -> None:
    """Root draws two, the likelier of them is expanded, and `total` lets it draw only one."""
    trees = list(toy_tree._trees("sample", NAMED[1], 2, 4))
    assert sum(probability for _, probability in trees) == pytest.approx(1.0)
    for tree, _ in trees:
        (x,) = [path for path in tree if path]
        assert x[0] == max(tree[()], key=lambda token: FIRST_Q[token])
        assert len(tree[()]) == 2 and len(tree[x]) == 1
    assert {path for tree, _ in trees for path in tree if path} == {(0,), (1,), (3,)}


def test_chosen_nodes_are_the_most_likely_ones() -> None:
    ((tree, probability),) = toy_tree._trees("topk", NAMED[1], 2, 5)
    # second level after token 1: FIRST_Q rolled once, (.20, .25, .40, .15)
    assert tree == {(): (1, 0), (1,): (2, 1)} and probability == 1.0


def test_a_rerank_keeps_a_tree_of_total_nodes() -> None:
    for tree, _ in toy_tree._trees("rerank", NAMED[1], 2, 4):
        assert sum(map(len, tree.values())) == 3
        assert all(path[0] in tree[()] for path, tokens in tree.items() if path and tokens)


def test_a_broken_second_level_is_seen(monkeypatch) -> None:
    """What is drawn after a token must be tested against the q after that token."""
    p, q = NAMED
    monkeypatch.setattr(TwoTokens, "after", lambda model, path: model.first)
    assert error("sample", p, q, 2, 5) > 0.01


def test_only_rules_of_trees_are_worked_out() -> None:
    with pytest.raises(ValueError, match="topk, sample, rerank; got 'ratio'"):
        two_level_output("ratio", *NAMED, top_k=2, total=4)


def test_a_row_that_is_no_distribution_is_named() -> None:
    with pytest.raises(ValueError, match="second after token 1 must sum to 1"):
        TwoTokens(np.array([0.5, 0.5]), np.array([[0.5, 0.5], [0.5, 0.4]]))
