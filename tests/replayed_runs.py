"""Made-up runs in the place of the decoding loop, and a pair that cannot decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from eagle3_viz import pairs
from eagle3_viz.config import DecodeConfig, Method
from eagle3_viz.drafts.prompt_lookup import PromptLookupDraft
from eagle3_viz.drafts.stepped import SteppedDraft
from eagle3_viz.pairs import LoadedDraft, LoadedPair
from eagle3_viz.trace import ModelSource, Trace
from tests.synthetic import make_trace
from tests.tiny_models import tiny_target

Made = Callable[[DecodeConfig], Trace]

SOURCE = ModelSource("a draft", "folder", "", "", 1)


class NotRun(SteppedDraft):
    """A draft of which nothing but its methods is asked."""

    methods: tuple[Method, ...] = ("eagle3",)
    vocabulary_size, boundaries, target_ids = 3, (), torch.arange(3)

    def root_logits(self) -> torch.Tensor:
        raise NotImplementedError

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        raise NotImplementedError

    def start(self, first: int) -> None:
        raise NotImplementedError

    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        raise NotImplementedError


LOOKUP = LoadedDraft(PromptLookupDraft(3, torch.device("cpu")), pairs.LOOKUP_SOURCE)
PAIR = LoadedPair(
    name="a pair",
    target=tiny_target(),
    drafts=(LoadedDraft(NotRun(), SOURCE), LOOKUP),
    tokenizer=None,
    target_source=SOURCE,
    dtype_reason="",
)


def replayed(made: Made, fails: BaseException | None = None, after: int = 3) -> Any:
    """A stand-in for `run.run`: the cycles of a made-up trace, an exception after some of them."""

    def run(
        pair: object, prompt: str, config: DecodeConfig, *, system: str | None = None
    ) -> Iterator[Trace]:
        whole = made(config)
        trace = Trace(replace(whole.header, prompt=prompt), whole.prefill, [], whole.token_bytes)
        yield trace
        for cycle in whole.cycles:
            if fails is not None and cycle.index == after:
                raise fails
            trace.cycles.append(cycle)
            yield trace

    return run


def by_method(config: DecodeConfig) -> Trace:
    """Eight cycles of speculation, or as many tokens one by one."""
    speculated = make_trace(cycles=8, record=config.record)
    if config.method == "eagle3":
        return speculated
    return make_trace(cycles=len(speculated.tokens) - 1, method="ar", record=config.record)
