"""The order of the worst cycles."""

from __future__ import annotations

from dataclasses import replace

from eagle3_viz.analysis.worst import worst_cycles
from eagle3_viz.records import Cycle
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace


def one(cycle: Cycle, index: int, tokens: int, expected: float | None, ms: float) -> Cycle:
    at_root = () if expected is None else (cycle.distributions[0],)
    distributions = tuple(replace(at, expected_acceptance=expected) for at in at_root)
    return replace(
        cycle,
        index=index,
        tokens=(1,) * tokens,
        distributions=distributions,
        timing=replace(cycle.timing, draft_levels=(), tree=0, accept=0, commit=0, verify=ms),
    )


def run(*cycles: tuple[int, float | None, float]) -> Trace:
    trace = make_trace(cycles=2, rule="topk", finish=None)
    made = [one(trace.cycles[0], index, *cycle) for index, cycle in enumerate(cycles)]
    return replace(trace, cycles=made)


def order(trace: Trace) -> list[int]:
    return [cycle.index for cycle in worst_cycles(trace)]


def test_fewest_tokens_then_lowest_expectation_then_longest() -> None:
    trace = run((2, 0.1, 9.0), (1, 0.5, 9.0), (1, 0.2, 9.0), (1, 0.5, 11.0), (3, 0.0, 99.0))
    assert order(trace) == [2, 3, 1, 0, 4]


def test_what_was_not_recorded_comes_last_among_equals() -> None:
    assert order(run((1, None, 50.0), (1, 0.9, 1.0), (1, None, 60.0))) == [1, 2, 0]


def test_equal_cycles_keep_the_order_of_the_run() -> None:
    assert order(run(*[(1, 0.5, 9.0)] * 4)) == [0, 1, 2, 3]


def test_at_most_twenty_are_shown_and_none_that_the_end_cut() -> None:
    trace = make_trace(cycles=60, rule="topk")
    worst = worst_cycles(trace)
    cut = [cycle.index for cycle in trace.cycles if cycle.cut]
    assert len(worst) == 20 and cut
    assert not set(cut) & {cycle.index for cycle in worst_cycles(trace, 60)}
