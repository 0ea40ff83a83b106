"""Soft cross-entropy without stored logits against plain autograd of its definition."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear

from eagle3_viz.training.losses import (
    CHUNK,
    TargetDistribution,
    restricted_distribution,
    soft_cross_entropy,
)

WIDTH, WORDS = 12, 17
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(rows: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Inputs:
    """hidden, head, p, rows of p, weights; a third of the weights is 0, rows of p repeat."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    targets = rows // 2 + 1
    chosen = torch.randint(targets, (rows,), generator=generator)
    weights = 0.8 ** torch.arange(rows) * (torch.arange(rows) % 3 != 1)
    hidden, head = normal(rows, WIDTH).to(dtype), normal(WORDS, WIDTH).to(dtype)
    wide = torch.promote_types(dtype, torch.float32)
    p = (2 * normal(targets, WORDS)).softmax(-1).to(dtype)
    return hidden.requires_grad_(), head.requires_grad_(), p, chosen, weights.to(wide)


def definition(
    hidden: torch.Tensor,
    head: torch.Tensor,
    p: torch.Tensor,
    rows: torch.Tensor,
    weights: torch.Tensor,
) -> torch.Tensor:
    log_q = linear(hidden.double(), head.double()).log_softmax(-1)
    return -(weights.double()[:, None] * p[rows].double() * log_q).sum()


@pytest.mark.parametrize("rows", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7])
def test_loss_and_gradients_are_those_of_the_definition(rows: int) -> None:
    given = inputs(rows)
    loss, _, _ = soft_cross_entropy(*given)
    expected = definition(*given)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    found = torch.autograd.grad(3 * loss, given[:2])
    wanted = torch.autograd.grad(3 * expected, given[:2])
    for ours, reference in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_narrow_formats_stay_within_their_rounding(dtype: torch.dtype, tolerance: float) -> None:
    given = inputs(CHUNK + 5, dtype)
    loss, losses, _ = soft_cross_entropy(*given)
    expected = definition(*given)
    assert loss.dtype == losses.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=tolerance, atol=0)
    found = torch.autograd.grad(loss, given[:2])
    wanted = torch.autograd.grad(expected, given[:2])
    for ours, reference in zip(found, wanted, strict=True):
        assert ours.dtype == dtype
        size = float(reference.double().abs().max())
        torch.testing.assert_close(
            ours.double(), reference.double(), rtol=tolerance, atol=tolerance * size
        )


def test_losses_and_arg_maxima_by_row_are_unweighted() -> None:
    hidden, head, p, rows, weights = inputs(CHUNK + 9)
    _, losses, tops = soft_cross_entropy(hidden, head, p, rows, weights)
    logits = linear(hidden, head)
    kept = weights > 0
    by_row = -(p[rows] * logits.log_softmax(-1)).sum(-1)
    torch.testing.assert_close(losses[kept], by_row[kept].detach(), rtol=1e-12, atol=0)
    assert torch.equal(tops[kept], logits.argmax(-1)[kept])
    assert losses[~kept].eq(0).all() and tops[~kept].eq(-1).all()
    assert not losses.requires_grad


def test_a_row_of_weight_zero_is_never_looked_at() -> None:
    given = inputs(3 * CHUNK)
    hidden, head, p, rows, weights = given
    out = weights == 0
    spoilt_hidden = hidden.detach().masked_fill(out[:, None], float("nan")).requires_grad_()
    spoilt_rows = rows.masked_fill(out, 10**9)  # no such row of p
    clean = soft_cross_entropy(*given)
    spoilt = soft_cross_entropy(spoilt_hidden, head, p, spoilt_rows, weights)
    for ours, reference in zip(spoilt, clean, strict=True):
        assert torch.equal(ours, reference)
    found = torch.autograd.grad(spoilt[0], (spoilt_hidden, head))
    wanted = torch.autograd.grad(clean[0], (hidden, head))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert found[0][out].eq(0).all()


def test_nothing_to_learn_is_a_loss_of_zero_with_gradients_of_zero() -> None:
    hidden, head, p, rows, weights = inputs(5)
    loss, _, _ = soft_cross_entropy(hidden, head, p, rows, torch.zeros_like(weights))
    found = torch.autograd.grad(loss, (hidden, head))
    assert loss == 0
    assert all(grad.eq(0).all() for grad in found)


def test_the_loss_is_least_where_q_is_p() -> None:
    square = torch.eye(WORDS, dtype=torch.float64)
    p = torch.randn(3, WORDS, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    logits = p.log_softmax(-1).requires_grad_()
    p, rows = p.softmax(-1), torch.arange(3)
    loss, losses, _ = soft_cross_entropy(logits, square, p, rows, torch.ones(3).double())
    torch.testing.assert_close(losses, -(p * p.log()).sum(-1), rtol=1e-12, atol=0)
    (slope,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-15)


@pytest.mark.parametrize("rows", [1, CHUNK, CHUNK + 1])
def test_p_is_the_softmax_over_all_tokens_restricted_and_renormalised(rows: int) -> None:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)
    head = torch.randn(WORDS, WIDTH, generator=generator, dtype=torch.float64)
    kept = torch.tensor([0, 3, 4, 11, 16])
    whole = linear(hidden, head).softmax(-1)[:, kept]
    expected = whole / whole.sum(-1, keepdim=True)
    found = restricted_distribution(hidden, head[kept])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    narrow = restricted_distribution(hidden.float(), head[kept].float())
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow.double(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rows", [1, CHUNK + 1])
def test_a_head_that_does_not_learn_gets_no_gradient_and_stores_nothing_of_its_size(
    rows: int,
) -> None:
    hidden, head, *rest = inputs(rows)
    loss, _, _ = soft_cross_entropy(hidden, head.detach(), *rest)
    kept = int((rest[-1] > 0).sum())
    assert [tuple(t.shape) for t in loss.grad_fn.saved_tensors] == [  # type: ignore[union-attr]
        *((kept, WIDTH), (kept, WIDTH), (WORDS, WIDTH), (kept,)),
    ]
    (found,) = torch.autograd.grad(3 * loss, hidden)
    (wanted,) = torch.autograd.grad(3 * definition(hidden, head, *rest), hidden)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def test_a_head_learns_from_states_that_do_not() -> None:
    hidden, head, *rest = inputs(CHUNK + 1)
    loss, _, _ = soft_cross_entropy(hidden.detach(), head, *rest)
    (found,) = torch.autograd.grad(loss, head)
    (wanted,) = torch.autograd.grad(definition(hidden, head, *rest), head)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def test_p_made_row_by_row_is_the_table() -> None:
    hidden, head, _, rows, weights = inputs(2 * CHUNK + 3)
    states = torch.randn(
        CHUNK + 3, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(5)
    )
    words = head.detach().flip(0)
    table = restricted_distribution(states, words)
    made = TargetDistribution(states, words)
    torch.testing.assert_close(made[rows], table[rows], rtol=1e-12, atol=0)
    kept = (rows % len(states), weights)
    ours = soft_cross_entropy(hidden, head, made, *kept)
    reference = soft_cross_entropy(hidden, head, table, *kept)
    for a, b in zip(ours, reference, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=0)


def test_measuring_alone_gives_the_same_numbers() -> None:
    given = inputs(CHUNK + 5)
    learning = soft_cross_entropy(*given)
    with torch.no_grad():
        measured = soft_cross_entropy(*given)
    assert all(torch.equal(a, b) for a, b in zip(learning, measured, strict=True))
