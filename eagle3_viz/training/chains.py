"""Chains drafted from every anchor of a packed batch at once (MATH.md 3).

The step loop that all drafts share which read the target and then their own outputs: what an anchor
sees, where its keys stand, what is fed back. What happens inside a step is the draft's own layer.
"""

from __future__ import annotations

from typing import Protocol

import torch

from eagle3_viz.training.anchored_attention import anchored_attention, block_masks
from eagle3_viz.training.batches import Batch

Heads = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # queries, keys, values [m, heads, hd]


class ChainLayer(Protocol):
    """A draft of one layer on one batch: H query heads, KV key heads, width d, R anchors."""

    @property
    def groups(self) -> int:
        """Query heads that share a key head."""

    @property
    def rope(self) -> tuple[int, float]:
        """Head dimension and base of the rotary embedding."""

    def read(self) -> tuple[torch.Tensor, Heads]:
        """Step 0 at true features: residual [R, d], q of anchors, k and v of all N positions."""

    def feed(self, step: int, output: torch.Tensor) -> tuple[torch.Tensor, Heads]:
        """A later step: the outputs [R, d] before it as features; residual and q, k, v of anchors.

        The token is row `batch.fed[step]` of the anchor.
        """

    def finish(self, residual: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Output [R, d] from the residual and what attention [R, H, hd] gives."""


def draft_chains(layer: ChainLayer, batch: Batch, steps: int) -> list[torch.Tensor]:
    """Outputs [R, d] of every anchor of `batch` at each of `steps` steps, with gradient."""
    residual, (q, k, v) = layer.read()
    cos, sin = _rope(*layer.rope, batch, steps, residual.dtype)
    masks = block_masks(batch.spans, layer.groups, residual.dtype, residual.device)
    keys, values = _rotate(k, cos[batch.positions], sin[batch.positions]), v
    outputs: list[torch.Tensor] = []
    guesses: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for step in range(steps):
        at = batch.positions[batch.anchors] + step
        if step:
            residual, (q, k, v) = layer.feed(step, outputs[-1])
            guesses[0].append(_rotate(k, cos[at], sin[at]))
            guesses[1].append(v)
        q = _rotate(q, cos[at], sin[at])
        attended = anchored_attention(q, keys, values, *guesses, batch.spans, masks)
        outputs.append(layer.finish(residual, attended))
    return outputs


def _rope(
    head_dim: int, theta: float, batch: Batch, steps: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [positions, 1, hd] of the rotary embedding, half-split form."""
    device = batch.positions.device
    pairs = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device)
    longest = max(span.length for span in batch.spans)
    places = torch.arange(longest + steps, dtype=torch.float32, device=device)
    angles = places[:, None] * (1.0 / theta ** (pairs / head_dim))
    angles = torch.cat([angles, angles], dim=-1)[:, None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [m, heads, hd] turned by the angles [m, 1, hd]."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin
