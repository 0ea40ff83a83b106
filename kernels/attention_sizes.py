"""The sizes of one tree attention, and the refusal of arguments that do not fit together."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.ancestor_bits import MAX_ROWS, WORD_BITS, TreeMask

MAX_HEAD_DIM = 256


@dataclass(frozen=True)
class AttentionSizes:
    """batch B, kv_heads KV, groups H / KV, nodes T, tree_rows S, keys N, head_dim D."""

    batch: int
    kv_heads: int
    groups: int
    nodes: int
    tree_rows: int
    keys: int
    head_dim: int

    @property
    def rows(self) -> int:
        """Queries that share one key/value head."""
        return self.groups * self.nodes


def attention_sizes(
    query: torch.Tensor,  # [B, H, T, D]
    key: torch.Tensor,  # [B, KV, N, D]
    value: torch.Tensor,  # [B, KV, N, D]
    tree: TreeMask,
    *,
    softcap: float | None,
    window: int | None,
    out: torch.Tensor | None,  # [B, H, T, D]
) -> AttentionSizes:
    """Sizes of a call. Raises ValueError, naming the argument, where something does not fit.

    Only shapes, dtypes and devices are looked at, never values: the device is not waited for.
    """
    _check_states(query, key, value, out)
    batch, heads, nodes, head_dim = query.shape
    _check_tree(tree, batch, nodes, key.shape[2])
    if window is not None and tree.depth is None:
        raise ValueError("a sliding window needs the tree's depth: give TreeMask a depth")
    if window is not None and window < 1:
        raise ValueError(f"window must be at least 1 token, found {window}")
    if softcap is not None and not softcap > 0:
        raise ValueError(f"softcap must be positive, found {softcap}")
    kv_heads = key.shape[1]
    return AttentionSizes(
        batch, kv_heads, heads // kv_heads, nodes, tree.rows, key.shape[2], head_dim
    )


def _check_states(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor | None
) -> None:
    batch, heads, _, head_dim = query.shape
    if key.shape != value.shape or (key.shape[0], key.shape[3]) != (batch, head_dim):
        raise ValueError(
            f"key and value must be [{batch}, KV, N, {head_dim}] as query {list(query.shape)} "
            f"asks, found {list(key.shape)} and {list(value.shape)}"
        )
    if heads % key.shape[1]:
        raise ValueError(f"{heads} query heads cannot share {key.shape[1]} key/value heads evenly")
    if head_dim > MAX_HEAD_DIM:
        raise ValueError(f"head size is at most {MAX_HEAD_DIM}, found {head_dim}")
    if not query.dtype == key.dtype == value.dtype or not query.dtype.is_floating_point:
        raise ValueError(
            "query, key and value must share one floating dtype, found "
            f"{query.dtype}, {key.dtype}, {value.dtype}: cast them before the call"
        )
    if not query.device == key.device == value.device:
        raise ValueError(
            "query, key and value must be on one device, found "
            f"{query.device}, {key.device}, {value.device}"
        )
    if out is not None and (out.shape, out.device) != (query.shape, query.device):
        raise ValueError(
            f"out must be {list(query.shape)} on {query.device}, found {list(out.shape)} on "
            f"{out.device}"
        )


def _check_tree(tree: TreeMask, batch: int, nodes: int, keys: int) -> None:
    if not nodes <= tree.rows <= min(MAX_ROWS, keys):
        raise ValueError(
            f"the tree must have {nodes} rows (as many as queries) to {min(MAX_ROWS, keys)}, "
            f"found {tree.rows}"
        )
    expected = [nodes, -(-tree.rows // WORD_BITS)]
    if list(tree.words.shape) not in ([1, *expected], [batch, *expected]):
        raise ValueError(
            f"tree.words must be [1 or {batch}, {nodes}, {expected[1]}], found "
            f"{list(tree.words.shape)}: pack the ancestor matrix with TreeMask.pack"
        )
    if tree.words.dtype != torch.int64:
        raise ValueError(f"tree.words must be int64, found {tree.words.dtype}")
    if list(tree.prefix_lengths.shape) != [batch]:
        raise ValueError(
            f"tree.prefix_lengths must be [{batch}], one a text, found "
            f"{list(tree.prefix_lengths.shape)}"
        )
    depth = tree.depth
    if depth is not None and list(depth.shape) not in ([1, tree.rows], [batch, tree.rows]):
        raise ValueError(
            f"tree.depth must be [1 or {batch}, {tree.rows}], found {list(depth.shape)}"
        )
