"""What a cycle costs on this machine, by the size of its tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median

import numpy as np

from eagle3_viz.config import TreeShape
from eagle3_viz.records import Cycle, Timing
from eagle3_viz.wording import counted

TRUSTED_ROUNDS = 3  # of fewer, without the first, nobody can tell how far they spread
TRUSTED_ERROR = 0.1  # of a median; neighbouring widths steady each other (`rising`)

Curve = tuple[tuple[int, float], ...]
"""(width, milliseconds) by rising width; straight lines between them."""


@dataclass(frozen=True)
class CycleCost:
    """Medians of measured cycles, in milliseconds; a wider forward never takes less (`rising`).

    step    one token of autoregression.
    verify  a target forward, by the nodes that it verifies; from one node on.
    level   a draft forward over one level of the tree, by its top_k.
    root    the draft's pass over the positions verified last, one a cycle.
    select  choosing the nodes of one level.
    rest    acceptance and commit.
    rounds  how often each width was measured, at the least.
    at      when they were measured, an ISO date and time.
    spread  width of the middle half of the cycles of one size, over their median.
    """

    step: float
    verify: Curve
    level: Curve
    root: float
    select: float
    rest: float
    rounds: int
    at: str
    spread: float

    @property
    def error(self) -> float:
        """By what share a median may be off: about one standard error, for there are `rounds`."""
        return self.spread / sqrt(self.rounds)

    @property
    def doubt(self) -> str:
        """Why nothing should be chosen by these costs, "" where they can be relied on."""
        if self.rounds < TRUSTED_ROUNDS:
            measured = counted(self.rounds, "time")
            return f"a size was measured {measured} only and {TRUSTED_ROUNDS} are needed"
        if self.error > TRUSTED_ERROR:
            return (
                f"cycles of one size spread over {self.spread:.0%} of their median, which may be "
                f"off by {self.error:.0%}, and {TRUSTED_ERROR:.0%} is the most to choose by"
            )
        return ""

    def covers(self, shape: TreeShape) -> bool:
        """Whether the tree is no larger than what was measured."""
        return shape.total <= self.verify[-1][0] and shape.top_k <= self.level[-1][0]

    def cycle(self, shape: TreeShape) -> float:
        """A whole cycle with this tree."""
        draft = self.root + shape.depth * at_width(self.level, shape.top_k)
        select = shape.levels * self.select
        return draft + select + at_width(self.verify, shape.total) + self.rest

    def speedup(self, shape: TreeShape, tau: float) -> float:
        """Over autoregression, of a tree that commits `tau` tokens a cycle."""
        return tau * self.step / self.cycle(shape)


def at_width(curve: Curve, width: int) -> float:
    """Milliseconds at `width`, which the curve reaches."""
    widths, ms = zip(*curve, strict=True)
    return float(np.interp(width, widths, ms))


def cost_of(
    plain: Sequence[Cycle], drafted: Sequence[tuple[TreeShape, Cycle]], at: str
) -> CycleCost:
    """The medians of cycles that verified a lone root, and of others with their trees.

    The first cycle of a kind pays for cold caches: it counts only where it is the only one.
    """
    verify: dict[int, list[float]] = {1: [cycle.timing.verify for cycle in plain]}
    level: dict[int, list[float]] = {}
    for shape, cycle in drafted:
        verify.setdefault(shape.total, []).append(cycle.timing.verify)
        level.setdefault(shape.top_k, []).extend(cycle.timing.draft_levels[1:])
    timings = [(shape, cycle.timing) for shape, cycle in drafted]
    steps = [cycle.timing.total - cycle.timing.draft for cycle in plain]
    return CycleCost(
        step=_warm(steps),
        verify=_curve(verify),
        level=_curve(level),
        root=_warm([timing.draft_levels[0] for _, timing in timings]),
        select=_warm([timing.tree / shape.levels for shape, timing in timings]),
        rest=_warm([timing.accept + timing.commit for _, timing in timings]),
        rounds=min(len(took) for took in verify.values()),
        at=at,
        spread=_spread([steps, *_whole(timings)]),
    )


def _whole(timings: Sequence[tuple[TreeShape, Timing]]) -> list[list[float]]:
    """The times of whole cycles, by their tree."""
    whole: dict[TreeShape, list[float]] = {}
    for shape, timing in timings:
        whole.setdefault(shape, []).append(timing.total)
    return list(whole.values())


def _spread(kinds: Sequence[Sequence[float]]) -> float:
    """Over the cycles of all kinds, each against the median of its own kind: a kind alone has too
    few to tell."""
    ratios = [ms / _warm(took) for took in kinds for ms in took[1:] or took]
    low, high = np.percentile(ratios, (25, 75))
    return float(high - low)


def _curve(took: dict[int, list[float]]) -> Curve:
    widths = sorted(took)
    return tuple(zip(widths, rising([_warm(took[width]) for width in widths]), strict=True))


def rising(values: Sequence[float]) -> list[float]:
    """The sequence nearest to `values`, by least squares, that never falls.

    More nodes take no less time: a median that says so was disturbed, or its neighbours were. By
    the minimax formula of isotonic regression: max over j <= i of min over k >= i of the mean of
    values j to k.
    """
    count = len(values)
    return [
        max(min(fmean(values[j : k + 1]) for k in range(i, count)) for j in range(i + 1))
        for i in range(count)
    ]


def _warm(took: Sequence[float]) -> float:
    return median(took[1:] or took)
