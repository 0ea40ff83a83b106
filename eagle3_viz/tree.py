"""Draft trees, and what their builders share (MATH.md 2).

A builder asks a `Stepper` for logits and returns a `DraftTree` whose tensors stay on the draft's
device. `tree_dynamic`, `tree_fixed` and `tree_sampled` hold the builders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

Mark = Callable[[str], None]


class Stepper(Protocol):
    """The part of a draft that a builder drives. Draft ids are rows of the draft's head.

    target_ids [DV], int64, holds the target token of each draft id.
    """

    @property
    def target_ids(self) -> torch.Tensor: ...

    def root_logits(self) -> torch.Tensor:
        """Logits [DV], float32, after the root token."""

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        """Logits [m, DV], float32, after feeding m tokens that all stand at depth `level`.

        draft_ids [m], int64: the tokens. parents [m], int64: what each of them continues, 0 for
        the root and i for the i-th token fed since `root_logits`.
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

    Returns (values, indices), both [..., k], by falling value. For as many as a tree has nodes:
    everything is sorted.
    """
    falling = values.sort(dim=-1, descending=True, stable=True)
    return falling.values[..., :k], falling.indices[..., :k]


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


@dataclass(frozen=True)
class Level:
    """Candidates drafted together at one depth; the pool is made of them in this order."""

    depth: int
    ids: torch.Tensor  # int64 [m * k]
    logprob: torch.Tensor  # float32 [m * k]
    score: torch.Tensor  # float32 [m * k]
    parent: torch.Tensor  # int64 [m * k], pool index
    rank: torch.Tensor  # int64 [m * k]


def make_pool(
    levels: list[Level],
    target_ids: torch.Tensor,  # int64 [DV]
) -> CandidatePool:
    """The pool of all levels in order; ids become the target's."""
    depth = [torch.full_like(level.ids, level.depth) for level in levels]
    return CandidatePool(
        token=target_ids[torch.cat([level.ids for level in levels])],
        parent=torch.cat([level.parent for level in levels]),
        depth=torch.cat(depth),
        rank=torch.cat([level.rank for level in levels]),
        logprob=torch.cat([level.logprob for level in levels]),
        score=torch.cat([level.score for level in levels]),
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
    ancestor = parent.clamp(min=0)
    up = ancestor
    for _ in range(levels):
        visible.scatter_(1, up[:, None], True)  # [..] = True would copy the True from the host
        up = ancestor[up]
    return DraftTree(token, parent, depth, visible, pool_index, pool, expanded, q_logprobs, levels)


def whole_pool(
    root: int,
    pool: CandidatePool,
    *,
    expanded: torch.Tensor,
    q_logprobs: tuple[torch.Tensor, ...],
    levels: int,
) -> DraftTree:
    """A DraftTree of every candidate, node i + 1 being candidate i; arguments as its fields."""
    index = torch.arange(-1, len(pool.token), device=pool.token.device)
    first = index[:1]
    return make_tree(
        token=torch.cat([first.new_full((1,), root), pool.token]),
        parent=torch.cat([first, pool.parent + 1]),
        depth=torch.cat([first + 1, pool.depth]),
        pool_index=index,
        pool=pool,
        expanded=expanded,
        q_logprobs=q_logprobs,
        levels=levels,
    )
