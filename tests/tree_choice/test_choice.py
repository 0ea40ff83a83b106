from __future__ import annotations

import itertools

import pytest

from eagle3_viz.config import TreeShape
from eagle3_viz.tree_choice.choice import choose, words
from eagle3_viz.tree_choice.cycle_cost import CycleCost
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


@pytest.mark.parametrize("seed", range(30))
def test_the_chosen_tree_is_the_fastest_of_all_that_the_costs_cover(seed: int) -> None:
    cost, known = random_cost(seed), random_table(seed)
    covered = [(s, tau) for s, tau in known.trees() if s.total <= 12 and s.top_k <= 4]
    best = max(speedup(cost, shape, tau) for shape, tau in covered)
    choice = choose("eagle3", cost, known)
    tau = dict(known.trees())[choice.shape]
    assert choice.best.tau == tau
    assert choice.best.speedup == pytest.approx(best)
    assert speedup(cost, choice.shape, tau) == pytest.approx(best)


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


def test_of_equal_trees_the_shallowest_and_narrowest_is_chosen() -> None:
    free = CycleCost(20.0, ((1, 20.0), (9, 20.0)), ((1, 1e-12), (3, 1e-12)), 1.0, 1e-12, 1.0, 3, "")
    same = table({1: ((2.0, None), (2.0, 2.0)), 3: ((2.0, 2.0), (2.0, 2.0))}, 2, 3)
    assert choose("eagle3", free, same).shape == TreeShape(2, 0, 1)


def test_a_dearer_width_moves_the_choice_to_a_smaller_tree() -> None:
    assert choose("eagle3", COST, KNOWN).shape == TreeShape(4, 1, 3)
    steep = CycleCost(20.0, ((1, 19.0), (2, 19.0), (9, 150.0)), COST.level, 1.5, 0.5, 1.0, 3, "")
    assert choose("eagle3", steep, KNOWN).shape == TreeShape(2, 0, 1)


def test_the_sentence_has_the_numbers_that_the_choice_follows_from() -> None:
    sentence = words(choose("eagle3", COST, KNOWN))
    assert sentence.startswith("total 4, depth 1, top-k 3:")
    assert "26.0 ms" in sentence and "20.0 ms" in sentence and "1.90 tokens" in sentence
    assert "1.46x" in sentence
