"""The product of a fixed weight against float64, with and without a reordered copy."""

from __future__ import annotations

import pytest
import torch

from eagle3_viz.projection import Projection, can_reorder

CPU = torch.device("cpu")
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


@pytest.mark.parametrize("reorder", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [(1,), (3,), (4,), (7,), (1, 3), (2, 3)])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_it_is_the_product_with_all_rows(
    dtype: torch.dtype, rows: tuple[int, ...], bias: bool, reorder: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(n, 24, generator=generator).to(dtype) for n in (40, 9, 61)]
    biases = [torch.randn(len(w), generator=generator).to(dtype) for w in weights] if bias else []
    x = torch.randn(*rows, 24, generator=generator).to(dtype)
    expected = x.double() @ torch.cat(weights).double().T
    if bias:
        expected = expected + torch.cat(biases).double()
    found = Projection(weights, biases, reorder=reorder)(x)
    assert found.dtype == dtype and found.shape == (*rows, 110)
    error = (found.double() - expected).norm() / expected.norm()
    assert error < TOLERANCES[dtype]


def test_in_bfloat16_a_reordered_copy_is_all_that_it_keeps() -> None:
    weight = torch.randn(8, 4).bfloat16()
    assert can_reorder(CPU, torch.bfloat16)
    assert Projection([weight]).joined is None
    assert Projection([weight], reorder=False).joined is weight


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (3, 4), (1, 3, 4), (4, 4), (2, 2, 4)])
@pytest.mark.parametrize(("capability", "most"), [("AVX512", 3), ("AVX2", 1)])
def test_in_float32_the_rows_themselves_are_for_the_fewest_and_the_copy_for_more(
    capability: str, most: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    weight = torch.randn(8, 4)
    projection, x = Projection([weight]), torch.ones(shape)
    assert projection.joined is weight
    before = projection(x)
    weight.zero_()  # the copy keeps what was there
    few = x.numel() <= most * 4
    assert torch.equal(projection(x), torch.zeros(*shape[:-1], 8) if few else before)


def test_what_one_dnn_cannot_do_is_left_to_torch() -> None:
    assert not can_reorder(CPU, torch.float64)
    assert not can_reorder(torch.device("cuda"), torch.float32)
    assert Projection([torch.randn(8, 4).double()]).joined is not None
