"""Attention over a token tree, registered with transformers under one name.

The query heads that share a key/value head are folded into the query axis, so keys and values
are read once and never repeated in memory. Masks arrive already folded (`additive_mask`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "eagle3_viz_tree"


def grouped_attention(
    query: torch.Tensor,  # [B, H, t, hd]
    key: torch.Tensor,  # [B, KV, n, hd]
    value: torch.Tensor,  # [B, KV, n, hd]
    mask: torch.Tensor | None,  # additive [B or 1, 1, (H / KV) * t, n], None: causal or t = 1
    scale: float | None = None,
) -> torch.Tensor:
    """Scaled dot-product attention with grouped heads; returns [B, H, t, hd]."""
    batch, heads, t, head_dim = query.shape
    kv_heads = key.shape[1]
    groups = heads // kv_heads
    if mask is None and t > 1:
        shared = (batch * kv_heads, groups, t, head_dim)
        out = scaled_dot_product_attention(
            query.reshape(shared),
            key.reshape(-1, 1, t, head_dim).expand(shared),
            value.reshape(-1, 1, t, head_dim).expand(shared),
            is_causal=True,
            scale=scale,
        )
    else:
        folded = query.reshape(batch, kv_heads, groups * t, head_dim)
        out = scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scale)
    return out.reshape(batch, heads, t, head_dim)


def additive_mask(visible: torch.Tensor, groups: int, dtype: torch.dtype) -> torch.Tensor:
    """Turn visibility bool [t, n], or [B, t, n] by text, into the mask used here.

    Returns [1 or B, 1, groups * t, n].
    """
    mask = torch.where(visible, *_seen_and_unseen(visible.device, dtype))
    by_text = mask if mask.ndim == 3 else mask[None]
    return torch.cat([by_text] * groups, dim=1)[:, None]


@cache  # for ever: a recording may read them
def _seen_and_unseen(device: torch.device, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """What a mask adds, each a scalar."""
    return torch.zeros((), dtype=dtype, device=device), torch.tensor(
        float("-inf"), dtype=dtype, device=device
    )


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """As `grouped_attention`, by the function that is fastest for this shape and device."""
    by_text = mask is not None and len(mask) > 1
    if softcap is None and not (by_text and query.device.type == "cpu"):
        return grouped_attention(query, key, value, mask, scale)
    return explicit_attention(query, key, value, mask, scale, softcap)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' calling convention; returns [1, t, H, hd]."""
    return attend(query, key, value, attention_mask, scaling, softcap).transpose(1, 2), None


def explicit_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """As `grouped_attention`, in matrix products and a softmax that are written out.

    softcap: squash scores by softcap * tanh(x / softcap) (Gemma 2), which the fused function
    cannot. One token of many texts is 2.5 times as fast this way on a CPU: the fused function
    works on blocks of 32 queries, and here there are as many as heads in a group.
    """
    batch, heads, t, head_dim = query.shape
    groups = heads // key.shape[1]
    if mask is None and t > 1:
        causal = torch.ones(t, t, dtype=torch.bool, device=query.device).tril()
        mask = additive_mask(causal, groups, query.dtype)
    folded = query.reshape(batch, key.shape[1], groups * t, head_dim)
    scores = folded @ key.transpose(-1, -2) * (head_dim**-0.5 if scale is None else scale)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    return (weights @ value).reshape(batch, heads, t, head_dim)


AttentionInterface.register(NAME, _attend)
