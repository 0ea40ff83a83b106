from __future__ import annotations

import random
from dataclasses import replace
from statistics import fmean

import pytest

from eagle3_viz.config import TreeShape
from eagle3_viz.records import Cycle, Timing
from eagle3_viz.tree_choice.cycle_cost import cost_of, rising
from tests.synthetic import make_trace
from tests.tree_choice.made_up import COST

TIMELESS = make_trace(cycles=1).cycles[0]


def cycle(verify: float, *draft: float, tree: float = 0.0) -> Cycle:
    return replace(TIMELESS, timing=Timing(draft, tree, verify, accept=0.5, commit=0.25, record=9))


def test_a_cycle_is_the_sum_of_its_parts_on_straight_lines_between_the_widths() -> None:
    # root 1.5, two levels of top-k 2 at 1.5 each, three selections, 4 nodes at 20.5, 1.0
    assert COST.cycle(TreeShape(4, 2, 2)) == pytest.approx(1.5 + 2 * 1.5 + 3 * 0.5 + 20.5 + 1.0)
    assert COST.speedup(TreeShape(4, 2, 2), 2.0) == pytest.approx(2 * 20 / 27.5)


@pytest.mark.parametrize(
    ("shape", "inside"),
    [((9, 2, 3), True), ((10, 2, 3), False), ((9, 2, 4), False)],
)
def test_trees_beyond_the_measured_widths_are_not_covered(
    shape: tuple[int, int, int], inside: bool
) -> None:
    assert COST.covers(TreeShape(*shape)) is inside


def test_costs_are_medians_without_the_first_cycle_of_a_kind() -> None:
    narrow, wide = TreeShape(3, 1, 1), TreeShape(8, 1, 4)
    drafted = [
        (narrow, cycle(90.0, 50.0, 40.0, tree=9.0)),
        (wide, cycle(95.0, 3.0, 45.0, tree=1.0)),
        *((narrow, cycle(ms, 2.0, 1.0, tree=1.0)) for ms in (20.0, 21.0, 29.0)),
        *((wide, cycle(ms, 2.0, 1.5, tree=1.0)) for ms in (26.0, 24.0)),
    ]
    plain = [cycle(70.0, 8.0), cycle(19.0, 8.0), cycle(17.0, 8.0), cycle(18.0, 8.0)]
    cost = cost_of(plain, drafted, "now")
    assert cost.verify == ((1, 18.0), (3, 21.0), (8, 25.0))
    assert cost.level == ((1, 1.0), (4, 1.5))
    assert (cost.root, cost.select, cost.rest) == (2.0, 0.5, 0.75)
    assert cost.step == 18.75, "without the draft's part and without recording"
    assert cost.rounds == 3, "the wide tree ran three times"


def test_a_single_cycle_of_a_kind_counts_though_it_is_the_first() -> None:
    cost = cost_of([cycle(19.0)], [(TreeShape(3, 1, 1), cycle(22.0, 2.0, 1.0))], "now")
    assert cost.verify == ((1, 19.0), (3, 22.0)) and cost.level == ((1, 1.0),)
    assert cost.rounds == 1


def test_the_spread_is_the_middle_half_of_all_cycles_each_against_the_median_of_its_kind() -> None:
    shape = TreeShape(3, 1, 1)
    steps = [cycle(ms - 0.75) for ms in (500.0, 8.0, 9.0, 10.0, 11.0, 12.0)]
    trees = [(shape, cycle(ms - 3.75, 2.0, 1.0)) for ms in (500.0, 80.0, 90.0, 100.0, 110.0, 120.0)]
    assert cost_of(steps, trees, "now").spread == pytest.approx(0.2), "from 0.9 to 1.1, twice"
    steady = [(shape, cycle(ms, 2.0, 1.0)) for ms in (500.0, 20.0, 20.0, 20.0, 20.0, 900.0)]
    assert cost_of(steps[:2], steady, "now").spread == 0.0, "one cycle that was held up is none"


@pytest.mark.parametrize(
    ("rounds", "spread", "reliable"),
    [(4, 0.19, True), (2, 0.0, False), (4, 0.21, False), (16, 0.39, True), (0, 0.5, False)],
)
def test_few_rounds_and_medians_that_may_be_off_are_in_doubt(
    rounds: int, spread: float, reliable: bool
) -> None:
    assert (replace(COST, rounds=rounds, spread=spread).doubt == "") is reliable


@pytest.mark.parametrize("seed", range(5))
def test_a_curve_is_the_nearest_one_that_never_falls(seed: int) -> None:
    """Against pooling adjacent violators, the other way to the same answer."""
    draw = random.Random(seed)
    values = [i + draw.uniform(0, 9) for i in range(12)]
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and fmean(pools[-2]) >= fmean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    expected = [fmean(pool) for pool in pools for _ in pool]
    assert rising(values) == pytest.approx(expected)
    assert values != expected
