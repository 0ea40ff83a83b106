"""Attention of the training-time test against one softmax an anchor, in output and gradients."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from eagle3_viz.training.anchored_attention import (
    EXPLICIT,
    FUSED,
    Kernel,
    anchored_attention,
    block_masks,
)
from eagle3_viz.training.batches import Span

KERNELS = {"fused": FUSED, "explicit": EXPLICIT}
HEAD_DIM = 8
SPANS = (Span(0, 7, 2, 0), Span(7, 1, 0, 5), Span(8, 40, 33, 6))  # 13 anchors, 48 positions


@dataclass(frozen=True)
class Case:
    """Leaves that need gradients, in the order of `anchored_attention`'s arguments."""

    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    own_keys: list[torch.Tensor]
    own_values: list[torch.Tensor]

    @property
    def leaves(self) -> list[torch.Tensor]:
        return [self.query, self.keys, self.values, *self.own_keys, *self.own_values]


def case(heads: int, kv_heads: int, guesses: int, dtype: torch.dtype, seed: int = 0) -> Case:
    generator = torch.Generator().manual_seed(seed)
    anchors, positions = sum(s.anchors for s in SPANS), sum(s.length for s in SPANS)

    def leaf(rows: int, count: int) -> torch.Tensor:
        drawn = torch.randn(rows, count, HEAD_DIM, generator=generator, dtype=torch.float64)
        return (1.5 * drawn).to(dtype).requires_grad_()

    return Case(
        leaf(anchors, heads),
        leaf(positions, kv_heads),
        leaf(positions, kv_heads),
        [leaf(anchors, kv_heads) for _ in range(guesses)],
        [leaf(anchors, kv_heads) for _ in range(guesses)],
    )


def attended(inputs: Case, kernel: Kernel | None) -> torch.Tensor:
    groups = inputs.query.shape[1] // inputs.keys.shape[1]
    masks = block_masks(SPANS, groups, inputs.query.dtype, inputs.query.device)
    return anchored_attention(
        inputs.query,
        inputs.keys,
        inputs.values,
        inputs.own_keys,
        inputs.own_values,
        SPANS,
        masks,
        kernel,
    )


def one_softmax_an_anchor(inputs: Case) -> torch.Tensor:
    """[R, H, hd] in float64: the keys an anchor may see, gathered one by one."""
    query, keys, values = inputs.query.double(), inputs.keys.double(), inputs.values.double()
    heads, kv_heads = query.shape[1], keys.shape[1]
    rows = []
    for span in SPANS:
        for place in range(span.anchor, span.length):
            row = span.row + place - span.anchor
            for head in range(heads):
                kv = head * kv_heads // heads
                k = [keys[span.first + i, kv] for i in range(place + 1)]
                v = [values[span.first + i, kv] for i in range(place + 1)]
                k += [own[row, kv].double() for own in inputs.own_keys]
                v += [own[row, kv].double() for own in inputs.own_values]
                scores = torch.stack(k) @ query[row, head] / HEAD_DIM**0.5
                rows.append(scores.softmax(0) @ torch.stack(v))
    return torch.stack(rows).view(-1, heads, HEAD_DIM)


def gradients(out: torch.Tensor, inputs: Case) -> list[torch.Tensor]:
    direction = torch.randn(
        out.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64
    )
    return list(torch.autograd.grad(out, inputs.leaves, direction.to(out.dtype)))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (6, 1), (3, 3)])
@pytest.mark.parametrize("guesses", [0, 1, 3])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.04)]
)
def test_output_and_gradients_are_those_of_one_softmax_an_anchor(
    name: str, heads: int, kv_heads: int, guesses: int, dtype: torch.dtype, tolerance: float
) -> None:
    inputs = case(heads, kv_heads, guesses, dtype)
    out, expected = attended(inputs, KERNELS[name]), one_softmax_an_anchor(inputs)
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
    found, wanted = gradients(out, inputs), gradients(expected, inputs)
    for ours, reference in zip(found, wanted, strict=True):
        assert ours.dtype == dtype
        scale = float(reference.double().abs().max())
        torch.testing.assert_close(
            ours.double(), reference.double(), rtol=tolerance, atol=tolerance * scale
        )


@pytest.mark.parametrize("name", KERNELS)
def test_scores_in_the_hundreds_neither_overflow_nor_lose_a_guess(name: str) -> None:
    inputs = case(4, 2, 2, torch.float64)
    with torch.no_grad():
        inputs.query.mul_(100)  # scores up to about 1,000: exp of them is not a number of float64
    out, expected = attended(inputs, KERNELS[name]), one_softmax_an_anchor(inputs)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    for ours, reference in zip(gradients(out, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-9, atol=1e-9)


def test_a_cpu_takes_the_fused_kernel() -> None:
    inputs = case(4, 2, 2, torch.float32)
    assert torch.equal(attended(inputs, None), attended(inputs, FUSED))


def test_a_mask_hides_every_position_after_its_anchor() -> None:
    span = Span(0, 4, 1, 0)
    (mask,) = block_masks([span], 2, torch.float32, torch.device("cpu"))
    inf = float("-inf")
    one_head = [[0, 0, inf, inf], [0, 0, 0, inf], [0, 0, 0, 0]]
    assert mask.tolist() == one_head * 2
