"""Soft cross-entropy through an LM head without keeping logits in float32.

Gradients are made in the forward, a few rows at a time. Where the head learns they are kept, in the
format of the logits, for one product at the end.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import linear

CHUNK = 64  # rows whose logits are alive at once


def soft_cross_entropy(
    hidden: torch.Tensor,  # [M, H], what the head reads
    head: torch.Tensor,  # [DV, H]
    p: torch.Tensor | TargetDistribution,  # [T, DV], each row sums to 1
    rows: torch.Tensor,  # int64 [M], row of p for each row of hidden
    weights: torch.Tensor,  # float32 [M], 0 leaves a row out
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weighted sum of -sum_v p(v) log q(v), losses by row [M] (unweighted), arg-maxima of q [M].

    Rows of weight 0 cost nothing; their loss is 0 and their arg-max -1. Only the sum has a
    gradient, and only towards `hidden` and `head`; a head without gradient costs none.
    """
    if not torch.is_grad_enabled():
        hidden, head = hidden.detach(), head.detach()
    result: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = _SoftCrossEntropy.apply(
        hidden, head, p, rows, weights
    )
    return result


class TargetDistribution:
    """p over the rows of a head, made when it is asked for and not kept.

    A table of it has the size of the logits, and with one unroll step no row is used twice.
    """

    def __init__(
        self,
        hidden: torch.Tensor,  # [T, d], the target's final states
        head: torch.Tensor,  # [DV, d], the rows of the target's head that the draft has
    ) -> None:
        self._hidden, self._head = hidden, head

    @torch.no_grad()
    def __getitem__(self, rows: torch.Tensor | slice) -> torch.Tensor:
        """p of these rows [m, DV], float32 at least."""
        logits = linear(self._hidden[rows], self._head)
        return logits.softmax(-1, dtype=_wide(logits))


def restricted_distribution(
    hidden: torch.Tensor,  # [T, d], the target's final states
    head: torch.Tensor,  # [DV, d], the rows of the target's head that the draft has
) -> torch.Tensor:
    """p over the draft vocabulary, renormalised there (REFERENCE.md g); [T, DV], hidden's dtype."""
    made = TargetDistribution(hidden, head)
    p = torch.empty(len(hidden), len(head), dtype=hidden.dtype, device=hidden.device)
    for first in range(0, len(hidden), CHUNK):
        part = slice(first, first + CHUNK)
        p[part] = made[part]
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
        p: torch.Tensor | TargetDistribution,
        rows: torch.Tensor,
        weights: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        kept = weights.nonzero()[:, 0]
        read, weight = hidden[kept], weights[kept, None]
        to_hidden, to_head = ctx.needs_input_grad[:2]
        # A head that learns needs the gradients of all logits; else those of what it read will do.
        width = len(head) if to_head else head.shape[1] * to_hidden
        stored = hidden.new_empty(len(kept), width)
        losses, tops = weights.new_zeros(len(hidden)), rows.new_full(rows.shape, -1)
        for first in range(0, len(kept), CHUNK):
            part = slice(first, first + CHUNK)
            logits = linear(read[part], head)
            log_q = logits.log_softmax(-1, dtype=_wide(logits))
            wanted = p[rows[kept[part]]]
            losses[kept[part]] = -(log_q * wanted).sum(-1)
            tops[kept[part]] = log_q.max(-1).indices
            if to_hidden or to_head:
                slopes = log_q.exp_().sub_(wanted).mul_(weight[part]).to(stored.dtype)
                stored[part] = slopes if to_head else slopes @ head
        ctx.mark_non_differentiable(losses, tops)
        ctx.save_for_backward(stored, read, head, kept)
        ctx.length = len(hidden)
        return (losses * weights).sum(), losses, tops

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        stored, read, head, kept = ctx.saved_tensors
        to_hidden, to_head = ctx.needs_input_grad[:2]
        factor = grads[0].to(stored.dtype)
        grad_hidden = grad_head = None
        if to_hidden:
            grad_hidden = stored.new_zeros(ctx.length, head.shape[1])
            grad_hidden[kept] = (stored @ head if to_head else stored) * factor
        if to_head:
            grad_head = stored.T @ read * factor
        return grad_hidden, grad_head, None, None, None
