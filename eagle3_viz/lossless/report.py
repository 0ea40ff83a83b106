"""Results as tables of one row each, and what they say in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from eagle3_viz.lossless.chi_square import FAMILY_LEVEL, POWER
from eagle3_viz.lossless.greedy_test import GreedyRun, summarized
from eagle3_viz.lossless.sampling_test import LENGTH, Judged
from eagle3_viz.records import Origin
from eagle3_viz.wording import counted


def sampling_table(judged: Sequence[Judged]) -> pd.DataFrame:
    """One row a test; origins count tokens, accepted_twice counts texts."""
    rows = []
    for one in judged:
        result, test, config = one.result, one.result.test, one.result.case.config
        rows.append(
            {
                "method": config.method,
                "rule": result.case.rule,
                "lossless": result.case.lossless,
                "temperature": config.sampling.temperature,
                "top_k": config.sampling.top_k,
                "top_p": config.sampling.top_p,
                "seed": config.seed,
                "draws": result.tally.draws,
                "cells": len(test.cells),
                "chi_square": test.statistic,
                "freedom": test.freedom,
                "p_value": test.p_value,
                "p_corrected": one.adjusted,
                "rejected": one.rejected,
                "distance": test.distance,
                "detectable_distance": one.detectable,
                **{origin.name.lower(): result.tally.origins[origin] for origin in Origin},
                "accepted_twice": result.tally.accepted_twice,
                "forwards": result.tally.forwards,
                "seconds": result.tally.seconds,
            }
        )
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Group:
    """The tests that differ in their seeds alone."""

    tests: tuple[Judged, ...]

    @property
    def rule(self) -> str:
        """As `Case.rule`."""
        return self.tests[0].result.case.rule

    @property
    def name(self) -> str:
        """Method, rule and temperature."""
        config = self.tests[0].result.case.config
        return f"{config.method} {self.rule}, temperature {config.sampling.temperature:g}"

    @property
    def lossless(self) -> bool:
        """As `Case.lossless`."""
        return self.tests[0].result.case.lossless

    @property
    def rejected(self) -> int:
        """How many tests say that the distribution is another one."""
        return sum(test.rejected for test in self.tests)

    def tokens(self, origin: Origin) -> int:
        """Tokens of that origin in all texts."""
        return sum(test.result.tally.origins[origin] for test in self.tests)

    @property
    def verdict(self) -> str:
        """What the seeds say together."""
        seeds = f"{self.rejected} of {len(self.tests)}"
        if self.lossless:
            return "the target's distribution" if not self.rejected else f"REJECTED, {seeds}"
        return f"rejected, {seeds}" if self.rejected else "not detected"


def grouped(judged: Sequence[Judged]) -> list[Group]:
    """Tests by method, rule and sampling, in the order they come."""
    return [
        Group(tuple(tests))
        for _, tests in groupby(
            judged,
            key=lambda one: (
                one.result.case.rule,
                one.result.case.config.method,
                one.result.case.config.sampling,
            ),
        )
    ]


def sampling_cells(groups: Sequence[Group]) -> list[list[str]]:
    """A header and a line for each group; p-values are corrected ones, by seed."""
    cells = [
        ["test", "corrected p by seed", "distance", "accepted", "recovered", "bonus", "verdict"]
    ]
    for group in groups:
        origins = (Origin.ACCEPTED, Origin.RECOVERED, Origin.BONUS)
        cells.append(
            [
                group.name,
                " ".join(_p(test.adjusted) for test in group.tests),
                f"{max(test.result.test.distance for test in group.tests):.3f}",
                *(str(group.tokens(origin)) for origin in origins),
                group.verdict,
            ]
        )
    return cells


def _p(value: float) -> str:
    return "<1e-9" if value < 1e-9 else f"{value:.2g}"


def sampling_words(judged: Sequence[Judged]) -> Iterator[str]:
    """The verdict, what was not exercised, and the power, as sentences."""
    groups = grouped(judged)
    right = [one for one in judged if one.result.case.lossless]
    failed = [one for one in right if one.rejected]
    if failed:
        yield (
            f"REJECTED: {len(failed)} of {counted(len(right), 'test')} of rules that should keep "
            "the target's distribution say that they do not."
        )
    elif right:
        yield (
            f"Lossless, as far as {counted(len(right), 'test')} can tell: in none do texts drawn "
            "by speculation differ from the target's own distribution."
        )
    for group in groups:
        if not group.lossless:
            yield _contrast(group)
        elif missing := _missing(group):
            yield f"{group.name} never committed {missing}: that part is not tested here."
    if judged:
        yield power_in_words(judged)


def _contrast(group: Group) -> str:
    """About a rule that changes the distribution."""
    kind = "the relaxed rule" if group.rule == "typical" else "the wrong rule"
    if not group.rejected:
        return f"{group.name}: {kind} was not detected; draw more, or choose another prefix."
    seeds = f"{group.rejected} of {counted(len(group.tests), 'seed')}"
    return f"{group.name}: {kind} is rejected with {seeds}."


def _missing(group: Group) -> str:
    """What a drafting rule can commit and did not here, "" when nothing is missing."""
    if group.tests[0].result.case.config.method == "ar":
        return ""
    found = {
        "two accepted tokens in a row": sum(
            test.result.tally.accepted_twice for test in group.tests
        ),
        "a recovered token": group.tokens(Origin.RECOVERED),
        "a bonus token": group.tokens(Origin.BONUS),
    }
    return " or ".join(what for what, count in found.items() if not count)


def power_in_words(judged: Sequence[Judged]) -> str:
    """What the tests could have seen."""
    worst = max(judged, key=lambda one: one.detectable)
    level = FAMILY_LEVEL / len(judged)
    return (
        f"Power: with {worst.result.tally.draws} draws of {LENGTH} tokens in "
        f"{len(worst.result.test.cells)} cells, a total variation distance of "
        f"{worst.detectable:.3f} or more would be rejected with a chance of at least {POWER:.0%} "
        f"at level {level:.2g} ({FAMILY_LEVEL:g} for {counted(len(judged), 'test')} together)."
    )


def greedy_table(runs: Sequence[GreedyRun]) -> pd.DataFrame:
    """One row a run. position counts from the root, 0; noise is in logits."""
    rows = []
    for run in runs:
        row: dict[str, object] = {
            "prompt": run.prompt,
            "setting": run.setting,
            "dtype": run.dtype,
            "tokens": run.tokens,
        }
        for name, beside in (("", run.plain), ("padded_", run.padded)):
            if beside is not None:
                row |= {
                    f"{name}verdict": beside.verdict,
                    f"{name}position": beside.position,
                    f"{name}margin": beside.margin,
                    f"{name}mean_noise": beside.margins.mean_noise,
                    f"{name}max_noise": beside.margins.max_noise,
                }
        rows.append(row)
    return pd.DataFrame(rows)


def greedy_cells(runs: Sequence[GreedyRun]) -> list[list[str]]:
    """A header and a line for each run that differs, and one for each setting that does not."""
    cells = [["run", "texts", "first other", "margin", "noise mean", "max", "verdict"]]
    by_setting = sorted(runs, key=lambda run: (run.dtype, run.setting))
    for (dtype, setting), group in groupby(by_setting, key=lambda run: (run.dtype, run.setting)):
        found = list(group)
        equal = [run for run in found if run.plain.verdict == "equal"]
        if equal:
            cells.append(
                [
                    f"{setting}, {dtype}",
                    str(len(equal)),
                    *("-", "-"),
                    f"{max(run.plain.margins.mean_noise for run in equal):.2g}",
                    f"{max(run.plain.margins.max_noise for run in equal):.2g}",
                    "equal",
                ]
            )
        cells += [_different(run) for run in found if run.plain.verdict != "equal"]
    return cells


def _different(run: GreedyRun) -> list[str]:
    beside = run.plain
    return [
        f"{run.setting}, {run.dtype}, {run.prompt}",
        "1",
        f"token {beside.position} of {run.tokens}",
        f"{beside.margin:.2g}",
        f"{beside.margins.mean_noise:.2g}",
        f"{beside.margins.max_noise:.2g}",
        beside.verdict,
    ]


def greedy_words(runs: Sequence[GreedyRun]) -> Iterator[str]:
    """What the comparisons say, number format by number format."""
    for dtype in dict.fromkeys(run.dtype for run in runs):
        of_dtype = [run for run in runs if run.dtype == dtype]
        found = summarized(of_dtype)
        sentence = f"{dtype}: {found.equal} of {counted(len(of_dtype), 'text')} equal"
        if found.numerical:
            sentence += (
                f", {found.numerical} part at a near tie: the target's margin there is inside the "
                "noise between the two shapes of its forward"
            )
        if found.different:
            sentence += f", {found.different} DIFFERENT beyond rounding"
        yield sentence + "."
        if found.noise_left is not None:
            yield _padding(dtype, found.vanished, found.noise_left)


def _padding(dtype: str, vanished: float | None, noise_left: float) -> str:
    """What autoregression in the shape of the verification changes."""
    share = (
        "there is no difference that could vanish"
        if vanished is None
        else f"{vanished:.0%} of the differences vanish"
    )
    return (
        f"{dtype}, autoregression in the shape of the verification: {share}, and {noise_left:.0%} "
        "of the mean noise of the margin is left."
    )
