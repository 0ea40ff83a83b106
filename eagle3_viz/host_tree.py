"""The small tables of a verified tree, moved to the host at once: records are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from eagle3_viz.records import Pool
from eagle3_viz.tree import DraftTree


@dataclass(frozen=True)
class HostTree:
    """A `DraftTree` without its mask.

    token, parent, depth, pool_index  int32 [T].
    pool, pool_rank                   the candidates, and int32 [C], each one's rank in its q.
    expanded                          place of each expanded node by its pool index, -1 the root.
    q_logprobs                        float32 [E, DV] as one tensor a level, where it was.
    """

    token: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    pool_index: np.ndarray
    pool: Pool | None
    pool_rank: np.ndarray
    expanded: dict[int, int]
    q_logprobs: Sequence[torch.Tensor]
    levels: int

    def __len__(self) -> int:
        return len(self.token)

    def children(self, node: int) -> np.ndarray:
        """Its children, in the order proposed."""
        return np.flatnonzero(self.parent == node)

    def place_of(self, node: int) -> int | None:
        """Place of `node` among the expanded ones, or None where the draft did not expand it."""
        return self.expanded.get(int(self.pool_index[node]))

    def q_row_of(self, node: int) -> torch.Tensor | None:
        """log q [DV] after `node`, or None where the draft did not expand it."""
        row = self.place_of(node)
        if row is None:
            return None
        for level in self.q_logprobs:
            if row < len(level):
                return level[row]
            row -= len(level)
        raise IndexError(f"node {node} is marked expanded but its q was not kept")


def on_host(tree: DraftTree) -> HostTree:
    """Copies of everything small: the integers in one go, and the floats."""
    pool = tree.pool
    own = [tree.token, tree.parent, tree.depth, tree.pool_index, tree.expanded]
    candidates = [] if pool is None else [pool.token, pool.parent, pool.depth, pool.rank]
    token, parent, depth, index, expanded, *of_pool = _copied([*own, *candidates], np.int32)
    table, rank = None, np.empty(0, np.int32)
    if pool is not None:
        *ints, rank = of_pool
        table = Pool(*ints, *_copied([pool.logprob, pool.score], np.float32))
    places = {node: place for place, node in enumerate(expanded.tolist())}
    return HostTree(token, parent, depth, index, table, rank, places, tree.q_logprobs, tree.levels)


def _fetched(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """In one copy."""
    return torch.cat(list(tensors)).cpu().split([len(tensor) for tensor in tensors])


def _copied(tensors: Sequence[torch.Tensor], dtype: type[np.generic]) -> list[np.ndarray]:
    """Tensors of one axis and one number format."""
    if tensors[0].device.type != "cpu":
        tensors = _fetched(tensors)
    return [tensor.numpy().astype(dtype) for tensor in tensors]
