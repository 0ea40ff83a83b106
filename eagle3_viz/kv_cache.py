"""A preallocated key/value cache: append a tree, keep one path of it, drop the rest.

One buffer holds every layer that lives on the same device, so that keeping a path costs two
copies a device and not two a layer. The buffers grow in steps; nothing is ever recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import proxy

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from eagle3_viz.tree_path import is_prefix

GROWTH_STEP = 512


@dataclass(frozen=True)
class LayerSpec:
    """What one layer stores: keys and values of `heads` x `head_dim` per token."""

    heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device


class _TreeLayer(CacheLayerMixin):
    """One layer's window into a shared buffer. keys, values: [1, heads, capacity, head_dim]."""

    is_sliding = False

    def __init__(self, cache: TreeCache) -> None:
        super().__init__()
        self.cache = proxy(cache)  # no circle: the buffers go when the last user does
        self.length = 0
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the buffers exist before the first forward."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [1, heads, t, head_dim] after the current length; return all keys and values."""
        end = self.length + key_states.shape[2]
        self.cache.reserve(end)
        assert self.keys is not None and self.values is not None
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_max_length(self) -> int:
        return -1


class TreeCache(Cache):
    """Keys and values of all layers; `length` tokens are committed.

    A forward appends its tokens behind the committed ones. `keep(path)` commits some of them,
    in order, and drops the others.

    by_layer: keys and values of every layer, each [1, heads, capacity, head_dim].
    """

    by_layer: list[tuple[torch.Tensor, torch.Tensor]]

    def __init__(self, specs: Sequence[LayerSpec], capacity: int = GROWTH_STEP) -> None:
        self._members: dict[LayerSpec, list[int]] = {}
        for index, spec in enumerate(specs):
            self._members.setdefault(spec, []).append(index)
        layers = [_TreeLayer(self) for _ in specs]
        super().__init__(layers=layers)
        self._tree_layers = layers
        self.length = 0
        self.capacity = 0
        self._buffers: dict[LayerSpec, torch.Tensor] = {}
        self.reserve(capacity)

    def reserve(self, tokens: int) -> None:
        """Grow every buffer, in steps of GROWTH_STEP tokens, until `tokens` fit."""
        if tokens <= self.capacity:
            return
        capacity = -(-tokens // GROWTH_STEP) * GROWTH_STEP
        for spec, members in self._members.items():
            shape = (len(members), 2, 1, spec.heads, capacity, spec.head_dim)
            buffer = torch.zeros(shape, dtype=spec.dtype, device=spec.device)
            if spec in self._buffers:
                buffer[..., : self.capacity, :] = self._buffers[spec]
            self._buffers[spec] = buffer
            for row, index in enumerate(members):
                self._tree_layers[index].keys = buffer[row, 0]
                self._tree_layers[index].values = buffer[row, 1]
        self.by_layer = [(layer.keys, layer.values) for layer in self._tree_layers]
        self.capacity = capacity

    @property
    def buffers(self) -> list[torch.Tensor]:
        """All keys and values, [layers, 2, 1, heads, capacity, head_dim] for layers of a kind."""
        return list(self._buffers.values())

    def extend(self, tokens: int) -> int:
        """Make room for `tokens` behind everything fed; returns where they begin.

        Whoever calls this writes their keys and values into `by_layer`, for every layer.
        """
        first = self._tree_layers[0].length
        self.reserve(first + tokens)
        for layer in self._tree_layers:
            layer.length = first + tokens
        return first

    def keep(self, path: Sequence[int]) -> None:
        """Commit the appended tokens at offsets `path` (rising, after the committed ones)."""
        if not is_prefix(path):
            for buffer in self.buffers:
                rows = torch.tensor(path, device=buffer.device) + self.length
                kept = buffer.index_select(4, rows)
                buffer[..., self.length : self.length + len(path), :] = kept
        self.set_length(self.length + len(path))

    def appended(self, tokens: int) -> list[torch.Tensor]:
        """Copies of the `tokens` rows behind the committed ones; `append` puts them back."""
        rows = slice(self.length, self.length + tokens)
        return [buffer[..., rows, :].clone() for buffer in self._buffers.values()]

    def append(self, copies: Sequence[torch.Tensor]) -> None:
        """Write what `appended` gave behind the committed tokens, as a forward would."""
        end = self.length + copies[0].shape[-2]
        self.reserve(end)
        for buffer, copy in zip(self._buffers.values(), copies, strict=True):
            buffer[..., self.length : end, :] = copy

    def roll_back(self) -> None:
        """Free everything behind the committed tokens."""
        self.set_length(self.length)

    def set_length(self, tokens: int) -> None:
        """Declare the first `tokens` tokens committed and everything after them free."""
        self.length = tokens
        for layer in self._tree_layers:
            layer.length = tokens
