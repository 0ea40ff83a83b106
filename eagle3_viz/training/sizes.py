"""What a draft takes over from its target besides tensors."""

from __future__ import annotations

from typing import Any

from eagle3_viz.target import TargetModel


def rope_theta(target: TargetModel) -> float:
    """The target's base, so that positions mean the same to both."""
    parameters = getattr(target.config, "rope_parameters", None) or {}
    found = parameters.get("rope_theta") or getattr(target.config, "rope_theta", None)
    return float(found or 10000.0)


def head_dim(target: TargetModel) -> int:
    """Width of an attention head."""
    default = target.hidden_size // target.config.num_attention_heads
    return getattr(target.config, "head_dim", None) or default


def token_settings(target: TargetModel) -> dict[str, Any]:
    """Keys of config.json that the weights do not decide."""
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "max_position_embeddings")
    found = {name: getattr(target.config, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}
