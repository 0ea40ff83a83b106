"""`lossless`: a sampling test or a greedy comparison on a real pair, and its verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import pandas as pd

from eagle3_viz.chat import encode_chat
from eagle3_viz.cli.failure import INTERRUPTED, as_failure
from eagle3_viz.cli.going_on import going_on
from eagle3_viz.cli.new_file import refuse_unless_new, refuse_unwritable
from eagle3_viz.cli.pace import reporting_pace
from eagle3_viz.cli.pair_loading import load
from eagle3_viz.cli.suite_tables import aligned_columns
from eagle3_viz.config import METHODS, DecodeConfig, Method, Sampling
from eagle3_viz.files import write_atomically
from eagle3_viz.fixed_tree import FIXED_TREES
from eagle3_viz.lossless import report
from eagle3_viz.lossless.exact import Prefix, open_prefix
from eagle3_viz.lossless.greedy_test import GreedyRun, run_greedy
from eagle3_viz.lossless.kept import KeptTallies
from eagle3_viz.lossless.sampling_test import (
    Case,
    Result,
    cases,
    judged,
    method_with_q,
    run_cases,
)
from eagle3_viz.pairs import LoadedPair, PairError
from eagle3_viz.plain_text import one_line
from eagle3_viz.presets import in_turn
from eagle3_viz.provenance import measured_on
from eagle3_viz.suite.plan import settings_of
from eagle3_viz.training.data import Progress
from eagle3_viz.wording import counted

REJECTED = 1
_NOT_KEPT = "It begins anew; with --csv FILE it would go on from the tests that it finished."
_ERRORS = (PairError, ValueError, ArithmeticError, RuntimeError, OSError)


class _Step(Protocol):
    """What the checks yield."""

    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int: ...


S = TypeVar("S", bound=_Step)


@dataclass(frozen=True)
class _Report:
    """What is shown of a check, whole or interrupted."""

    cells: list[list[str]]
    words: Iterable[str]
    table: pd.DataFrame
    sound: bool

    def save(self, csv: Path, pair: LoadedPair) -> None:
        """The rows, each with what they were measured on."""
        about = {"pair": pair.name, **measured_on(pair.target.device)}
        write_atomically(csv, self.table.assign(**about).to_csv(index=False).encode())


def lossless(args: argparse.Namespace) -> int:
    """Run the check that the options name; returns the exit status."""
    if args.csv is not None:
        refuse_taken(args.lossless_check, args.csv)
    with as_failure(*_ERRORS):
        return sampling(args) if args.lossless_check == "sampling" else greedy(args)


def refuse_taken(check: str, csv: Path) -> None:
    """Raise Failure where the rows cannot be written, or the draws that come before them."""
    if check == "greedy":
        refuse_unless_new("--csv", csv)
        return
    kept = kept_beside(csv)
    if kept.is_file():
        refuse_unwritable("--csv", csv)
    else:
        refuse_unless_new("--csv", csv)
        refuse_unless_new("the draws of --csv", kept)


def sampling(args: argparse.Namespace) -> int:
    """Draw, test, and tell."""
    asked_cases(args, args.methods or METHODS, None)  # what has no meaning is told before loading
    pair = load(args)
    wrong = None if args.without_wrong else method_with_q(pair)
    drafting = [method for method in pair.methods if method != "ar"]
    to_test = asked_cases(args, args.methods or drafting, wrong)
    prefix = open_prefix(pair.target, encode_chat(pair.tokenizer, args.prompt))
    print(prefix_in_words(pair, prefix))
    results: list[Result] = []
    kept = args.csv and KeptTallies(kept_beside(args.csv), _about(pair, prefix, args.draws))
    steps = run_cases(pair, prefix, to_test, args.draws, kept)
    finished = _follow("Draws", steps, lambda step: results.extend(filter(None, [step.result])))
    status = _tell(_sampling_report(results), args.csv, pair, finished) if results else INTERRUPTED
    if kept is not None and finished:
        kept.path.unlink()
    if not finished:
        _tell_interrupted(len(results), "test", going_on(args.argv) if kept else _NOT_KEPT)
    return status


def kept_beside(csv: Path) -> Path:
    """Where the draws of a check that is not finished are kept."""
    return csv.with_name(f"{csv.name}.draws")


def _about(pair: LoadedPair, prefix: Prefix, draws: int) -> dict[str, object]:
    """What draws must agree on to belong to one check; the settings are in each case."""
    drafts = {method: pair.draft_for(method) for method in pair.methods}
    return {
        "target": pair.target_source.sha256,
        "drafts": {name: found.source.sha256 for name, found in drafts.items() if found},
        "dtype": str(pair.target.dtype),
        "device": str(pair.target.device),
        "prefix": [*prefix.ids, prefix.root],
        "draws": draws,
    }


def asked_cases(
    args: argparse.Namespace, methods: Sequence[Method], wrong: Method | None
) -> list[Case]:
    """The tests that the options ask for. Raises ValueError when one has no meaning."""
    return cases(
        tuple(dict.fromkeys(methods)),
        tuple(dict.fromkeys(args.rules)),
        tuple(
            Sampling(temperature, args.target_top_k, args.top_p)
            for temperature in dict.fromkeys(args.temperature)
        ),
        tuple(dict.fromkeys(args.seeds)),
        wrong_method=wrong,
        shape=args.tree,
        fixed=FIXED_TREES[args.fixed_tree],
    )


def prefix_in_words(pair: LoadedPair, prefix: Prefix) -> str:
    """What the drawn tokens follow."""
    end = pair.tokenizer.decode([*prefix.ids[-12:], prefix.root])
    return one_line(f"Three tokens after {len(prefix.ids) + 1} fixed ones, which end in {end!r}.")


def _sampling_report(results: Sequence[Result]) -> _Report:
    found = judged(results)
    return _Report(
        report.sampling_cells(report.grouped(found)),
        report.sampling_words(found),
        report.sampling_table(found),
        sound=not any(one.rejected and one.result.case.lossless for one in found),
    )


def greedy(args: argparse.Namespace) -> int:
    """Decode, compare, and tell; one number format after the other."""
    prompts = in_turn(args.prompts)
    runs: list[GreedyRun] = []
    asked_settings(args, args.methods or METHODS)
    finished = True
    for dtype in dict.fromkeys(args.dtype):
        pair = load(argparse.Namespace(**{**vars(args), "dtype": dtype}))
        drafting = [method for method in pair.methods if method != "ar"]
        settings = asked_settings(args, args.methods or drafting)
        steps = run_greedy(pair, prompts, settings, padded_ar=args.padded)
        finished = _follow(dtype, steps, lambda step: runs.extend(filter(None, [step.run])))
        if not finished:
            break
    status = _tell(_greedy_report(runs), args.csv, pair, finished) if runs else INTERRUPTED
    if not finished:
        renamed = " with another --csv" if runs and args.csv else ""
        _tell_interrupted(len(runs), "text", f"It begins anew: give the command again{renamed}.")
    return status


def asked_settings(args: argparse.Namespace, methods: Sequence[Method]) -> dict[str, DecodeConfig]:
    """The settings that the options ask for. Raises ValueError when one has no meaning."""
    return settings_of(
        tuple(dict.fromkeys(methods)),
        shapes=tuple(dict.fromkeys(args.tree)),
        fixed=(FIXED_TREES[args.fixed_tree],),
        max_new_tokens=args.max_new_tokens,
    )


def _greedy_report(runs: Sequence[GreedyRun]) -> _Report:
    return _Report(
        report.greedy_cells(runs),
        report.greedy_words(runs),
        report.greedy_table(runs),
        sound=not any(run.plain.verdict == "different" for run in runs),
    )


def _follow(stage: str, steps: Iterator[S], keep: Callable[[S], None]) -> bool:
    """Show where the check is while it runs; False when it was interrupted."""
    try:
        with reporting_pace(sys.stderr) as tell:
            for step in steps:
                tell(Progress(stage, step.done, step.total))
                keep(step)
    except KeyboardInterrupt:
        return False
    return True


def _tell(found: _Report, csv: Path | None, pair: LoadedPair, finished: bool) -> int:
    """Print what was found and write the rows; returns the exit status."""
    print(*aligned_columns(found.cells), "", *map(one_line, found.words), sep="\n")
    if csv is not None:
        found.save(csv, pair)
        print(one_line(f"Written: {csv}"))
    if not finished:
        return INTERRUPTED
    return 0 if found.sound else REJECTED


def _tell_interrupted(finished: int, noun: str, next_time: str) -> None:
    """Say on standard error what an interrupt left, and what comes of giving the command again."""
    if finished:
        done = f"Interrupted: the above is what was finished, {counted(finished, noun)}."
    else:
        done = f"Interrupted before the first {noun} was finished: there is no result."
    print(done, next_time, sep="\n", file=sys.stderr)
