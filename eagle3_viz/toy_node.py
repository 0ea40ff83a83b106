"""One node over a small vocabulary, worked out exactly: which rules preserve p (MATH.md 5.1).

Nothing is drawn. Every ordered draw of children is listed with its probability, and along each
list every outcome of the tests, so that what is committed has a probability and not a frequency.
Independent of the engine, which works on tensors and random draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

NodeRule = Literal["topk", "sample", "typical", "ratio", "rerank", "reorder"]
NODE_RULES: tuple[NodeRule, ...] = get_args(NodeRule)
LOSSLESS: tuple[NodeRule, ...] = ("topk", "sample")
RELAXED: tuple[NodeRule, ...] = ("typical",)  # changes the distribution and says so
WRONG: tuple[NodeRule, ...] = ("ratio", "rerank", "reorder")  # claim to preserve p and do not

MAX_VOCABULARY, MAX_CHILDREN = 8, 3
"""Beyond these the enumeration is no longer small: 8 tokens and 4 draws make 1680 orders."""

EPSILON, DELTA = 0.09, 0.3  # of typical acceptance (MATH.md 1.6)
_SUM_TOLERANCE = 1e-9

_DRAWN: tuple[NodeRule, ...] = ("sample", "rerank", "reorder")


@dataclass(frozen=True)
class ChildTest:
    """One child put to the test, after all before it were refused."""

    token: int
    p: float  # when tested: earlier siblings are accounted for
    q: float  # likewise
    accept: float  # probability that it is accepted when tested
    reach: float  # probability that it is tested, given the children


@dataclass(frozen=True)
class Walk:
    """One list of children, tested one after another.

    drawn        the tokens in the order proposed; differs from the tests' where a rule drops or
                 re-orders them.
    probability  of this proposal; 1 where the children are chosen.
    tests        one a child, in the order tested.
    residual     [V], what is committed from once all are refused; zeros where that cannot happen.
    """

    drawn: tuple[int, ...]
    probability: float
    tests: tuple[ChildTest, ...]
    residual: np.ndarray

    @property
    def refused(self) -> float:
        """Probability that all children are refused."""
        last = self.tests[-1] if self.tests else None
        return last.reach * (1.0 - last.accept) if last else 1.0

    @property
    def accepted(self) -> np.ndarray:
        """Probability [V] that a token is committed as an accepted child."""
        mass = np.zeros_like(self.residual)
        for test in self.tests:
            mass[test.token] += test.reach * test.accept
        return mass

    @property
    def output(self) -> np.ndarray:
        """Distribution [V] of the token committed after the node, given these children."""
        return self.accepted + self.refused * self.residual


@dataclass(frozen=True)
class NodeOutcome:
    """Everything that may happen at a node under one rule. p and q are [V], float64."""

    rule: NodeRule
    p: np.ndarray
    q: np.ndarray
    walks: tuple[Walk, ...]

    @property
    def accepted(self) -> np.ndarray:
        """Probability [V] that a token is committed as an accepted child."""
        return np.sum([walk.probability * walk.accepted for walk in self.walks], axis=0)

    @property
    def recovered(self) -> np.ndarray:
        """Probability [V] that a token is committed after all children were refused."""
        left = [walk.probability * walk.refused * walk.residual for walk in self.walks]
        return np.sum(left, axis=0)

    @property
    def output(self) -> np.ndarray:
        """Distribution [V] of the committed token."""
        return self.accepted + self.recovered

    @property
    def acceptance(self) -> float:
        """Probability that some child is accepted."""
        return float(self.accepted.sum())

    @property
    def error(self) -> float:
        """max |output - p| over the vocabulary; 0, up to rounding, where the rule is lossless."""
        return float(np.abs(self.output - self.p).max())


def node_outcome(rule: NodeRule, p: np.ndarray, q: np.ndarray, k: int) -> NodeOutcome:
    """What `rule` commits after a node with up to `k` children; p and q are [V].

    Raises ValueError when p or q is no distribution, or when V or k is too large to enumerate.
    """
    p, q = checked(p, "p"), checked(q, "q")
    if p.shape != q.shape:
        raise ValueError(f"p and q must be over the same tokens; got {len(p)} and {len(q)}")
    if not 1 <= k <= MAX_CHILDREN:
        raise ValueError(f"k must be from 1 to {MAX_CHILDREN}; got {k}")
    walks = [
        walk(rule, p, q, children, drawn=drawn, probability=probability)
        for drawn, children, probability in proposals(rule, q, k)
    ]
    return NodeOutcome(rule, p, q, tuple(walks))


def checked(weights: np.ndarray, name: str) -> np.ndarray:
    """`weights` [V] as float64. Raises ValueError when it is no distribution over few tokens."""
    values = np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or not 2 <= len(values) <= MAX_VOCABULARY:
        raise ValueError(
            f"{name} must be one row of 2 to {MAX_VOCABULARY} probabilities; got {values.shape}"
        )
    if not np.isfinite(values).all() or values.min() < 0.0:
        raise ValueError(f"{name} must be finite and not negative; got {values.tolist()}")
    if abs(values.sum() - 1.0) > _SUM_TOLERANCE:
        raise ValueError(f"{name} must sum to 1; got {values.sum()}: normalize it first")
    return values


def proposals(
    rule: NodeRule, q: np.ndarray, k: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """Every (proposed, kept in the order tested, probability) of a rule's children.

    `rerank` draws one child more than it keeps; `reorder` sorts what it drew. Both by q.
    """
    if rule not in _DRAWN:
        chosen = most_likely(q, k)
        yield chosen, chosen, 1.0
        return
    for drawn, probability in ordered_draws(q, k + 1 if rule == "rerank" else k):
        by_q = sorted(drawn, key=lambda token: -q[token])
        match rule:
            case "rerank":
                best = by_q[:k]
                yield drawn, tuple(token for token in drawn if token in best), probability
            case "reorder":
                yield drawn, tuple(by_q), probability
            case _:
                yield drawn, drawn, probability


def most_likely(q: np.ndarray, k: int) -> tuple[int, ...]:
    """The up to `k` tokens of largest q above zero, ties by the lower index."""
    return tuple(int(token) for token in np.argsort(-q, kind="stable")[:k] if q[token] > 0.0)


def ordered_draws(q: np.ndarray, k: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every (order, probability) of up to `k` draws from q [V] without replacement.

    Fewer where fewer tokens have any probability.
    """
    supported = [int(token) for token in np.flatnonzero(q)]
    if k == 0 or not supported:
        yield (), 1.0
        return
    for first in supported:
        for rest, probability in ordered_draws(without(q, first), k - 1):
            yield (first, *rest), float(q[first]) * probability


