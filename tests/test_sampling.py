"""Warping against transformers' own processors; draws against their distribution."""

from __future__ import annotations

import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from eagle3_viz.config import LEAST_TEMPERATURE, Sampling
from eagle3_viz.sampling import Draws, arg_max, warp


def logits(rows: int = 5, vocabulary: int = 5000, seed: int = 0) -> torch.Tensor:
    return 4 * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("top_k", [0, 1, 50])
@pytest.mark.parametrize("top_p", [0.05, 0.9, 0.9999, 1.0])
def test_warping_equals_transformers(temperature, top_k, top_p) -> None:
    processors = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        processors.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        processors.append(TopPLogitsWarper(top_p))
    scores = logits().double()
    expected = processors(None, scores.clone()).softmax(-1)
    found = warp(scores, Sampling(temperature, top_k, top_p))
    assert torch.allclose(found, expected, atol=1e-6)
    assert torch.equal(found > 0, expected > 0)


def test_a_tiny_temperature_is_the_arg_max_and_not_nan() -> None:
    scores = logits()
    p = warp(scores, Sampling(LEAST_TEMPERATURE))
    assert torch.equal(p.argmax(-1), scores.argmax(-1))
    assert torch.allclose(p.max(-1).values, torch.ones(len(scores)))


def test_flat_distribution_needs_more_than_the_head_of_the_nucleus() -> None:
    flat = 0.01 * logits(2, 9000)
    p = warp(flat, Sampling(1.0, 0, 0.9))
    assert (p > 0).sum(-1).min() > 2048
    assert torch.allclose(p.sum(-1), torch.ones(2))


def test_temperature_zero_is_one_hot_at_the_first_maximum() -> None:
    tied = torch.tensor([[1.0, 5.0, 5.0, 2.0]])
    assert warp(tied, Sampling(0.0)).tolist() == [[0.0, 1.0, 0.0, 0.0]]


def test_arg_max_takes_the_lowest_index_in_bfloat16_too() -> None:
    scores = logits(8, 3000).bfloat16()
    expected = [row.tolist().index(max(row.tolist())) for row in scores.float()]
    assert arg_max(scores).tolist() == expected


def test_a_nan_is_its_rows_arg_max() -> None:
    scores = torch.randn(3, 500, generator=torch.Generator().manual_seed(2))
    scores[1, 77] = float("nan")
    best = arg_max(scores)
    assert best[1] == 77
    assert scores[torch.arange(3), best].isnan().tolist() == [False, True, False]


def test_draws_follow_the_weights_and_never_hit_zero() -> None:
    weights = torch.tensor([0.0, 3.0, 0.0, 1.0, 0.0])
    draws = Draws(0)
    counts = torch.bincount(torch.stack([draws.token(weights) for _ in range(4000)]), minlength=5)
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]
    # binomial(4000, 3/4): standard deviation 27.4, five of them
    assert abs(int(counts[1]) - 3000) < 137


def test_same_seed_draws_the_same() -> None:
    weights = torch.rand(100, generator=torch.Generator().manual_seed(1))
    first, second = Draws(5), Draws(5)
    for _ in range(50):
        assert int(first.token(weights)) == int(second.token(weights))
        assert first.accepts(0.5) == second.accepts(0.5)


def test_largest_uniform_still_draws_a_token_of_positive_weight() -> None:
    draws = Draws(0)
    draws.uniform = lambda: 1.0 - 2**-53  # type: ignore[method-assign]
    weights = torch.tensor([0.1] * 7 + [0.0, 0.0])
    assert int(draws.token(weights)) == 6


@pytest.mark.parametrize(
    "arguments", [(-1.0,), (float("inf"),), (1.0, -1), (1.0, 0, 0.0), (1.0, 0, 1.5)]
)
def test_meaningless_sampling_is_refused(arguments) -> None:
    with pytest.raises(ValueError):
        Sampling(*arguments)


def test_the_arg_max_of_a_float64_model_is_taken_in_float64() -> None:
    logits = torch.tensor([[1.0, 1.0 + 1e-12, 0.0]], dtype=torch.float64)
    assert arg_max(logits).tolist() == [1]
    assert arg_max(logits.float()).tolist() == [0]
