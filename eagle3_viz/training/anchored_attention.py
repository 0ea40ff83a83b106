"""Attention of the training-time test (MATH.md 3): a causal block of true positions and, behind
it, each anchor's own earlier guesses.

The block runs through a fused kernel; the guesses are one key per anchor and step, so they are
merged into its result by log-sum-exp. The kernel's backward needs only the merged output and the
merged log-sum-exp: with them its probabilities are the merged ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from eagle3_viz.training.batches import Span


def anchored_attention(
    query: torch.Tensor,  # [R, H, hd], one per anchor
    keys: torch.Tensor,  # [N, KV, hd], true positions
    values: torch.Tensor,  # [N, KV, hd]
    own_keys: Sequence[torch.Tensor],  # of each earlier guess and this one, [R, KV, hd]
    own_values: Sequence[torch.Tensor],
    spans: Sequence[Span],
    masks: Sequence[torch.Tensor],  # of `block_masks`
    kernel: Kernel | None = None,  # None: the device's
) -> torch.Tensor:
    """Output [R, H, hd]: anchor i sees the true positions up to i of its own conversation and its
    own guesses, nothing else."""
    if kernel is None:
        kernel = FUSED if query.device.type == "cpu" else EXPLICIT
    inputs = (query, keys, values, *own_keys, *own_values)
    result: torch.Tensor = _AnchoredAttention.apply(kernel, spans, masks, *inputs)
    return result


def block_masks(
    spans: Sequence[Span], groups: int, dtype: torch.dtype, device: torch.device
) -> list[torch.Tensor]:
    """Additive masks [groups * anchors, length] of each span: anchor i sees positions up to i."""
    masks = []
    for span in spans:
        keys = torch.arange(span.length, device=device)
        visible = keys[None] <= keys[span.anchor :, None]
        mask = torch.zeros(visible.shape, dtype=dtype, device=device)
        masks.append(mask.masked_fill_(~visible, float("-inf")).repeat(groups, 1))
    return masks


class _AnchoredAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        kernel: Kernel,
        spans: Sequence[Span],
        masks: Sequence[torch.Tensor],
        *inputs: torch.Tensor,
    ) -> torch.Tensor:
        query, keys, values = inputs[:3]
        guesses = (len(inputs) - 3) // 2
        own_keys, own_values = inputs[3 : 3 + guesses], inputs[3 + guesses :]
        parts = [
            kernel.forward(*_block_inputs(query, keys, values, span), mask)
            for span, mask in zip(spans, masks, strict=True)
        ]
        out = torch.cat([_unfold(out, query) for out, _ in parts])
        lse = torch.cat([_unfold(lse[..., None], query) for _, lse in parts])
        if guesses:
            scores = [_own_scores(query, key) for key in own_keys]
            out, lse = _merge(out, lse, scores, own_values)
        ctx.kernel, ctx.spans, ctx.masks, ctx.guesses = kernel, spans, masks, guesses
        ctx.save_for_backward(out, lse, *inputs)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        out, lse, query, keys, values, *own = ctx.saved_tensors
        (grad,) = grads
        own_keys, own_values = own[: ctx.guesses], own[ctx.guesses :]
        grad_query = torch.empty_like(query)
        grad_keys, grad_values = torch.zeros_like(keys), torch.zeros_like(values)
        for span, mask in zip(ctx.spans, ctx.masks, strict=True):
            rows, true = _rows(span), _positions(span)
            folded = _block_inputs(query, keys, values, span)
            merged = (_fold(grad[rows], keys), _fold(out[rows], keys), _fold(lse[rows], keys))
            found = ctx.kernel.backward(*merged, *folded, mask)
            grad_query[rows] = _unfold(found[0], query)
            grad_keys[true] = found[1][0].transpose(0, 1)
            grad_values[true] = found[2][0].transpose(0, 1)
        own_grads = _guesses_backward(grad, out, lse, query, own_keys, own_values, grad_query)
        return None, None, None, grad_query, grad_keys, grad_values, *own_grads


def _merge(
    out: torch.Tensor,  # [R, H, hd], of the block
    lse: torch.Tensor,  # [R, H, 1], wide
    scores: list[torch.Tensor],  # [R, H, 1], of each guess
    own_values: Sequence[torch.Tensor],  # [R, KV, hd]
) -> tuple[torch.Tensor, torch.Tensor]:
    merged = torch.logsumexp(torch.cat([lse, *scores], dim=-1), dim=-1, keepdim=True)
    result = out * (lse - merged).exp()
    for score, value in zip(scores, own_values, strict=True):
        result += (score - merged).exp() * _per_query(value, out)
    return result.to(out.dtype), merged


def _guesses_backward(
    grad: torch.Tensor,  # [R, H, hd], of the merged output
    out: torch.Tensor,
    lse: torch.Tensor,
    query: torch.Tensor,
    own_keys: Sequence[torch.Tensor],
    own_values: Sequence[torch.Tensor],
    grad_query: torch.Tensor,  # [R, H, hd], added to
) -> list[torch.Tensor]:
    """Gradients of the guesses' keys, then of their values."""
    wide, scale = _wide(grad), query.shape[-1] ** -0.5
    expected = (wide * out).sum(-1, keepdim=True)
    key_grads, value_grads = [], []
    for key, value in zip(own_keys, own_values, strict=True):
        weight = (_own_scores(query, key) - lse).exp()
        value_grads.append(_per_key(weight * wide, value))
        slope = weight * ((wide * _per_query(value, out)).sum(-1, keepdim=True) - expected) * scale
        key_grads.append(_per_key(slope * query, key))
        grad_query += (slope * _per_query(key, query)).to(query.dtype)
    return [*key_grads, *value_grads]


