"""The rules preserve p exactly (MATH.md 5.1), and the wrong ones are caught doing otherwise."""

from __future__ import annotations

import pytest
import torch

from eagle3_viz.acceptance import (
    TYPICAL_DELTA,
    TYPICAL_EPSILON,
    accept_greedy,
    accept_sample,
    accept_topk,
    accept_typical,
    residual_chain,
    typical_threshold,
)
from eagle3_viz.records import Origin
from eagle3_viz.tree import DraftTree, root_only
from tests.enumeration import exact_distribution
from tests.tiny_models import tree_of

V = 6


def distribution(seed: int, kind: str) -> torch.Tensor:
    """A distribution over V tokens, float64."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(V, dtype=torch.float64, generator=generator) ** 3 + 1e-3
    if kind == "zeros":
        p[torch.randperm(V, generator=generator)[:3]] = 0.0
    elif kind == "one-hot":
        p = torch.zeros(V, dtype=torch.float64)
        p[seed % V] = 1.0
    return p / p.sum()


def target(kind: str, seed: int):
    """p after any text, as a function of the text: independent of trees."""
    return lambda text: distribution(hash((seed, text)) % 2**31, kind)


def joint(p_of, length: int) -> dict[tuple[int, ...], float]:
    """The target's own probability of each text of `length` tokens after the empty one."""
    texts = {(): 1.0}
    for _ in range(length):
        texts = {
            (*text, token): mass * float(p)
            for text, mass in texts.items()
            for token, p in enumerate(p_of(text))
            if p > 0
        }
    return texts


def complete(committed: dict[tuple[int, ...], float], p_of, length: int) -> dict:
    """Continue committed texts with the target itself until all have `length` tokens."""
    done: dict[tuple[int, ...], float] = {}
    while committed:
        text, mass = committed.popitem()
        if len(text) >= length:
            done[text[:length]] = done.get(text[:length], 0.0) + mass
            continue
        for token, p in enumerate(p_of(text)):
            if p > 0:
                longer = (*text, token)
                committed[longer] = committed.get(longer, 0.0) + mass * float(p)
    return done


def assert_same(found: dict, expected: dict) -> None:
    for text in found.keys() | expected.keys():
        assert found.get(text, 0.0) == pytest.approx(expected.get(text, 0.0), abs=1e-12)


TREES = {
    "chain": ([0, 0, 1, 2], [-1, 0, 1, 2]),
    "three children": ([0, 3, 0, 5], [-1, 0, 0, 0]),
    "two levels": ([0, 2, 0, 4, 1, 5, 3], [-1, 0, 0, 0, 1, 1, 2]),
    "deep first child": ([0, 1, 4, 0, 2, 5], [-1, 0, 0, 1, 3, 3]),
    "root alone": ([0], [-1]),
}


def p_rows(tree: DraftTree, p_of) -> torch.Tensor:
    texts: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        texts.append((*texts[int(tree.parent[node])], int(tree.token[node])))
    return torch.stack([p_of(text) for text in texts])


@pytest.mark.parametrize("kind", ["generic", "zeros", "one-hot"])
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", range(4))
def test_topk_rule_preserves_p_exactly(name, kind, seed) -> None:
    tree, p_of = tree_of(*TREES[name]), target(kind, seed)
    rows = p_rows(tree, p_of)
    committed = exact_distribution(lambda draws: accept_topk(tree, rows, draws).tokens)
    length = tree.levels + 1
    assert_same(complete(committed, p_of, length), joint(p_of, length))


