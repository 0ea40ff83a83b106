"""Steps of autoregression, and cycles of EAGLE-3 by the size of their tree, timed in a whole model.

The weights are random, so that hardly a drafted token stays: what is measured is the time of a
step or a cycle, the host's part included, beside the time that its bytes take at the measured
bandwidth. A cycle pays where it commits more tokens than it takes steps of autoregression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from statistics import median

import torch

from benchmarks.gpu.model_tokens import NAME, token_rows
from benchmarks.gpu.random_pair import Sizes, random_pair, random_text
from benchmarks.gpu.section import Case, Row, Setup
from eagle3_viz.config import DecodeConfig, TreeShape
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.endings import Endings
from eagle3_viz.loop import Loop
from eagle3_viz.records import Cycle
from eagle3_viz.static.loop import StaticLoop
from eagle3_viz.target import TargetModel

LOOPS: Mapping[str, type[Loop]] = {"eager": Loop, "graphs": StaticLoop}
TOKENS = 1024  # of a text: more than all cycles of a measurement can commit
GB = 1e9

Pair = Callable[[], tuple[TargetModel, Eagle3Draft]]


def cases_of(setup: Setup, sizes: Sizes, loops: Mapping[str, type[Loop]] = LOOPS) -> Iterator[Case]:
    """Whether it decodes at all; then every prefix without a tree and with each.

    The pair is made for the first of these and then kept.
    """
    yield Case(NAME, partial(token_rows, setup.device, loops))
    lacking = _lacking(sizes, setup.device)
    if lacking:
        yield Case("model", lambda: iter([Row("model", "", passed=False, note=lacking)]))
        return
    pair = cache(partial(random_pair, sizes, setup.device))
    for prefix in sizes.prefixes:
        for shape in (None, *sizes.trees):
            step = "AR step" if shape is None else f"cycle of {shape.total} nodes"
            name = f"{step} behind {prefix} tokens"
            yield Case(name, partial(_rows, setup, sizes, pair, loops, name, prefix, shape))


def _lacking(sizes: Sizes, device: torch.device) -> str:
    """Why the pair cannot be made here, "" where it can."""
    if device.type != "cuda":
        return ""
    free, _ = torch.cuda.mem_get_info(device)
    if free >= sizes.memory:
        return ""
    return (
        f"not run: weights, keys and values need {sizes.memory / GB:.1f} GB, "
        f"{free / GB:.1f} GB of the card are free"
    )


def _rows(
    setup: Setup,
    sizes: Sizes,
    pair: Pair,
    loops: Mapping[str, type[Loop]],
    name: str,
    prefix: int,
    shape: TreeShape | None,
) -> Iterator[Row]:
    target, draft = pair()
    size = sizes.step_bytes(prefix) if shape is None else sizes.cycle_bytes(prefix, shape)
    for provider, loop in loops.items():
        if shape is None:
            config = DecodeConfig(method="ar", max_new_tokens=TOKENS, record="off")
            running = loop(target, None, config)
        else:
            config = DecodeConfig(shape=shape, max_new_tokens=TOKENS, record="off")
            running = loop(target, draft, config)
        yield Row(name, provider, _numbers(setup, running, prefix, size))


def _numbers(setup: Setup, running: Loop, prefix: int, size: int) -> dict[str, float]:
    """Medians over cycles behind a random text; of the phases as the loop itself timed them."""
    target = running.target
    endings = Endings(target.end_of_sequence, target.context_limit, running.config, ())
    running.prefill(random_text(target.vocab_size, prefix), endings)
    cycles, seen = running.cycles(endings), list[Cycle]()
    ms = setup.timer.median_us(lambda: seen.append(next(cycles))) / 1e3
    numbers = {"ms": ms, "gb": size / GB}
    if setup.limits is not None:
        floor = setup.limits.floor_us(size) / 1e3
        numbers |= {"floor_ms": floor, "of_floor": floor / ms}
    return numbers | {
        "draft_ms": median(cycle.timing.draft + cycle.timing.tree for cycle in seen),
        "verify_ms": median(cycle.timing.verify for cycle in seen),
    }
