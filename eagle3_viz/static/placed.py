"""Attention over a token tree whose place in the cache only the device knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from eagle3_viz.layer_memory import Attending
from eagle3_viz.llama_block import Heads
from eagle3_viz.llama_stack import KeysAndValues
from kernels.ancestor_bits import TreeMask
from kernels.tree_attention import tree_attention

SMALLEST_BUCKET = 512


@dataclass(frozen=True)
class Placed(Attending):
    """A `Memory`: rows of a text go to `places` in its cache; `tree` says what they see.

    layers   by layer, as many rows of its keys and values as attention may look at.
    places   int64 [m].
    windows  by layer, the last positions that a row sees, None for all.
    """

    layers: Sequence[KeysAndValues]
    places: torch.Tensor
    tree: TreeMask
    windows: Sequence[int | None]

    def attended(self, index: int, heads: Heads, scale: float | None) -> torch.Tensor:
        """As `Attending.attended`."""
        q, k, v = heads
        keys, values = self.layers[index]
        keys.index_copy_(2, self.places, k)
        values.index_copy_(2, self.places, v)
        return tree_attention(q, keys, values, self.tree, scale=scale, window=self.windows[index])


def bucket_of(rows: int, capacity: int) -> int:
    """How many rows of a cache a recording looks at that must hold `rows`: a power of two.

    Attention is planned for this many, so that a recording serves until the text outgrows it.
    """
    size = SMALLEST_BUCKET
    while size < rows:
        size *= 2
    return min(size, capacity)


def first_rows(layers: Sequence[KeysAndValues], rows: int) -> list[KeysAndValues]:
    """Views of the first `rows` rows of every layer."""
    return [(keys[:, :, :rows], values[:, :, :rows]) for keys, values in layers]
