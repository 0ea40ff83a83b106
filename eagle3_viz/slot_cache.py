"""A key/value cache for many texts side by side, each at its own length.

Every text has a slot: a row of the same preallocated buffers. A slot is given to the next text by
writing from position 0 again; what is left behind its length is masked by whoever reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from eagle3_viz.kv_cache import LayerSpec


class _SlotLayer(CacheLayerMixin):
    """One layer's keys and values, each [slots, heads, capacity, head_dim]."""

    is_sliding = False

    def __init__(self, spec: LayerSpec, slots: int, capacity: int) -> None:
        super().__init__()
        shape = (slots, spec.heads, capacity, spec.head_dim)
        self.keys: torch.Tensor = torch.zeros(shape, dtype=spec.dtype, device=spec.device)
        self.values: torch.Tensor = torch.zeros_like(self.keys)
        self.is_initialized = True
        self.aim(slice(None), torch.zeros(slots, 1, dtype=torch.int64), capacity)

    def aim(self, rows: slice, positions: torch.Tensor, extent: int) -> None:
        """Where the next `update` writes, [rows, t], and how many positions it returns."""
        device = self.keys.device
        self._rows = rows
        self._index = torch.arange(len(self.keys), device=device)[rows, None]
        self._positions = positions.to(device)
        self._extent = extent

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the buffers exist before the first forward."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [rows, heads, t, head_dim]; return the first `extent` positions of the rows."""
        self.keys[self._index, :, self._positions] = key_states.transpose(1, 2)
        self.values[self._index, :, self._positions] = value_states.transpose(1, 2)
        return self.keys[self._rows, :, : self._extent], self.values[self._rows, :, : self._extent]

    def get_seq_length(self) -> int:
        return self._extent

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._extent, 0

    def get_max_length(self) -> int:
        return self.keys.shape[2]


class SlotCache(Cache):
    """Keys and values of all layers for `slots` texts of up to `capacity` tokens."""

    def __init__(self, specs: Sequence[LayerSpec], slots: int, capacity: int) -> None:
        layers = [_SlotLayer(spec, slots, capacity) for spec in specs]
        super().__init__(layers=layers)
        self.slots, self.capacity = slots, capacity
        self._slot_layers = layers

    def aim(self, rows: slice, positions: torch.Tensor, extent: int) -> None:
        """The next forward feeds tokens of `rows` at `positions` int64 [rows, t]; attention sees
        the first `extent` positions of each row."""
        for layer in self._slot_layers:
            layer.aim(rows, positions, extent)

    def prefix(self, slot: int, tokens: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """A copy of the first `tokens` keys and values of a slot, by layer."""
        return [
            (layer.keys[slot, :, :tokens].clone(), layer.values[slot, :, :tokens].clone())
            for layer in self._slot_layers
        ]

    def restore(self, slot: int, prefix: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Begin a slot with what `prefix` returned."""
        for layer, (keys, values) in zip(self._slot_layers, prefix, strict=True):
            layer.keys[slot, :, : keys.shape[1]] = keys
            layer.values[slot, :, : values.shape[1]] = values
