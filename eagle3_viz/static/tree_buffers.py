"""A tree to verify, at fixed addresses."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn.functional import pad

from eagle3_viz.tree import DraftTree, root_only
from kernels.ancestor_bits import WORD_BITS, TreeMask, pack_visible


class TreeBuffers:
    """Room for T nodes; a smaller tree is filled up with nodes that nobody tests.

    token, parent, depth  int64 [T]; the parent of a filler is -1.
    words                 int64 [1, T, W], as `pack_visible` packs them.
    broken                int64 [1], whether the draft computed NaN.
    """

    def __init__(self, nodes: int, device: torch.device) -> None:
        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        self.token, self.parent, self.depth = zeros(nodes), zeros(nodes) - 1, zeros(nodes)
        self.words = zeros(1, nodes, -(-nodes // WORD_BITS))
        self.words[0, 0, 0] = 1  # a root sees itself
        self.broken = zeros(1)

    def __len__(self) -> int:
        return len(self.token)

    def mask(self, length: torch.Tensor) -> TreeMask:
        """What its nodes see behind int64 [1] committed tokens."""
        return TreeMask(self.words, length, len(self), self.depth[None])

    def take(self, tree: DraftTree) -> None:
        """Copy a tree of at most T nodes here."""
        count = len(tree)
        for own, given in (
            (self.token, tree.token),
            (self.parent, tree.parent),
            (self.depth, tree.depth),
        ):
            own[:count].copy_(given)
        self.parent[count:].fill_(-1)
        self.words[0, :count].copy_(pack_visible(pad(tree.visible, (0, len(self) - count))))
        if tree.pool is not None:
            self.broken.copy_(tree.pool.score.isnan().any())

    def lone_root(self) -> DraftTree:
        """The tree of one node, whose token is whatever `token` holds."""
        return replace(root_only(0, self.token.device), token=self.token)


def nodes_for(tree: DraftTree) -> int:
    """Nodes to make room for, for a tree whose size changes: few sizes, so few recordings."""
    return 1 if len(tree) == 1 else -(-len(tree) // 8) * 8
