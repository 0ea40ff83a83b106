"""EAGLE-2's dynamic tree (MATH.md 2, REFERENCE.md b), built without a host synchronization."""

from __future__ import annotations

import torch

from eagle3_viz.config import TreeShape
from eagle3_viz.likely_children import Children, likely_children
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
    logits = stepper.root_logits()[None]
    mark("draft")
    first = likely_children(logits, logits.new_zeros(1), k)
    beam_score, beam_ids = first.score[0], first.ids[0]
    beam_pool = torch.arange(k, device=beam_ids.device)
    q, expanded = [first.log_q], [beam_pool.new_full((1,), -1)]
    parts = [_level(1, first, parent=expanded[0])]
    beam_parents = torch.zeros_like(beam_pool)
    start, fed = k, 1
    for level in range(1, shape.levels):
        mark("tree")
        logits = stepper.step(beam_ids, beam_parents, level)
        mark("draft")
        found = likely_children(logits, beam_score, k)
        parts.append(_level(level + 1, found, parent=beam_pool))
        q.append(found.log_q)
        expanded.append(beam_pool)
        beam_score, flat = top_stable(found.score.flatten(), k)
        beam_ids, beam_parents = found.ids.flatten()[flat], fed + flat // k
        beam_pool = start + flat
        start, fed = start + k * k, fed + k
    pool = make_pool(parts, stepper.target_ids)
    tree = _keep_best(root, pool, shape, torch.cat(expanded), tuple(q))
    mark("tree")
    return tree


def _level(
    depth: int,
    found: Children,
    parent: torch.Tensor,  # int64 [m]
) -> Level:
    """k children of each of m parents, in (parent, rank) order."""
    m, k = found.ids.shape
    rank = torch.arange(k, device=parent.device).repeat(m)
    parents = parent.repeat_interleave(k)
    ids, logprob, score = (part.flatten() for part in found[1:])
    return Level(depth, ids, logprob, score, parents, rank)


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
