from __future__ import annotations

from typing import cast

import pytest
import torch

from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.lossless.greedy_texts import PaddedTarget, along, decided, padded
from eagle3_viz.target import TargetModel
from eagle3_viz.tree import root_only
from tests.lossless.tiny_pair import PREFIX, small_pair
from tests.tiny_models import stock_forward, stock_model, text_of

AR = DecodeConfig(method="ar", max_new_tokens=15, record="off")
TREE = DecodeConfig(shape=TreeShape(6, 1, 3), max_new_tokens=15, record="off")


@pytest.mark.parametrize("config", [AR, TREE], ids=["ar", "tree"])
def test_the_kept_logits_are_those_that_decided_each_token(config: DecodeConfig) -> None:
    target, draft = small_pair().target, small_pair().draft(config.method)
    found = decided(target, draft, PREFIX.ids, config)
    expected = stock_forward(stock_model(target), [*PREFIX.ids, *found.tokens])[0]
    torch.testing.assert_close(found.logits, expected[len(PREFIX.ids) : -1], rtol=1e-3, atol=1e-3)
    assert found.logits.argmax(-1).tolist() == list(found.tokens[1:])


def test_the_text_is_that_of_decode() -> None:
    target, draft = small_pair().target, small_pair().draft_for("eagle3")
    assert draft is not None
    first, *cycles = decode(target, draft.draft, PREFIX.ids, TREE)
    text = text_of(first, cycles)  # type: ignore[arg-type]
    assert list(decided(target, draft.draft, PREFIX.ids, TREE).tokens) == text


def test_one_token_forwards_along_a_text_give_its_logits() -> None:
    target = small_pair().target
    text = decided(target, None, PREFIX.ids, AR)
    again = along(target, PREFIX.ids, text.tokens)
    assert torch.equal(again.logits, text.logits)
    other = (1, 2, 3, 4)
    expected = stock_forward(stock_model(target), [*PREFIX.ids, *other])[0]
    found = along(target, PREFIX.ids, other)
    torch.testing.assert_close(found.logits, expected[len(PREFIX.ids) : -1], rtol=1e-3, atol=1e-3)


def test_a_padded_root_computes_what_it_computes_alone() -> None:
    target = small_pair().target
    shaped = cast(TargetModel, PaddedTarget(target, 9))
    ids = list(PREFIX.ids)
    alone = along(target, ids, [2, 4, 1])
    beside = along(shaped, ids, [2, 4, 1])
    assert target.cache.length == len(ids) + 2, "copies of the root were kept"
    torch.testing.assert_close(alone.logits, beside.logits, rtol=1e-4, atol=1e-4)


def test_padding_runs_a_forward_of_as_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    target, rows = small_pair().target, []
    append = TargetModel.append

    def counted(self, ids, *arguments, **options):
        rows.append(len(ids))
        return append(self, ids, *arguments, **options)

    monkeypatch.setattr(TargetModel, "append", counted)
    along(cast(TargetModel, PaddedTarget(target, 9)), PREFIX.ids, [2, 4, 1])
    assert rows == [len(PREFIX.ids), 9, 9]


def test_copies_of_a_root_see_it_and_nothing_of_each_other() -> None:
    tree = padded(root_only(5, torch.device("cpu")), 4)
    assert tree.token.tolist() == [5] * 4
    assert tree.parent.tolist() == [-1, 0, 0, 0]
    assert tree.visible.long().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
