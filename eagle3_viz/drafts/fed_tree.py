"""What a draft was fed since its last verified token: who sees whom, and where each one stands."""

from __future__ import annotations

import torch


class FedTree:
    """R fed tokens in the order fed, behind the verified ones."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.clear()

    def clear(self) -> None:
        """A new tree begins."""
        self._levels: list[int] = []
        self._visible = torch.zeros(1, 0, dtype=torch.bool, device=self._device)

    def __len__(self) -> int:
        return len(self._levels)

    def add(self, parents: torch.Tensor, level: int, verified: int) -> torch.Tensor:
        """Add m tokens at depth `level`; what they see, bool [m, verified + R + m].

        parents int64 [m] as `Stepper.step` counts. A token sees what is verified, its ancestors
        and itself. Row i of the state holds what the i-th fed token sees of the others; row 0 is
        the root, which sees none.
        """
        m = len(parents)
        own = torch.eye(m, dtype=torch.bool, device=self._device)
        rows = torch.cat([self._visible[parents], own], dim=1)
        older = torch.cat([self._visible, own.new_zeros(len(self._visible), m)], dim=1)
        self._visible = torch.cat([older, rows])
        self._levels += [level] * m
        return torch.cat([own.new_ones(m, verified), rows], dim=1)

    def key_positions(self, verified: int, root: int) -> torch.Tensor:
        """Positions int64 [verified + R] of all keys; a fed token stands `level` behind `root`."""
        levels = torch.tensor(self._levels, dtype=torch.int64, device=self._device)
        return torch.cat([torch.arange(verified, device=self._device), root + levels])
