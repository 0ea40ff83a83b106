"""Every supported family: a tree verified at once equals its paths run alone through transformers.

The other side of each comparison is the stock model with eager attention over whole texts.
"""

from __future__ import annotations

import pytest
import torch

from eagle3_viz import kv_cache
from eagle3_viz import target as target_module
from eagle3_viz.target import TargetModel
from tests.tiny_models import (
    FAMILIES,
    VOCABULARY,
    WINDOW,
    path_to,
    random_ids,
    shared_stock,
    shared_target,
    stock_forward,
    stock_model,
    tiny_target,
    tree_of,
)

# Irregular: a bush, a chain deeper than the window, siblings that are not neighbours.
PARENTS = [-1, 0, 0, 0, 1, 1, 3, 4, 4, 6, 7, 10, 11, 2, 12, 14]
LEAVES = [node for node in range(len(PARENTS)) if node not in PARENTS]
PROMPT = 11
WINDOWED = [family for family in FAMILIES if "sliding" in family or family in ("gemma2", "gemma3")]


def assert_close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-4) -> None:
    scale = expected.abs().max()
    assert (found - expected).abs().max() <= tolerance * scale


def tokens_of_tree(seed: int) -> list[int]:
    return torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(seed))[
        : len(PARENTS)
    ].tolist()


def expected_features(target: TargetModel, hidden: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([hidden[b] for b in target.taps.boundaries], dim=-1)


def assert_tree_equals_its_paths(target, stock, text: list[int], tokens: list[int]) -> None:
    step = target.verify(tree_of(tokens, PARENTS))
    assert step.logits.shape == (len(tokens), VOCABULARY)
    for leaf in LEAVES:
        path = path_to(PARENTS, leaf)
        logits, hidden = stock_forward(stock, text + [tokens[node] for node in path])
        assert_close(step.logits[path], logits[len(text) :])
        assert_close(step.features[path], expected_features(target, hidden)[len(text) :])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tree_equals_each_of_its_paths_run_alone(family: str) -> None:
    target, text = shared_target(family), random_ids(PROMPT, 1)
    target.prefill(text)
    assert_tree_equals_its_paths(target, shared_stock(family), text, tokens_of_tree(2))


@pytest.mark.parametrize("family", FAMILIES)
def test_prefill_gives_the_last_logits_and_the_taps_of_every_token(family: str) -> None:
    target, text = shared_target(family), random_ids(PROMPT, 3)
    step = target.prefill(text)
    logits, hidden = stock_forward(shared_stock(family), text)
    assert step.logits.shape == (1, VOCABULARY)
    assert_close(step.logits, logits[-1:])
    assert_close(step.features, expected_features(target, hidden))


@pytest.mark.parametrize("family", FAMILIES)
def test_rounds_of_verifying_and_committing_equal_the_stock_model_on_the_text(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv_cache, "GROWTH_STEP", 8)  # the cache grows several times on the way
    monkeypatch.setattr(target_module, "GROWTH_STEP", 8)
    target = tiny_target(family, seed=5)
    stock = stock_model(target)
    text = random_ids(PROMPT, 4)
    features = [target.prefill(text).features]
    capacity = target.cache.capacity
    for round_, last in enumerate((8, 0, 12, 13, 9, 5, 3, 15, 2)):
        tokens, path = tokens_of_tree(10 + round_), path_to(PARENTS, last)
        step = target.verify(tree_of(tokens, PARENTS))
        features.append(target.commit(path, step.features))
        text += [tokens[node] for node in path]
        logits, hidden = stock_forward(stock, text)
        assert target.cache.length == len(text)
        assert_close(step.logits[path], logits[-len(path) :])
        assert_close(torch.cat(features), expected_features(target, hidden))
    assert target.cache.capacity > capacity
    assert_tree_equals_its_paths(target, stock, text, tokens_of_tree(30))


@pytest.mark.parametrize("family", FAMILIES)
def test_one_token_at_a_time_equals_the_stock_model(family: str) -> None:
    target, text = shared_target(family), random_ids(3, 6)
    target.prefill(text)
    rows = []
    for token in random_ids(2 * WINDOW, 7):
        step = target.verify(tree_of([token], [-1]))
        target.commit([0], step.features)
        text.append(token)
        rows.append(step.logits[0])
    logits, _ = stock_forward(shared_stock(family), text)
    assert_close(torch.stack(rows), logits[3:])


@pytest.mark.parametrize("family", WINDOWED)
def test_the_window_cuts_something_off_in_these_texts(family: str) -> None:
    """Else the families with windows above would prove nothing about windows."""
    text = random_ids(PROMPT, 1)
    wide = shared_target(family).config.to_dict() | {"sliding_window": 100}
    unlimited = stock_model(shared_target(family), type(shared_target(family).config)(**wide))
    logits, _ = stock_forward(unlimited, text)
    windowed, _ = stock_forward(shared_stock(family), text)
    assert (logits[-1] - windowed[-1]).abs().max() > 0.1


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "gemma3"])
def test_taps_are_the_residual_stream_at_every_boundary(family: str) -> None:
    layers = 8
    target = tiny_target(family, boundaries=range(layers + 1))
    stock, text = stock_model(target), random_ids(PROMPT, 8)
    features = target.prefill(text).features.chunk(layers + 1, dim=-1)
    _, hidden = stock_forward(stock, text)
    for boundary in range(layers):
        assert_close(features[boundary], hidden[boundary])
    # The last entry of hidden_states is past the final norm; the tap is before it.
    with torch.no_grad():
        assert_close(stock.model.norm(features[layers]), hidden[layers])
    assert not torch.allclose(features[layers], hidden[layers], rtol=0.1)


def test_default_taps_are_the_inputs_of_the_published_layers() -> None:
    assert shared_target().taps.boundaries == (2, 4, 5)
    deep = tiny_target(num_hidden_layers=11)
    assert deep.taps.boundaries == (2, 5, 8)
