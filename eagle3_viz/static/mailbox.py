"""What the host tells the device at the start of a cycle, and what it is told at its end.

Each is one block of numbers and one copy: many small ones would cost a launch each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

HEADER = 4  # length, before, last, root


class Inbox:
    """int64 on the device; views of it that a recording may read. T: nodes at most.

    length        [1], committed tokens.
    before        [1], as many before the last verdict.
    last          [1], the place on its path where it ended.
    root          [1], the token that it decided.
    path, tokens  [T], nodes of its path and the tokens that it committed, then zeros.
    uniforms      float64 [T], draws in the order of their use.
    """

    def __init__(self, nodes: int, device: torch.device) -> None:
        size = HEADER + 3 * nodes
        self._device = torch.zeros(size, dtype=torch.int64, device=device)
        self._host = torch.zeros(size, dtype=torch.int64, pin_memory=device.type == "cuda")
        numbers = self._host.numpy()
        self._header = numbers[:HEADER]
        self._path, self._tokens, bits = numbers[HEADER:].reshape(3, nodes)
        self._uniforms = bits.view(np.float64)
        self.length, self.before, self.last, self.root = self._device[:HEADER].split(1)
        self.path, self.tokens, draws = self._device[HEADER:].view(3, nodes)
        self.uniforms = draws.view(torch.float64)

    def send(
        self,
        *,
        length: int,
        root: int,
        path: Sequence[int] = (0,),
        tokens: Sequence[int] = (0,),
        draws: Sequence[float] = (),
    ) -> None:
        """Tell the device, in one copy that the host does not wait for.

        path, tokens: of the verdict by which the text became `length` tokens long.
        """
        kept = len(path)
        self._header[:] = length, length - kept, kept - 1, root
        for row, values in ((self._path, path), (self._tokens, tokens)):
            row[:kept], row[kept:] = values, 0
        self._uniforms[: len(draws)] = draws
        self._device.copy_(self._host, non_blocking=True)


class Outbox:
    """Where what the device decided lands on the host; numbers: `host` as numpy's."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.device = torch.zeros(size, dtype=torch.int64, device=device)
        self.host = torch.zeros(size, dtype=torch.int64, pin_memory=device.type == "cuda")
        self.numbers = self.host.numpy()

    def fetch(self) -> None:
        """Copy it to the host, which must wait before it reads."""
        self.host.copy_(self.device, non_blocking=True)
