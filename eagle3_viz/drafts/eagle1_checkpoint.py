"""EAGLE-1 and EAGLE-2 drafts: what they consist of, and their strict reader (FORMATS.md 3A).

EAGLE-2 changed the decoding only, so both have these weights. The draft reads the target's final
normed state, has no norm before its first attention and none after its last layer, and predicts
through the target's own LM head over the whole vocabulary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import torch

from eagle3_viz.drafts.draft_folder import CheckpointError, DraftFolder

# Settings of variants of this layout that this reader does not follow: a head over frequent tokens
# only, extra norms, EAGLE-3 in its later layouts.
FOREIGN_SWITCHES = ("draft_vocab_size", "hot_vocab_size", "add_para_norm", "eagle_config")
_LAYER = re.compile(r"layers\.(\d+)\.")


@dataclass(frozen=True)
class Eagle1Architecture:
    """Sizes and switches of an EAGLE-1 draft, as wide as its target.

    fc_bias         fc adds a bias (the published default).
    attention_bias  q, k and v add biases.
    own_embedding   the file has its own token embedding; otherwise the target's is read.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    fc_bias: bool = True
    attention_bias: bool = False
    own_embedding: bool = False

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight this architecture consists of."""
        h = self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {"fc.weight": (h, 2 * h)}
        if self.fc_bias:
            shapes["fc.bias"] = (h,)
        for layer in range(self.num_layers):
            own = self._layer_shapes(layer)
            shapes |= {f"layers.{layer}.{name}": shape for name, shape in own.items()}
        if self.own_embedding:
            shapes["embed_tokens.weight"] = (self.vocab_size, h)
        return shapes

    def _layer_shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        h, ff = self.hidden_size, self.intermediate_size
        inner, kv = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        rows = {"q_proj": inner, "k_proj": kv, "v_proj": kv}
        shapes: dict[str, tuple[int, ...]] = {
            f"self_attn.{name}.weight": (count, h) for name, count in rows.items()
        }
        if self.attention_bias:
            shapes |= {f"self_attn.{name}.bias": (count,) for name, count in rows.items()}
        if layer:
            shapes["input_layernorm.weight"] = (h,)
        return shapes | {
            "self_attn.o_proj.weight": (h, inner),
            "post_attention_layernorm.weight": (h,),
            "mlp.gate_proj.weight": (ff, h),
            "mlp.up_proj.weight": (ff, h),
            "mlp.down_proj.weight": (h, ff),
        }


@dataclass(frozen=True)
class Eagle1Weights:
    """A checkpoint in canonical form: `tensors` named as `tensor_shapes`."""

    architecture: Eagle1Architecture
    tensors: dict[str, torch.Tensor]


def read_eagle1(folder: Path) -> Eagle1Weights:
    """Read a draft in the published EAGLE-1 layout (FORMATS.md 3A).

    Raises CheckpointError naming each missing, misshapen or unused tensor.
    """
    found = DraftFolder.read(folder, "EAGLE-1")
    query = "layers.0.self_attn.q_proj.weight"
    if query not in found.tensors:
        raise CheckpointError(
            f"{folder.name}: no tensor {query}; this is not a draft in the published EAGLE-1 layout"
        )
    architecture = _architecture(found)
    shapes = architecture.tensor_shapes()
    found.check_tensors(shapes)
    return Eagle1Weights(architecture, {name: found.tensors[name] for name in shapes})


def _architecture(found: DraftFolder) -> Eagle1Architecture:
    """Sizes from the tensors where they show, from the config where they leave no trace."""
    query_rows, reads = found.matrix("layers.0.self_attn.q_proj.weight")
    hidden, _ = found.matrix("layers.0.self_attn.o_proj.weight")
    heads, kv_heads = found.heads(query_rows)
    if reads != hidden:
        raise CheckpointError(
            f"{found.name}: q_proj reads {reads} values; an EAGLE-1 draft of width {hidden} "
            f"reads {hidden} (fc has joined embedding and feature before)"
        )
    found.refuse_settings(FOREIGN_SWITCHES)
    return Eagle1Architecture(
        hidden_size=hidden,
        intermediate_size=found.matrix("layers.0.mlp.gate_proj.weight")[0],
        num_layers=len({match[1] for match in map(_LAYER.match, found.tensors) if match}),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=query_rows // heads,
        vocab_size=found.integer("vocab_size"),
        rms_norm_eps=found.rms_norm_eps(),
        rope_theta=found.rope_theta(),
        fc_bias=found.boolean("bias", True),
        attention_bias=found.boolean("qkv_bias", False),
        own_embedding="embed_tokens.weight" in found.tensors,
    )
