"""The rows of a verification's logits that a record shows, and ranks within rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from eagle3_viz.host_tree import HostTree
from eagle3_viz.sampling import precise


@dataclass(frozen=True)
class TargetRows:
    """p_raw after the nodes of the path and after the others with children; no more is looked at.

    place          of each of these nodes, its row: those on the path first, in order.
    logits, log_p  float32 [m, V]; logits are float64 where the target's are.
    """

    place: dict[int, int]
    logits: torch.Tensor
    log_p: torch.Tensor


def target_rows(
    tree: HostTree,
    logits: torch.Tensor,  # [T, V]
    path: Sequence[int],
) -> TargetRows:
    """What `tree` and the walk along `path` need of them."""
    nodes = list(dict.fromkeys([*path, *tree.parent[1:].tolist()]))
    rows = precise(logits[nodes])
    place = {node: row for row, node in enumerate(nodes)}
    return TargetRows(place, rows, rows.log_softmax(-1).float())


def ranks(
    rows: torch.Tensor,  # [m, V]
    places: Sequence[int],  # n of the rows
    tokens: Sequence[int],  # one in each of them
) -> np.ndarray:
    """How many values of its row are larger than each token's, int64 [n].

    One at a time: a table of every token's row would be as large as all logits. On a CPU by NumPy,
    which is four times as fast as PyTorch at this.
    """
    pairs = list(zip(places, tokens, strict=True))
    if rows.device.type == "cpu":
        table = rows.numpy()
        counts = [np.count_nonzero(table[row] > table[row, token]) for row, token in pairs]
        return np.array(counts, dtype=np.int64)
    larger = [torch.count_nonzero(rows[row] > rows[row, token]) for row, token in pairs]
    return torch.stack(larger).cpu().numpy() if larger else np.empty(0, np.int64)
