"""The exact enumeration of one node (MATH.md 5.1): right rules give p, wrong ones are seen."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from eagle3_viz import toy_node
from eagle3_viz.toy_node import (
    LOSSLESS,
    NODE_RULES,
    NodeOutcome,
    node_outcome,
    normalized,
    ordered_draws,
)
from tests.toy_distributions import KINDS, random_pair

EXACT = 1e-12
PAIRS = 20  # random pairs of each kind and vocabulary: 540 in all


@pytest.mark.parametrize("size", [4, 5, 6])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", LOSSLESS)
def test_a_lossless_rule_commits_p(rule, kind, size) -> None:
    for seed in range(PAIRS):
        p, q = random_pair(kind, size, seed)
        for k in (1, 2, 3):
            assert node_outcome(rule, p, q, k).error < EXACT, (seed, k)


# Full common support, so that no rule is right by having nothing to decide.
FLAT_TARGET = ([0.20, 0.20, 0.20, 0.20, 0.20], [0.60, 0.20, 0.10, 0.06, 0.04])
OVERCONFIDENT = ([0.40, 0.25, 0.15, 0.12, 0.08], [0.10, 0.50, 0.20, 0.10, 0.10])
GOOD_DRAFT = ([0.50, 0.20, 0.15, 0.10, 0.05], [0.45, 0.25, 0.15, 0.10, 0.05])
OPPOSITE = ([0.05, 0.10, 0.15, 0.30, 0.40], [0.40, 0.30, 0.15, 0.10, 0.05])

NAMED = [
    ("ratio", OVERCONFIDENT, 1, 0.24),
    ("ratio", OVERCONFIDENT, 2, 0.24),
    ("ratio", GOOD_DRAFT, 1, 0.49),
    ("ratio", OPPOSITE, 3, 0.47),
    ("rerank", GOOD_DRAFT, 1, 0.28),
    ("rerank", OVERCONFIDENT, 2, 0.05),
    ("rerank", OPPOSITE, 3, 0.15),
    ("reorder", FLAT_TARGET, 2, 0.10),
    ("reorder", GOOD_DRAFT, 2, 0.28),
    ("reorder", GOOD_DRAFT, 3, 0.43),
    ("typical", FLAT_TARGET, 1, 0.79),
    ("typical", OPPOSITE, 2, 0.89),
]


@pytest.mark.parametrize(("rule", "pair", "k", "margin"), NAMED)
def test_a_rule_that_is_not_lossless_misses_p_by_a_margin_on_a_named_case(
    rule, pair, k, margin
) -> None:
    p, q = map(np.array, pair)
    assert node_outcome(rule, p, q, k).error > margin
    assert all(node_outcome(right, p, q, k).error < EXACT for right in LOSSLESS)


def test_the_ratio_test_on_a_chosen_token_by_hand() -> None:
    """One child, token 1: kept with .25/.5, else the residual (.3, 0, 0, .02, 0) is drawn from."""
    outcome = node_outcome("ratio", *map(np.array, OVERCONFIDENT), 1)
    expected = [0.5 * 0.30 / 0.32, 0.5, 0.0, 0.5 * 0.02 / 0.32, 0.0]
    np.testing.assert_allclose(outcome.output, expected, atol=1e-15)


def test_siblings_of_two_tokens_put_in_order_by_hand() -> None:
    """Both tokens are drawn whatever the order; the more confident one is then tested first."""
    p, q = np.array([0.5, 0.5]), np.array([0.8, 0.2])
    outcome = node_outcome("reorder", p, q, 2)
    first = 0.5 / 0.8
    np.testing.assert_allclose(outcome.output, [first, 1 - first], atol=1e-15)
    assert {walk.drawn for walk in outcome.walks} == {(0, 1), (1, 0)}
    assert [[test.token for test in walk.tests] for walk in outcome.walks] == [[0, 1], [0, 1]]


def test_a_drawn_child_dropped_for_a_more_confident_one_by_hand() -> None:
    """Of two drawn from (.8, .2) token 0 stays always, as if q were a point mass on it."""
    p, q = np.array([0.5, 0.5]), np.array([0.8, 0.2])
    outcome = node_outcome("rerank", p, q, 1)
    np.testing.assert_allclose(outcome.output, [0.625, 0.375], atol=1e-15)


def test_re_ordering_a_single_child_changes_nothing() -> None:
    p, q = map(np.array, OVERCONFIDENT)
    assert node_outcome("reorder", p, q, 1).error < EXACT


def test_one_sampled_child_is_accepted_with_the_mass_p_and_q_share() -> None:
    for seed in range(50):
        p, q = random_pair("generic", 5, seed)
        assert node_outcome("sample", p, q, 1).acceptance == pytest.approx(np.minimum(p, q).sum())


def test_chosen_children_are_accepted_with_the_target_mass_they_cover() -> None:
    for seed in range(50):
        p, q = random_pair("generic", 6, seed)
        covered = p[np.argsort(-q)[:3]].sum()
        assert node_outcome("topk", p, q, 3).acceptance == pytest.approx(covered)


def test_the_table_of_a_walk_says_what_was_left_when_each_child_was_tested() -> None:
    p, q = map(np.array, OVERCONFIDENT)
    (walk,) = node_outcome("topk", p, q, 2).walks
    first, second = walk.tests
    assert (first.token, first.p, first.q, first.accept, first.reach) == (1, 0.25, 0.5, 0.25, 1.0)
    assert (second.token, second.p, second.q) == pytest.approx((2, 0.2, 0.4))
    assert (second.accept, second.reach) == pytest.approx((0.2, 0.75))
    assert walk.refused == pytest.approx(0.6)
    np.testing.assert_allclose(walk.residual, np.array([0.40, 0, 0, 0.12, 0.08]) / 0.6)


def test_recursive_rejection_takes_the_refused_child_out_of_q_and_q_out_of_p() -> None:
    p, q = map(np.array, OVERCONFIDENT)
    walks = {walk.drawn: walk for walk in node_outcome("sample", p, q, 2).walks}
    assert len(walks) == 20
    walk = walks[1, 0]
    assert walk.probability == pytest.approx(0.5 * 0.10 / 0.5)
    first, second = walk.tests
    assert first.accept == pytest.approx(0.5)
    assert (second.p, second.q, second.accept) == pytest.approx((0.30 / 0.32, 0.2, 1.0))
    assert walk.refused == 0.0


@pytest.mark.parametrize("rule", NODE_RULES)
def test_every_rule_commits_exactly_one_token(rule) -> None:
    for kind in KINDS:
        for k in (1, 2, 3):
            outcome = node_outcome(rule, *random_pair(kind, 5, 3), k)
            assert outcome.output.sum() == pytest.approx(1.0, abs=EXACT)
            assert sum(walk.probability for walk in outcome.walks) == pytest.approx(1.0)


def test_ordered_draws_are_all_orders_with_the_probabilities_of_drawing_them() -> None:
    q = np.array([0.5, 0.3, 0.2, 0.0])
    found = dict(ordered_draws(q, 2))
    assert found.keys() == set(permutations(range(3), 2))
    assert found[0, 1] == pytest.approx(0.5 * 0.3 / 0.5)
    assert found[2, 0] == pytest.approx(0.2 * 0.5 / 0.8)


def test_a_q_of_few_tokens_draws_fewer_children() -> None:
    q = np.array([0.0, 0.6, 0.4, 0.0])
    assert {len(drawn) for drawn, _ in ordered_draws(q, 3)} == {2}
    assert node_outcome("sample", np.full(4, 0.25), q, 3).error < EXACT


def residual_is_p(rule, p, q, child):
    return p if rule == "sample" else normalized(np.where(np.arange(len(p)) == child, 0.0, p))


def child_stays_in_q(weights, token):
    return weights


@pytest.mark.parametrize(
    ("name", "broken", "rule"),
    [
        ("after_refusal", residual_is_p, "sample"),
        ("after_refusal", lambda rule, p, q, child: p, "topk"),
        ("accept_probability", lambda rule, p, q, child: float(min(1.0, p[child])), "sample"),
        ("accept_probability", lambda rule, p, q, child: float(min(1.0, q[child])), "topk"),
        ("accept_probability", lambda rule, p, q, child: 1.0, "sample"),
    ],
    ids=["p for residual", "refused stays in p", "p for p/q", "q for p", "all accepted"],
)
def test_a_broken_rule_is_seen(name, broken, rule, monkeypatch) -> None:
    monkeypatch.setattr(toy_node, name, broken)
    assert node_outcome(rule, *map(np.array, OVERCONFIDENT), 2).error > 0.02


def test_a_second_test_against_the_first_q_is_seen(monkeypatch) -> None:
    """The refused child must leave q: drawn from the rest, the next is no draw from all of q."""
    p, q = map(np.array, OPPOSITE)
    draws = list(ordered_draws(q, 2))
    monkeypatch.setattr(toy_node, "without", child_stays_in_q)
    walks = tuple(toy_node.walk("sample", p, q, o, probability=mass) for o, mass in draws)
    assert NodeOutcome("sample", p, q, walks).error > 0.005


@pytest.mark.parametrize(
    ("p", "q", "k", "message"),
    [
        ([0.5, 0.6], [0.5, 0.5], 1, "p must sum to 1"),
        ([0.5, 0.5], [1.5, -0.5], 1, "q must be finite and not negative"),
        ([0.5, 0.5], [np.nan, 0.5], 1, "q must be finite"),
        ([0.5, 0.5], [0.5, 0.3, 0.2], 1, "same tokens; got 2 and 3"),
        ([1 / 9] * 9, [1 / 9] * 9, 1, "2 to 8 probabilities"),
        ([0.5, 0.5], [0.5, 0.5], 4, "k must be from 1 to 3; got 4"),
    ],
)
def test_what_cannot_be_enumerated_is_refused_with_the_reason(p, q, k, message) -> None:
    with pytest.raises(ValueError, match=message):
        node_outcome("sample", np.array(p), np.array(q), k)
