"""One Llama layer in as few operations as it takes: of a target, and of a draft.

Projections that read the same input are one matrix product, rotary positions turn queries and keys
together, and on a CPU the operations between the products are called by TorchScript and not by
Python. In a one-token step transformers' own layers spend a third of the time between products;
what is saved here is saved for autoregression and for verification alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch.nn.functional import silu

from eagle3_viz.projection import Projection, product
from eagle3_viz.rms_norm import RmsNorm, normed
from eagle3_viz.scripted import fastest

Angles = tuple[torch.Tensor, torch.Tensor]  # of `turning`, [m, hd], or [1, hd] for all rows
Heads = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


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
    """One layer's parts before and after attention. Leading axes of a row may be any.

    tensors: the layer's weights by their names within it. Biases, and the norms of queries and
    keys (Qwen3), are used where they are. reorder: as `Projection` takes it.
    """

    def __init__(
        self, sizes: Sizes, tensors: Mapping[str, torch.Tensor], *, reorder: bool = True
    ) -> None:
        self._sizes = sizes.num_heads, sizes.num_kv_heads, sizes.head_dim
        self.norms = norms_of(tensors, sizes.rms_norm_eps)
        self.qkv = _projection(tensors, [f"self_attn.{kind}_proj" for kind in "qkv"], reorder)
        self.output = _projection(tensors, ["self_attn.o_proj"], reorder)
        self.gate_up = _projection(tensors, ["mlp.gate_proj", "mlp.up_proj"], reorder)
        self.down = _projection(tensors, ["mlp.down_proj"], reorder)
        of_heads = [self.norms.get(f"self_attn.{kind}_norm") for kind in "qk"]
        self._q_norm, self._k_norm = (None if norm is None else norm.twice for norm in of_heads)
        self._eps = sizes.rms_norm_eps

    @property
    def projections(self) -> tuple[Projection, ...]:
        """Its matrix products, in order."""
        return self.qkv, self.output, self.gate_up, self.down

    def heads(self, inputs: torch.Tensor, angles: Angles, norm: str = "") -> Heads:
        """Queries [.., H, m, hd] and keys [.., KV, m, hd], turned, and values, of rows [.., m, W].

        angles: of `turning`, in a shape that fits [.., heads, m, hd]. norm: the name of the norm
        that the rows still have to pass, if any.
        """
        twice = self.norms[norm].twice if norm else None
        run = fastest(_heads, inputs)
        q, k, v = run(
            inputs,
            twice,
            *self.qkv.parts,
            self._q_norm,
            self._k_norm,
            self._eps,
            *angles,
            *self._sizes,
        )
        return q, k, v

    def rest(self, stream: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """The stream [.., m, W] behind the layer, from the one before and heads [.., H, m, hd]."""
        norm = self.norms["post_attention_layernorm"]
        run = fastest(_rest, stream)
        return run(
            stream,
            attended,
            *self.output.parts,
            norm.twice,
            norm.eps,
            *self.gate_up.parts,
            *self.down.parts,
        )


def _heads(
    inputs: torch.Tensor,
    norm: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    reordered: bool,
    q_norm: torch.Tensor | None,
    k_norm: torch.Tensor | None,
    eps: float,
    cos: torch.Tensor,
    sin: torch.Tensor,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if norm is not None:
        inputs = normed(inputs, norm, eps)
    joined = product(inputs, weight, bias, reordered)
    rows = joined.unflatten(-1, [-1, head_dim]).transpose(-3, -2)
    q, k, v = rows.split_with_sizes([num_heads, num_kv_heads, num_kv_heads], -3)
    if q_norm is not None and k_norm is not None:
        q, k = normed(q, q_norm, eps), normed(k, k_norm, eps)
        return rotate(q, cos, sin), rotate(k, cos, sin), v
    turned = rotate(rows.narrow(-3, 0, num_heads + num_kv_heads), cos, sin)
    q, k = turned.split_with_sizes([num_heads, num_kv_heads], -3)
    return q, k, v


def _rest(
    stream: torch.Tensor,
    attended: torch.Tensor,
    output: torch.Tensor,
    output_bias: torch.Tensor | None,
    output_reordered: bool,
    norm: torch.Tensor,
    eps: float,
    gate_up: torch.Tensor,
    gate_up_bias: torch.Tensor | None,
    gate_up_reordered: bool,
    down: torch.Tensor,
    down_bias: torch.Tensor | None,
    down_reordered: bool,
) -> torch.Tensor:
    rows = attended.transpose(-3, -2).flatten(-2)
    stream = stream + product(rows, output, output_bias, output_reordered)
    inputs = normed(stream, norm, eps)
    gate, up = product(inputs, gate_up, gate_up_bias, gate_up_reordered).chunk(2, -1)
    return stream + product(silu(gate) * up, down, down_bias, down_reordered)


def turning(cos: torch.Tensor, sin: torch.Tensor) -> Angles:
    """What turns a row, from cos and sin [.., hd] of angles whose halves are the same."""
    low, high = sin.chunk(2, dim=-1)
    return cos, torch.cat([-low, high], dim=-1)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [.., m, hd] turned by the angles of its rows, which `turning` gave.

    Elements i and i + hd / 2 are a pair.
    """
    low, high = x.chunk(2, -1)
    return torch.addcmul(x * cos, torch.cat([high, low], -1), sin)


def norms_of(tensors: Mapping[str, torch.Tensor], eps: float) -> dict[str, RmsNorm]:
    """The norms among weights, by their names without the last word."""
    return {n.removesuffix(".weight"): RmsNorm(t, eps) for n, t in tensors.items() if "norm" in n}


def _projection(tensors: Mapping[str, torch.Tensor], names: list[str], reorder: bool) -> Projection:
    """Projections of the same input as one."""
    weights = [tensors[f"{name}.weight"] for name in names]
    biases = [tensors[f"{name}.bias"] for name in names if f"{name}.bias" in tensors]
    return Projection(weights, biases, reorder=reorder)
