"""A walk through a tree as rows of a table: node indices, rising."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def is_prefix(path: Sequence[int]) -> bool:
    """Whether the path is the first nodes themselves: then their rows lie in place already."""
    return not path or path[-1] == len(path) - 1


def rows_along(
    table: torch.Tensor,  # [T, ...]
    path: Sequence[int],
) -> torch.Tensor:
    """The rows of the nodes on a path, [len(path), ...]: a view where they lie in place."""
    if is_prefix(path):
        return table[: len(path)]
    return table[torch.tensor(path, device=table.device)]
