"""What a record reads of a tree comes to the host the same way from every device."""

from __future__ import annotations

import numpy as np
import torch

from eagle3_viz.host_tree import _fetched
from eagle3_viz.ranks import _on_host, _where_it_is, ranks


def test_ranks_are_the_same_where_the_rows_are_and_on_the_host() -> None:
    rows = torch.randint(0, 9, (4, 50), generator=torch.Generator().manual_seed(3)).float()
    rows[1, :5] = -torch.inf
    pairs = [(row, token) for row in (0, 1, 3) for token in range(50)]
    expected = [int((rows[row] > rows[row, token]).sum()) for row, token in pairs]
    for found in (
        ranks(rows, [row for row, _ in pairs], [token for _, token in pairs]),
        _on_host(rows.numpy(), pairs),
        _where_it_is(rows, pairs),
    ):
        assert found.dtype == np.int64
        assert found.tolist() == expected


def test_no_tokens_have_no_ranks() -> None:
    assert _on_host(np.zeros((2, 3)), []).shape == _where_it_is(torch.zeros(2, 3), []).shape == (0,)


def test_tensors_fetched_in_one_copy_are_told_apart_again() -> None:
    tensors = [torch.arange(5), torch.arange(0), torch.arange(3) + 9]
    fetched = _fetched(tensors)
    assert len(fetched) == 3
    assert all(torch.equal(a, b) for a, b in zip(tensors, fetched, strict=True))
