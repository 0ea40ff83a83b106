"""One Llama layer in as few operations as it takes: of a target, and of a draft.

Projections that read the same input are one matrix product, rotary positions turn queries and keys
together, and on a CPU the operations between the products are called by TorchScript and not by
Python. In a one-token step transformers' own layers spend a third of the time between products;
what is saved here is saved for autoregression and for verification alike.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch
from torch.nn.functional import silu

from eagle3_viz.attention import grouped_attention
from eagle3_viz.projection import Projection, Weight, product
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


class Layer(NamedTuple):
    """Everything of a layer that its operations read. Norms are twice their weight in a row.

    TorchScript reads the annotations: in this file they are not postponed.
    """

    qkv: Weight
    output: Weight
    gate_up: Weight
    down: Weight
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    post_norm: torch.Tensor
    eps: float
    num_heads: int
    num_kv_heads: int
    head_dim: int


class LlamaBlock:
    """One layer in its parts before and after attention.

    layer: what `cached` runs whole.
    tensors: the layer's weights by their names within it. Biases, and the norms of queries and
    keys (Qwen3), are used where they are. reorder: as `Projection` takes it.
    """

    def __init__(
        self, sizes: Sizes, tensors: Mapping[str, torch.Tensor], *, reorder: bool = True
    ) -> None:
        self.norms = norms_of(tensors, sizes.rms_norm_eps)
        self.qkv = _projection(tensors, [f"self_attn.{kind}_proj" for kind in "qkv"], reorder)
        self.output = _projection(tensors, ["self_attn.o_proj"], reorder)
        self.gate_up = _projection(tensors, ["mlp.gate_proj", "mlp.up_proj"], reorder)
        self.down = _projection(tensors, ["mlp.down_proj"], reorder)
        self.layer = Layer(
            qkv=self.qkv.weight,
            output=self.output.weight,
            gate_up=self.gate_up.weight,
            down=self.down.weight,
            q_norm=_twice(self.norms.get("self_attn.q_norm")),
            k_norm=_twice(self.norms.get("self_attn.k_norm")),
            post_norm=self.norms["post_attention_layernorm"].twice,
            eps=sizes.rms_norm_eps,
            num_heads=sizes.num_heads,
            num_kv_heads=sizes.num_kv_heads,
            head_dim=sizes.head_dim,
        )

    @property
    def projections(self) -> tuple[Projection, Projection, Projection, Projection]:
        """Its matrix products, in order."""
        return self.qkv, self.output, self.gate_up, self.down

    def heads(self, inputs: torch.Tensor, angles: Angles, norm: RmsNorm | None = None) -> Heads:
        """Queries [.., H, m, hd] and keys [.., KV, m, hd], turned, and values, of rows [.., m, W].

        angles: in a shape that fits [.., heads, m, hd]. norm: what the inputs still have to pass.
        """
        return fastest(_heads, inputs)(self.layer, inputs, _twice(norm), *angles)

    def rest(self, stream: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """The stream [.., m, W] behind the layer, from the one before and heads [.., H, m, hd]."""
        return fastest(_rest, stream)(self.layer, stream, attended)


def _twice(norm: RmsNorm | None) -> torch.Tensor | None:
    return None if norm is None else norm.twice


def _heads(
    layer: Layer,
    inputs: torch.Tensor,
    norm: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if norm is not None:
        inputs = normed(inputs, norm, layer.eps)
    rows = product(inputs, layer.qkv).unflatten(-1, [-1, layer.head_dim]).transpose(-3, -2)
    q_norm, k_norm = layer.q_norm, layer.k_norm
    if q_norm is not None and k_norm is not None:
        sizes = [layer.num_heads, layer.num_kv_heads, layer.num_kv_heads]
        q, k, v = rows.split_with_sizes(sizes, -3)
        q, k = normed(q, q_norm, layer.eps), normed(k, k_norm, layer.eps)
        return rotate(q, cos, sin), rotate(k, cos, sin), v
    both = layer.num_heads + layer.num_kv_heads
    q, k = rotate(rows.narrow(-3, 0, both), cos, sin).split_with_sizes(
        [layer.num_heads, layer.num_kv_heads], -3
    )
    return q, k, rows.narrow(-3, both, layer.num_kv_heads)


def _rest(layer: Layer, stream: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
    stream = stream + product(attended.transpose(-3, -2).flatten(-2), layer.output)
    inputs = normed(stream, layer.post_norm, layer.eps)
    gate, up = product(inputs, layer.gate_up).chunk(2, -1)
    return stream + product(silu(gate) * up, layer.down)


def cached(
    layer: Layer,
    stream: torch.Tensor,
    inputs: torch.Tensor,
    norm: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mask: torch.Tensor | None,
    keys: torch.Tensor,
    values: torch.Tensor,
    first: int,
    scale: float | None,
) -> torch.Tensor:
    """The stream [1, m, W] behind a layer, with attention to a cache; as `LlamaStack.cached`."""
    q, k, v = _heads(layer, inputs, norm, cos, sin)
    count = q.shape[-2]
    keys.narrow(-2, first, count).copy_(k)
    values.narrow(-2, first, count).copy_(v)
    keys, values = keys.narrow(-2, 0, first + count), values.narrow(-2, 0, first + count)
    return _rest(layer, stream, grouped_attention(q, keys, values, mask, scale))


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
