from __future__ import annotations

import pytest

from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.records import Cycle
from eagle3_viz.tree_choice import measuring
from tests.lossless.tiny_pair import chat_pair
from tests.tiny_models import random_ids


def text() -> list[int]:
    pair, prompt = chat_pair(), random_ids(12, 3, 200)
    config = DecodeConfig(shape=TreeShape(8, 2, 3), max_new_tokens=20, record="off")
    records = decode(pair.target, pair.draft("eagle3"), prompt, config)
    return [token for record in records if isinstance(record, Cycle) for token in record.tokens]


def test_every_size_is_measured_where_time_allows() -> None:
    cost = measuring.measure(chat_pair(), "eagle3", seconds=60.0)
    assert [width for width, _ in cost.verify] == [1, 3, 4, 6, 7, 8, 10, 12, 16, 24, 32, 64]
    assert [width for width, _ in cost.level] == [1, 2, 3, 4, 5, 6, 8, 10]
    assert cost.rounds == 6, "autoregression takes six steps, each tree has seven rounds"
    every = [cost.step, cost.root, cost.select, cost.rest]
    every += [ms for _, ms in (*cost.verify, *cost.level)]
    assert all(ms > 0 for ms in every)


def test_without_time_the_widths_that_tell_most_are_measured_all_the_same() -> None:
    cost = measuring.measure(chat_pair(), "eagle3", seconds=0.0)
    assert [width for width, _ in cost.verify] == [1, 3, 8, 64]
    assert [width for width, _ in cost.level] == [1, 4, 10]
    assert cost.covers(TreeShape(2, 0, 1))
    assert cost.rounds == 1


def test_a_run_after_the_measurement_is_the_same_as_before_it() -> None:
    before = text()
    measuring.measure(chat_pair(), "eagle3", seconds=0.0)
    assert text() == before


def test_a_context_shorter_than_the_prompt_is_measured_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = chat_pair()
    monkeypatch.setattr(pair.target, "context_limit", 24)
    cost = measuring.measure(pair, "eagle3", seconds=0.0)
    assert cost.covers(TreeShape(3, 1, 1))
