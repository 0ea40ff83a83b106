"""Ancestor matrices as words of 64 bits."""

from __future__ import annotations

import pytest
import torch

from kernels.ancestor_bits import TreeMask, pack_visible, unpack_visible


@pytest.mark.parametrize("columns", [1, 63, 64, 65, 128, 200, 256])
def test_bit_j_of_the_words_says_whether_column_j_is_seen(columns: int) -> None:
    visible = torch.rand(3, 5, columns, generator=torch.Generator().manual_seed(columns)) < 0.5
    words = pack_visible(visible)
    assert words.dtype == torch.int64
    assert words.shape == (3, 5, -(-columns // 64))
    for row, found in zip(
        visible.flatten(0, 1).tolist(), words.flatten(0, 1).tolist(), strict=True
    ):
        number = sum(seen << column for column, seen in enumerate(row))  # one integer of 256 bits
        assert [word % 2**64 for word in found] == [
            number >> 64 * index & 2**64 - 1 for index in range(len(found))
        ]
    assert torch.equal(unpack_visible(words, columns), visible)


def test_words_are_packed_into_a_buffer_that_is_given() -> None:
    visible = torch.eye(70, dtype=torch.bool)
    buffer = torch.full((70, 2), 7)
    assert pack_visible(visible, out=buffer).data_ptr() == buffer.data_ptr()
    assert torch.equal(unpack_visible(buffer, 70), visible)


@pytest.mark.parametrize("columns", [0, 257])
def test_a_tree_that_does_not_fit_four_words_is_refused(columns: int) -> None:
    with pytest.raises(ValueError, match=f"1 to 256 columns, found {columns}"):
        pack_visible(torch.zeros(2, columns, dtype=torch.bool))


def test_a_mask_of_one_tree_serves_every_text() -> None:
    mask = TreeMask.pack(torch.eye(3, dtype=torch.bool), torch.tensor([4, 0]), torch.arange(3))
    assert mask.words.tolist() == [[[1], [2], [4]]]
    assert mask.rows == 3
    assert mask.depth is not None
    assert mask.depth.tolist() == [[0, 1, 2]]
    by_text = TreeMask.pack(torch.ones(2, 1, 5, dtype=torch.bool), torch.tensor([4, 0]))
    assert by_text.words.tolist() == [[[31]], [[31]]]
    assert by_text.depth is None
