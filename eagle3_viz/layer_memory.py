"""What the layers of one forward attend to: keys and values of earlier tokens, and their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from transformers.cache_utils import Cache

from eagle3_viz.attention import attend
from eagle3_viz.llama_block import Angles, Heads, LlamaBlock
from eagle3_viz.rms_norm import RmsNorm

KeysAndValues = tuple[torch.Tensor, torch.Tensor]  # each [1, KV, capacity, hd]


class Memory(Protocol):
    """Keys and values by layer, and who sees which of them."""

    def through(
        self,
        index: int,
        block: LlamaBlock,
        stream: torch.Tensor,  # [B, m, W]
        inputs: torch.Tensor,  # [B, m, width], what attention reads
        angles: Angles,
        norm: RmsNorm | None = None,
        scale: float | None = None,
    ) -> torch.Tensor:
        """The stream behind layer `index`, which is `block`; arguments as `LlamaBlock.cached`."""


@dataclass(frozen=True)
class Appended:
    """Rows of one text go into a cache at `first`, a place that the host knows.

    masks: by layer, of `additive_mask`, or None for causal rows and for one row.
    """

    layers: Sequence[KeysAndValues]
    masks: Sequence[torch.Tensor | None]
    first: int

    def through(
        self,
        index: int,
        block: LlamaBlock,
        stream: torch.Tensor,
        inputs: torch.Tensor,
        angles: Angles,
        norm: RmsNorm | None = None,
        scale: float | None = None,
    ) -> torch.Tensor:
        """As `Memory.through`."""
        mask, cache = self.masks[index], self.layers[index]
        return block.cached(stream, inputs, angles, mask, cache, self.first, norm, scale)


class Attending(ABC):
    """A `Memory` that computes attention between the two halves of a layer."""

    def through(
        self,
        index: int,
        block: LlamaBlock,
        stream: torch.Tensor,
        inputs: torch.Tensor,
        angles: Angles,
        norm: RmsNorm | None = None,
        scale: float | None = None,
    ) -> torch.Tensor:
        """As `Memory.through`."""
        return block.rest(stream, self.attended(index, block.heads(inputs, angles, norm), scale))

    @abstractmethod
    def attended(self, index: int, heads: Heads, scale: float | None) -> torch.Tensor:
        """What the queries [B, H, m, hd] of layer `index` see; its keys and values are kept."""


@dataclass(frozen=True)
class Updated(Attending):
    """Rows go wherever a cache of transformers puts them; without one they see each other only."""

    cache: Cache | None
    masks: Sequence[torch.Tensor | None]

    def attended(self, index: int, heads: Heads, scale: float | None) -> torch.Tensor:
        """As `Attending.attended`."""
        q, k, v = heads
        if self.cache is not None:
            k, v = self.cache.update(k, v, index)
        return attend(q, k, v, self.masks[index], scale)
