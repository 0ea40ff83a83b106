"""Draft trees and how they are built (MATH.md 2, REFERENCE.md b).

A builder asks a `Stepper` for log-probabilities level by level and returns a `DraftTree` whose
tensors stay on the draft's device: building a tree needs no synchronization with the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch

from eagle3_viz.config import TreeShape
from eagle3_viz.sampling import Draws

Mark = Callable[[str], None]


class Stepper(Protocol):
    """The part of a draft that a builder drives. Draft ids are rows of the draft's head.

    target_ids [DV], int64, holds the target token of each draft id.
    """

    @property
    def target_ids(self) -> torch.Tensor: ...

    def root_logits(self) -> torch.Tensor:
        """Logits [DV], float32, after the root token."""

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        """Logits [m, DV], float32, after feeding m tokens of the next level.

        draft_ids [m], int64: the tokens. parents [m], int64: for each, the row of the previous
        call that it continues (all 0 after the root).
        """


@dataclass(frozen=True)
class CandidatePool:
    """Every candidate scored in a cycle, in the order drafted; parents stand before children.

    token, parent, depth, rank int64 [C]; logprob, score float32 [C]. parent is an index into the
    pool, -1 for children of the root; rank counts from 0 among the parent's q.
    """

    token: torch.Tensor
    parent: torch.Tensor
    depth: torch.Tensor
    rank: torch.Tensor
    logprob: torch.Tensor
    score: torch.Tensor


@dataclass(frozen=True)
class DraftTree:
    """What the target verifies: node 0 is the root, parents stand before their children.

    token, parent, depth, pool_index  int64 [T]; parent and pool_index are -1 at the root.
    visible                           bool [T, T], row i sees its ancestors and itself.
    expanded                          int64 [E], pool index of each expanded node, -1 the root.
    q_logprobs                        float32 [E, DV] as one tensor a level, rows as `expanded`.
    levels                            drafted levels the shape allowed; 0 for a root alone.
    """

    token: torch.Tensor
    parent: torch.Tensor
    depth: torch.Tensor
    visible: torch.Tensor
    pool_index: torch.Tensor
    pool: CandidatePool | None
    expanded: torch.Tensor
    q_logprobs: tuple[torch.Tensor, ...]
    levels: int

    def __len__(self) -> int:
        return int(self.token.shape[0])


def top_stable(values: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest of the last axis, float32 [..., n], ties broken by the lower index.

    Returns (values, indices), both [..., k], by falling value. Works on keys that hold the
    order-preserving bits of the float above the complement of the index.
    """
    n = values.shape[-1]
    bits = (values + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
    keys = torch.topk((ordered << 32) | _complement(n, values.device), k, dim=-1).values
    chosen = n - 1 - (keys & 0xFFFFFFFF)
    return values.gather(-1, chosen), chosen


@lru_cache(maxsize=64)
def _complement(n: int, device: torch.device) -> torch.Tensor:
    """n - 1 .. 0, int64 [n]; kept, since counting to a vocabulary costs more than the top-k."""
    return torch.arange(n - 1, -1, -1, device=device)


def root_only(token: int, device: torch.device) -> DraftTree:
    """A tree without guesses: verifying it is one step of autoregression."""
    zero = torch.zeros(1, dtype=torch.int64, device=device)
    return DraftTree(
        token=torch.full_like(zero, token),
        parent=zero - 1,
        depth=zero,
        visible=torch.ones(1, 1, dtype=torch.bool, device=device),
        pool_index=zero - 1,
        pool=None,
        expanded=zero[:0],
        q_logprobs=(),
        levels=0,
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
    parts = [_level(ids, logprob, logprob, parent=logprob.new_full((1,), -1).long())]
    beam_score, beam_ids = logprob[0], ids[0]
    beam_pool = torch.arange(k, device=ids.device)
    expanded = [beam_pool.new_full((1,), -1)]
    beam_rows = torch.zeros_like(beam_pool)
    start = k
    for _ in range(shape.depth):
        mark("tree")
        q.append(stepper.step(beam_ids, beam_rows).log_softmax(-1))
        mark("draft")
        logprob, ids = top_stable(q[-1], k)
        score = beam_score[:, None] + logprob
        parts.append(_level(ids, logprob, score, parent=beam_pool))
        expanded.append(beam_pool)
        beam_score, flat = top_stable(score.flatten(), k)
        beam_ids, beam_rows, beam_pool = ids.flatten()[flat], flat // k, start + flat
        start += k * k
    pool = _pool(parts, stepper)
    tree = _keep_best(root, pool, shape, torch.cat(expanded), tuple(q))
    mark("tree")
    return tree


def build_sampled_chain(
    root: int, stepper: Stepper, depth: int, temperature: float, draws: Draws, mark: Mark
) -> DraftTree:
    """A chain of depth + 1 tokens, each drawn from q at `temperature` (MATH.md 1.1).

    The q kept in the tree is the tempered one, which the rule divides by.
    """
    q = [(stepper.root_logits()[None] / temperature).log_softmax(-1)]
    mark("draft")
    parts = []
    row = torch.zeros(1, dtype=torch.int64, device=q[0].device)
    score = torch.zeros(1, device=q[0].device)
    for level in range(depth + 1):
        drawn = draws.token(q[-1][0].exp())[None]
        logprob = q[-1][0, drawn]
        score = score + logprob
        rank = (q[-1][0] > logprob).sum()[None]
        parts.append(_Level(drawn, logprob, score, row + level - 1, rank))
        mark("tree")
        if level < depth:
            q.append((stepper.step(drawn, row) / temperature).log_softmax(-1))
            mark("draft")
    pool = _pool(parts, stepper)
    index = torch.arange(-1, depth + 1, device=row.device)
    tree = make_tree(
        token=torch.cat([row.new_full((1,), root), pool.token]),
        parent=index,
        depth=index + 1,
        pool_index=index,
        pool=pool,
        expanded=index[:-1],
        q_logprobs=tuple(q),
        levels=depth + 1,
    )
    mark("tree")
    return tree


@dataclass(frozen=True)
class _Level:
    ids: torch.Tensor  # int64 [m * k]
    logprob: torch.Tensor  # float32 [m * k]
    score: torch.Tensor  # float32 [m * k]
    parent: torch.Tensor  # int64 [m * k], pool index
    rank: torch.Tensor  # int64 [m * k]


def _level(
    ids: torch.Tensor, logprob: torch.Tensor, score: torch.Tensor, parent: torch.Tensor
) -> _Level:
    """Children [m, k] of m parents [m], flattened in (parent, rank) order."""
    m, k = ids.shape
    rank = torch.arange(k, device=ids.device).repeat(m)
    return _Level(
        ids.flatten(), logprob.flatten(), score.flatten(), parent.repeat_interleave(k), rank
    )


def _pool(levels: list[_Level], stepper: Stepper) -> CandidatePool:
    depth = [torch.full_like(level.ids, d + 1) for d, level in enumerate(levels)]
    return CandidatePool(
        token=stepper.target_ids[torch.cat([level.ids for level in levels])],
        parent=torch.cat([level.parent for level in levels]),
        depth=torch.cat(depth),
        rank=torch.cat([level.rank for level in levels]),
        logprob=torch.cat([level.logprob for level in levels]),
        score=torch.cat([level.score for level in levels]),
    )


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


def make_tree(
    *,
    token: torch.Tensor,
    parent: torch.Tensor,
    depth: torch.Tensor,
    pool_index: torch.Tensor,
    pool: CandidatePool | None,
    expanded: torch.Tensor,
    q_logprobs: tuple[torch.Tensor, ...],
    levels: int,
) -> DraftTree:
    """A DraftTree with its ancestor mask; arguments as DraftTree's fields."""
    visible = torch.eye(len(token), dtype=torch.bool, device=token.device)
    rows, ancestor = torch.arange(len(token), device=token.device), parent.clamp(min=0)
    up = ancestor
    for _ in range(levels):
        visible[rows, up] = True
        up = ancestor[up]
    return DraftTree(token, parent, depth, visible, pool_index, pool, expanded, q_logprobs, levels)
