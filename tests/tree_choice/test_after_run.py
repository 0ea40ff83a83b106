from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eagle3_viz.config import TreeShape
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.records import Timing
from eagle3_viz.trace import Trace
from eagle3_viz.tree_choice.after_run import judged
from eagle3_viz.tree_choice.choice import Misfit, choose
from tests.lossless.tiny_pair import chat_pair
from tests.synthetic import make_trace
from tests.tree_choice.made_up import COST, KNOWN

SHAPE = TreeShape(4, 1, 3)
CHOICE = choose("eagle3", COST, KNOWN)
EXPECTED = COST.cycle(SHAPE)


def pair_with(**changes: Any) -> LoadedPair:
    return replace(chat_pair(), trees=(replace(CHOICE, **changes),))


def run_of(
    ms: float,
    cycles: int = 20,
    shape: TreeShape = SHAPE,
    prefix: int = 30,
    verified: int = SHAPE.total,
    **header: Any,
) -> Trace:
    """A run whose cycles took `ms`, a few of them ten times as long."""
    trace = make_trace(cycles=cycles, shape=shape)
    trace.header = replace(trace.header, **header)
    for number, cycle in enumerate(trace.cycles):
        took = 10 * ms if number % 7 == 0 else ms
        timing = Timing((0.0,), 0.0, took, 0.0, 0.0, 99.0)
        trace.cycles[number] = replace(
            cycle, timing=timing, prefix_length=prefix, verified=verified
        )
    return trace


def found(trace: Trace, **changes: Any) -> Misfit | None:
    (choice,) = judged(pair_with(**changes), trace).trees
    return choice.misfit


@pytest.mark.parametrize("times", [0.81, 1.0, 1.24])
def test_a_run_that_takes_about_as_long_as_measured_fits(times: float) -> None:
    assert found(run_of(EXPECTED * times)) is None


@pytest.mark.parametrize("times", [0.38, 0.79, 1.26, 4.0])
def test_a_run_that_takes_a_quarter_longer_or_less_long_does_not_fit(times: float) -> None:
    misfit = found(run_of(EXPECTED * times))
    assert misfit is not None and misfit.factor == pytest.approx(times)
    assert misfit.expected == pytest.approx(EXPECTED)


def test_a_run_that_fits_takes_the_caveat_of_the_run_before_it_away() -> None:
    assert found(run_of(EXPECTED), misfit=Misfit(10.0, 26.0)) is None


def test_a_run_with_a_size_of_its_own_is_compared_with_the_costs_of_that_size() -> None:
    own = TreeShape(9, 2, 3)
    took = COST.cycle(own)
    assert took > 1.25 * EXPECTED
    assert found(run_of(took, shape=own, verified=9)) is None
    assert found(run_of(EXPECTED / 1.25, shape=own, verified=9)) is not None


def test_runs_that_always_take_longer_are_compared_with_that() -> None:
    assert found(run_of(EXPECTED * 1.5), in_runs=1.5) is None
    assert found(run_of(EXPECTED), in_runs=1.5) is not None


@pytest.mark.parametrize(
    "trace",
    [
        run_of(900.0, cycles=8),
        run_of(900.0, prefix=5000),
        run_of(900.0, verified=3),
        run_of(900.0, rule="sample"),
        run_of(900.0, method="eagle2"),
        run_of(900.0, method="ar"),
        run_of(900.0, shape=TreeShape(60, 5, 10), verified=60),
    ],
    ids=["short", "long context", "clipped trees", "sampled trees", "eagle2", "ar", "too large"],
)
def test_a_run_that_cannot_tell_changes_nothing(trace: Trace) -> None:
    before = pair_with(misfit=Misfit(10.0, 26.0))
    assert judged(before, trace).trees == before.trees