def walk(
    rule: NodeRule,
    p: np.ndarray,
    q: np.ndarray,
    children: tuple[int, ...],
    *,
    drawn: tuple[int, ...] = (),
    probability: float = 1.0,
) -> Walk:
    """The tests of `children` in this order, under `rule`; p and q are [V]."""
    tests, reach = [], 1.0
    for child in children:
        accept = accept_probability(rule, p, q, child)
        tests.append(ChildTest(child, float(p[child]), float(q[child]), accept, reach))
        reach *= 1.0 - accept
        p, q = after_refusal(rule, p, q, child), without(q, child)
    return Walk(drawn or children, probability, tuple(tests), p)


def accept_probability(rule: NodeRule, p: np.ndarray, q: np.ndarray, child: int) -> float:
    """With which probability `child` is accepted; p and q [V] as they are when it is tested."""
    p_child, q_child = float(p[child]), float(q[child])
    match rule:
        case "topk":
            return min(1.0, p_child)
        case "typical":
            return float(p_child > typical_threshold(p))
        case _:
            return min(1.0, p_child / q_child)


def typical_threshold(p: np.ndarray) -> float:
    """min(eps, delta exp(-H(p))) of p [V], the p above which a token is typical (MATH.md 1.6)."""
    some = p[p > 0.0]
    return min(EPSILON, DELTA * float(np.exp((some * np.log(some)).sum())))


def after_refusal(rule: NodeRule, p: np.ndarray, q: np.ndarray, child: int) -> np.ndarray:
    """What p [V] becomes once `child` is refused."""
    match rule:
        case "topk":
            return without(p, child)
        case "typical":
            return p
        case _:
            return normalized(np.maximum(p - q, 0.0))


def without(weights: np.ndarray, token: int) -> np.ndarray:
    """`weights` [V] with `token` zeroed, normalized."""
    rest = weights.copy()
    rest[token] = 0.0
    return normalized(rest)


def normalized(weights: np.ndarray) -> np.ndarray:
    """`weights` [V] over their sum. Zeros stay zeros: they stand for what cannot happen, and mass
    that reached them all the same would be missing from the output."""
    total = weights.sum()
    return weights / total if total > 0.0 else weights
