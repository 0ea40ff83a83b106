"""Feature taps: the residual stream of the target at chosen depths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Taps:
    """Hooks on decoder layers that keep the residual stream at `boundaries`.

    Boundary b is the stream before layer b, that is after layer b - 1, always before the final
    norm; b = L is the output of the last layer (FORMATS.md 1).
    """

    def __init__(self, layers: Sequence[torch.nn.Module], boundaries: Sequence[int]) -> None:
        self.boundaries = tuple(boundaries)
        self._streams: dict[int, torch.Tensor] = {}
        if any(not 0 <= b <= len(layers) for b in self.boundaries):
            raise ValueError(
                f"tap boundaries {self.boundaries} do not fit a target of {len(layers)} layers"
            )
        for b in set(self.boundaries):
            if b < len(layers):
                layers[b].register_forward_pre_hook(self._before(b), with_kwargs=True)
            else:
                layers[-1].register_forward_hook(self._after(b))

    def take(self) -> torch.Tensor:
        """The streams of the last forward side by side, [B, t, K * d], in boundary order."""
        streams = [self._streams.pop(b) for b in dict.fromkeys(self.boundaries)]
        home = streams[-1].device
        return torch.cat([stream.to(home) for stream in streams], dim=-1)

    def _before(self, boundary: int) -> Any:
        def keep(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._streams[boundary] = args[0] if args else kwargs["hidden_states"]

        return keep

    def _after(self, boundary: int) -> Any:
        def keep(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self._streams[boundary] = output[0] if isinstance(output, tuple) else output

        return keep
