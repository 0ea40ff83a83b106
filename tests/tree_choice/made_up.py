"""Costs and tables of acceptance with numbers that can be followed by hand."""

from __future__ import annotations

import random

from eagle3_viz.tree_choice.cycle_cost import CycleCost
from eagle3_viz.tree_choice.known_acceptance import KnownAcceptance

COST = CycleCost(
    step=20.0,
    verify=((1, 19.0), (5, 21.0), (9, 29.0)),
    level=((1, 1.0), (3, 2.0)),
    root=1.5,
    select=0.5,
    rest=1.0,
    rounds=5,
    at="2025-01-01T00:00:00+00:00",
    spread=0.01,
)


def table(tau: dict[int, tuple[tuple[float | None, ...], ...]], *totals: int) -> KnownAcceptance:
    return KnownAcceptance("ab" * 32, 3, 100, {"command": "made up"}, totals, tau)


KNOWN = table(
    {1: ((1.5, None, None), (1.5, 1.7, None)), 3: ((1.5, 1.6, 1.65), (1.5, 1.75, 1.9))}, 2, 3, 4
)


def random_cost(seed: int) -> CycleCost:
    draw = random.Random(seed)
    return CycleCost(
        step=draw.uniform(5, 30),
        verify=tuple((width, draw.uniform(5, 60)) for width in (1, 4, 12)),
        level=tuple((width, draw.uniform(0.1, 9)) for width in (1, 4)),
        root=draw.uniform(0.1, 5),
        select=draw.uniform(0.1, 1),
        rest=draw.uniform(0.1, 2),
        rounds=5,
        at="2025-01-01",
        spread=0.0,
    )


def random_table(seed: int) -> KnownAcceptance:
    draw = random.Random(seed)
    totals = (2, 3, 5, 8, 12, 20)
    return table(
        {
            k: tuple(
                tuple(
                    draw.uniform(1, 4) if total - 1 <= k + depth * k * k else None
                    for total in totals
                )
                for depth in range(4)
            )
            for k in (1, 2, 4, 6)
        },
        *totals,
    )
