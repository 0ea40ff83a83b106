"""Which tokens the cycles of a small model commit, in float32: those of its own autoregression.

So that what is timed in the large one, whose bfloat16 leaves ties to rounding, is known to decode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from benchmarks.gpu.random_pair import TINY, random_pair, random_text
from benchmarks.gpu.section import Row
from eagle3_viz.config import DecodeConfig, Method, TreeShape
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.endings import Endings
from eagle3_viz.loop import Loop
from eagle3_viz.target import TargetModel

NAME = "tokens of a small model"
TOKENS = 64
WIDE = TreeShape(60, 1, 50)  # as wide as lets some guesses of random weights be right


def tokens_of(
    loop: type[Loop], target: TargetModel, draft: Eagle3Draft | None
) -> tuple[list[int], int]:
    """The greedy text behind a random prompt, and how many of its tokens were drafted."""
    method: Method = "ar" if draft is None else "eagle3"
    config = DecodeConfig(method=method, shape=WIDE, max_new_tokens=TOKENS, record="off")
    endings = Endings(target.end_of_sequence, target.context_limit, config, ())
    running = loop(target, draft, config)
    prefill = running.prefill(random_text(target.vocab_size, 50), endings)
    cycles = list(running.cycles(endings))
    tokens = [prefill.token, *(token for cycle in cycles for token in cycle.tokens)]
    return tokens, sum(cycle.accepted for cycle in cycles)


def token_rows(device: torch.device, loops: Mapping[str, type[Loop]]) -> Iterator[Row]:
    """Every loop's text, without and with a tree, beside that of `Loop` without one."""
    target, draft = random_pair(TINY, device)
    expected, _ = tokens_of(Loop, target, None)
    for provider, loop in loops.items():
        plain, _ = tokens_of(loop, target, None)
        drafted, accepted = tokens_of(loop, target, draft)
        differ = sum(
            found != token
            for text in (plain, drafted)
            for found, token in zip(text, expected, strict=True)
        )
        numbers = {"tokens": 2 * TOKENS, "differ": differ, "accepted": accepted}
        yield Row(NAME, provider, numbers, differ == 0)
