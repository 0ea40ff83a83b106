"""Attention of tree nodes over a prefix and over their own ancestors (MATH.md 2).

A node sees the prefix, its ancestors and itself. The Triton form is in `tree_attention_triton`;
the PyTorch form here is what it is checked against, and what runs where it cannot.
"""

from __future__ import annotations

import torch

from kernels import implementation
from kernels.ancestor_bits import WORD_BITS, TreeMask
from kernels.attention_sizes import attention_sizes


def tree_attention(
    query: torch.Tensor,  # [B, H, T, D], floating, any strides
    key: torch.Tensor,  # [B, KV, N, D], the query's dtype, any strides
    value: torch.Tensor,  # [B, KV, N, D], the query's dtype, any strides
    tree: TreeMask,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    window: int | None = None,
    out: torch.Tensor | None = None,  # [B, H, T, D], any dtype and strides
    workspace: torch.Tensor | None = None,  # float32 [at least workspace_size()]
) -> torch.Tensor:
    """Attention of T queries over the first n_b + S rows of N keys; returns [B, H, T, D].

    Text b has n_b = tree.prefix_lengths[b] keys and behind them the S rows of its tree;
    n_b + S <= N is the caller's duty, since looking would wait for the device. Query head h
    reads key/value head h // (H / KV). A query that sees nothing gets zeros. Scores and sums are
    float32, or float64 where the inputs are (PyTorch only).

    scale: 1 / sqrt(D) by default. softcap: scores become softcap * tanh(score / softcap).
    window: a query sees the last `window` positions only, its own included (tree.depth).
    Under Triton nothing is allocated when `out` and `workspace` are given, and a CUDA graph can
    replay the call. Raises ValueError for arguments that do not fit together, and what
    `implementation` raises.
    """
    if implementation(query.device.type) == "torch":
        return tree_attention_torch(
            query, key, value, tree, scale=scale, softcap=softcap, window=window, out=out
        )
    from kernels.tree_attention_triton import tree_attention_triton

    return tree_attention_triton(
        query,
        key,
        value,
        tree,
        scale=scale,
        softcap=softcap,
        window=window,
        out=out,
        workspace=workspace,
    )


def workspace_size(
    query: torch.Tensor,  # [B, H, T, D]
    key: torch.Tensor,  # [B, KV, N, D]
) -> int:
    """Numbers of float32 that `tree_attention` needs as workspace for these shapes; 0: none."""
    if implementation(query.device.type) == "torch":
        return 0
    from kernels.tree_attention_triton import workspace_size

    return workspace_size(query, key)


def tree_attention_torch(
    query: torch.Tensor,  # [B, H, T, D], floating
    key: torch.Tensor,  # [B, KV, N, D], the query's dtype
    value: torch.Tensor,  # [B, KV, N, D], the query's dtype
    tree: TreeMask,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    window: int | None = None,
    out: torch.Tensor | None = None,  # [B, H, T, D], any dtype and strides
) -> torch.Tensor:
    """`tree_attention` in PyTorch's operations; needs no workspace."""
    sizes = attention_sizes(query, key, value, tree, softcap=softcap, window=window, out=out)
    accurate = torch.promote_types(query.dtype, torch.float32)
    shared = (sizes.batch, sizes.kv_heads, sizes.rows, sizes.head_dim)
    folded = query.reshape(shared).to(accurate)
    scores = folded @ key.to(accurate).transpose(-1, -2)
    scores *= sizes.head_dim**-0.5 if scale is None else scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    seen = visible_keys(tree, sizes.keys, window)
    by_head = seen.repeat(1, sizes.groups, 1)[:, None]
    weights = scores.masked_fill(~by_head, float("-inf")).softmax(-1)
    weights = weights.masked_fill(~by_head, 0.0)  # a query that sees nothing gets zeros
    unseen = ~seen.any(1)[:, None, :, None]  # may hold anything, and 0 * inf is no zero
    result = weights @ value.to(accurate).masked_fill(unseen, 0.0)
    result = result.reshape(query.shape).to(query.dtype)
    return result if out is None else out.copy_(result)


def visible_keys(tree: TreeMask, keys: int, window: int | None = None) -> torch.Tensor:
    """Which of N keys each query sees, bool [B, T, N]: the dense form of a `TreeMask`.

    window: a query sees the last `window` positions only, its own included; a tree row stands
    at the position of its depth behind the prefix.
    """
    words, lengths = tree.words, tree.prefix_lengths
    batch, nodes = len(lengths), words.shape[1]
    columns = torch.arange(keys, device=words.device)
    row = columns - lengths[:, None]  # [B, N], the tree row at each key; below 0: the prefix
    inside = row.clamp(0, tree.rows - 1)
    word_of = (inside // WORD_BITS)[:, None].expand(batch, nodes, keys)
    word = words.expand(batch, -1, -1).gather(2, word_of)
    bit = ((word >> (inside % WORD_BITS)[:, None]) & 1).bool()
    seen = (row < 0)[:, None] | (bit & (row < tree.rows)[:, None])
    if window is None:
        return seen
    assert tree.depth is not None
    depth = tree.depth.expand(batch, -1)
    position = torch.where(row < 0, row, depth.gather(1, inside))  # counted from the root's
    queries = depth[:, tree.rows - nodes :]
    return seen & (position[:, None] > queries[..., None] - window)