@pytest.mark.parametrize("pair", ["generic", "q zeros", "p zeros", "disjoint", "equal", "one-hot"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("length", [1, 2, 3])
def test_sample_chain_preserves_p_exactly(pair, seed, length) -> None:
    p_of, q_of = chain_pair(pair, seed)

    def run(draws) -> tuple[int, ...]:
        text: tuple[int, ...] = ()
        for _ in range(length):
            text = (*text, int(draws.token(q_of(text))))
        tree = tree_of([0, *text], list(range(-1, length)))
        texts = [text[:i] for i in range(length + 1)]
        p = torch.stack([p_of(t) for t in texts])
        q = torch.stack([q_of(t) for t in texts[:-1]])
        return accept_sample(tree, p, q, draws).tokens

    committed = exact_distribution(run)
    assert_same(complete(committed, p_of, length + 1), joint(p_of, length + 1))


def chain_pair(pair: str, seed: int):
    p_of, q_of = target("generic", seed), target("generic", seed + 100)
    if pair == "q zeros":
        q_of = target("zeros", seed + 100)
    elif pair == "p zeros":
        p_of = target("zeros", seed)
    elif pair == "equal":
        q_of = p_of
    elif pair == "one-hot":
        p_of = target("one-hot", seed)
    elif pair == "disjoint":
        half = torch.tensor([1.0, 0, 1, 0, 1, 0], dtype=torch.float64)
        p_of, q_of = masked(p_of, half), masked(q_of, 1 - half)
    return p_of, q_of


def masked(of, mask: torch.Tensor):
    return lambda text: of(text) * mask / (of(text) * mask).sum()


P_NAMED = torch.tensor([0.40, 0.25, 0.15, 0.10, 0.06, 0.04], dtype=torch.float64)
Q_NAMED = torch.tensor([0.10, 0.50, 0.20, 0.10, 0.05, 0.05], dtype=torch.float64)


def test_ratio_test_on_chosen_tokens_does_not_preserve_p() -> None:
    """The wrong rule of MATH.md 1.2, on a named pair: shows that the enumeration can fail."""

    def ratio_rule(draws) -> tuple[int, ...]:
        child = int(Q_NAMED.argmax())
        accepted, _ = draws.accepts(min(1.0, float(P_NAMED[child] / Q_NAMED[child])))
        if accepted:
            return (child,)
        return (int(draws.token((P_NAMED - Q_NAMED).clamp(min=0))),)

    found = exact_distribution(ratio_rule)
    error = max(abs(found.get((t,), 0.0) - float(P_NAMED[t])) for t in range(V))
    assert error > 0.1


def test_greedy_descends_along_the_arg_max_and_stops_at_the_first_miss() -> None:
    tree = tree_of([0, 2, 0, 4, 1, 5, 3], [-1, 0, 0, 0, 1, 1, 2])
    verdict = accept_greedy(tree, torch.tensor([0, 5, 4, 1, 1, 1, 2]))
    assert verdict.path == (0, 2) and verdict.tokens == (0, 4)
    assert verdict.origin is Origin.RECOVERED
    fate = {test.node: test.accepted for test in verdict.tests}
    assert fate == {1: False, 2: True, 6: False}


def test_greedy_takes_a_bonus_at_a_leaf_and_a_plain_token_without_a_tree() -> None:
    chain = tree_of([0, 2, 0], [-1, 0, 1])
    assert accept_greedy(chain, torch.tensor([2, 0, 5])).origin is Origin.BONUS
    alone = root_only(9, torch.device("cpu"))
    assert accept_greedy(alone, torch.tensor([3])).origin is Origin.PLAIN


def test_each_tested_sibling_gets_a_fresh_uniform_and_the_renormalized_p() -> None:
    class Refusing:
        def __init__(self) -> None:
            self.asked: list[float] = []

        def accepts(self, probability: float) -> tuple[bool, float]:
            self.asked.append(probability)
            return False, 0.9 + len(self.asked) / 100

        def token(self, weights: torch.Tensor) -> torch.Tensor:
            return weights.argmax()

    draws, tree = Refusing(), tree_of([0, 1, 0, 2], [-1, 0, 0, 0])
    verdict = accept_topk(tree, P_NAMED[None].repeat(4, 1), draws)
    assert draws.asked == pytest.approx([0.25, 0.40 / 0.75, 0.15 / 0.35])
    assert [test.uniform for test in verdict.tests] == pytest.approx([0.91, 0.92, 0.93])
    assert verdict.tokens == (3,)


def test_a_token_of_probability_zero_is_never_accepted() -> None:
    class ZeroDraws:
        def accepts(self, probability: float) -> tuple[bool, float]:
            return probability > 0.0, 0.0

        def token(self, weights: torch.Tensor) -> torch.Tensor:
            return weights.argmax()

    p = torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]], dtype=torch.float64).repeat(3, 1)
    verdict = accept_topk(tree_of([0, 0, 1], [-1, 0, 0]), p, ZeroDraws())
    assert verdict.tokens[0] == 1


class OneToken:
    """Draws the token it is told and refuses to be asked for anything else."""

    def __init__(self, token: int) -> None:
        self.choice, self.asked = token, []

    def token(self, weights: torch.Tensor) -> torch.Tensor:
        self.asked.append(weights.tolist())
        return torch.tensor(self.choice)


