"""Rules that look right and are not (MATH.md 5.1), put into the engine: a test must reject them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from eagle3_viz.acceptance import Decision, accept_sample
from eagle3_viz.config import Rule
from eagle3_viz.loop import Loop, spread_q
from eagle3_viz.sampling import warp
from eagle3_viz.tree import DraftTree, make_tree, top_stable


class RatioLoop(Loop):
    """Tests the draft's most likely tokens, which were chosen, as if they had been drawn from q."""

    def accept(self, tree: DraftTree, logits: torch.Tensor) -> Decision:
        """min(1, p/q), and max(0, p - q) after a refusal."""
        if self.draft is None or len(tree) == 1:
            return super().accept(tree, logits)
        p = warp(logits, self.config.sampling)
        q = spread_q(tree, self.draft, p.shape[-1])
        return Decision(accept_sample(tree, p, q, self.draws), p=p, q=q)


class RerankLoop(Loop):
    """Draws a tree and drops the worse half of it before verification, as EAGLE-2 does."""

    def propose(self, n: int) -> DraftTree:
        """The best-scored half of the nodes drawn, in the order drawn."""
        tree = super().propose(n)
        if tree.pool is None:
            return tree
        best = top_stable(tree.pool.score, (len(tree.pool.score) + 1) // 2)[1]
        return with_nodes(tree, [0, *(best.sort().values + 1).tolist()])


class ReorderLoop(Loop):
    """Draws siblings and tests the most confident one first."""

    def propose(self, n: int) -> DraftTree:
        """All nodes drawn, siblings by falling q."""
        tree = super().propose(n)
        if tree.pool is None:
            return tree
        scores = [0.0, *tree.pool.score.tolist()]
        depths = tree.depth.tolist()
        return with_nodes(
            tree, sorted(range(len(tree)), key=lambda node: (depths[node], -scores[node]))
        )


def with_nodes(tree: DraftTree, order: Sequence[int]) -> DraftTree:
    """`tree` with these of its nodes, in this order: the root first, parents before children."""
    nodes = torch.tensor(order, device=tree.token.device)
    place = torch.full_like(tree.token, -1)
    place[nodes] = torch.arange(len(nodes), device=nodes.device)
    parent = place[tree.parent[nodes].clamp(min=0)]
    parent[0] = -1
    return make_tree(
        token=tree.token[nodes],
        parent=parent,
        depth=tree.depth[nodes],
        pool_index=tree.pool_index[nodes],
        pool=tree.pool,
        expanded=tree.expanded,
        q_logprobs=tree.q_logprobs,
        levels=tree.levels,
    )


WRONG_RULES: dict[str, tuple[type[Loop], Rule]] = {
    "ratio": (RatioLoop, "topk"),
    "rerank": (RerankLoop, "sample"),
    "reorder": (ReorderLoop, "sample"),
}
"""By the names of the toy node: the loop that does it, and the rule it is built on."""
