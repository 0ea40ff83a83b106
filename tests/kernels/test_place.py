"""Where an inverse transform ends when rounding puts its goal outside the weights."""

from __future__ import annotations

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton is not installed")
tl = pytest.importorskip("triton.language")

from kernels.residual_kernels import _place  # noqa: E402  only where Triton is

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@triton.jit
def find(weights, before_and_goal, found, BLOCK: tl.constexpr):
    before, goal = tl.load(before_and_goal), tl.load(before_and_goal + 1)
    place = _place(tl.load(weights + tl.arange(0, BLOCK)), before, goal, BLOCK)
    tl.store(found, place)


@pytest.mark.parametrize(
    ("weights", "before", "goal", "expected"),
    [
        ([0.25, 0.25, 0.5, 0.0], 0.0, 0.2, 0),
        ([0.25, 0.25, 0.5, 0.0], 0.0, 0.25, 1),  # reached, not passed
        ([0.25, 0.25, 0.5, 0.0], 0.5, 0.9, 1),
        ([0.0, 0.0, 0.5, 0.5], 0.5, 0.5 - 1e-9, 2),  # passed before it began
        ([0.25, 0.75, 0.0, 0.0], 0.0, 1.0 + 1e-9, 1),  # never passed
    ],
)
def test_it_ends_at_a_positive_weight(
    weights: list[float], before: float, goal: float, expected: int
) -> None:
    given = [torch.tensor(x, dtype=torch.float64, device=DEVICE) for x in (weights, [before, goal])]
    found = torch.full((1,), -1, dtype=torch.int64, device=DEVICE)
    find[(1,)](*given, found, BLOCK=len(weights))
    assert found.tolist() == [expected]
