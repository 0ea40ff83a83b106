from __future__ import annotations

from dataclasses import replace

import pytest

from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.decode import decode
from eagle3_viz.records import Cycle
from eagle3_viz.tree_choice import measuring
from eagle3_viz.tree_choice.cycle_cost import CycleCost
from tests.lossless.tiny_pair import chat_pair
from tests.tiny_models import random_ids


def silent(stage: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


def measured(seconds: float, longest: float = 0.0) -> CycleCost:
    return measuring.measure(chat_pair(), "eagle3", silent, seconds, longest)


def text() -> list[int]:
    pair, prompt = chat_pair(), random_ids(12, 3, 200)
    config = DecodeConfig(shape=TreeShape(8, 2, 3), max_new_tokens=20, record="off")
    records = decode(pair.target, pair.draft("eagle3"), prompt, config)
    return [token for record in records if isinstance(record, Cycle) for token in record.tokens]


def test_every_size_is_measured_where_time_allows() -> None:
    cost = measured(60.0)
    assert [width for width, _ in cost.verify] == [1, 3, 4, 6, 7, 8, 10, 12, 16, 24, 32, 64]
    assert [width for width, _ in cost.level] == [1, 2, 3, 4, 5, 6, 8, 10]
    assert cost.rounds == 6, "autoregression takes six steps, each tree has seven rounds"
    every = [cost.step, cost.root, cost.select, cost.rest]
    every += [ms for _, ms in (*cost.verify, *cost.level)]
    assert all(ms > 0 for ms in every)


def test_without_time_the_widths_that_tell_most_are_measured_all_the_same() -> None:
    cost = measured(0.0)
    assert [width for width, _ in cost.verify] == [1, 3, 8, 64]
    assert [width for width, _ in cost.level] == [1, 4, 10]
    assert cost.covers(TreeShape(2, 0, 1))
    assert cost.rounds == 1


def test_a_run_after_the_measurement_is_the_same_as_before_it() -> None:
    before = text()
    measured(0.0)
    assert text() == before


def test_a_context_shorter_than_the_prompt_is_measured_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = chat_pair()
    monkeypatch.setattr(pair.target, "context_limit", 24)
    cost = measuring.measure(pair, "eagle3", silent, 0.0, 0.0)
    assert cost.covers(TreeShape(3, 1, 1))


def spread_of(monkeypatch: pytest.MonkeyPatch, *spreads: float) -> list[int]:
    """Make the costs of this and every further look spread so; how many cycles each look had."""
    left, seen = list(spreads), []
    real = measuring.cost_of

    def cost_of(plain: list[Cycle], drafted: list[measuring.Measured], at: str) -> CycleCost:
        seen.append(len(drafted))
        return replace(real(plain, drafted, at), spread=left.pop(0))

    monkeypatch.setattr(measuring, "cost_of", cost_of)
    return seen


def test_costs_that_spread_too_much_are_measured_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spread_of(monkeypatch, 0.5, 0.04)
    stages: list[tuple[str, int, int]] = []
    cost = measuring.measure(
        chat_pair(), "eagle3", lambda *stage: stages.append(stage), seconds=60.0, longest=120.0
    )
    assert cost.doubt == "" and cost.rounds == 6
    assert seen == [7 * 11, 14 * 11], "the first cycles count as well"
    assert [done for _, done, _ in stages] == [*range(7), *range(7)]
    first, second = {stage for stage, _, _ in stages[:7]}, {stage for stage, _, _ in stages[7:]}
    assert len(first) == len(second) == 1
    assert "busy or slow" in second.pop() and "busy" not in first.pop()


def test_costs_that_spread_little_are_not_measured_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spread_of(monkeypatch, 0.04)
    assert measured(60.0, 120.0).doubt == "" and seen == [77]


def test_costs_that_still_spread_too_much_at_the_bound_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = spread_of(monkeypatch, 0.5, 0.4)
    assert "16%" in measured(60.0, 120.0).doubt and seen == [77, 154]


def test_what_progress_raises_ends_the_measurement() -> None:
    class Stopped(BaseException):
        pass

    def stop(stage: str, done: int, total: int) -> None:
        if done == 1:
            raise Stopped

    with pytest.raises(Stopped):
        measuring.measure(chat_pair(), "eagle3", stop, seconds=60.0)
