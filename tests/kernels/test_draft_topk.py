"""The best tokens of a draft level against float64, and against how the trees pick theirs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from eagle3_viz.tree import top_stable
from kernels.draft_topk import (
    FEW,
    DraftTop,
    draft_topk,
    draft_topk_torch,
    draft_topk_triton,
    largest,
    largest_by_keys,
)

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
FORMS = pytest.mark.parametrize(
    "best_of", [draft_topk_torch, draft_topk_triton], ids=["torch", "triton"]
)
BestOf = Callable[..., None]


def random_logits(nodes: int, vocabulary: int, seed: int = 0) -> torch.Tensor:
    return 4 * torch.randn(nodes, vocabulary, generator=torch.Generator().manual_seed(seed))


def poisoned(nodes: int, vocabulary: int, k: int, chunk: int = 64) -> DraftTop:
    out = DraftTop.allocate(nodes, vocabulary, k, DEVICE, chunk)
    for tensor in vars(out).values():
        if isinstance(tensor, torch.Tensor):
            tensor.fill_(-7.5e8 if tensor.is_floating_point() else -750_000_000)
    return out


def best(best_of: BestOf, logits: torch.Tensor, k: int, above: torch.Tensor | None = None):
    out = poisoned(*logits.shape, k)
    path = torch.zeros(len(logits)) if above is None else above
    best_of(logits.to(DEVICE), path.to(DEVICE), out)
    return out


def assert_exact(out: DraftTop, logits: torch.Tensor, above: torch.Tensor) -> None:
    """Values within 1e-5 of float64; ids by falling logit, the lower one first among ties."""
    rows, k = logits.tolist(), out.ids.shape[1]
    order = [sorted(range(len(row)), key=lambda i, row=row: (-row[i], i))[:k] for row in rows]
    assert out.ids.tolist() == order
    logprob = logits.double().log_softmax(-1).gather(1, out.ids.cpu())
    expected = (logprob, above.double()[:, None] + logprob, logits.double().logsumexp(-1))
    for found, exact in zip((out.logprob, out.score, out.log_z), expected, strict=True):
        assert torch.allclose(found.cpu().double(), exact, rtol=1e-5, atol=1e-5)


@FORMS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("nodes", "vocabulary", "k"),
    [(1, 64, 4), (1, 1, 1), (3, 65, 7), (4, 500, 4), (10, 130, 10), (1, 63, 63), (2, 70, 30)],
)
def test_any_shape_and_dtype(
    best_of: BestOf, dtype: torch.dtype, nodes: int, vocabulary: int, k: int
) -> None:
    logits = random_logits(nodes, vocabulary).to(dtype)
    above = -5 * torch.rand(nodes, generator=torch.Generator().manual_seed(1))
    assert_exact(best(best_of, logits, k, above), logits.float(), above)


@FORMS
def test_any_strides(best_of: BestOf) -> None:
    logits = random_logits(4, 150)
    padded = torch.full((4, 170), 99.0)
    padded[:, :150] = logits
    for strided in (padded[:, :150], logits.T.contiguous().T):
        out = poisoned(4, 150, 5)
        best_of(strided.to(DEVICE), torch.zeros(4, device=DEVICE), out)
        assert_exact(out, logits, torch.zeros(4))


@FORMS
def test_equal_logits_come_by_rising_id_across_chunks(best_of: BestOf) -> None:
    logits = torch.zeros(2, 200)
    logits[1, [3, 70, 150, 199]] = 1.0
    out = best(best_of, logits, 6)
    assert out.ids.tolist() == [[0, 1, 2, 3, 4, 5], [3, 70, 150, 199, 0, 1]]
    assert_exact(out, logits, torch.zeros(2))


@FORMS
def test_minus_zero_ties_with_zero(best_of: BestOf) -> None:
    logits = torch.full((1, 70), -1.0)
    logits[0, 5], logits[0, 66] = -0.0, 0.0
    assert best(best_of, logits, 2).ids.tolist() == [[5, 66]]


@FORMS
def test_logits_of_minus_infinity_come_last_with_probability_zero(best_of: BestOf) -> None:
    logits = torch.full((1, 200), float("-inf"))
    logits[0, [150, 30]] = torch.tensor([-3.0, -4.0])
    out = best(best_of, logits, 4)
    assert out.ids.tolist() == [[150, 30, 0, 1]]
    p = out.logprob.exp().tolist()[0]
    assert p == pytest.approx([1 / (1 + 2.718281828**-1), 1 / (1 + 2.718281828), 0.0, 0.0])
    assert out.score.tolist()[0][2:] == [float("-inf")] * 2


@FORMS
def test_one_finite_logit_has_log_probability_zero(best_of: BestOf) -> None:
    logits = torch.full((1, 130), float("-inf"))
    logits[0, 129] = -80.0
    out = best(best_of, logits, 1)
    assert (out.ids.tolist(), out.logprob.tolist()) == ([[129]], [[0.0]])
    assert out.log_z.tolist() == [-80.0]


@FORMS
def test_nan_is_not_hidden(best_of: BestOf) -> None:
    logits = random_logits(2, 130)
    logits[0, 100] = float("nan")
    out = best(best_of, logits, 3)
    assert out.score.isnan().any(1).tolist() == [True, False]
    assert bool(((out.ids >= 0) & (out.ids < 130)).all())


@FORMS
@pytest.mark.parametrize("seed", range(5))
def test_a_level_is_what_the_dynamic_tree_picks(best_of: BestOf, seed: int) -> None:
    logits = random_logits(4, 300, seed).bfloat16().float()  # ties happen
    above = -3 * torch.rand(4, generator=torch.Generator().manual_seed(seed))
    logprob, ids = top_stable(logits.log_softmax(-1), 4)
    out = best(best_of, logits, 4, above)
    assert out.ids.tolist() == ids.tolist()
    assert torch.allclose(out.score.cpu(), above[:, None] + logprob, atol=1e-5)
    if best_of is draft_topk_torch:
        assert torch.equal(out.logprob.cpu(), logprob)


def test_misfits_are_named() -> None:
    logits, above = random_logits(3, 100).to(DEVICE), torch.zeros(3, device=DEVICE)
    with pytest.raises(ValueError, match="buffers are for 4 nodes"):
        draft_topk(logits, above, poisoned(4, 100, 2))
    with pytest.raises(ValueError, match="2 chunks of 64"):
        draft_topk(logits.repeat(1, 2), above, poisoned(3, 100, 2))
    with pytest.raises(ValueError, match="above must be contiguous float32"):
        draft_topk(logits, above.double(), poisoned(3, 100, 2))
    for misfit in (torch.zeros(4, device=DEVICE), torch.zeros(6, device=DEVICE)[::2]):
        with pytest.raises(ValueError, match=r"above must be contiguous float32 \[3\]"):
            draft_topk(logits, misfit, poisoned(3, 100, 2))
    with pytest.raises(ValueError, match="k must be from 1 to the 100"):
        poisoned(3, 100, 101)
    with pytest.raises(ValueError, match="power of two"):
        poisoned(3, 100, 2, chunk=60)


@pytest.mark.exhaustive
@FORMS
@pytest.mark.parametrize("seed", range(80))
def test_many_levels(best_of: BestOf, seed: int) -> None:
    nodes, vocabulary = 1 + seed % 10, 1 + 17 * seed
    logits = random_logits(nodes, vocabulary, seed).to((torch.float32, torch.bfloat16)[seed % 2])
    above = torch.zeros(nodes)
    assert_exact(
        best(best_of, logits, min(vocabulary, 1 + seed % 16), above), logits.float(), above
    )


@pytest.mark.parametrize("k", [1, 4, FEW, FEW + 1])
@pytest.mark.parametrize("levels", [None, 1], ids=["distinct", "tied"])
def test_one_by_one_finds_what_the_keys_find(k: int, levels: int | None) -> None:
    generator = torch.Generator().manual_seed(k)
    values = torch.randn(3, 2, 50, generator=generator)
    if levels is not None:
        values = (values * levels).round()  # signed zeros, too
    expected = values.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    assert torch.equal(largest(values, k), expected)
    assert torch.equal(largest_by_keys(values, k), expected)


@pytest.mark.parametrize("worst", [float("-inf"), float("nan")])
def test_what_is_struck_out_is_not_found_again(worst: float) -> None:
    values = torch.full((2, 9), worst)
    values[0, 3], values[1, 7] = 2.0, 1.0
    found = largest(values, 4)
    assert [len(set(row)) for row in found.tolist()] == [4, 4]
    if worst == float("-inf"):
        assert found.tolist() == [[3, 0, 1, 2], [7, 0, 1, 2]]
