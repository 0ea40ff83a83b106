"""Expected acceptance: the difference to the count is chance, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from eagle3_viz.analysis.expected import expected_by_depth, expected_overall, judged_visits
from eagle3_viz.config import Rule
from eagle3_viz.records import Cycle
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace


@pytest.mark.parametrize("rule", ["greedy", "typical"])
def test_rules_that_draw_nothing_are_expected_exactly_as_counted(rule: Rule) -> None:
    table = expected_by_depth(judged_visits(make_trace(cycles=40, rule=rule)))
    np.testing.assert_array_equal(table.expected, table.counted)
    assert (table.chance == 0).all()


RUNS = 60
SPREAD = 1 / 1.96  # of (counted - expected) / chance where chance alone is at work


@pytest.fixture(scope="module")
def drawn() -> dict[Rule, list[pd.DataFrame]]:
    """The visits of many runs of ten cycles, by rule."""
    rules: tuple[Rule, ...] = ("topk", "sample")
    return {
        rule: [
            judged_visits(make_trace(cycles=10, rule=rule, seed=seed, finish=None))
            for seed in range(RUNS)
        ]
        for rule in rules
    }


def ratios(runs: list[pd.DataFrame], factor: float = 1.0) -> np.ndarray:
    """(counted - expected) / chance of each run, its expectations multiplied by `factor`."""
    found = []
    for visits in runs:
        wrong = visits.assign(expected=np.minimum(1.0, factor * visits.expected))
        overall = expected_overall(wrong, 10)
        assert overall is not None
        found.append((overall.counted - overall.expected) / overall.chance)
    return np.array(found)


@pytest.mark.parametrize("rule", ["topk", "sample"])
def test_counts_of_many_runs_lie_around_the_expectation_as_far_as_chance_says(
    drawn: dict[Rule, list[pd.DataFrame]], rule: Rule
) -> None:
    found = ratios(drawn[rule])
    assert abs(found.mean()) < 3 * SPREAD / np.sqrt(RUNS)
    assert found.std() == pytest.approx(SPREAD, rel=0.3)


def test_expectations_a_quarter_too_high_would_be_seen(
    drawn: dict[Rule, list[pd.DataFrame]],
) -> None:
    assert abs(ratios(drawn["topk"], 1.25).mean()) > 3 * SPREAD / np.sqrt(RUNS)


def test_the_totals_are_sums_over_visits_per_cycle() -> None:
    trace = make_trace(cycles=20, rule="topk", finish=None)
    visits = judged_visits(trace)
    overall = expected_overall(visits, 20)
    assert overall is not None
    assert overall.counted == pytest.approx(sum(c.accepted for c in trace.cycles) / 20)
    by_depth = expected_by_depth(visits)
    assert overall.expected == pytest.approx(float((by_depth.expected * by_depth.n).sum()) / 20)


def test_leaves_are_no_visits() -> None:
    """A walk that accepts down to a leaf was judged at every node but that one."""
    trace = make_trace(cycles=40, rule="topk", finish=None)
    for index, cycle in enumerate(trace.cycles):
        assert cycle.nodes is not None
        has_children = [bool((cycle.nodes.parent == node).any()) for node in cycle.path]
        seen = judged_visits(_alone(trace, cycle))
        assert len(seen) == sum(has_children), index


def _alone(trace: Trace, cycle: Cycle) -> Trace:
    return replace(trace, cycles=[cycle])


@pytest.mark.parametrize("record", ["off", "outcomes"])
def test_without_distributions_nothing_is_expected(record: str) -> None:
    trace = make_trace(cycles=6, record=record)  # type: ignore[arg-type]
    assert judged_visits(trace).empty
    assert expected_by_depth(judged_visits(trace)).empty
    assert expected_overall(judged_visits(trace), 0) is None