def test_the_typical_threshold_is_epsilon_until_the_entropy_lowers_it() -> None:
    half, spread = [0.5, 0.5, 0.0, 0.0, 0.0, 0.0], [1 / V] * V
    certain, fine = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1 / 6000] * 6000
    thresholds = typical_threshold(torch.tensor([certain, half, spread], dtype=torch.float64))
    # exp(-H) of a uniform choice among n is 1 / n: 0.3, 0.15 and 0.05 against 0.09
    assert thresholds.tolist() == pytest.approx(
        [TYPICAL_EPSILON, TYPICAL_EPSILON, TYPICAL_DELTA / V]
    )
    assert float(typical_threshold(torch.tensor(fine))) == pytest.approx(TYPICAL_DELTA / 6000)
    assert (TYPICAL_EPSILON, TYPICAL_DELTA) == (0.09, 0.3)


def test_typical_keeps_the_first_child_above_the_threshold_even_where_a_later_is_likelier() -> None:
    p = torch.tensor([0.05, 0.1, 0.6, 0.25, 0.0, 0.0], dtype=torch.float64)
    draws = OneToken(3)
    tree = tree_of([3, 0, 1, 2, 5], [-1, 0, 0, 0, 2])
    verdict = accept_typical(tree, p.repeat(5, 1), draws)
    assert verdict.path == (0, 2)  # 0.05 < 0.09 is passed over, 0.1 > 0.09 stays, 0.6 is not asked
    assert verdict.tokens == (1, 3)
    assert verdict.origin is Origin.RECOVERED  # the child of node 2 has p 0
    assert [(t.node, t.accepted) for t in verdict.tests] == [(1, False), (2, True), (4, False)]
    assert [t.p_tested for t in verdict.tests] == pytest.approx([0.05, 0.1, 0.0])
    assert [t.accept_probability for t in verdict.tests] == [0.0, 1.0, 0.0]
    assert all(t.uniform != t.uniform for t in verdict.tests)
    assert draws.asked == [p.tolist()]  # refusals take nothing off p


def test_typical_asks_each_node_by_the_entropy_of_its_own_p() -> None:
    """0.08 is too little where p is sharp and enough where p is open."""
    sharp = torch.tensor([0.92, 0.08, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    open_ = torch.tensor([0.2, 0.08, 0.2, 0.2, 0.2, 0.12], dtype=torch.float64)
    tree = tree_of([3, 1, 1], [-1, 0, 1])
    verdict = accept_typical(tree, torch.stack([open_, sharp, sharp]), OneToken(0))
    assert (verdict.path, verdict.tokens, verdict.origin) == ((0, 1), (1, 0), Origin.RECOVERED)
    verdict = accept_typical(tree, torch.stack([open_, open_, sharp]), OneToken(4))
    assert (verdict.path, verdict.tokens, verdict.origin) == ((0, 1, 2), (1, 1, 4), Origin.BONUS)


def test_typical_does_not_preserve_p() -> None:
    p, tree = P_NAMED, tree_of([3, 0], [-1, 0])
    found = exact_distribution(
        lambda draws: accept_typical(tree, p[None].repeat(2, 1), draws).tokens[:1]
    )
    assert float(p[0]) < 0.5
    assert found == {(0,): 1.0}


def test_a_lone_root_draws_from_p_under_typical() -> None:
    verdict = accept_typical(root_only(3, torch.device("cpu")), P_NAMED[None], OneToken(2))
    assert (verdict.path, verdict.tokens, verdict.origin) == ((0,), (2,), Origin.PLAIN)


def test_the_residual_chain_is_recursive_rejection_by_hand() -> None:
    p = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)
    q = torch.tensor([0.2, 0.4, 0.3, 0.1], dtype=torch.float64)
    tested, chances, left = residual_chain(p, q, torch.tensor([1, 2]))
    # after token 1: p becomes (0.3, 0, 0, 0) / 0.3, q (0.2, 0, 0.3, 0.1) / 0.6
    assert tested.tolist() == pytest.approx([0.3, 0.0])
    assert chances.tolist() == pytest.approx([0.75, 0.0])
    assert left.tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0])
    assert q.tolist() == [0.2, 0.4, 0.3, 0.1]  # what it was given stays


def test_the_residual_chain_divides_by_what_is_left_of_q() -> None:
    p = torch.tensor([0.1, 0.3, 0.3, 0.3], dtype=torch.float64)
    q = torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64)
    tested, chances, left = residual_chain(p, q, torch.tensor([0, 1, 2]))
    # each refusal leaves an even choice of what remains, in p (3, then 2 tokens) and in q (3, 2)
    assert tested.tolist() == pytest.approx([0.1, 1 / 3, 1 / 3])
    assert chances.tolist() == pytest.approx([1 / 7, 1.0, 2 / 3])
    assert float(left.sum()) == pytest.approx(1.0)
