"""EAGLE-2's dynamic tree (MATH.md 2, REFERENCE.md b), built without a host synchronization."""

from __future__ import annotations

import torch

from eagle3_viz.config import TreeShape
from eagle3_viz.tree import (
    CandidatePool,
    DraftTree,
    Level,
    Mark,
    Stepper,
    make_pool,
    make_tree,
    top_stable,
)


def build_dynamic(root: int, stepper: Stepper, shape: TreeShape, mark: Mark) -> DraftTree:
    """EAGLE-2's dynamic tree: expand the most promising nodes, keep the best-scored ones.

    A node's score is the sum of draft log-probabilities along its path. Level 1 is the root's
    top-k; then `depth` times the top-k nodes of the newest level get top-k children each. The
    total - 1 best of all candidates are kept; since a parent never scores below its child and
    stands before it, the kept set is connected. `mark("draft")` is called after each forward and
    `mark("tree")` after the selection that follows it.
    """
    k = shape.top_k
    q = [stepper.root_logits()[None].log_softmax(-1)]
    mark("draft")
    logprob, ids = top_stable(q[0], k)
    parts = [_children(1, ids, logprob, logprob, parent=logprob.new_full((1,), -1).long())]
    beam_score, beam_ids = logprob[0], ids[0]
    beam_pool = torch.arange(k, device=ids.device)
    expanded = [beam_pool.new_full((1,), -1)]
    beam_parents = torch.zeros_like(beam_pool)
    start, fed = k, 1
    for level in range(1, shape.levels):
        mark("tree")
        q.append(stepper.step(beam_ids, beam_parents, level).log_softmax(-1))
        mark("draft")
        logprob, ids = top_stable(q[-1], k)
        score = beam_score[:, None] + logprob
        parts.append(_children(level + 1, ids, logprob, score, parent=beam_pool))
        expanded.append(beam_pool)
        beam_score, flat = top_stable(score.flatten(), k)
        beam_ids, beam_parents, beam_pool = ids.flatten()[flat], fed + flat // k, start + flat
        start, fed = start + k * k, fed + k
    pool = make_pool(parts, stepper.target_ids)
    tree = _keep_best(root, pool, shape, torch.cat(expanded), tuple(q))
    mark("tree")
    return tree


def _children(
    depth: int,
    ids: torch.Tensor,  # int64 [m, k]
    logprob: torch.Tensor,  # float32 [m, k]
    score: torch.Tensor,  # float32 [m, k]
    parent: torch.Tensor,  # int64 [m]
) -> Level:
    """k children of each of m parents, in (parent, rank) order."""
    m, k = ids.shape
    rank = torch.arange(k, device=ids.device).repeat(m)
    parents = parent.repeat_interleave(k)
    return Level(depth, ids.flatten(), logprob.flatten(), score.flatten(), parents, rank)


def _keep_best(
    root: int,
    pool: CandidatePool,
    shape: TreeShape,
    expanded: torch.Tensor,
    q_logprobs: tuple[torch.Tensor, ...],
) -> DraftTree:
    """Rerank: the total - 1 best-scored candidates, in pool order, below the root."""
    kept = top_stable(pool.score, shape.total - 1)[1].sort().values
    node_of = torch.zeros(len(pool.token) + 1, dtype=torch.int64, device=kept.device)
    node_of[kept] = torch.arange(1, shape.total, device=kept.device)
    parent = node_of[pool.parent[kept]]  # -1, the root, reads the extra last entry: 0
    first = kept.new_full((1,), -1)
    return make_tree(
        token=torch.cat([kept.new_full((1,), root), pool.token[kept]]),
        parent=torch.cat([first, parent]),
        depth=torch.cat([first + 1, pool.depth[kept]]),
        pool_index=torch.cat([first, kept]),
        pool=pool,
        expanded=expanded,
        q_logprobs=q_logprobs,
        levels=shape.levels,
    )
