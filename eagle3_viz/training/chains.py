"""Chains drafted from every anchor of a packed batch at once (MATH.md 3).

Drafts that read the target and then their own outputs share the loop over steps and the Llama
layer: what an anchor sees, where its keys stand, what is fed back. How token and feature become
queries, keys and values is each draft's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch.nn.functional import linear, rms_norm, silu

from eagle3_viz.drafts.architecture import Eagle3Architecture
from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture
from eagle3_viz.training.anchored_attention import anchored_attention, block_masks
from eagle3_viz.training.batches import Batch

LAYER = "layers.0."
Heads = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # queries, keys, values [m, heads, hd]


class ChainLayer(ABC):
    """A draft's one Llama layer at work on one batch of R anchors; width d, H heads.

    tensors: named as `tensor_shapes` of the architecture, in any floating format.
    """

    def __init__(
        self, arch: Eagle3Architecture | Eagle1Architecture, tensors: Mapping[str, torch.Tensor]
    ) -> None:
        self.arch = arch
        self._tensors = tensors
        self._gate_up = torch.cat([self.weight("mlp.gate_proj"), self.weight("mlp.up_proj")])

    @abstractmethod
    def read(self) -> tuple[torch.Tensor, Heads]:
        """Step 0 at true features: residual [R, d], q of anchors, k and v of all positions."""

    @abstractmethod
    def feed(self, step: int, output: torch.Tensor) -> tuple[torch.Tensor, Heads]:
        """A later step, the outputs [R, d] before it as features: residual and q, k, v of anchors.

        The token is the one that `batch.fed[step]` names for the anchor.
        """

    def finish(self, residual: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Output [R, d] from the residual and the attention [R, H, hd]."""
        state = residual + linear(attended.flatten(1), self.weight("self_attn.o_proj"))
        inner = linear(self.norm(state, "post_attention_layernorm"), self._gate_up)
        gate, up = inner.chunk(2, dim=-1)
        return state + linear(silu(gate) * up, self.weight("mlp.down_proj"))

    def projections(self) -> torch.Tensor:
        """The rows of q, k and v in one matrix."""
        return torch.cat([self.weight(f"self_attn.{name}_proj") for name in "qkv"])

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """[m, heads * hd] by head."""
        return x.view(len(x), -1, self.arch.head_dim)

    def split(self, x: torch.Tensor) -> Heads:
        """q, k and v of rows that `projections` made."""
        kv = self.arch.num_kv_heads
        q, k, v = self.heads(x).split([self.arch.num_heads, kv, kv], dim=1)
        return q, k, v

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return rms_norm(x, (x.shape[-1],), self.weight(name), self.arch.rms_norm_eps)

    def weight(self, name: str) -> torch.Tensor:
        return self._tensors[f"{LAYER}{name}.weight"]


def draft_chains(layer: ChainLayer, batch: Batch, steps: int) -> list[torch.Tensor]:
    """Outputs [R, d] of every anchor of `batch` at each of `steps` steps, with gradient."""
    residual, (q, k, v) = layer.read()
    arch, dtype = layer.arch, residual.dtype
    cos, sin = _rope(arch.head_dim, arch.rope_theta, batch, steps, dtype)
    masks = block_masks(batch.spans, arch.num_heads // arch.num_kv_heads, dtype, residual.device)
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
