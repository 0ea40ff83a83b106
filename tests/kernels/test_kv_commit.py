"""Committing a path in place against copies of the rows, made before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from eagle3_viz.kv_cache import LayerSpec, TreeCache
from kernels.kv_commit import kv_commit, kv_commit_torch, kv_commit_triton

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
FORMS = pytest.mark.parametrize(
    "commit", [kv_commit_torch, kv_commit_triton], ids=["torch", "triton"]
)
Commit = Callable[..., None]

OVERLAPPING = [0, 2, 3, 4, 5]  # every destination but the first is an earlier source


def buffer(
    layers: int,
    heads: int,
    capacity: int,
    head_dim: int,
    dtype: torch.dtype = torch.float32,
    texts: int = 1,
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(layers * 1000 + capacity)
    shape = (layers, 2, texts, heads, capacity, head_dim)
    return torch.randn(shape, generator=generator).to(dtype).to(DEVICE)


def scalars(*values: int) -> list[torch.Tensor]:
    return [torch.tensor([value], device=DEVICE) for value in values]


def committed(before: torch.Tensor, path: list[int], length: int) -> torch.Tensor:
    """What the rows must be: all others as they were."""
    after = before.clone()
    for place, offset in enumerate(path):
        after[..., length + place, :] = before[..., length + offset, :]
    return after


def assert_commits(
    commit: Commit, rows: torch.Tensor, path: list[int], length: int, padding: int = 0
) -> None:
    expected = committed(rows, path, length)
    padded = torch.tensor([*path, *[-1] * padding], dtype=torch.int64, device=DEVICE)
    commit(rows, padded, *scalars(len(path), length))
    assert torch.equal(rows, expected)


@FORMS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("heads", "head_dim"), [(1, 64), (3, 80), (5, 96), (8, 128), (2, 256)])
def test_every_head_size_and_dtype(
    commit: Commit, dtype: torch.dtype, heads: int, head_dim: int
) -> None:
    assert_commits(commit, buffer(2, heads, 24, head_dim, dtype), OVERLAPPING, 7)


@FORMS
@pytest.mark.parametrize("length", [0, 1, 13])
@pytest.mark.parametrize(
    "path", [[0], [0, 1, 2], [0, 5], OVERLAPPING, [0, 1, 3, 6], [0, 4, 5, 9], [1, 2, 3]]
)
def test_any_rising_path_behind_any_length(commit: Commit, path: list[int], length: int) -> None:
    assert_commits(commit, buffer(3, 2, 26, 16), path, length)


@FORMS
def test_rows_move_in_every_text_of_a_batch(commit: Commit) -> None:
    assert_commits(commit, buffer(2, 3, 20, 16, texts=3), OVERLAPPING, 7)


@FORMS
def test_what_stands_behind_the_kept_nodes_is_not_looked_at(commit: Commit) -> None:
    assert_commits(commit, buffer(2, 2, 20, 16), [0, 3], 5, padding=6)


@FORMS
def test_the_last_rows_of_a_full_buffer_can_move(commit: Commit) -> None:
    assert_commits(commit, buffer(2, 2, 20, 16), [0, 2, 7], 12, padding=5)


@FORMS
def test_nothing_kept_moves_nothing(commit: Commit) -> None:
    assert_commits(commit, buffer(2, 2, 20, 16), [], 5, padding=4)


@FORMS
def test_buffers_of_any_strides(commit: Commit) -> None:
    whole = buffer(4, 3, 30, 24)
    untouched = whole[..., 20:, :].clone()
    assert_commits(commit, whole[::2, ..., :20, :], OVERLAPPING, 6)
    assert torch.equal(whole[..., 20:, :], untouched)
    turned = buffer(2, 20, 3, 16).transpose(3, 4)  # capacity 20, between the heads
    assert_commits(commit, turned, OVERLAPPING, 6)
    assert_commits(commit, buffer(2, 3, 20, 32)[..., ::2], OVERLAPPING, 6)


@FORMS
def test_the_buffer_of_the_cache_is_committed_as_the_cache_does(commit: Commit) -> None:
    """Two layers alike share a buffer [2, 2, 1, heads, capacity, head size]."""
    caches = [TreeCache([LayerSpec(2, 8, torch.float32, DEVICE)] * 2) for _ in range(2)]
    states = torch.randn(2, 1, 2, 9, 8, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    for cache in caches:
        for layer in range(2):
            cache.update(states[layer], -states[layer], layer)
        cache.set_length(3)
    ours, theirs = (next(iter(cache._buffers.values())) for cache in caches)
    path = torch.tensor([0, 2, 5], device=DEVICE)
    commit(ours, path, *scalars(3, 3))
    caches[1].keep([0, 2, 5])
    assert torch.equal(ours[..., :6, :], theirs[..., :6, :])


def test_a_path_may_be_as_long_as_the_buffer() -> None:
    assert_commits(kv_commit, buffer(2, 2, 6, 16), [0, 2, 4], 0, padding=3)


def test_misfits_are_named() -> None:
    rows, path = buffer(2, 2, 20, 16), torch.arange(3, device=DEVICE)
    kept, length = scalars(3, 5)
    with pytest.raises(ValueError, match="buffer must be"):
        kv_commit(rows[0], path, kept, length)
    with pytest.raises(ValueError, match="keys and values"):
        kv_commit(rows[:, :1], path, kept, length)
    with pytest.raises(ValueError, match="at most 20 entries"):
        kv_commit(rows, torch.arange(21, device=DEVICE), kept, length)
    with pytest.raises(ValueError, match="path must be contiguous int64"):
        kv_commit(rows, path.int(), kept, length)
    with pytest.raises(ValueError, match="path must be contiguous int64"):
        kv_commit(rows, torch.arange(6, device=DEVICE)[::2], kept, length)
    with pytest.raises(ValueError, match="kept must be contiguous int64"):
        kv_commit(rows, path, path, length)
    with pytest.raises(ValueError, match="length must be contiguous int64"):
        kv_commit(rows, path, kept, length.int())


@pytest.mark.exhaustive
@FORMS
@pytest.mark.parametrize("seed", range(60))
def test_random_paths(commit: Commit, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    nodes = int(torch.randint(1, 20, (), generator=generator))
    chosen = torch.rand(nodes, generator=generator) < 0.5
    path = [0, *(chosen.nonzero()[:, 0] + 1).tolist()]
    length = int(torch.randint(0, 30, (), generator=generator))
    assert_commits(commit, buffer(1 + seed % 3, 1 + seed % 6, 60, 8 + seed), path, length, seed % 4)
