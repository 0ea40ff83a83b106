from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from eagle3_viz.config import TreeShape
from eagle3_viz.tree_choice.choice import Misfit, choose, words
from eagle3_viz.tree_choice.cycle_cost import CycleCost
from eagle3_viz.tree_choice.known_acceptance import KnownAcceptance
from tests.tree_choice.made_up import COST, KNOWN, random_cost, random_table, table


def between(curve: tuple[tuple[int, float], ...], width: int) -> float:
    """A point on the straight lines, spelled out."""
    for (left, low), (right, high) in itertools.pairwise(curve):
        if left <= width <= right:
            return low + (high - low) * (width - left) / (right - left)
    raise AssertionError(f"{width} lies outside")


def speedup(cost: CycleCost, shape: TreeShape, tau: float) -> float:
    cycle = cost.root + sum(between(cost.level, shape.top_k) for _ in range(shape.depth))
    cycle += cost.select * (shape.depth + 1) + between(cost.verify, shape.total) + cost.rest
    return tau * cost.step / cycle


def covered(cost: CycleCost, known: KnownAcceptance) -> dict[TreeShape, float]:
    """Speed-ups of all trees within the made-up widths."""
    return {
        shape: speedup(cost, shape, tau)
        for shape, tau in known.trees()
        if shape.total <= 12 and shape.top_k <= 4
    }


def size(shape: TreeShape) -> tuple[int, int, int]:
    return shape.total, shape.depth, shape.top_k


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_the_chosen_tree_is_the_smallest_of_those_as_fast_as_the_fastest(
    seed: int, spread: float
) -> None:
    cost, known = replace(random_cost(seed), spread=spread), random_table(seed)
    every = covered(cost, known)
    enough = max(every.values()) * (1 - 0.02)
    choice = choose("eagle3", cost, known)
    assert choice.best.speedup == pytest.approx(max(every.values()))
    assert choice.chosen.tau == dict(known.trees())[choice.shape]
    assert choice.chosen.speedup == pytest.approx(every[choice.shape])
    assert every[choice.shape] >= enough
    smaller = {s for s in every if size(s) < size(choice.shape)}
    assert all(every[shape] < enough for shape in smaller)


@pytest.mark.parametrize("seed", range(10))
def test_noise_does_not_choose_among_trees_that_are_equally_fast(seed: int) -> None:
    """Costs under which all trees are equally fast, but for noise."""
    draw = random.Random(seed)
    known = random_table(seed)
    usual = {shape: 2.0 for shape, _ in known.trees()}
    flat = table(
        {
            k: tuple(tuple(tau and 2.0 for tau in row) for row in rows)
            for k, rows in known.tau.items()
        },
        *known.totals,
    )
    assert dict(flat.trees()) == usual
    cost = CycleCost(
        20.0,
        tuple((width, 20 * draw.uniform(0.995, 1.005)) for width in (1, 4, 12)),
        ((1, 1e-9), (4, 1e-9)),
        *(1.0, 1e-9, 1.0, 5, "", 0.04),
    )
    assert choose("eagle3", cost, flat).shape == TreeShape(2, 0, 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rounds": 1}, "a size was measured 1 time only and 3 are needed"),
        ({"spread": 0.34}, "spread over 34% of their median, which may be off by 15%"),
    ],
)
def test_costs_that_cannot_be_relied_on_choose_nothing_and_say_so(
    changes: dict[str, Any], reason: str
) -> None:
    steep = replace(random_cost(1), verify=((1, 19.0), (2, 19.0), (12, 150.0)))
    known = random_table(1)
    assert choose("eagle3", steep, known).shape.total == 2
    choice = choose("eagle3", replace(steep, **changes), known)
    assert choice.shape == TreeShape(8, 2, 4)
    assert words(choice).startswith("total 8, depth 2, top-k 4, the default")
    assert "the most of all" not in words(choice) and "ms" not in words(choice)
    assert words(choose("eagle3", replace(COST, **changes), KNOWN)).startswith(
        "total 4, depth 1, top-k 3, the nearest to the default"
    )
    assert reason in choice.caveat
    assert "measured again at the next run" in choice.caveat and "choose a size" in choice.caveat


def test_costs_that_can_be_relied_on_have_no_caveat_until_a_run_does_not_fit_them() -> None:
    choice = choose("eagle3", COST, KNOWN)
    assert choice.caveat == ""
    idler = replace(choice, misfit=Misfit(27.0, 70.8)).caveat
    assert "27.0 ms" in idler and "70.8 ms" in idler and "idler" in idler
    assert "measured again at the next run" in idler
    assert "busier" in replace(choice, misfit=Misfit(70.8, 27.0)).caveat


@pytest.mark.parametrize("seed", range(5))
def test_each_number_of_nodes_has_its_own_best_tree(seed: int) -> None:
    cost, known = random_cost(seed), random_table(seed)
    choice = choose("eagle3", cost, known)
    assert [found.shape.total for found in choice.by_total] == [2, 3, 5, 8, 12]
    for found in choice.by_total:
        rivals = [
            speedup(cost, shape, tau)
            for shape, tau in known.trees()
            if shape.total == found.shape.total and shape.top_k <= 4
        ]
        assert found.speedup == pytest.approx(max(rivals))


def test_of_equal_trees_the_smallest_is_chosen() -> None:
    free = CycleCost(
        20.0, ((1, 20.0), (9, 20.0)), ((1, 1e-12), (3, 1e-12)), 1.0, 1e-12, 1.0, 5, "", 0.0
    )
    same = table({1: ((2.0, None), (2.0, 2.0)), 3: ((2.0, 2.0), (2.0, 2.0))}, 2, 3)
    assert choose("eagle3", free, same).shape == TreeShape(2, 0, 1)


def test_a_dearer_width_moves_the_choice_to_a_smaller_tree() -> None:
    assert choose("eagle3", COST, KNOWN).shape == TreeShape(4, 1, 3)
    steep = CycleCost(
        20.0, ((1, 19.0), (2, 19.0), (9, 150.0)), COST.level, 1.5, 0.5, 1.0, 5, "", 0.0
    )
    assert choose("eagle3", steep, KNOWN).shape == TreeShape(2, 0, 1)


def test_the_sentence_has_the_numbers_that_the_choice_follows_from() -> None:
    sentence = words(choose("eagle3", COST, KNOWN))
    assert sentence.startswith("total 4, depth 1, top-k 3:")
    assert "26.0 ms" in sentence and "20.0 ms" in sentence and "1.90 tokens" in sentence
    assert sentence.endswith("1.46x, the most of all trees")


def test_the_sentence_names_the_fastest_where_it_could_not_be_told_from_the_chosen_one() -> None:
    known = table({2: ((1.5, 1.52),)}, 2, 3)
    choice = choose("eagle3", replace(COST, verify=((1, 19.0), (9, 19.2))), known)
    assert (choice.shape, choice.best.shape) == (TreeShape(2, 0, 2), TreeShape(3, 0, 2))
    sentence = words(choice)
    assert f"{choice.best.speedup:.2f}x with 3, 0, 2" in sentence and "2%" in sentence
    assert "the most of all trees, " in sentence


def test_the_sentence_says_what_runs_take_where_they_always_take_longer() -> None:
    choice = replace(choose("eagle3", COST, KNOWN), in_runs=1.5)
    assert "26.0 ms (39.0 ms in runs)" in words(choice)
