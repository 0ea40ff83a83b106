"""The sampling test of MATH.md 5.2: what the engine draws against what the target believes.

One side are texts drawn by the engine's own loop (`sampler`). The other never saw a tree: whole
texts through a causal forward without a cache, warped (`exact`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product

from eagle3_viz.config import DecodeConfig, Method, Rule, Sampling, TreeShape
from eagle3_viz.drafts.stepped import SteppedDraft
from eagle3_viz.fixed_tree import DEFAULT_FIXED, FixedTree
from eagle3_viz.loop import Loop
from eagle3_viz.lossless.chi_square import (
    FAMILY_LEVEL,
    LEAST_EXPECTED,
    ChiSquare,
    chi_square,
    detectable_distance,
    holm,
    refuse_few_cells,
)
from eagle3_viz.lossless.defaults import SAMPLING_TREE
from eagle3_viz.lossless.exact import ExactTexts, Prefix
from eagle3_viz.lossless.kept import KeptTallies, Tally
from eagle3_viz.lossless.sampler import Drawn, Sampler
from eagle3_viz.lossless.wrong_rules import WRONG_RULES
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.records import Origin

LENGTH = 3
"""Tokens whose joint distribution is tested."""

LOSSLESS: tuple[Rule, ...] = ("topk", "sample")
_REPORT_EVERY = 20  # draws


@dataclass(frozen=True)
class Case:
    """One test to be made. rule names a rule of the engine or one of `WRONG_RULES`."""

    rule: str
    config: DecodeConfig
    loop: type[Loop] = Loop

    @property
    def lossless(self) -> bool:
        """True when the rule is supposed to leave p alone."""
        return self.rule in LOSSLESS


@dataclass(frozen=True)
class Result:
    """A finished test and the draws it is about."""

    case: Case
    test: ChiSquare
    tally: Tally


@dataclass(frozen=True)
class Judged:
    """A test among all of its family. detectable: `chi_square.detectable_distance`."""

    result: Result
    adjusted: float  # Holm's p-value
    detectable: float

    @property
    def rejected(self) -> bool:
        """True when the draws do not have the target's distribution."""
        return self.adjusted < FAMILY_LEVEL

    @property
    def as_it_should(self) -> bool:
        """A lossless rule is not rejected, any other one is."""
        return self.rejected != self.result.case.lossless


@dataclass(frozen=True)
class Progress:
    """After some draws: where the whole run is, and the test that was finished now, if any."""

    done: int
    total: int
    result: Result | None = None


def cases(
    methods: Sequence[Method],
    rules: Sequence[Rule],
    samplings: Sequence[Sampling],
    seeds: Sequence[int],
    *,
    wrong_method: Method | None = None,
    shape: TreeShape = SAMPLING_TREE,
    fixed: FixedTree = DEFAULT_FIXED,
) -> list[Case]:
    """All combinations that have a meaning, those of one method together.

    wrong_method: the method on which every wrong rule and `typical` are tried as well. Raises
    ValueError for temperature 0, where nothing is drawn.
    """
    kinds: list[tuple[Method, str, type[Loop], Rule]] = [
        (method, rule, Loop, rule)
        for method, rule in product(methods, rules)
        if not (rule == "sample" and method in ("ar", "lookup"))
    ]
    if wrong_method is not None:
        own = ((wrong_method, name, *built_on) for name, built_on in WRONG_RULES.items())
        kinds += [*own, (wrong_method, "typical", Loop, "typical")]
    kinds.sort(key=lambda kind: [*methods, wrong_method].index(kind[0]))
    return [
        Case(
            name,
            DecodeConfig(
                method=method,
                shape=wider(shape) if name == "rerank" else shape,
                fixed=fixed,
                sampling=sampling,
                rule=rule,
                max_new_tokens=LENGTH,
                seed=seed,
                record="off",
            ),
            loop,
        )
        for (method, name, loop, rule), sampling, seed in product(kinds, samplings, seeds)
    ]


def wider(shape: TreeShape) -> TreeShape:
    """A tree of which half is as many nodes as `shape` has: what a rerank chooses from."""
    wide = replace(shape, top_k=shape.top_k + 1)
    return replace(wide, total=min(2 * shape.total - 1, wide.pool_size + 1))


def method_with_q(pair: LoadedPair) -> Method | None:
    """The newest method of the pair whose draft has a distribution and a tree of its own."""
    for method in reversed(pair.methods):
        if method != "eagle1" and isinstance(pair.draft(method), SteppedDraft):
            return method
    return None


def run_cases(
    pair: LoadedPair,
    prefix: Prefix,
    to_test: Sequence[Case],
    draws: int,
    kept: KeptTallies | None = None,
) -> Iterator[Progress]:
    """Make the tests one after another; what is in `kept` is not drawn again.

    Raises ValueError for a method that the pair has no draft for, and for too few draws.
    """
    exact = ExactTexts(pair.target, prefix)
    joints = {
        sampling: exact.joint(sampling, LENGTH, LEAST_EXPECTED / draws, pair.target.end_of_sequence)
        for sampling in {case.config.sampling: None for case in to_test}
    }
    for joint in joints.values():
        refuse_few_cells(joint, draws)
    sampler: Sampler | None = None
    method: Method | None = None
    for place, case in enumerate(to_test):
        tally = None if kept is None else kept.get(case.rule, case.config)
        if tally is None:
            if sampler is None or case.config.method != method:
                method = case.config.method
                sampler = Sampler(pair.target, pair.draft(method), prefix)
            for done, tally in _drawn(sampler, case, draws):
                if tally is None:
                    yield Progress(place * draws + done, len(to_test) * draws)
            assert tally is not None
            if kept is not None:
                kept.add(case.rule, case.config, tally)
        test = chi_square(tally.texts.elements(), joints[case.config.sampling])
        finished = Result(case, test, tally)
        yield Progress((place + 1) * draws, len(to_test) * draws, finished)


def _drawn(sampler: Sampler, case: Case, draws: int) -> Iterator[tuple[int, Tally | None]]:
    """Draw the texts of a case: how many there are now and then, and all of them at the end."""
    start, made = time.perf_counter(), sampler.target.forwards
    drawn: list[Drawn] = []
    for one in islice(sampler.draws(case.loop, case.config), draws):
        drawn.append(one)
        if len(drawn) % _REPORT_EVERY == 0:
            yield len(drawn), None
    tally = Tally(
        Counter(one.text for one in drawn),
        Counter(origin for one in drawn for origin in one.origins),
        sum(_accepted_twice(one) for one in drawn),
        sampler.target.forwards - made,
        time.perf_counter() - start,
    )
    yield draws, tally


def _accepted_twice(drawn: Drawn) -> bool:
    return any(set(two) == {Origin.ACCEPTED} for two in pairwise(drawn.origins))


def judged(results: Sequence[Result]) -> list[Judged]:
    """The tests as one family: p-values corrected for their number (Holm)."""
    adjusted = holm([result.test.p_value for result in results])
    level = FAMILY_LEVEL / max(1, len(results))
    return [
        Judged(result, p, detectable_distance(result.tally.draws, result.test.freedom, level))
        for result, p in zip(results, adjusted, strict=True)
    ]