def _own_scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Scaled scores [R, H, 1], wide, of each anchor's query [R, H, hd] and one guess."""
    products = _wide(query) * _per_query(key, query)
    return products.sum(-1, keepdim=True) * query.shape[-1] ** -0.5


def _per_query(key: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """[R, KV, hd] as seen by each query head, [R, H, hd]."""
    return key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)


def _per_key(grad: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Gradient [R, H, hd] summed over the query heads of each key head, [R, KV, hd]."""
    rows, kv_heads, head_dim = key.shape
    return grad.view(rows, kv_heads, -1, head_dim).sum(2).to(key.dtype)


def _rows(span: Span) -> slice:
    return slice(span.row, span.row + span.anchors)


def _positions(span: Span) -> slice:
    return slice(span.first, span.first + span.length)


def _block_inputs(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, span: Span
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Folded queries [1, KV, G * r, hd], keys and values [1, KV, n, hd] of one conversation."""
    true = _positions(span)
    return (
        _fold(query[_rows(span)], keys),
        keys[true].transpose(0, 1)[None],
        values[true].transpose(0, 1)[None],
    )


def _fold(rows: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """[r, H, e] with the heads that share a key head in the query axis, [1, KV, G * r, e]."""
    r, heads, width = rows.shape
    kv_heads = keys.shape[1]
    shaped = rows.view(r, kv_heads, heads // kv_heads, width)
    return shaped.permute(1, 2, 0, 3).reshape(1, kv_heads, -1, width)


def _unfold(folded: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Inverse of `_fold`: [1, KV, G * r, e] to [r, H, e]."""
    heads, kv_heads, width = query.shape[1], folded.shape[1], folded.shape[-1]
    shaped = folded.reshape(kv_heads, heads // kv_heads, -1, width)
    return shaped.permute(2, 0, 1, 3).reshape(-1, heads, width)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """x in the format of scores and their sums: float32, or its own where that is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


@dataclass(frozen=True)
class Kernel:
    """Masked attention of one conversation: G heads share a key head, t = G * r query rows.

    forward   of queries [1, KV, t, hd], keys and values [1, KV, n, hd] and a mask [t, n]: output
              [1, KV, t, hd] and log-sum-exp [1, KV, t], wide.
    backward  of the output's gradient, an output [1, KV, t, hd], its log-sum-exp [1, KV, t, 1] and
              the inputs of forward: gradients of queries, keys and values. More keys than these
              may have gone into output and log-sum-exp.
    """

    forward: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    backward: Callable[..., tuple[torch.Tensor, ...]]


def _fused_forward(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, lse = kernel(query, keys, values, attn_mask=mask)
    return out, lse


def _fused_backward(
    grad: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    saved = (grad, query, keys, values, out, lse[..., 0])
    found: tuple[torch.Tensor, ...] = kernel(*saved, 0.0, False, attn_mask=mask)
    return found


def _explicit_forward(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    scores = _scores(query, keys, mask)
    lse = scores.logsumexp(-1, keepdim=True)
    return (scores - lse).exp().to(values.dtype) @ values, lse[..., 0]


def _explicit_backward(
    grad: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    weights = (_scores(query, keys, mask) - lse).exp()
    expected = (_wide(grad) * out).sum(-1, keepdim=True)
    slopes = weights * (_wide(grad @ values.mT) - expected) * query.shape[-1] ** -0.5
    slopes = slopes.to(query.dtype)
    return slopes @ keys, slopes.mT @ query, weights.to(grad.dtype).mT @ grad


def _scores(query: torch.Tensor, keys: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _wide(query @ keys.mT) * query.shape[-1] ** -0.5 + mask


FUSED = Kernel(_fused_forward, _fused_backward)  # of CPUs
EXPLICIT = Kernel(_explicit_forward, _explicit_backward)  # anywhere
