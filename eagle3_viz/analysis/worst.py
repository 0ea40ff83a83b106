"""The cycles that brought least."""

from __future__ import annotations

from dataclasses import dataclass

from eagle3_viz.records import Cycle
from eagle3_viz.trace import Trace

SHOWN = 20
ORDER = (
    "Fewest tokens first; among equals, the lowest probability that the root's children had of "
    "being accepted (by the rule's formula); then the longest. A cycle that the end of the run cut "
    "short is left out."
)


@dataclass(frozen=True)
class WorstCycle:
    """index: of the cycle. expected: at the root, None where not recorded. ms: without record."""

    index: int
    tokens: int
    expected: float | None
    ms: float


def worst_cycles(trace: Trace, count: int = SHOWN) -> tuple[WorstCycle, ...]:
    """The `count` worst uncut cycles in the order that `ORDER` states."""
    found = [_measured(cycle) for cycle in trace.cycles if not cycle.cut]
    return tuple(sorted(found, key=_badness)[:count])


def _measured(cycle: Cycle) -> WorstCycle:
    at_root = (at.expected_acceptance for at in cycle.distributions if at.node == 0)
    return WorstCycle(cycle.index, len(cycle.tokens), next(at_root, None), cycle.timing.total)


def _badness(cycle: WorstCycle) -> tuple[float, float, float]:
    """Smaller is worse. An expectation that was not recorded comes after all that were."""
    return cycle.tokens, 2.0 if cycle.expected is None else cycle.expected, -cycle.ms
