"""Feature taps: the residual stream of the target at chosen depths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Taps:
    """Keeps the residual stream of a decoder at `boundaries`.

    Boundary b is the stream before layer b, that is after layer b - 1; b = L is the output of the
    last layer, and b = L + 1 that output behind the final norm, which the LM head reads
    (FORMATS.md 1).
    """

    def __init__(self, layers: int, boundaries: Sequence[int]) -> None:
        self._last = layers + 1
        self._streams: dict[int, torch.Tensor] = {}
        self.boundaries: tuple[int, ...] = ()
        self.select(boundaries)

    def select(self, boundaries: Sequence[int]) -> None:
        """Keep these from the next forward on. Raises ValueError where the target has none."""
        if any(not 0 <= b <= self._last for b in boundaries):
            raise ValueError(
                f"tap boundaries {tuple(boundaries)} do not fit a target of {self._last - 1} layers"
            )
        self._streams.clear()
        self.boundaries = tuple(boundaries)

    def note(self, boundary: int, stream: torch.Tensor) -> None:
        """A forward is at `boundary`, with stream [B, t, d]."""
        if boundary in self.boundaries:
            self._streams[boundary] = stream

    def take(self) -> torch.Tensor | None:
        """The streams of the last forward side by side, [B, t, K * d], each boundary once, in
        order; None without boundaries."""
        if not self.boundaries:
            return None
        streams = [self._streams.pop(b) for b in dict.fromkeys(self.boundaries)]
        home = streams[-1].device
        return torch.cat([stream.to(home) for stream in streams], dim=-1)


def watch(taps: Taps, layers: Sequence[torch.nn.Module], final_norm: torch.nn.Module) -> None:
    """Have transformers' layers tell `taps` what passes, by hooks."""
    for index, layer in enumerate(layers):
        layer.register_forward_pre_hook(_before(taps, index), with_kwargs=True)
    layers[-1].register_forward_hook(_after(taps, len(layers)))
    final_norm.register_forward_hook(_after(taps, len(layers) + 1))


def _before(taps: Taps, boundary: int) -> Any:
    def note(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        taps.note(boundary, args[0] if args else kwargs["hidden_states"])

    return note


def _after(taps: Taps, boundary: int) -> Any:
    def note(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        taps.note(boundary, output[0] if isinstance(output, tuple) else output)

    return note
