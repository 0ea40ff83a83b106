"""Soft cross-entropy through an LM head without keeping logits.

Gradients are made in the forward, a few rows at a time, so that logits never leave the cache.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import linear

CHUNK = 64  # rows whose logits are alive at once


def soft_cross_entropy(
    hidden: torch.Tensor,  # [M, H], what the head reads
    head: torch.Tensor,  # [DV, H]
    p: torch.Tensor,  # [T, DV], target distributions, each sums to 1
    rows: torch.Tensor,  # int64 [M], row of p for each row of hidden
    weights: torch.Tensor,  # float32 [M], 0 leaves a row out
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weighted sum of -sum_v p(v) log q(v), losses by row [M] (unweighted), arg-maxima of q [M].

    Rows of weight 0 cost nothing; their loss is 0 and their arg-max -1. Only the sum has a
    gradient, and only towards `hidden` and `head`.
    """
    result: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = _SoftCrossEntropy.apply(
        hidden, head, p, rows, weights
    )
    return result


@torch.no_grad()
def restricted_distribution(
    hidden: torch.Tensor,  # [T, d], the target's final states
    head: torch.Tensor,  # [DV, d], the rows of the target's head that the draft has
) -> torch.Tensor:
    """p over the draft vocabulary, renormalised there (REFERENCE.md g); [T, DV], hidden's dtype."""
    p = torch.empty(len(hidden), len(head), dtype=hidden.dtype, device=hidden.device)
    for first in range(0, len(hidden), CHUNK):
        part = slice(first, first + CHUNK)
        logits = linear(hidden[part], head)
        p[part] = logits.softmax(-1, dtype=_wide(logits))
    return p


def _wide(logits: torch.Tensor) -> torch.dtype:
    """Probabilities are formed in float32 at least."""
    return torch.promote_types(logits.dtype, torch.float32)


class _SoftCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        head: torch.Tensor,
        p: torch.Tensor,
        rows: torch.Tensor,
        weights: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        kept = weights.nonzero()[:, 0]
        read, weight = hidden[kept], weights[kept, None]
        slopes = torch.empty(len(kept), len(head), dtype=hidden.dtype, device=hidden.device)
        losses, tops = weights.new_zeros(len(hidden)), rows.new_full(rows.shape, -1)
        for first in range(0, len(kept), CHUNK):
            part = slice(first, first + CHUNK)
            logits = linear(read[part], head)
            log_q = logits.log_softmax(-1, dtype=_wide(logits))
            wanted = p[rows[kept[part]]]
            losses[kept[part]] = -(log_q * wanted).sum(-1)
            tops[kept[part]] = log_q.max(-1).indices
            slopes[part] = log_q.exp_().sub_(wanted).mul_(weight[part])
        ctx.mark_non_differentiable(losses, tops)
        ctx.save_for_backward(slopes, read, head, kept)
        ctx.length = len(hidden)
        return (losses * weights).sum(), losses, tops

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        slopes, read, head, kept = ctx.saved_tensors
        factor = grads[0].to(slopes.dtype)
        grad_hidden = grad_head = None
        if ctx.needs_input_grad[0]:
            grad_hidden = slopes.new_zeros(ctx.length, head.shape[1])
            grad_hidden[kept] = slopes @ head * factor
        if ctx.needs_input_grad[1]:
            grad_head = slopes.T @ read * factor
        return grad_hidden, grad_head, None, None, None
