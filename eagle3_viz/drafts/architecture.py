"""The one form that every EAGLE-3 checkpoint is turned into (FORMATS.md 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch


@dataclass(frozen=True)
class Eagle3Architecture:
    """Sizes and switches of an EAGLE-3 draft. The defaults of the switches are the published code.

    norm_before_fc        RMSNorm over the concatenated taps before fc.
    fc_norm               one RMSNorm per tap before fc (exclusive with norm_before_fc).
    norm_before_residual  the residual branch starts from the normed feature.
    norm_output           the normed output is fed back instead of the raw one.
    final_norm            a norm before the LM head.
    qk_norm               RMSNorm over each head of q and k.
    """

    hidden_size: int
    target_hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    num_taps: int
    rms_norm_eps: float
    rope_theta: float
    boundaries: tuple[int, ...] | None = None  # None: the target's default taps
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_before_residual: bool = False
    norm_output: bool = False
    final_norm: bool = True
    qk_norm: bool = False
    fc_bias: bool = False
    attention_bias: bool = False
    sliding_window: int | None = None
    own_embedding: bool = False
    own_head: bool = True

    @property
    def vocab_map(self) -> Literal["identity", "offset"]:
        return "identity" if self.draft_vocab_size == self.vocab_size else "offset"

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight this architecture consists of."""
        h, inner = self.hidden_size, self.num_heads * self.head_dim
        taps = self.num_taps * self.target_hidden_size
        shapes: dict[str, tuple[int, ...]] = {"fc.weight": (h, taps)}
        if self.fc_bias:
            shapes["fc.bias"] = (h,)
        if self.norm_before_fc:
            shapes["input_norm.weight"] = (taps,)
        if self.fc_norm:
            shapes |= {
                f"fc_norm.{k}.weight": (self.target_hidden_size,) for k in range(self.num_taps)
            }
        for layer in range(self.num_layers):
            shapes |= self._layer_shapes(layer, inner)
        if self.final_norm:
            shapes["norm.weight"] = (h,)
        if self.own_head:
            shapes["lm_head.weight"] = (self.draft_vocab_size, h)
        if self.own_embedding:
            shapes["embed_tokens.weight"] = (self.vocab_size, h)
        return shapes

    def _layer_shapes(self, layer: int, inner: int) -> dict[str, tuple[int, ...]]:
        h, kv, ff = self.hidden_size, self.num_kv_heads * self.head_dim, self.intermediate_size
        width = 2 * h if layer == 0 else h
        prefix = f"layers.{layer}."
        attention: dict[str, tuple[int, ...]] = {
            "q_proj.weight": (inner, width),
            "k_proj.weight": (kv, width),
            "v_proj.weight": (kv, width),
            "o_proj.weight": (h, inner),
        }
        if self.attention_bias:
            attention |= {"q_proj.bias": (inner,), "k_proj.bias": (kv,), "v_proj.bias": (kv,)}
        if self.qk_norm:
            attention |= {"q_norm.weight": (self.head_dim,), "k_norm.weight": (self.head_dim,)}
        shapes: dict[str, tuple[int, ...]] = {
            f"{prefix}self_attn.{name}": shape for name, shape in attention.items()
        }
        norms = ["input_layernorm", "post_attention_layernorm"]
        norms += ["hidden_norm"] if layer == 0 else []
        shapes |= {f"{prefix}{name}.weight": (h,) for name in norms}
        shapes |= {f"{prefix}mlp.{name}.weight": (ff, h) for name in ("gate_proj", "up_proj")}
        return shapes | {f"{prefix}mlp.down_proj.weight": (h, ff)}


@dataclass(frozen=True)
class Eagle3Weights:
    """A checkpoint in canonical form: `tensors` named as `tensor_shapes`, ids as int64.

    d2t [DV], int64, holds offsets: target id = draft id + d2t[draft id].
    """

    architecture: Eagle3Architecture
    tensors: dict[str, torch.Tensor]
    d2t: torch.Tensor
