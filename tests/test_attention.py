"""Grouped attention against a loop over heads and rows in float64."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from transformers import AttentionInterface

from eagle3_viz.attention import NAME, additive_mask, grouped_attention


def reference(query, key, value, visible, scale, softcap=None) -> torch.Tensor:
    """[1, H, t, hd] in float64; visible bool [t, n]."""
    _, heads, rows, _ = query.shape
    group = heads // key.shape[1]
    q, k, v = (x[0].double() for x in (query, key, value))
    out = torch.zeros_like(q)
    for head in range(heads):
        for row in range(rows):
            seen = visible[row].nonzero()[:, 0]
            scores = k[head // group][seen] @ q[head, row] * scale
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            out[head, row] = scores.softmax(0) @ v[head // group][seen]
    return out[None]


def states(heads: int, kv_heads: int, rows: int, keys: int, size: int = 8):
    generator = torch.Generator().manual_seed(heads * 100 + rows * 10 + keys)
    shapes = [(1, heads, rows, size), (1, kv_heads, keys, size), (1, kv_heads, keys, size)]
    return [2.0 * torch.randn(shape, generator=generator) for shape in shapes]


def random_tree_mask(rows: int, prefix: int) -> torch.Tensor:
    """Each row sees the prefix, itself and the ancestors of a random tree."""
    generator = torch.Generator().manual_seed(rows)
    visible = torch.eye(rows, dtype=torch.bool)
    for row in range(1, rows):
        parent = int(torch.randint(row, (1,), generator=generator))
        visible[row] |= visible[parent]
    return torch.cat([torch.ones(rows, prefix, dtype=torch.bool), visible], dim=1)


HEADS = [(4, 4), (4, 2), (6, 1), (1, 1)]


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_a_tree_mask_reaches_every_head(heads: int, kv_heads: int) -> None:
    visible = random_tree_mask(7, 5)
    query, key, value = states(heads, kv_heads, 7, 12)
    mask = additive_mask(visible, heads // kv_heads, torch.float32)
    found = grouped_attention(query, key, value, mask)
    assert found.shape == (1, heads, 7, 8)
    assert torch.allclose(found.double(), reference(query, key, value, visible, 8**-0.5), atol=1e-5)


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_without_a_mask_many_rows_are_causal_and_one_row_sees_all(heads, kv_heads) -> None:
    query, key, value = states(heads, kv_heads, 9, 9)
    causal = torch.ones(9, 9, dtype=torch.bool).tril()
    found = grouped_attention(query, key, value, None, scale=0.3)
    assert torch.allclose(found.double(), reference(query, key, value, causal, 0.3), atol=1e-5)
    one = grouped_attention(query[:, :, :1], key, value, None, scale=0.3)
    every = torch.ones(1, 9, dtype=torch.bool)
    expected = reference(query[:, :, :1], key, value, every, 0.3)
    assert torch.allclose(one.double(), expected, atol=1e-5)


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize("masked", [True, False])
def test_softcapped_scores_are_squashed_before_the_mask(heads, kv_heads, masked) -> None:
    rows, prefix = 6, 4 if masked else 0
    visible = (
        random_tree_mask(rows, prefix) if masked else torch.ones(6, 6, dtype=torch.bool).tril()
    )
    query, key, value = states(heads, kv_heads, rows, rows + prefix)
    mask = additive_mask(visible, heads // kv_heads, torch.float32) if masked else None
    attend = AttentionInterface()[NAME]
    found, weights = attend(SimpleNamespace(), query, key, value, mask, scaling=0.4, softcap=1.5)
    expected = reference(query, key, value, visible, 0.4, softcap=1.5)
    assert weights is None
    assert torch.allclose(found.double(), expected.transpose(1, 2), atol=1e-5)
    uncapped = reference(query, key, value, visible, 0.4)
    assert not torch.allclose(found.double(), uncapped.transpose(1, 2), atol=1e-2)


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize("softcap", [None, 1.5])
def test_one_token_of_many_texts_sees_what_its_own_text_shows(heads, kv_heads, softcap) -> None:
    visible = torch.rand(3, 1, 9, generator=torch.Generator().manual_seed(1)) < 0.5
    visible[:, :, 0] = True
    texts = [states(heads, kv_heads, 1, 9, size) for size in (8, 8, 8)]
    for row, parts in enumerate(texts):
        for part in parts:
            part += 0.1 * row
    query, key, value = (torch.cat(parts) for parts in zip(*texts, strict=True))
    mask = additive_mask(visible, heads // kv_heads, torch.float32)
    assert mask.shape == (3, 1, heads // kv_heads, 9)
    attend = AttentionInterface()[NAME]
    found, _ = attend(SimpleNamespace(), query, key, value, mask, scaling=0.4, softcap=softcap)
    for row, (q, k, v) in enumerate(texts):
        expected = reference(q, k, v, visible[row], 0.4, softcap).transpose(1, 2)
        assert torch.allclose(found[row : row + 1].double(), expected, atol=1e-5)
    fused = grouped_attention(query, key, value, mask, 0.4).transpose(1, 2)
    assert torch.allclose(found, fused, atol=1e-5) is (softcap is None)


def test_transformers_finds_the_attention_under_its_name() -> None:
    query, key, value = states(4, 2, 5, 5)
    found, _ = AttentionInterface()[NAME](SimpleNamespace(), query, key, value, None, scaling=0.5)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = reference(query, key, value, causal, 0.5)
    assert found.shape == (1, 5, 4, 8)
    assert torch.allclose(found.double(), expected.transpose(1, 2), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_additive_mask_is_zero_where_seen_and_minus_infinity_elsewhere(dtype) -> None:
    visible = torch.tensor([[True, False, True], [False, True, True]])
    mask = additive_mask(visible, 2, dtype)
    assert mask.shape == (1, 1, 4, 3)
    assert mask.dtype == dtype
    hidden = [value == -math.inf for value in mask[0, 0].flatten().tolist()]
    assert hidden == [False, True, False, True, False, False] * 2
    assert set(mask[0, 0].flatten().tolist()) == {0.0, -math.inf}
