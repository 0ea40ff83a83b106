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


@dataclass(frozen=True)
class Test:
    """One child put to the test. `uniform` is NaN where nothing was drawn (greedy)."""

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


def accept_sample_chain(
    tree: DraftTree,
    p: torch.Tensor,  # [T, V], warped target distribution after each node
    q: torch.Tensor,  # [T - 1, V], distribution each drafted token was drawn from, zero-filled
    draws: Draws,
) -> Verdict:
    """A chain drawn from q: accept with min(1, p/q), else draw the residual (MATH.md 1.1).

    Row i of `q` is the distribution after node i. Raises ValueError when the tree is no chain.
    """
    steps = torch.arange(len(tree) - 1, device=p.device)
    drafted = tree.token[1:]
    columns = [drafted, tree.parent[1:], p[steps, drafted], q[steps, drafted]]
    tokens, parents, p_node, q_node = torch.stack([c.double() for c in columns]).tolist()
    tokens = [-1, *tokens]
    if parents != list(range(len(parents))):
        raise ValueError("the sample rule takes a chain here; this tree branches")
    tests: list[Test] = []
    for node, (p_x, q_x) in enumerate(zip(p_node, q_node, strict=True)):
        ratio = min(1.0, p_x / q_x)
        accepted, u = draws.accepts(ratio)
        tests.append(Test(node + 1, p_x, ratio, u, accepted))
        if not accepted:
            token = int(draws.token(residual_sample(p[node], q[node])))
            return _verdict(list(range(node + 1)), tokens, token, [node + 1], tests)
    token = int(draws.token(p[-1]))
    return _verdict(list(range(len(tree))), tokens, token, [], tests)


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
