"""Measures, in a few seconds, what cycles of different sizes cost: real cycles, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig, Method, TreeShape
from eagle3_viz.decode import loop_for
from eagle3_viz.embedded import Progress
from eagle3_viz.endings import Endings
from eagle3_viz.loop import Loop
from eagle3_viz.presets import in_turn
from eagle3_viz.records import Cycle
from eagle3_viz.tree_choice.cycle_cost import CycleCost, cost_of

if TYPE_CHECKING:
    from eagle3_viz.pairs import LoadedPair

Measured = tuple[TreeShape, Cycle]

SECONDS = 2.0
LONGEST = 4.0  # seconds, while what was measured cannot be relied on
ROUNDS = 7
MOST_ROUNDS = 14
STEPS = 6  # of autoregression
LEAST = 3  # cycles with a tree, however long they take
RECORDED = 3  # rounds on a GPU, whatever the time: the first one records what later ones replay
SIZES = (
    *(TreeShape(8, 1, 4), TreeShape(64, 1, 10), TreeShape(3, 1, 1), TreeShape(16, 1, 8)),
    *(TreeShape(4, 1, 2), TreeShape(32, 1, 10), TreeShape(6, 1, 3), TreeShape(12, 1, 6)),
    *(TreeShape(24, 1, 10), TreeShape(10, 1, 5), TreeShape(7, 1, 2)),
)
"""What a round measures, what tells most first."""


def measure(
    pair: LoadedPair,
    method: Method,
    progress: Progress,
    seconds: float = SECONDS,
    longest: float = LONGEST,
) -> CycleCost:
    """The costs of `method`'s cycles behind a sample prompt, in rounds over SIZES.

    Stops after `seconds` of them, so that the last round may be a part of one, or after ROUNDS;
    while they are not to be relied on, after `longest` or MOST_ROUNDS: then they say so. A draft
    with a small vocabulary, and a context that is almost full, leave sizes out. progress(stage,
    done, total) is called before each round; what it raises ends the measurement.
    """
    prompt = encode_chat(pair.tokenizer, in_turn(1)[0].prompt)[: pair.target.context_limit // 2]
    plain = list(islice(_cycles(loop_for(pair.target, None, _config("ar")), prompt), STEPS))
    least = LEAST if pair.target.device.type == "cpu" else RECORDED * len(SIZES)
    rounds = _in_rounds(loop_for(pair.target, pair.draft(method), _config(method)), prompt)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    stage = f"Measuring what a cycle of {method} costs here"
    drafted = list(_for_a_while(rounds, seconds, least, ROUNDS, partial(progress, stage)))
    cost = cost_of(plain, _of_full_size(drafted), at)
    if cost.doubt and longest > seconds:
        stage = f"{stage}: longer, as the machine is busy or slow for the pair"
        more = _for_a_while(
            rounds, longest - seconds, 0, MOST_ROUNDS - ROUNDS, partial(progress, stage)
        )
        cost = cost_of(plain, _of_full_size([*drafted, *more]), at)
    return cost


def _of_full_size(drafted: list[Measured]) -> list[Measured]:
    """Without the trees that could not be as large as asked for."""
    return [(shape, cycle) for shape, cycle in drafted if cycle.verified == shape.total]


def _in_rounds(loop: Loop, prompt: list[int]) -> Iterator[Measured]:
    """Cycles of one text, the size of the tree changing from each to the next."""
    cycles = _cycles(loop, prompt)
    for shape in SIZES * MOST_ROUNDS:
        loop.config = replace(loop.config, shape=shape)
        cycle = next(cycles, None)
        if cycle is None:
            return
        yield shape, cycle


def _for_a_while(
    rounds: Iterator[Measured],
    seconds: float,
    least: int,
    most: int,
    progress: Callable[[int, int], None],
) -> Iterator[Measured]:
    """The next cycles: at least so many, then until the time is over or after `most` rounds."""
    end = time.perf_counter() + seconds
    for number in range(most * len(SIZES)):
        if number % len(SIZES) == 0:
            progress(number // len(SIZES), most)
        if number >= least and time.perf_counter() > end:
            return
        measured = next(rounds, None)
        if measured is None:
            return
        yield measured


def _cycles(loop: Loop, prompt: list[int]) -> Iterator[Cycle]:
    """The cycles behind `prompt`, past the end of the text, until the context is full."""
    endings = Endings(frozenset(), loop.target.context_limit, loop.config, ())
    return iter(()) if loop.prefill(prompt, endings).finish else loop.cycles(endings)


def _config(method: Method) -> DecodeConfig:
    """With room for everything that could be accepted, since the text must not end."""
    most = MOST_ROUNDS * sum(shape.levels + 1 for shape in SIZES)
    return DecodeConfig(method=method, max_new_tokens=most, record="off")
