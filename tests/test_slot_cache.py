"""The cache of many texts: what is written where, and what a new text finds."""

from __future__ import annotations

import torch

from eagle3_viz.kv_cache import LayerSpec
from eagle3_viz.slot_cache import SlotCache

SPECS = [LayerSpec(2, 4, torch.float32, torch.device("cpu"))] * 3


def numbered(rows: int, tokens: int, start: float) -> torch.Tensor:
    return start + torch.arange(rows * 2 * tokens * 4).reshape(rows, 2, tokens, 4).float()


def test_every_text_is_written_at_its_own_position_in_its_own_row() -> None:
    cache = SlotCache(SPECS, slots=3, capacity=6)
    positions = torch.tensor([[4], [0], [2]])
    cache.aim(slice(None), positions, 6)
    keys, values = numbered(3, 1, 1.0), numbered(3, 1, 100.0)
    for layer in range(3):
        found = cache.update(keys + layer, values + layer, layer)
        for stored, given in zip(found, (keys + layer, values + layer), strict=True):
            assert stored.shape == (3, 2, 6, 4)
            for row, position in enumerate(positions[:, 0].tolist()):
                assert torch.equal(stored[row, :, position], given[row, :, 0])
            assert (stored != 0).any(-1).sum() == 3 * 2  # and nothing anywhere else


def test_one_row_takes_several_tokens_and_returns_what_attention_may_see() -> None:
    cache = SlotCache(SPECS, slots=3, capacity=6)
    cache.aim(slice(1, 2), torch.tensor([[1, 2, 3]]), 4)
    given = numbered(1, 3, 1.0)
    keys, values = cache.update(given, given + 100, 0)
    assert keys.shape == values.shape == (1, 2, 4, 4)
    assert torch.equal(keys[:, :, 1:], given)
    assert torch.equal(values[:, :, 1:], given + 100)
    assert cache.get_seq_length() == 4


def test_a_prefix_goes_from_slot_to_slot_and_survives_what_comes_after() -> None:
    cache = SlotCache(SPECS, slots=2, capacity=6)
    given = numbered(1, 4, 1.0)
    cache.aim(slice(0, 1), torch.arange(4)[None], 4)
    for layer in range(3):
        cache.update(given + layer, given - layer, layer)
    prefix = cache.prefix(0, 3)
    for layer in range(3):
        cache.update(0 * given, 0 * given, layer)
    cache.restore(1, prefix)
    cache.aim(slice(1, 2), torch.tensor([[3]]), 4)
    for layer in range(3):
        keys, values = cache.update(given[:, :, 3:] + layer, given[:, :, 3:] - layer, layer)
        assert torch.equal(keys, given + layer)
        assert torch.equal(values, given - layer)
