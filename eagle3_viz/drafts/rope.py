"""Rotary positions of a draft's layers."""

from __future__ import annotations

import torch

from eagle3_viz.drafts.architecture import Eagle3Architecture
from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture
from eagle3_viz.kv_cache import GROWTH_STEP
from eagle3_viz.llama_block import Angles, turning

Architecture = Eagle1Architecture | Eagle3Architecture


class Rope:
    """Rotary embedding in the half-split form, from a table that grows with the text."""

    def __init__(self, arch: Architecture, device: torch.device, dtype: torch.dtype) -> None:
        pairs = torch.arange(0, arch.head_dim, 2, dtype=torch.float32, device=device)
        self._frequencies = 1.0 / arch.rope_theta ** (pairs / arch.head_dim)
        self._dtype = dtype
        self.reserve(GROWTH_STEP)

    def reserve(self, positions: int) -> None:
        """Have the angles of the first `positions` positions ready."""
        steps = torch.arange(positions, dtype=torch.float32, device=self._frequencies.device)
        angles = steps[:, None] * self._frequencies
        angles = torch.cat([angles, angles], dim=-1)
        self._table = torch.stack(turning(angles.cos(), angles.sin())).to(self._dtype)

    def at(self, first: int, count: int) -> Angles:
        """The angles [count, hd] at positions `first` onwards."""
        cos, sin = self._table[:, first : first + count]
        return cos, sin

    def rows(self, positions: torch.Tensor) -> Angles:
        """The angles [m, hd] at positions int64 [m], which need not be known to the host."""
        cos, sin = self._table.index_select(1, positions)
        return cos, sin
