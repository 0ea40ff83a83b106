"""Two levels of a draft tree over a small vocabulary, worked out exactly (MATH.md 1.4, 5.1).

Which node is expanded, and how many children it gets, depends on the tokens drawn before it: that
is allowed. Dropping nodes after seeing which tokens they are is not, unless they were chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from eagle3_viz.toy_node import NodeRule, checked, most_likely, ordered_draws, walk

Path = tuple[int, ...]  # tokens from the root's child down; () is the root
Children = dict[Path, tuple[int, ...]]  # of each node that has any, in the order tested

TREE_RULES: tuple[NodeRule, ...] = ("topk", "sample", "rerank")


@dataclass(frozen=True)
class TwoTokens:
    """A model's distribution of two tokens: `first` [V], `second` [V, V], row x after token x.

    Raises ValueError when one of them is no distribution over few tokens.
    """

    first: np.ndarray
    second: np.ndarray

    def __post_init__(self) -> None:
        checked(self.first, "first")
        for token, row in enumerate(self.second):
            checked(row, f"second after token {token}")

    @property
    def joint(self) -> np.ndarray:
        """Probability [V, V] of each pair of tokens."""
        return self.first[:, None] * self.second

    def after(self, path: Path) -> np.ndarray:
        """Distribution [V] of the token that continues a path of at most one token."""
        return self.second[path[0]] if path else self.first


def two_level_output(
    rule: NodeRule, p: TwoTokens, q: TwoTokens, *, top_k: int, total: int
) -> np.ndarray:
    """Joint distribution [V, V] of the first two committed tokens under a rule of `TREE_RULES`.

    The best-scored node gets up to `top_k` children, again and again, until the tree has `total`
    nodes with the root; a score is the product of q along the path. Where one cycle commits one
    token, the target's own p gives the second. Raises ValueError for another rule.
    """
    if rule not in TREE_RULES:
        raise ValueError(f"two levels are worked out for {', '.join(TREE_RULES)}; got {rule!r}")
    joint = np.zeros_like(p.second)
    for children, probability in _trees(rule, q, top_k, total):
        first = walk(rule, p.first, q.first, children.get((), ()))
        for x, accepted in enumerate(first.accepted):
            second = walk(rule, p.second[x], q.second[x], children.get((x,), ()))
            joint[x] += probability * accepted * second.output
        joint += probability * first.refused * first.residual[:, None] * p.second
    return joint


def _trees(
    rule: NodeRule, q: TwoTokens, top_k: int, total: int
) -> Iterator[tuple[Children, float]]:
    """Every (tree, probability). `rerank` draws one node more than `total` and drops the worst."""
    if rule != "rerank":
        yield from _grown(rule, q, top_k, total - 1, {}, [((), 1.0)])
        return
    for children, probability in _grown(rule, q, top_k, total, {}, [((), 1.0)]):
        yield _reranked(children, q, total - 1), probability


def _grown(
    rule: NodeRule,
    q: TwoTokens,
    top_k: int,
    room: int,
    children: Children,
    frontier: list[tuple[Path, float]],
) -> Iterator[tuple[Children, float]]:
    """Ways to grow a tree by `room` nodes; `frontier` holds what may be expanded, with scores."""
    if not room or not frontier:
        yield children, 1.0
        return
    best = max(range(len(frontier)), key=lambda place: frontier[place][1])
    path, score = frontier[best]
    others, q_next = frontier[:best] + frontier[best + 1 :], q.after(path)
    for tokens, probability in _children(rule, q_next, min(top_k, room)):
        below = [((*path, token), score * float(q_next[token])) for token in tokens]
        deeper = others + (below if not path else [])
        grown = _grown(rule, q, top_k, room - len(tokens), children | {path: tokens}, deeper)
        for tree, rest in grown:
            yield tree, probability * rest


def _children(rule: NodeRule, q: np.ndarray, k: int) -> Iterator[tuple[tuple[int, ...], float]]:
    if rule == "topk":
        yield most_likely(q, k), 1.0
    else:
        yield from ordered_draws(q, k)


def _reranked(children: Children, q: TwoTokens, kept: int) -> Children:
    """The `kept` best-scored nodes: connected, as no parent scores below its child."""
    scores: dict[Path, float] = {}
    for path, tokens in children.items():
        above = float(np.prod([q.first[token] for token in path]))
        scores |= {(*path, token): above * float(q.after(path)[token]) for token in tokens}
    best = sorted(scores, key=lambda node: (-scores[node], len(node)))[:kept]
    return {
        path: tuple(token for token in tokens if (*path, token) in best)
        for path, tokens in children.items()
    }
