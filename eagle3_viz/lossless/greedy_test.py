"""Greedy speculation against autoregression, token for token (MATH.md 1.5, 5.3).

Verifying a tree and feeding one token multiply matrices of different shapes, so the same sum is
rounded differently and a near tie may fall the other way. A difference counts as that only when
the target's margin there lies inside the noise of the margin, measured on the same run where both
forwards choose the same token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

import torch

from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig
from eagle3_viz.lossless.greedy_texts import Decided, PaddedTarget, along, decided
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.presets import Preset
from eagle3_viz.target import TargetModel
from kernels.draft_topk import largest

CLEAR = 0.25
"""Noise that is larger on average than this part of the usual margin is no rounding."""

Verdict = Literal["equal", "numerical", "different"]


@dataclass(frozen=True)
class Margins:
    """Top-2 margins at the m decided tokens of a text, by one-token forwards along that text.

    margin  [m], of the one-token forward.
    noise   [m], |difference of the margin between the same two tokens| in the other forward.
    flipped bool [m], where the text holds another token than the one-token forward's first.
    """

    margin: torch.Tensor
    noise: torch.Tensor
    flipped: torch.Tensor

    @cached_property
    def mean_noise(self) -> float:
        """Over the tokens that both choose; 0 without any."""
        quiet = self.noise[~self.flipped]
        return float(quiet.mean()) if len(quiet) else 0.0

    @cached_property
    def max_noise(self) -> float:
        """Over the tokens that both choose; 0 without any."""
        quiet = self.noise[~self.flipped]
        return float(quiet.max()) if len(quiet) else 0.0


@dataclass(frozen=True)
class Comparison:
    """A text beside autoregression. position: of the first other token, the root is 0."""

    margins: Margins
    position: int | None

    @property
    def margin(self) -> float | None:
        """The target's margin at the first other token."""
        return None if self.position is None else float(self.margins.margin[self.position - 1])

    @property
    def verdict(self) -> Verdict:
        """ "numerical" only when every flipped margin is inside the noise, and the noise small."""
        if self.position is None:
            return "equal"
        margins = self.margins
        small = margins.mean_noise < CLEAR * float(margins.margin.mean())
        flipped = margins.margin[margins.flipped]
        inside = len(flipped) > 0 and float(flipped.max()) <= margins.max_noise
        return "numerical" if small and inside else "different"


@dataclass(frozen=True)
class GreedyRun:
    """One prompt under one setting. padded: beside autoregression in the verification's shape."""

    prompt: str
    setting: str
    dtype: str
    tokens: int
    plain: Comparison
    padded: Comparison | None


@dataclass(frozen=True)
class Progress:
    """Where the whole comparison is, and the run that was finished now."""

    done: int
    total: int
    run: GreedyRun | None = None


def run_greedy(
    pair: LoadedPair,
    prompts: Sequence[Preset],
    settings: Mapping[str, DecodeConfig],
    *,
    padded_ar: bool = False,
) -> Iterator[Progress]:
    """Every prompt under every setting, beside autoregression on the same prompt.

    Raises ValueError for a method that the pair has no draft for, or settings that are not greedy.
    """
    if any(config.rule != "greedy" for config in settings.values()):
        raise ValueError("texts can only be compared token for token at temperature 0")
    total = len(prompts) * len(settings)
    for place, prompt in enumerate(prompts):
        ids = encode_chat(pair.tokenizer, prompt.prompt, prompt.system)
        beside: dict[int, _Autoregression] = {}
        for number, (name, config) in enumerate(settings.items()):
            yield Progress(place * len(settings) + number, total)
            ours = decided(pair.target, pair.draft(config.method), ids, config)
            shapes = [1, nodes_of(config)] if padded_ar else [1]
            found = [
                beside.setdefault(nodes, _Autoregression(pair.target, ids, nodes)).compared(
                    ours, config.max_new_tokens
                )
                for nodes in shapes
            ]
            run = GreedyRun(
                prompt.id,
                name,
                str(pair.target.dtype).removeprefix("torch."),
                len(ours.tokens),
                found[0],
                found[1] if padded_ar else None,
            )
            yield Progress(place * len(settings) + number + 1, total, run)


def nodes_of(config: DecodeConfig) -> int:
    """Nodes of the largest tree that a setting verifies; a copied text is a chain."""
    if config.method == "ar":
        return 1
    tree = config.tree
    return min(tree.total, tree.levels + 1) if config.method == "lookup" else tree.total


class _Autoregression:
    """Autoregression on one prompt, in the shape of `nodes` rows; its text is decoded once."""

    def __init__(self, target: TargetModel, prompt_ids: Sequence[int], nodes: int) -> None:
        shaped = target if nodes == 1 else PaddedTarget(target, nodes)
        self._target, self._ids = cast(TargetModel, shaped), prompt_ids
        self._text: Decided | None = None

    def compared(self, ours: Decided, max_new_tokens: int) -> Comparison:
        """`ours` beside the text of autoregression."""
        if self._text is None:
            config = DecodeConfig(method="ar", max_new_tokens=max_new_tokens, record="off")
            self._text = decided(self._target, None, self._ids, config)
        return compare(ours, self._text, lambda: along(self._target, self._ids, ours.tokens))


def compare(ours: Decided, theirs: Decided, along_ours: Callable[[], Decided]) -> Comparison:
    """`ours` beside autoregression's text; along_ours: one-token forwards along `ours`."""
    if ours.tokens == theirs.tokens:
        return Comparison(margins(ours, theirs), None)
    pairs = zip(ours.tokens, theirs.tokens, strict=False)
    position = next(at for at, (one, other) in enumerate(pairs) if one != other)
    return Comparison(margins(ours, along_ours()), position)


def margins(ours: Decided, one_token: Decided) -> Margins:
    """Margins of two forwards over the same text."""
    best = largest(one_token.logits, 2)  # a tie as the engine breaks it
    values = one_token.logits.gather(-1, best)
    margin = values[:, 0] - values[:, 1]
    same_two = ours.logits.gather(-1, best)
    noise = (margin - (same_two[:, 0] - same_two[:, 1])).abs()
    return Margins(margin, noise, best[:, 0] != torch.tensor(ours.tokens[1:]))


@dataclass(frozen=True)
class Summary:
    """Runs by verdict, and what the padded shape makes of the differences.

    vanished   share of the texts that differ from autoregression and do not from padded
               autoregression; None when nothing differs or nothing was padded.
    noise_left mean noise beside padded autoregression over that beside the plain one; None too.
    """

    equal: int
    numerical: int
    different: int
    vanished: float | None
    noise_left: float | None


def summarized(runs: Sequence[GreedyRun]) -> Summary:
    """Count the verdicts of runs in one number format."""
    verdicts = [run.plain.verdict for run in runs]
    both = [(run.plain, run.padded) for run in runs if run.padded is not None]
    differing = [padded for plain, padded in both if plain.position is not None]
    noise = sum(plain.margins.mean_noise for plain, _ in both)
    return Summary(
        verdicts.count("equal"),
        verdicts.count("numerical"),
        verdicts.count("different"),
        sum(p.position is None for p in differing) / len(differing) if differing else None,
        sum(padded.margins.mean_noise for _, padded in both) / noise if noise else None,
    )
