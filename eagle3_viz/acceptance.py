"""The rules that decide which drafted tokens stay (MATH.md 1), as pure functions on a tree.

accepted   a drafted token that is kept.
recovered  the token decided at a node whose children were all refused.
bonus      the token decided at a node without children, where the walk ran out of tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eagle3_viz.records import Origin
from eagle3_viz.sampling import Draws
from eagle3_viz.tree import DraftTree

TYPICAL_EPSILON, TYPICAL_DELTA = 0.09, 0.3


@dataclass(frozen=True)
class Test:
    """One child put to the test. `uniform` is NaN where nothing was drawn (greedy, typical)."""

    node: int
    p_tested: float  # p of the token after earlier siblings were removed
    accept_probability: float
    uniform: float
    accepted: bool


@dataclass(frozen=True)
class Verdict:
    """The walk: node indices from the root to the last accepted node, then one decided token.

    tokens holds what is committed: the accepted nodes' tokens and the decided one.
    """

    path: tuple[int, ...]
    tokens: tuple[int, ...]
    origin: Origin
    tests: tuple[Test, ...]

    @property
    def token(self) -> int:
        """The token the target decided after the last accepted node."""
        return self.tokens[-1]

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where each of `tokens` came from."""
        return (*(Origin.ACCEPTED for _ in self.path[1:]), self.origin)


@dataclass(frozen=True)
class Decision:
    """A verdict, and what the rule looked at.

    best  int64 [T], under greedy: the arg-max after each node; p is one there.
    p     [T, V], under every other rule: the warped target distribution after each node.
    q     [E, V], under sample: what the children of each expanded node were drawn from.
    """

    verdict: Verdict
    best: torch.Tensor | None = None
    p: torch.Tensor | None = None
    q: torch.Tensor | None = None


def children_of(parents: list[int]) -> list[list[int]]:
    """Children of each node in proposal order, from the parent of each node (-1: the root)."""
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
    return children


def accept_greedy(
    tree: DraftTree,
    best: torch.Tensor,  # int64 [T], arg-max of p after each node
) -> Verdict:
    """Descend while a child is the target's arg-max (MATH.md 1.5)."""
    tokens, parents, choices = torch.stack([tree.token, tree.parent, best]).tolist()
    children = children_of(parents)
    path, tests = [0], []
    while True:
        node = path[-1]
        for child in children[node]:
            hit = tokens[child] == choices[node]
            tests.append(Test(child, float(hit), float(hit), float("nan"), hit))
            if hit:
                path.append(child)
                break
        if path[-1] == node:
            return _verdict(path, tokens, choices[node], children[node], tests)


def accept_topk(
    tree: DraftTree,
    p: torch.Tensor,  # [T, V], warped target distribution after each node
    draws: Draws,
) -> Verdict:
    """Children chosen, not drawn: each is a point mass, tested with its p (MATH.md 1.2).

    q plays no part. After a refusal the child is removed from p and p is renormalized.
    """
    rows = torch.stack([tree.token.double(), tree.parent.double(), _p_of_nodes(tree, p).double()])
    tokens, parents, p_node = rows.tolist()
    children = children_of([int(parent) for parent in parents])
    path, tests = [0], []
    while True:
        node, left = path[-1], 1.0
        for child in children[node]:
            p_tested = min(1.0, p_node[child] / left) if left > 0.0 else 0.0
            accepted, u = draws.accepts(p_tested)
            tests.append(Test(child, p_tested, p_tested, u, accepted))
            if accepted:
                path.append(child)
                break
            left -= p_node[child]
        if path[-1] == node:
            refused = [int(tokens[child]) for child in children[node]]
            residual = residual_topk(p[node], refused)
            token = int(draws.token(residual))
            return _verdict(path, tokens, token, children[node], tests)


