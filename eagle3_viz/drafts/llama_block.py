"""What the layers of feature drafts have in common: Llama's attention and MLP, rotary positions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn.functional import linear, rms_norm, silu

from eagle3_viz.attention import grouped_attention
from eagle3_viz.drafts.architecture import Eagle3Architecture
from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture
from eagle3_viz.kv_cache import GROWTH_STEP

Architecture = Eagle1Architecture | Eagle3Architecture
Angles = tuple[torch.Tensor, torch.Tensor]  # cos, sin [m, hd], or [1, hd] for all rows


class LlamaBlock:
    """Attention and MLP of layer `index`; what they read and the residual are the draft's own."""

    def __init__(
        self, arch: Architecture, tensors: Mapping[str, torch.Tensor], index: int, qk_norm: bool
    ) -> None:
        self._arch, self._qk_norm = arch, qk_norm
        prefix = f"layers.{index}."
        own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        self._norms = {n.removesuffix(".weight"): t for n, t in own.items() if "norm" in n}
        names = ("q_proj", "k_proj", "v_proj")
        self._qkv = torch.cat([own[f"self_attn.{n}.weight"] for n in names])
        biases = [own[f"self_attn.{n}.bias"] for n in names] if arch.attention_bias else []
        self._qkv_bias = torch.cat(biases) if biases else None
        self._output = own["self_attn.o_proj.weight"]
        self._gate_up = torch.cat([own["mlp.gate_proj.weight"], own["mlp.up_proj.weight"]])
        self._down = own["mlp.down_proj.weight"]

    def attention(
        self,
        inputs: torch.Tensor,  # [m, width]
        angles: Angles,
        mask: torch.Tensor | None,
        cache: torch.Tensor,  # [2, 1, KV, capacity, hd]
        first: int,
    ) -> torch.Tensor:
        """Attention of m rows [m, H]; their keys and values are written at `first` onwards."""
        arch, m = self._arch, len(inputs)
        heads = linear(inputs, self._qkv, self._qkv_bias).view(m, -1, arch.head_dim).transpose(0, 1)
        qk, v = heads.split([arch.num_heads + arch.num_kv_heads, arch.num_kv_heads])
        if self._qk_norm:
            q, k = qk.split([arch.num_heads, arch.num_kv_heads])
            q, k = self.normed(q, "self_attn.q_norm"), self.normed(k, "self_attn.k_norm")
            qk = torch.cat([q, k])
        q, k = rotate(qk, angles).split([arch.num_heads, arch.num_kv_heads])
        cache[0, 0, :, first : first + m] = k
        cache[1, 0, :, first : first + m] = v
        keys, values = cache[:, :, :, : first + m]
        out = grouped_attention(q[None], keys, values, mask)
        return linear(out[0].transpose(0, 1).reshape(m, -1), self._output)

    def mlp(self, y: torch.Tensor) -> torch.Tensor:
        """The gated MLP behind its norm [m, H], without the residual."""
        gate, up = linear(self.normed(y, "post_attention_layernorm"), self._gate_up).chunk(2, -1)
        return linear(silu(gate) * up, self._down)

    def normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """RMSNorm of the last axis with the layer's weight `name`."""
        return norm(x, self._norms[name], self._arch.rms_norm_eps)


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
        self._table = torch.stack([angles.cos(), angles.sin()]).to(self._dtype)

    def at(self, first: int, count: int) -> Angles:
        """cos and sin [count, hd] at positions `first` onwards."""
        cos, sin = self._table[:, first : first + count]
        return cos, sin


def rotate(x: torch.Tensor, angles: Angles) -> torch.Tensor:
    """x [heads, m, hd] turned by the angles of its rows."""
    cos, sin = angles
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


def norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm of the last axis."""
    return rms_norm(x, (x.shape[-1],), weight, eps)
