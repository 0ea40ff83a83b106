"""EAGLE-2's dynamic tree (MATH.md 2, REFERENCE.md b), built without a host synchronization."""

from __future__ import annotations

from functools import cache

import torch

from eagle3_viz.config import TreeShape
from eagle3_viz.likely_children import Children, likely_children
from eagle3_viz.tree import CandidatePool, DraftTree, Mark, Stepper, make_tree, top_stable


def build_dynamic(root: int, stepper: Stepper, shape: TreeShape, mark: Mark) -> DraftTree:
    """EAGLE-2's dynamic tree: expand the most promising nodes, keep the best-scored ones.

    A node's score is the sum of draft log-probabilities along its path. Level 1 is the root's
    top-k; then `depth` times the top-k nodes of the newest level get top-k children each. The
    total - 1 best of all candidates are kept; since a parent never scores below its child and
    stands before it, the kept set is connected. `mark("draft")` is called after each forward and
    `mark("tree")` after the selection that follows it.
    """
    k = shape.top_k
    logits = stepper.root_logits()[None]
    mark("draft")
    levels = [likely_children(logits, logits.new_zeros(1), k)]
    expanded = [levels[0].ids.new_full((1,), -1)]
    start = fed = 0  # the newest level's first place in the pool, its parents' first among the fed
    for level in range(1, shape.levels):
        newest = levels[-1]
        beam_score, flat = top_stable(newest.score.flatten(), k)
        beam_ids, beam_parents = newest.ids.flatten()[flat], fed + flat // k
        expanded.append(start + flat)
        mark("tree")
        logits = stepper.step(beam_ids, beam_parents, level)
        mark("draft")
        start, fed = start + newest.ids.numel(), fed + len(newest.ids)
        levels.append(likely_children(logits, beam_score, k))
    fed_nodes = torch.cat(expanded)
    pool = _pool(levels, fed_nodes, stepper.target_ids)
    tree = _keep_best(root, pool, shape, fed_nodes, tuple(part.log_q for part in levels))
    mark("tree")
    return tree


def _pool(
    levels: list[Children],
    expanded: torch.Tensor,  # int64 [E]
    target_ids: torch.Tensor,  # int64 [DV]
) -> CandidatePool:
    """All candidates: k children of each expanded node, in the order expanded."""
    k = levels[0].ids.shape[1]
    depth, rank = _depths_and_ranks(len(levels), k, expanded.device)
    return CandidatePool(
        token=target_ids[torch.cat([level.ids for level in levels]).flatten()],
        parent=expanded.repeat_interleave(k),
        depth=depth,
        rank=rank,
        logprob=torch.cat([level.logprob for level in levels]).flatten(),
        score=torch.cat([level.score for level in levels]).flatten(),
    )


@cache  # for ever: a recording may read them
def _depths_and_ranks(
    levels: int, k: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of every candidate, int64 [C]; the same in all trees of a shape."""
    parents = [1] + [k] * (levels - 1)
    depth = [level for level, m in enumerate(parents, start=1) for _ in range(m * k)]
    rank = list(range(k)) * sum(parents)
    return torch.tensor(depth, device=device), torch.tensor(rank, device=device)


def _keep_best(
    root: int,
    pool: CandidatePool,
    shape: TreeShape,
    expanded: torch.Tensor,
    q_logprobs: tuple[torch.Tensor, ...],
) -> DraftTree:
    """Rerank: the total - 1 best-scored candidates, in pool order, below the root."""
    kept = top_stable(pool.score, shape.total - 1)[1].sort().values
    first = kept.new_full((1,), -1)
    return make_tree(
        token=torch.cat([kept.new_full((1,), root), pool.token[kept]]),
        # -1, the root, stands before all that were kept; the i-th of those is node i + 1
        parent=torch.cat([first, torch.searchsorted(kept, pool.parent[kept], right=True)]),
        depth=torch.cat([first + 1, pool.depth[kept]]),
        pool_index=torch.cat([first, kept]),
        pool=pool,
        expanded=expanded,
        q_logprobs=q_logprobs,
        levels=shape.levels,
    )