def accept_sample(
    tree: DraftTree,
    p: torch.Tensor,  # [T, V], warped target distribution after each node
    q: torch.Tensor,  # [E, V], what the children of each expanded node were drawn from
    draws: Draws,
) -> Verdict:
    """Children drawn from q without replacement, tested as drawn (MATH.md 1.1, 1.3).

    Rows of `q` stand as `tree.expanded`. A child is kept with min(1, p/q); after a refusal p
    becomes norm(max(0, p - q)) and q loses the child.
    """
    tokens, parents, pool_index = torch.stack([tree.token, tree.parent, tree.pool_index]).tolist()
    row_of = {index: row for row, index in enumerate(tree.expanded.tolist())}
    children = children_of(parents)
    path, tests = [0], []
    while True:
        node, left = path[-1], p[path[-1]]
        if children[node]:
            drawn = tree.token[children[node]]
            tested, chances, left = residual_chain(left, q[row_of[pool_index[node]]], drawn)
            columns = torch.stack([tested.double(), chances.double()]).tolist()
            for child, p_tested, chance in zip(children[node], *columns, strict=True):
                accepted, u = draws.accepts(chance)
                tests.append(Test(child, p_tested, chance, u, accepted))
                if accepted:
                    path.append(child)
                    break
        if path[-1] == node:
            return _verdict(path, tokens, int(draws.token(left)), children[node], tests)


def accept_typical(
    tree: DraftTree,
    p: torch.Tensor,  # [T, V], warped target distribution after each node
    draws: Draws,
) -> Verdict:
    """The first child that is likely enough stays (MATH.md 1.6): changes the distribution.

    A child passes when p(child) > `typical_threshold` of its parent; when none does, a token is
    drawn from p.
    """
    rows = torch.stack([tree.token.double(), tree.parent.double(), _p_of_nodes(tree, p).double()])
    tokens, parents, p_node = rows.tolist()
    thresholds = typical_threshold(p).tolist()
    children = children_of([int(parent) for parent in parents])
    path, tests = [0], []
    while True:
        node = path[-1]
        for child in children[node]:
            passes = p_node[child] > thresholds[node]
            tests.append(Test(child, p_node[child], float(passes), float("nan"), passes))
            if passes:
                path.append(child)
                break
        if path[-1] == node:
            return _verdict(path, tokens, int(draws.token(p[node])), children[node], tests)


def typical_threshold(p: torch.Tensor) -> torch.Tensor:
    """min(epsilon, delta * exp(-H(p))) [...] of p [..., V]: the more open the choice, the lower."""
    entropy = -torch.xlogy(p, p).sum(-1)
    return (TYPICAL_DELTA * (-entropy).exp()).clamp(max=TYPICAL_EPSILON)


def residual_chain(
    p: torch.Tensor,  # [V]
    q: torch.Tensor,  # [V]
    drawn: torch.Tensor,  # int64 [k], tokens drawn from q without replacement, as drawn
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Recursive rejection (MATH.md 1.3) on the assumption that every child is refused.

    Returns for each child p_i(c_i) and its chance min(1, p_i(c_i) / q_i(c_i)), both [k], and what
    is left of p [V], normalized, after the last refusal.
    """
    tested, chances, left, q = [], [], p, q.clone()
    for child in drawn.split(1):
        tested.append(left[child])
        chances.append((left[child] / q[child]).clamp(max=1.0))
        left = residual_sample(left, q)
        left = left / left.sum()
        q[child] = 0.0
        q = q / q.sum().clamp(min=torch.finfo(q.dtype).tiny)
    return torch.cat(tested), torch.cat(chances), left


def residual_topk(p: torch.Tensor, refused: list[int]) -> torch.Tensor:
    """p [V] with the refused tokens removed, not normalized; p itself when nothing is left.

    Nothing can be left only by rounding: a last child of probability one is never refused.
    """
    if not refused:
        return p
    left = p.clone()
    left[refused] = 0.0
    return torch.where(left.sum() > 0, left, p)


def residual_sample(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """max(0, p - q) [V], not normalized; p itself when nothing is left.

    Nothing can be left only by rounding: where p equals q no draft is refused.
    """
    left = (p - q).clamp(min=0.0)
    return torch.where(left.sum() > 0, left, p)


def _p_of_nodes(tree: DraftTree, p: torch.Tensor) -> torch.Tensor:
    """p [T] of each node's token given its parent; the root's entry has no meaning."""
    return p[tree.parent.clamp(min=0), tree.token]


def _verdict(
    path: list[int], tokens: list[float], decided: int, children: list[int], tests: list[Test]
) -> Verdict:
    without_children = Origin.BONUS if tests else Origin.PLAIN
    origin = Origin.RECOVERED if children else without_children
    committed = (*(int(tokens[node]) for node in path[1:]), decided)
    return Verdict(tuple(path), committed, origin, tuple(tests))
