"""Tree attention as an attention function of transformers: every model gets it by name.

    AttentionInterface.register(name, attend_tree)
    model.set_attn_implementation(name)
    model(input_ids, position_ids=..., tree=TreeMask(...), ...)

Keyword arguments of a forward reach the attention function of every layer; `tree` is one.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels.ancestor_bits import TreeMask
from kernels.tree_attention import tree_attention

# Arguments of a forward that reach the attention function and do not change what it computes.
_NOT_ABOUT_SCORES = frozenset(
    {
        "cache_position",
        "is_causal",
        "logits_to_keep",
        "output_hidden_states",
        "position_ids",
        "return_dict",
        "use_cache",
    }
)


def attend_tree(
    module: torch.nn.Module,
    query: torch.Tensor,  # [B, H, T, D]
    key: torch.Tensor,  # [B, KV, N, D]
    value: torch.Tensor,  # [B, KV, N, D]
    attention_mask: torch.Tensor | None,
    *,
    tree: TreeMask,
    workspace: torch.Tensor | None = None,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """`tree_attention` in transformers' calling convention; returns [B, T, H, D] and no weights.

    Honours the sliding window and the soft cap that a layer asks for. Raises ValueError for
    whatever else would change its scores.
    """
    _refuse(module, attention_mask, others)
    batch, heads, nodes, head_dim = query.shape
    out = query.new_empty(batch, nodes, heads, head_dim)
    tree_attention(
        query,
        key,
        value,
        tree,
        scale=scaling,
        softcap=softcap,
        window=sliding_window,
        out=out.transpose(1, 2),
        workspace=workspace,
    )
    return out, None


def _refuse(
    module: torch.nn.Module, attention_mask: torch.Tensor | None, others: dict[str, Any]
) -> None:
    """Raise ValueError for an argument that tree attention would have to drop."""
    if attention_mask is not None:
        raise ValueError(
            "tree attention was given both an attention mask and a tree: pass attention_mask=None, "
            "what a query sees is in the TreeMask"
        )
    asked = {name for name, value in others.items() if not _is_off(value)}
    if unknown := asked - _NOT_ABOUT_SCORES:
        raise ValueError(
            f"{type(module).__name__} asks for {', '.join(sorted(unknown))}, which tree attention "
            "does not compute: use another attention implementation for this model"
        )


def _is_off(value: object) -> bool:
    """None, False or zero, as a dropout outside training; a tensor is always something."""
    return value is None or (isinstance(value, (bool, int, float)) and not value)
