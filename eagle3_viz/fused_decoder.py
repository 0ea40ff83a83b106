"""The decoder of a target, run by us: Llama's layers with fused projections, or transformers' own.

Both give the final states of the same weights; a test compares them for every family. Ours is for
Llama-shaped families on one device, transformers' for the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.functional import embedding
from transformers.cache_utils import Cache

from eagle3_viz.kv_cache import TreeCache
from eagle3_viz.layer_memory import Appended, Memory, Updated
from eagle3_viz.llama_block import LlamaBlock, turning
from eagle3_viz.llama_stack import Entering, LlamaStack
from eagle3_viz.projection import Projection, linears_of
from eagle3_viz.rms_norm import RmsNorm
from eagle3_viz.taps import Taps, watch

FUSED_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
Masks = Mapping[str, torch.Tensor | None] | torch.Tensor | None


class Decoder(Protocol):
    """Everything of a causal LM but its head."""

    def __call__(
        self,
        ids: torch.Tensor,  # int64 [B, t]
        positions: torch.Tensor,  # int64 [B or 1, t]
        masks: Masks,  # additive, by attention kind where the family has several
        cache: Cache | None,  # takes the keys and values, gives all that are to be seen
    ) -> torch.Tensor:
        """Final states [B, t, d]; the streams at the taps are noted."""

    @property
    def projections(self) -> list[Projection]:
        """Its matrix products, in order."""


def decoder_of(model: Any, taps: Taps, *, reorder: bool) -> Decoder:
    """The faster decoder that runs this model exactly. reorder: as `Projection` takes it."""
    if _can_be_fused(model):
        return FusedDecoder(model, taps, reorder=reorder)
    return StockDecoder(model, taps)


class StockDecoder:
    """transformers' own modelling code."""

    def __init__(self, model: Any, taps: Taps) -> None:
        self._decoder = model.get_decoder()
        watch(taps, self._decoder.layers, self._decoder.norm)
        parameters = inspect.signature(self._decoder.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, masks: Masks, cache: Cache | None
    ) -> torch.Tensor:
        out = self._decoder(
            input_ids=ids,
            position_ids=positions,
            attention_mask=masks,
            use_cache=cache is not None,
            **{self._cache_argument: cache},
        )
        states: torch.Tensor = out.last_hidden_state
        return states

    @property
    def projections(self) -> list[Projection]:
        """The weights of its linear layers, as transformers multiplies with them."""
        return linears_of(self._decoder)


@dataclass(frozen=True)
class _Sizes:
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float


class FusedDecoder:
    """Llama-shaped layers, with a reordered copy of their weights where that is fast.

    Without one the model's own weights become views of the joined ones: nothing is held twice.

    turns_by_position: its rotary angles depend on a token's own position and on nothing else.
    """

    def __init__(self, model: Any, taps: Taps, *, reorder: bool) -> None:
        decoder, config = model.get_decoder(), model.config
        self._taps = taps
        self._embedding = decoder.embed_tokens.weight.detach()
        self._rotary = decoder.rotary_emb
        self.turns_by_position = "dynamic" not in self._rotary.rope_type
        self._norm = RmsNorm(decoder.norm.weight.detach(), config.rms_norm_eps)
        self._kinds = getattr(config, "layer_types", None) or [""] * len(decoder.layers)
        first = decoder.layers[0].self_attn
        sizes = _Sizes(
            config.num_attention_heads,
            config.num_key_value_heads,
            first.head_dim,
            config.rms_norm_eps,
        )
        self.blocks = [_block_of(layer, sizes, reorder) for layer in decoder.layers]
        norms = [block.norms["input_layernorm"] for block in self.blocks]
        self._stack = LlamaStack(self.blocks, norms, first.scaling)

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, masks: Masks, cache: Cache | None
    ) -> torch.Tensor:
        by_layer = [masks[kind] if isinstance(masks, Mapping) else masks for kind in self._kinds]
        if not isinstance(cache, TreeCache):
            return self.over(ids, positions, Updated(cache, by_layer))
        first = cache.extend(ids.shape[1])
        return self.over(ids, positions, Appended(cache.by_layer, by_layer, first))

    def over(
        self,
        ids: torch.Tensor,  # int64 [B, t]
        positions: torch.Tensor,  # int64 [B or 1, t]
        memory: Memory,
    ) -> torch.Tensor:
        """As `Decoder.__call__`, with attention to whatever `memory` holds."""
        stream = embedding(ids, self._embedding)
        cos, sin = self._rotary(stream, positions)
        angles = turning(cos[:, None], sin[:, None])
        last = len(self.blocks)
        entering = Entering(stream, stream, angles, self._taps.boundaries)
        stream, streams = memory.over(self._stack, entering)
        for boundary, kept in streams.items():
            self._taps.note(boundary, kept)
        self._taps.note(last, stream)
        final = self._norm(stream)
        self._taps.note(last + 1, final)
        return final

    @property
    def projections(self) -> list[Projection]:
        """Those of its layers."""
        return [product for block in self.blocks for product in block.projections]


def _can_be_fused(model: Any) -> bool:
    config = model.config
    return (
        config.model_type in FUSED_FAMILIES
        and config.hidden_act in ("silu", "swish")
        and len(set(getattr(model, "hf_device_map", {}).values())) < 2
    )


def _block_of(layer: torch.nn.Module, sizes: _Sizes, reorder: bool) -> LlamaBlock:
    """The layer's weights joined, and its own parameters in the memory of the joined ones.

    A projection's slice of the joined rows is contiguous.
    """
    tensors = {name: weight.detach() for name, weight in layer.named_parameters()}
    block = LlamaBlock(sizes, tensors, reorder=reorder)
    for projection, module, names in (
        (block.qkv, layer.self_attn, ("q_proj", "k_proj", "v_proj")),
        (block.gate_up, layer.mlp, ("gate_proj", "up_proj")),
    ):
        if projection.joined is not None:
            own = [getattr(module, name).weight for name in names]
            parts = projection.joined.split([len(weight) for weight in own])
            for weight, rows in zip(own, parts, strict=True):
                weight.data = rows
    return block
