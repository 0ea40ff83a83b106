"""Feature taps: the residual stream of the target at chosen depths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Taps:
    """Hooks on a decoder that keep its residual stream at `boundaries`.

    Boundary b is the stream before layer b, that is after layer b - 1; b = L is the output of the
    last layer, and b = L + 1 that output behind the final norm, which the LM head reads
    (FORMATS.md 1).
    """

    def __init__(
        self,
        layers: Sequence[torch.nn.Module],
        final_norm: torch.nn.Module,
        boundaries: Sequence[int],
    ) -> None:
        self._layers, self._final_norm = layers, final_norm
        self._streams: dict[int, torch.Tensor] = {}
        self._hooks: list[Any] = []
        self.boundaries: tuple[int, ...] = ()
        self.select(boundaries)

    def select(self, boundaries: Sequence[int]) -> None:
        """Keep these from the next forward on. Raises ValueError where the target has none."""
        last = len(self._layers) + 1
        if any(not 0 <= b <= last for b in boundaries):
            raise ValueError(
                f"tap boundaries {tuple(boundaries)} do not fit a target of {last - 1} layers"
            )
        if tuple(boundaries) == self.boundaries:
            return
        for hook in self._hooks:
            hook.remove()
        self._streams.clear()
        self.boundaries = tuple(boundaries)
        self._hooks = [self._hook(b) for b in dict.fromkeys(boundaries)]

    def take(self) -> torch.Tensor | None:
        """The streams of the last forward side by side, [B, t, K * d], each boundary once, in
        order; None without boundaries."""
        if not self.boundaries:
            return None
        streams = [self._streams.pop(b) for b in dict.fromkeys(self.boundaries)]
        home = streams[-1].device
        return torch.cat([stream.to(home) for stream in streams], dim=-1)

    def _hook(self, boundary: int) -> Any:
        if boundary < len(self._layers):
            before = self._before(boundary)
            return self._layers[boundary].register_forward_pre_hook(before, with_kwargs=True)
        module = self._final_norm if boundary > len(self._layers) else self._layers[-1]
        return module.register_forward_hook(self._after(boundary))

    def _before(self, boundary: int) -> Any:
        def keep(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._streams[boundary] = args[0] if args else kwargs["hidden_states"]

        return keep

    def _after(self, boundary: int) -> Any:
        def keep(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self._streams[boundary] = output[0] if isinstance(output, tuple) else output

        return keep
