"""Chooses the default trees of a pair that was just loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from eagle3_viz.config import Method
from eagle3_viz.embedded import Progress
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.tree_choice import cost_cache, measuring
from eagle3_viz.tree_choice.choice import CHOOSABLE, choose


def with_trees(
    pair: LoadedPair, progress: Progress, methods: Iterable[Method] = CHOOSABLE
) -> LoadedPair:
    """The pair with the fastest tree of each of `methods` that can tell it.

    A draft without a table of acceptance keeps the default tree, and nothing is measured for it.
    """
    chosen = []
    for method in sorted(CHOOSABLE.intersection(methods, pair.methods)):
        loaded = pair.draft_for(method)
        if loaded is None or loaded.acceptance is None:
            continue
        key = cost_cache.key_of(pair, method)
        cost = cost_cache.kept(key)
        if cost is None:
            progress(f"Measuring what a cycle of {method} costs here", 0, 1)
            cost = measuring.measure(pair, method)
            cost_cache.keep(key, cost)
        chosen.append(choose(method, cost, loaded.acceptance))
    return replace(pair, trees=tuple(chosen))
