"""Compares a run with what its cycles were expected to take."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

from eagle3_viz.config import TreeShape
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.trace import Trace
from eagle3_viz.tree_choice.choice import Misfit, TreeChoice, fits

LEAST_CYCLES = 8  # to tell what a run's cycles take
NEAR = 1024  # positions; behind more of them a cycle takes longer by itself


def judged(pair: LoadedPair, trace: Trace) -> LoadedPair:
    """The pair, whose choice for the trace's method says now whether that run fits its costs."""
    trees = (
        _judged(choice, trace) if choice.method == trace.header.method else choice
        for choice in pair.trees
    )
    return replace(pair, trees=tuple(trees))


def _judged(choice: TreeChoice, trace: Trace) -> TreeChoice:
    """Unchanged where the run cannot tell: short, far into a context, drafted another way."""
    sizes: Any = trace.header.config["shape"]
    shape = TreeShape(**sizes)
    times = [
        cycle.timing.total
        for cycle in trace.cycles[1:]  # the first one is drafted in prefill
        if cycle.verified == shape.total and cycle.prefix_length < NEAR
    ]
    drawn = trace.header.rule == "sample"
    if drawn or len(times) < LEAST_CYCLES or not choice.cost.covers(shape):
        return choice
    took, expected = median(times), choice.in_runs * choice.cost.cycle(shape)
    return replace(choice, misfit=None if fits(took, expected) else Misfit(took, expected))
