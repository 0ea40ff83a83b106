"""One Llama layer in as few operations as it takes: of a target, and of a draft.

Projections that read the same input are one matrix product, rotary positions turn queries and keys
together. Between the products of a one-token step transformers' own layers spend a third of the
time on a CPU; what is saved here is saved for autoregression and for verification alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch.nn.functional import linear, rms_norm, silu

Angles = tuple[torch.Tensor, torch.Tensor]  # cos, sin [m, hd], or [1, hd] for all rows


class Sizes(Protocol):
    """What a layer must know that its weights do not say."""

    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def rms_norm_eps(self) -> float: ...


class LlamaBlock:
    """The parts of one layer, without residuals. Leading axes of an input may be any.

    tensors: the layer's weights by their names within it. Biases, and the norms of queries and
    keys (Qwen3), are used where they are.
    """

    def __init__(self, sizes: Sizes, tensors: Mapping[str, torch.Tensor]) -> None:
        self._eps = sizes.rms_norm_eps
        self._head_dim = sizes.head_dim
        self._kinds = [sizes.num_heads, sizes.num_kv_heads, sizes.num_kv_heads]
        self._turned = [sizes.num_heads + sizes.num_kv_heads, sizes.num_kv_heads]
        self._norms = {n.removesuffix(".weight"): t for n, t in tensors.items() if "norm" in n}
        self._qk_norm = "self_attn.q_norm" in self._norms
        projections = [f"self_attn.{kind}_proj" for kind in "qkv"]
        self.qkv, self._qkv_bias = _joined(tensors, projections)
        self._output, self._output_bias = _joined(tensors, ["self_attn.o_proj"])
        self.gate_up, self._gate_up_bias = _joined(tensors, ["mlp.gate_proj", "mlp.up_proj"])
        self._down, self._down_bias = _joined(tensors, ["mlp.down_proj"])

    def heads(
        self, inputs: torch.Tensor, angles: Angles
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries [.., H, m, hd] and keys [.., KV, m, hd], turned, and values, of rows [.., m, W].

        angles: cos and sin, of a shape that fits [.., heads, m, hd].
        """
        joined = linear(inputs, self.qkv, self._qkv_bias)
        heads = joined.unflatten(-1, (-1, self._head_dim)).transpose(-3, -2)
        if self._qk_norm:
            q, k, v = heads.split(self._kinds, dim=-3)
            q, k = self.normed(q, "self_attn.q_norm"), self.normed(k, "self_attn.k_norm")
            return rotate(q, angles), rotate(k, angles), v
        qk, v = heads.split(self._turned, dim=-3)
        q, k = rotate(qk, angles).split(self._kinds[:2], dim=-3)
        return q, k, v

    def output(self, attended: torch.Tensor) -> torch.Tensor:
        """What attention adds to the stream, [.., m, W], from its heads [.., H, m, hd]."""
        rows = attended.transpose(-3, -2).flatten(-2)
        return linear(rows, self._output, self._output_bias)

    def mlp(self, stream: torch.Tensor) -> torch.Tensor:
        """What the gated MLP behind its norm adds to the stream [.., m, W]."""
        inputs = self.normed(stream, "post_attention_layernorm")
        gate, up = linear(inputs, self.gate_up, self._gate_up_bias).chunk(2, -1)
        return linear(silu(gate) * up, self._down, self._down_bias)

    def normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """RMSNorm of the last axis with the layer's weight `name`."""
        return norm(x, self._norms[name], self._eps)


def rotate(x: torch.Tensor, angles: Angles) -> torch.Tensor:
    """x [.., m, hd] turned by the angles of its rows; halves are the pairs."""
    cos, sin = angles
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


def norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm of the last axis."""
    return rms_norm(x, (x.shape[-1],), weight, eps)


def _joined(
    tensors: Mapping[str, torch.Tensor], names: list[str]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weight and bias of projections of the same input, one under the other."""
    weights = [tensors[f"{name}.weight"] for name in names]
    biases = [tensors[f"{name}.bias"] for name in names if f"{name}.bias" in tensors]
    if len(names) == 1:
        return weights[0], biases[0] if biases else None
    return torch.cat(weights), torch.cat(biases) if biases else None
