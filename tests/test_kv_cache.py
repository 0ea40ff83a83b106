"""The cache against a plain list of what each committed token wrote."""

from __future__ import annotations

import pytest
import torch

from eagle3_viz import kv_cache
from eagle3_viz.kv_cache import LayerSpec, TreeCache

CPU = torch.device("cpu")
# Two layers alike and one of another shape: two buffers.
SPECS = [
    LayerSpec(2, 4, torch.float32, CPU),
    LayerSpec(1, 6, torch.float32, CPU),
    LayerSpec(2, 4, torch.float32, CPU),
]


def states(count: int, layer: int, mark: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of `count` tokens that tell layer, token and which of the two they are."""
    spec = SPECS[layer]
    row = mark + torch.arange(count, dtype=torch.float32)[None, None, :, None]
    keys = row + 1000.0 * layer + torch.zeros(1, spec.heads, count, spec.head_dim)
    return keys, -keys


def append(cache: TreeCache, count: int, mark: float) -> list[torch.Tensor]:
    """One forward over `count` tokens marked mark, mark + 1, ...; the keys each layer sees."""
    seen = []
    for layer in range(len(SPECS)):
        keys, values = cache.update(*states(count, layer, mark), layer)
        assert torch.equal(values, -keys)
        seen.append(keys)
    return seen


def marks(keys: torch.Tensor, layer: int) -> list[float]:
    row = keys[0, 0, :, 0] - 1000.0 * layer
    assert torch.equal(keys, (row + 1000.0 * layer)[None, None, :, None].expand_as(keys))
    return row.tolist()


def assert_sees(cache: TreeCache, expected: list[float]) -> None:
    """Every layer holds `expected` before the next token, 999."""
    for layer, keys in enumerate(append(cache, 1, 999.0)):
        assert marks(keys, layer) == [*expected, 999.0]
    cache.set_length(len(expected))


def test_a_forward_sees_the_committed_tokens_and_its_own() -> None:
    cache = TreeCache(SPECS)
    append(cache, 3, 0.0)
    cache.set_length(3)
    for layer, keys in enumerate(append(cache, 2, 10.0)):
        assert marks(keys, layer) == [0, 1, 2, 10, 11]


@pytest.mark.parametrize(
    "path", [[0], [0, 1], [0, 1, 2, 3, 4], [0, 2], [0, 4], [0, 1, 4], [0, 2, 3], [0, 1, 3, 4]]
)
def test_a_path_is_kept_in_order_and_the_rest_dropped(path: list[int]) -> None:
    cache = TreeCache(SPECS)
    append(cache, 3, 0.0)
    cache.set_length(3)
    append(cache, 5, 10.0)
    cache.set_length(3)
    cache.keep(path)
    assert cache.length == cache.get_seq_length() == 3 + len(path)
    assert_sees(cache, [0, 1, 2, *(10.0 + node for node in path)])


def test_a_dropped_tree_leaves_no_trace() -> None:
    cache = TreeCache(SPECS)
    append(cache, 3, 0.0)
    cache.set_length(3)
    append(cache, 7, 10.0)
    cache.set_length(3)
    assert_sees(cache, [0, 1, 2])


def test_growing_keeps_everything_whatever_the_size_of_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kv_cache, "GROWTH_STEP", 4)
    cache, expected, sizes = TreeCache(SPECS, capacity=4), [], []
    for round_ in range(12):
        before = cache.length
        append(cache, 3, 10.0 * round_)
        cache.set_length(before)
        cache.keep([0, 2])
        expected += [10.0 * round_, 10.0 * round_ + 2]
        sizes.append(cache.capacity)
        assert_sees(cache, expected)
    assert sizes[0] < sizes[-1]
    assert all(size % 4 == 0 for size in sizes)


def test_one_forward_may_be_larger_than_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_cache, "GROWTH_STEP", 4)
    cache = TreeCache(SPECS, capacity=4)
    append(cache, 3, 0.0)
    cache.set_length(3)
    for layer, keys in enumerate(append(cache, 41, 100.0)):
        assert marks(keys, layer) == [0, 1, 2, *range(100, 141)]
    assert cache.capacity == 44


def test_reserving_what_is_there_moves_nothing() -> None:
    cache = TreeCache(SPECS)
    first = cache.layers[0].keys
    cache.reserve(kv_cache.GROWTH_STEP)
    assert cache.layers[0].keys is first
    assert cache.capacity == kv_cache.GROWTH_STEP


def test_transformers_is_told_the_length_of_the_text_with_the_tree() -> None:
    cache = TreeCache(SPECS)
    append(cache, 5, 0.0)
    cache.set_length(5)
    assert cache.get_seq_length() == 5
    assert cache.get_mask_sizes(3, 0) == (8, 0)
