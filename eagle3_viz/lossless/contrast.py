"""Short runs side by side: what a method may change, and what it may not (MATH.md 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eagle3_viz.config import DecodeConfig, Method, Sampling, TreeShape
from eagle3_viz.drafts.adversarial import LeastLikelyDraft
from eagle3_viz.metrics import summary
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.run import run
from eagle3_viz.trace import Trace

TOKENS = 40
TEMPERATURE = 1.0
SHAPE = TreeShape(8, 3, 4)


@dataclass(frozen=True)
class ShortRun:
    """One text. tau None for autoregression; ms_per_token of decoding alone."""

    title: str
    text: str
    tau: float | None
    ms_per_token: float | None


@dataclass(frozen=True)
class Progress:
    """Tokens done over all runs, and the runs that are finished."""

    done: int
    total: int
    runs: tuple[ShortRun, ...]


def run_contrast(
    pair: LoadedPair, prompt: str, method: Method, *, seed: int = 0, tokens: int = TOKENS
) -> Iterator[Progress]:
    """Four runs: two methods from one seed, then a good and an adversarial draft, greedy.

    Raises ValueError where the pair has no draft with a distribution for `method`.
    """
    drawn = Sampling(TEMPERATURE)
    planned = [
        ("Autoregression", pair, _config("ar", drawn, seed, tokens)),
        (f"{method}, the same seed", pair, _config(method, drawn, seed, tokens)),
        (f"{method}, greedy", pair, _config(method, Sampling(), seed, tokens)),
        (
            f"{method}, greedy, the least likely proposed",
            _adversarial(pair, method),
            _config(method, Sampling(), seed, tokens),
        ),
    ]
    finished: list[ShortRun] = []
    total = len(planned) * tokens
    for place, (title, with_draft, config) in enumerate(planned):
        for trace in run(with_draft, prompt, config):
            yield Progress(place * tokens + len(trace.tokens), total, tuple(finished))
        finished.append(_short(title, trace))
    yield Progress(total, total, tuple(finished))


def _config(method: Method, sampling: Sampling, seed: int, tokens: int) -> DecodeConfig:
    return DecodeConfig(
        method=method,
        shape=SHAPE,
        sampling=sampling,
        max_new_tokens=tokens,
        seed=seed,
        record="off",
    )


def _adversarial(pair: LoadedPair, method: Method) -> LoadedPair:
    """The pair with a draft of `method` that proposes what the real one believes in least."""
    draft = pair.draft(method)
    if draft is None:
        raise ValueError("autoregression has no draft that could be turned around")
    return pair.with_draft(method, LeastLikelyDraft(draft), "least-likely")


def _short(title: str, trace: Trace) -> ShortRun:
    found = summary(trace)
    tau = None if trace.header.method == "ar" else found.tau
    return ShortRun(title, trace.text, tau, found.ms_per_token)


def contrast_words(runs: tuple[ShortRun, ...]) -> Iterator[str]:
    """What the finished runs show, as sentences."""
    if len(runs) >= 2:
        strings = "differ" if runs[0].text != runs[1].text else "happen to be equal"
        yield (
            f"The same seed and two methods: the strings {strings}, the distribution does not. A "
            "seed fixes a row of random numbers, and each method spends them on other decisions; "
            "that both texts come from the target's distribution is what the sampling test checks."
        )
    if len(runs) >= 4:
        good, bad = runs[2], runs[3]
        same = "the same text" if good.text == bad.text else "ANOTHER TEXT"
        yield (
            f"A draft that always proposes the least likely tokens: {same}, tau "
            f"{bad.tau or 0:.2f} instead of {good.tau or 0:.2f}, {bad.ms_per_token or 0:.0f} "
            f"instead of {good.ms_per_token or 0:.0f} ms a token. Only the speed changes."
        )
