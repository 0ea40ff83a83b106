"""What the layers of one forward attend to: keys and values of earlier tokens, and their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from transformers.cache_utils import Cache

from eagle3_viz.attention import attend
from eagle3_viz.llama_block import Heads
from eagle3_viz.llama_stack import Entering, KeysAndValues, LlamaStack, Streams


class Memory(Protocol):
    """Keys and values by layer, and who sees which of them."""

    def over(self, stack: LlamaStack, entering: Entering) -> tuple[torch.Tensor, Streams]:
        """The stream behind the layers of `stack`, and those kept; as `LlamaStack.cached`."""


@dataclass(frozen=True)
class Appended:
    """Rows of one text go into a cache at `first`, a place that the host knows.

    masks: by layer, of `additive_mask`, or None for causal rows and for one row.
    """

    layers: Sequence[KeysAndValues]
    masks: Sequence[torch.Tensor | None]
    first: int

    def over(self, stack: LlamaStack, entering: Entering) -> tuple[torch.Tensor, Streams]:
        """As `Memory.over`."""
        return stack.cached(entering, self.masks, self.layers, self.first)


class Attending(ABC):
    """A `Memory` that computes attention between the two halves of a layer."""

    def over(self, stack: LlamaStack, entering: Entering) -> tuple[torch.Tensor, Streams]:
        """As `Memory.over`."""
        return stack.attending(self.attended, entering)

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
