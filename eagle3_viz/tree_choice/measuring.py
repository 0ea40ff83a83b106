"""Measures, in a second or two, what cycles of different sizes cost: real cycles, in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig, Method, TreeShape
from eagle3_viz.decode import loop_for
from eagle3_viz.endings import Endings
from eagle3_viz.loop import Loop
from eagle3_viz.presets import in_turn
from eagle3_viz.records import Cycle
from eagle3_viz.tree_choice.cycle_cost import CycleCost, cost_of

if TYPE_CHECKING:
    from eagle3_viz.pairs import LoadedPair

SECONDS = 1.5
ROUNDS = 7
STEPS = 6  # of autoregression
LEAST = 3  # cycles with a tree, however long they take
RECORDED = 3  # rounds on a GPU, whatever the time: the first one records what later ones replay
SIZES = (
    *(TreeShape(8, 1, 4), TreeShape(64, 1, 10), TreeShape(3, 1, 1), TreeShape(16, 1, 8)),
    *(TreeShape(4, 1, 2), TreeShape(32, 1, 10), TreeShape(6, 1, 3), TreeShape(12, 1, 6)),
    *(TreeShape(24, 1, 10), TreeShape(10, 1, 5), TreeShape(7, 1, 2)),
)
"""What a round measures, what tells most first."""


def measure(pair: LoadedPair, method: Method, seconds: float = SECONDS) -> CycleCost:
    """The costs of `method`'s cycles behind a sample prompt, in rounds over SIZES.

    Stops after `seconds` of them, so that the last round may be a part of one, or after ROUNDS. A
    draft with a small vocabulary, and a context that is almost full, leave sizes out.
    """
    prompt = encode_chat(pair.tokenizer, in_turn(1)[0].prompt)[: pair.target.context_limit // 2]
    plain = list(islice(_cycles(loop_for(pair.target, None, _config("ar")), prompt), STEPS))
    loop = loop_for(pair.target, pair.draft(method), _config(method))
    drafted = [
        (shape, cycle)
        for shape, cycle in _in_rounds(loop, prompt, seconds)
        if cycle.verified == shape.total
    ]
    return cost_of(plain, drafted, datetime.now(UTC).isoformat(timespec="seconds"))


def _in_rounds(loop: Loop, prompt: list[int], seconds: float) -> Iterator[tuple[TreeShape, Cycle]]:
    """Cycles of one text, the size of the tree changing from each to the next."""
    least = LEAST if loop.target.device.type == "cpu" else RECORDED * len(SIZES)
    cycles = _cycles(loop, prompt)
    end = time.perf_counter() + seconds
    for number, shape in enumerate(SIZES * ROUNDS):
        if number >= least and time.perf_counter() > end:
            return
        loop.config = replace(loop.config, shape=shape)
        cycle = next(cycles, None)
        if cycle is None:
            return
        yield shape, cycle


def _cycles(loop: Loop, prompt: list[int]) -> Iterator[Cycle]:
    """The cycles behind `prompt`, past the end of the text, until the context is full."""
    endings = Endings(frozenset(), loop.target.context_limit, loop.config, ())
    return iter(()) if loop.prefill(prompt, endings).finish else loop.cycles(endings)


def _config(method: Method) -> DecodeConfig:
    """With room for everything that could be accepted, since the text must not end."""
    most = ROUNDS * sum(shape.levels + 1 for shape in SIZES)
    return DecodeConfig(method=method, max_new_tokens=most, record="off")
