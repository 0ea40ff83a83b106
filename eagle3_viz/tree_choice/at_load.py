"""Chooses the default trees of a loaded pair, and chooses again what came into doubt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from eagle3_viz.config import Method
from eagle3_viz.embedded import Progress
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.tree_choice import cost_cache, measuring
from eagle3_viz.tree_choice.choice import CHOOSABLE, TreeChoice, choose, fits


def with_trees(
    pair: LoadedPair, progress: Progress, methods: Iterable[Method] = CHOOSABLE
) -> LoadedPair:
    """The pair with the fastest tree of each of `methods` that can tell it.

    A choice with a caveat is made again, others stay. A draft without a table of acceptance keeps
    the default tree, and nothing is measured for it.
    """
    trees = {choice.method: choice for choice in pair.trees}
    for method in sorted(CHOOSABLE.intersection(methods, pair.methods)):
        before = trees.get(method)
        if before is None or before.caveat:
            found = _choice(pair, method, before, progress)
            if found is not None:
                trees[method] = found
    return replace(pair, trees=tuple(trees.values()))


def _choice(
    pair: LoadedPair, method: Method, before: TreeChoice | None, progress: Progress
) -> TreeChoice | None:
    """By costs that an earlier load left, if this is the first choice, else by new ones."""
    loaded = pair.draft_for(method)
    if loaded is None or loaded.acceptance is None:
        return None
    key = cost_cache.key_of(pair, method)
    cost = cost_cache.kept(key) if before is None else None
    if cost is None:
        cost = measuring.measure(pair, method, progress)
        cost_cache.keep(key, cost)
    choice = choose(method, cost, loaded.acceptance)
    return choice if before is None else _after(choice, before)


def _after(choice: TreeChoice, before: TreeChoice) -> TreeChoice:
    """The new choice; where both measurements agree, runs are what differs, and stay so.

    Otherwise every run that is slowed by what watches it would lead to one more measurement.
    """
    if before.misfit is None or choice.cost.doubt or before.cost.doubt:
        return choice
    if not fits(choice.cost.cycle(before.shape), before.cost.cycle(before.shape)):
        return choice
    return replace(choice, in_runs=before.in_runs * before.misfit.factor)
