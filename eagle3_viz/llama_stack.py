"""Llama layers one behind the other, over a cache in a single call on a CPU.

A call from Python into TorchScript costs more than several of the operations it makes: with one
call a layer, a one-token step of thirty layers took a twelfth longer.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from eagle3_viz.llama_block import Angles, Heads, Layer, LlamaBlock, cached
from eagle3_viz.rms_norm import RmsNorm
from eagle3_viz.scripted import fastest_module

KeysAndValues = tuple[torch.Tensor, torch.Tensor]  # each [1, KV, capacity, hd]
Streams = dict[int, torch.Tensor]  # by boundary: b is before layer b


class Entering(NamedTuple):
    """What enters a stack of layers.

    stream  [B, m, W].
    inputs  [B, m, width], what attention reads in layer 0.
    angles  in a shape that fits [B, heads, m, hd].
    kept    the boundaries whose streams are returned beside the last one.
    """

    stream: torch.Tensor
    inputs: torch.Tensor
    angles: Angles
    kept: Sequence[int] = ()


class LlamaStack:
    """norms: what each layer's inputs still have to pass before its attention, if anything.

    scale: of the attention scores, by default 1 / sqrt(hd).
    """

    def __init__(
        self,
        blocks: Sequence[LlamaBlock],
        norms: Sequence[RmsNorm | None],
        scale: float | None = None,
    ) -> None:
        self._blocks, self._norms, self._scale = blocks, norms, scale
        twice = [None if norm is None else norm.twice for norm in norms]
        whole = _Cached([block.layer for block in blocks], twice, scale)
        self._cached = fastest_module(whole, blocks[0].layer.post_norm.device)

    def cached(
        self,
        entering: Entering,  # of one text
        masks: Sequence[torch.Tensor | None],  # by layer, of `additive_mask`; None: causal or m = 1
        cache: Sequence[KeysAndValues],  # by layer
        first: int,
    ) -> tuple[torch.Tensor, Streams]:
        """The stream behind the layers, with attention to everything in a cache and these rows.

        Their keys and values are written at `first` onwards.
        """
        stream, inputs, angles, kept = entering
        found: tuple[torch.Tensor, Streams] = self._cached(
            stream, inputs, *angles, list(masks), list(cache), first, list(kept)
        )
        return found

    def attending(
        self,
        attended: Callable[[int, Heads, float | None], torch.Tensor],
        entering: Entering,
    ) -> tuple[torch.Tensor, Streams]:
        """As `cached`, with attention [B, H, m, hd] by a function of layer, heads and scale."""
        stream, inputs, angles, kept = entering
        streams: Streams = {}
        for index, (block, norm) in enumerate(zip(self._blocks, self._norms, strict=True)):
            if index in kept:
                streams[index] = stream
            heads = block.heads(inputs, angles, norm)
            stream = inputs = block.rest(stream, attended(index, heads, self._scale))
        return stream, streams


class _Cached(torch.nn.Module):
    """`LlamaStack.cached`. TorchScript reads the annotations: here they are not postponed."""

    layers: list[Layer]
    norms: list[torch.Tensor | None]
    scale: float | None

    def __init__(
        self, layers: list[Layer], norms: list[torch.Tensor | None], scale: float | None
    ) -> None:
        super().__init__()
        self.layers, self.norms, self.scale = layers, norms, scale

    def forward(
        self,
        stream: torch.Tensor,
        inputs: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        masks: list[torch.Tensor | None],
        cache: list[tuple[torch.Tensor, torch.Tensor]],
        first: int,
        kept: list[int],
    ) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        """As `LlamaStack.cached`."""
        streams: dict[int, torch.Tensor] = {}
        for index, layer in enumerate(self.layers):
            if index in kept:
                streams[index] = stream
            keys, values = cache[index]
            stream = inputs = cached(
                layer, stream, inputs, self.norms[index], cos, sin,
                masks[index], keys, values, first, self.scale,
            )  # fmt: skip
        return stream, streams
