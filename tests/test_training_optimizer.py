"""The learning rate over a run, and one update of masters and copies against its definition."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from eagle3_viz.training.optimizer import Masters, Schedule

CLIP, RATE, TABLE_FACTOR = 0.5, 0.01, 0.3


@pytest.mark.parametrize(
    ("step", "tokens", "share_of_peak"),
    [
        (0, 0, 0.1),  # the first of ten warm-up steps
        (4, 100, 0.5),
        (9, 200, 1.0),
        (50, 500, 1.0),
        (70, 700, 1.0),  # the last 30 % begin
        (85, 850, 0.5),
        (97, 970, 0.1),
        (100, 1000, 0.0),
        (120, 1200, 0.0),
        (4, 850, 0.25),  # still warming up when the rate already falls
    ],
)
def test_the_rate_warms_up_stays_and_falls_to_zero(
    step: int, tokens: int, share_of_peak: float
) -> None:
    schedule = Schedule(peak=4e-3, warmup_steps=10, total_tokens=1000, decay_share=0.3)
    assert schedule.rate(step, tokens) == pytest.approx(4e-3 * share_of_peak, abs=1e-12)


def test_without_warm_up_and_decay_the_rate_is_constant() -> None:
    schedule = Schedule(peak=4e-3, warmup_steps=0, total_tokens=1000, decay_share=0.0)
    assert {schedule.rate(s, t) for s, t in ((0, 0), (1, 500), (9, 999))} == {4e-3}


def test_a_longer_run_has_the_same_rates_until_the_shorter_one_decays() -> None:
    short, long = (Schedule(1e-3, 5, total, 0.25) for total in (1000, 3000))
    steps = range(0, 750, 10)
    assert [short.rate(n // 10, n) for n in steps] == [long.rate(n // 10, n) for n in steps]
    assert short.rate(80, 800) < long.rate(80, 800)


class Parameters:
    """An objective as far as an optimizer sees it."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        shapes = {"matrix.weight": (8, 24), "norm.weight": (8,), "lm_head.weight": (11, 8)}
        self.tensors = {n: torch.randn(s, generator=generator) for n, s in shapes.items()}

    def parameters(self) -> dict[str, torch.Tensor]:
        return self.tensors

    def rate(self, name: str) -> float:
        return TABLE_FACTOR if name == "lm_head.weight" else 1.0


def masters(compute: torch.dtype = torch.float32) -> Masters:
    objective: Any = Parameters()
    return Masters(objective, compute, CLIP, Accelerator(cpu=True))


def backward(trained: Masters, seed: int = 1) -> dict[str, torch.Tensor]:
    """Gives every copy a gradient; returns them."""
    generator = torch.Generator().manual_seed(seed)
    grads = {n: torch.randn(t.shape, generator=generator) for n, t in trained.copies.items()}
    sum((trained.copies[n].float() * grad).sum() for n, grad in grads.items()).backward()
    return grads


def values(trained: Masters) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in trained.parameters.items()}


def test_gradients_are_those_of_all_copies_and_are_then_forgotten() -> None:
    trained = masters()
    grads = backward(trained)
    flat = torch.cat([grad.flatten() for grad in grads.values()])
    assert torch.equal(trained.gradients(), flat)
    assert torch.equal(trained.gradients(), torch.zeros_like(flat))


def test_micro_batches_add_up() -> None:
    trained = masters()
    first, second = backward(trained, 1), backward(trained, 2)
    total = torch.cat([(first[name] + second[name]).flatten() for name in first])
    torch.testing.assert_close(trained.gradients(), total)


def test_vectors_and_tables_take_adam_steps_at_their_own_rate() -> None:
    trained = masters()
    moments = dict.fromkeys(("norm.weight", "lm_head.weight"), (0.0, 0.0))
    expected = values(trained)
    for step in (1, 2, 3):
        grads = backward(trained, step)
        norm = math.sqrt(sum(float(g.square().sum()) for g in grads.values()))
        assert trained.step(trained.gradients(), RATE) == pytest.approx(norm, rel=1e-5)
        for name, (mean, square) in moments.items():
            grad = grads[name].double() * CLIP / norm
            mean, square = 0.9 * mean + 0.1 * grad, 0.95 * square + 0.05 * grad**2
            moments[name] = mean, square
            direction = (mean / (1 - 0.9**step)) / ((square / (1 - 0.95**step)).sqrt() + 1e-8)
            rate = RATE * (TABLE_FACTOR if name == "lm_head.weight" else 1.0)
            expected[name] = expected[name] - rate * direction
            torch.testing.assert_close(
                trained.parameters[name].double(), expected[name].double(), rtol=1e-4, atol=1e-6
            )


def test_a_matrix_moves_along_the_singular_vectors_of_its_gradient_by_equal_lengths() -> None:
    trained = masters()
    before, grads = values(trained), backward(trained)
    trained.step(trained.gradients(), RATE)
    moved = (before["matrix.weight"] - trained.parameters["matrix.weight"]).detach()
    left, _, right = torch.linalg.svd(grads["matrix.weight"], full_matrices=False)
    lengths = left.T @ moved @ right.T / (RATE * 0.2 * math.sqrt(24))  # AdamW's typical size
    assert ((lengths.diagonal() > 0.5) & (lengths.diagonal() < 1.5)).all()
    assert (lengths - lengths.diagonal().diag()).abs().max() < 0.1


def test_a_gradient_within_the_norm_is_not_scaled_up() -> None:
    trained = masters()
    small = 1e-3 * torch.ones_like(trained.gradients())
    trained.step(small, RATE)
    assert torch.equal(small, 1e-3 * torch.ones_like(small))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_is_refused_before_anything_moves(bad: float) -> None:
    trained = masters()
    before = values(trained)
    gradients = trained.gradients()
    gradients[3] = bad
    with pytest.raises(FloatingPointError, match="not finite"):
        trained.step(gradients, RATE)
    assert all(torch.equal(trained.parameters[name], before[name]) for name in before)


def test_small_steps_add_up_in_the_masters_while_copies_are_rounded() -> None:
    trained = masters(torch.bfloat16)
    before = values(trained)
    for step in range(20):
        backward(trained, step)
        trained.step(trained.gradients(), 1e-6)
    for name, tensor in trained.parameters.items():
        assert tensor.dtype == torch.float32
        assert not torch.equal(tensor, before[name])
        assert torch.equal(trained.copies[name], tensor.bfloat16())
