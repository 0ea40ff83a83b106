"""The checks of the Lossless page as tasks of the engine's queue.

The steps run in the worker thread, and only they import torch: a page has to open without it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagle3_viz.backend import TaskStep
from eagle3_viz.config import Method, Rule, Sampling, TreeShape

if TYPE_CHECKING:
    from eagle3_viz.lossless.contrast import ShortRun
    from eagle3_viz.lossless.greedy_test import GreedyRun
    from eagle3_viz.lossless.sampling_test import Result

Steps = Callable[[Any], Generator[TaskStep, None, None]]

TREES = (TreeShape(4, 2, 2), TreeShape(8, 3, 4))


@dataclass(frozen=True)
class SamplingAsk:
    """What the sampling test is asked to do; seeds count from 0."""

    prompt: str
    methods: tuple[Method, ...]
    rules: tuple[Rule, ...]
    sampling: Sampling
    draws: int
    seeds: int
    wrong: bool


@dataclass(frozen=True)
class SamplingFound:
    """Finished tests, false while there is none. prefix: the end of what the texts follow; texts:
    cells in letters."""

    prefix: str
    results: tuple[Result, ...]
    texts: dict[tuple[int, ...], str]

    def __bool__(self) -> bool:
        return bool(self.results)


@dataclass(frozen=True)
class GreedyAsk:
    """What the greedy comparison is asked to do; prompts counts sample prompts."""

    methods: tuple[Method, ...]
    prompts: int
    tokens: int
    formats: tuple[str, ...]
    padded: bool


def sampling_steps(ask: SamplingAsk) -> Steps:
    """Results: `SamplingFound`."""

    def steps(pair: Any) -> Generator[TaskStep, None, None]:
        from eagle3_viz.chat import encode_chat
        from eagle3_viz.lossless.exact import open_prefix
        from eagle3_viz.lossless.sampling_test import cases, method_with_q, run_cases
        from eagle3_viz.run import vocabulary_bytes
        from eagle3_viz.tokens import visible

        yield TaskStep(0, 0, None, "Loading the pair in float32")
        pair = in_format(pair, "float32")
        table = vocabulary_bytes(pair.tokenizer)

        def spelled(tokens: tuple[int, ...]) -> str:
            return "".join(visible(table[token]) for token in tokens if token < len(table))

        methods = tuple(method for method in ask.methods if method in pair.methods)
        to_test = cases(
            methods,
            ask.rules,
            (ask.sampling,),
            range(ask.seeds),
            wrong_method=method_with_q(pair) if ask.wrong else None,
        )
        prefix = open_prefix(pair.target, encode_chat(pair.tokenizer, ask.prompt))
        found = SamplingFound(spelled((*prefix.ids[-12:], prefix.root)), (), {})
        for step in run_cases(pair, prefix, to_test, ask.draws):
            if step.result is not None:
                new = {c.text: spelled(c.text) for c in step.result.test.cells if c.text}
                found = SamplingFound(
                    found.prefix, (*found.results, step.result), {**found.texts, **new}
                )
            yield TaskStep(step.done, step.total, found, "Drawing")

    return steps


def greedy_steps(ask: GreedyAsk) -> Steps:
    """Results: a tuple of `GreedyRun`."""

    def steps(pair: Any) -> Generator[TaskStep, None, None]:
        from eagle3_viz.lossless.greedy_test import run_greedy
        from eagle3_viz.presets import in_turn
        from eagle3_viz.suite.plan import settings_of

        found: tuple[GreedyRun, ...] = ()
        for name in ask.formats:
            yield TaskStep(0, 0, found, f"Loading the pair in {name}")
            shaped = in_format(pair, name)
            methods = tuple(method for method in ask.methods if method in shaped.methods)
            settings = settings_of(methods, shapes=TREES, max_new_tokens=ask.tokens)
            for step in run_greedy(shaped, in_turn(ask.prompts), settings, padded_ar=ask.padded):
                found = (*found, step.run) if step.run is not None else found
                yield TaskStep(step.done, step.total, found, f"Decoding in {name}")

    return steps


def contrast_steps(prompt: str, method: Method, seed: int) -> Steps:
    """Results: a tuple of `ShortRun`."""

    def steps(pair: Any) -> Generator[TaskStep, None, None]:
        from eagle3_viz.lossless.contrast import run_contrast

        yield TaskStep(0, 0, (), "Loading the pair in float32")
        shaped = in_format(pair, "float32")
        for step in run_contrast(shaped, prompt, method, seed=seed):
            runs: tuple[ShortRun, ...] = step.runs
            yield TaskStep(step.done, step.total, runs, "Decoding")

    return steps


def in_format(pair: Any, name: str) -> Any:
    """The pair in the number format `name`: itself, or loaded once more."""
    import torch

    from eagle3_viz.pairs import load_pair

    dtype = getattr(torch, name)
    return pair if pair.target.dtype == dtype else load_pair(pair.name, dtype=dtype)
