"""Trees whose nodes are drawn from q, for the `sample` rule (MATH.md 1.3, 1.4).

The children of a node are drawn without replacement and stay in the order drawn. What is drawn
next may depend on everything drawn before; what was drawn is never dropped.
"""

from __future__ import annotations

import heapq

import torch

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.sampling import Draws, warp
from eagle3_viz.tree import DraftTree, Level, Mark, Stepper, make_pool, whole_pool


def build_sampled(
    root: int, stepper: Stepper, shape: TreeShape, sampling: Sampling, draws: Draws, mark: Mark
) -> DraftTree:
    """The best-scored node draws up to top_k children, again and again, until `total` is reached.

    A node's score is the sum of log q along its path. The last node to draw may get fewer
    children than top_k, and so may one whose q has fewer tokens (top-p). `mark` as in
    `build_dynamic`.
    """
    drawing = _Drawing(stepper, sampling, draws, mark)
    frontier = [(0.0, -1)]
    while frontier and len(drawing.nodes) < shape.total - 1:
        _, parent = heapq.heappop(frontier)
        drawing.expand([parent])
        room = shape.total - 1 - len(drawing.nodes)
        for child in drawing.draw_children(parent, min(shape.top_k, room)):
            if drawing.depth(child) < shape.levels:
                heapq.heappush(frontier, (-drawing.score(child), child))
    return drawing.tree(root, shape.levels)


def build_sampled_fixed(
    root: int, stepper: Stepper, fixed: FixedTree, sampling: Sampling, draws: Draws, mark: Mark
) -> DraftTree:
    """A fixed tree whose child of rank r is the r-th one drawn, where q has that many tokens."""
    drawing = _Drawing(stepper, sampling, draws, mark)
    node_of: dict[tuple[int, ...], int] = {(): -1}
    counts = fixed.children()
    for level in range(fixed.levels):
        parents = [path for path in counts if len(path) == level and path in node_of]
        if not parents:
            break
        drawing.expand([node_of[path] for path in parents])
        for path in parents:
            drawn = drawing.draw_children(node_of[path], counts[path])
            node_of |= {(*path, rank): child for rank, child in enumerate(drawn)}
    return drawing.tree(root, fixed.levels)


class _Drawing:
    """A tree as it is drawn. Nodes are counted in the order drawn, the root is -1."""

    def __init__(self, stepper: Stepper, sampling: Sampling, draws: Draws, mark: Mark) -> None:
        self._stepper, self._sampling, self._draws, self._mark = stepper, sampling, draws, mark
        self.nodes: list[Level] = []  # one candidate each
        self._parents: list[int] = []
        self._fed: dict[int, int] = {-1: 0}  # as `Stepper.step` counts
        self._expanded: list[int] = []
        self._q: list[torch.Tensor] = []  # log q, [m, DV] a forward
        self._rows: dict[int, torch.Tensor] = {}

    def depth(self, node: int) -> int:
        return self.nodes[node].depth if node >= 0 else 0

    def score(self, node: int) -> float:
        """Sum of log q along the path."""
        return float(self.nodes[node].score)

    def expand(self, nodes: list[int]) -> None:
        """One draft forward over nodes of one depth: q after each of them."""
        if nodes == [-1]:
            logits = self._stepper.root_logits()[None]
        else:
            ids = torch.cat([self.nodes[node].ids for node in nodes])
            above = [self._fed[self._parents[node]] for node in nodes]
            parents = torch.tensor(above, device=ids.device)
            self._mark("tree")
            logits = self._stepper.step(ids, parents, self.depth(nodes[0]))
            self._fed |= {node: len(self._fed) + i for i, node in enumerate(nodes)}
        q = warp(logits, self._sampling).log()
        self._mark("draft")
        self._q.append(q)
        self._rows |= dict(zip(nodes, q, strict=True))
        self._expanded += nodes

    def draw_children(self, parent: int, count: int) -> list[int]:
        """Up to `count` children, one after another and without replacement."""
        log_q = self._rows[parent]
        weights, drawn = log_q.exp(), []
        supported = int((~(weights <= 0)).sum())  # NaN is drawn, and refused where all is judged
        for _ in range(min(count, supported)):
            token = self._draws.token(weights)[None]
            logprob = log_q[token]
            above = self.nodes[parent].score if parent >= 0 else torch.zeros_like(logprob)
            rank = (log_q > logprob).sum()[None]
            node = len(self.nodes)
            index = token.new_full((1,), parent)
            depth = self.depth(parent) + 1
            self.nodes.append(Level(depth, token, logprob, above + logprob, index, rank))
            self._parents.append(parent)
            weights[token] = 0.0
            drawn.append(node)
        return drawn

    def tree(self, root: int, levels: int) -> DraftTree:
        """Everything drawn, below `root`."""
        pool = make_pool(self.nodes, self._stepper.target_ids)
        tree = whole_pool(
            root,
            pool,
            expanded=torch.tensor(self._expanded, device=pool.token.device),
            q_logprobs=tuple(self._q),
            levels=levels,
        )
        self._mark("tree")
        return tree
