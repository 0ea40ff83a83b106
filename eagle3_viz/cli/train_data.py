"""`train data`: the target writes training text, with its pace on the screen."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from eagle3_viz.cli.failure import Failure, as_failure
from eagle3_viz.cli.target_options import load_target, target_version
from eagle3_viz.cli.terminal import aligned, one_line
from eagle3_viz.embedded import PairError
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.data import HELD_OUT, TRAIN, Outcome, Progress, make_data
from eagle3_viz.training.prompts import read_prompts
from eagle3_viz.wording import counted

USUAL_COUNT = 1000
INTERRUPTED = 130
SECONDS_BETWEEN_LINES = 30.0

Clock = Callable[[], float]


def data(args: argparse.Namespace) -> int:
    """Run the options of `train data`; returns the exit status."""
    with as_failure(DataError, PairError, ValueError, ArithmeticError, RuntimeError, OSError):
        prompts = read_prompts(args.prompts, args.count) if args.prompts else None
        if args.out.exists() and not args.out.is_dir():
            raise Failure(f"--out needs a folder, {args.out} is a file: name another place")
        pair = load_target(args, sys.stderr)
        try:
            with reporting_pace(sys.stderr) as report:
                outcome = make_data(
                    pair.target,
                    args.out,
                    target_name=target_version(pair.target_source),
                    count=args.count or USUAL_COUNT,
                    prompts=prompts,
                    seed=args.seed,
                    batch=args.batch,
                    max_length=args.max_length,
                    holdout_share=args.holdout,
                    report=report,
                )
        except KeyboardInterrupt:
            print(
                one_line(
                    f"Interrupted. What is finished is kept in {args.out}; the same command goes "
                    "on from there."
                ),
                file=sys.stderr,
            )
            return INTERRUPTED
    print(aligned(described(outcome), sys.stdout))
    return 0


def described(outcome: Outcome) -> list[tuple[str, str]]:
    """What came out, as rows of label and value."""
    dropped = [f"{count} {reason}" for reason, count in outcome.dropped.most_common()]
    answered = sum(outcome.finishes.values())
    share = 100 * outcome.finishes["loop"] / answered if answered else 0.0
    tokens = [f"{domain} {count}" for domain, count in sorted(outcome.tokens.items())]
    return [
        (TRAIN, counted(outcome.train, "conversation")),
        (HELD_OUT, counted(outcome.held_out, "conversation")),
        ("dropped", ", ".join(dropped) or "nothing"),
        ("response tokens", f"{outcome.tokens.total()}: {', '.join(tokens)}"),
        ("ended in a loop", f"{share:.1f} % of the answers; cut after the first round"),
    ]


@contextmanager
def reporting_pace(
    stream: TextIO, clock: Clock = time.monotonic
) -> Iterator[Callable[[Progress], None]]:
    """A callback that shows where the job is and how fast: a bar on a terminal, else lines."""
    if not stream.isatty():
        yield _Lines(stream, clock)
        return
    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[pace]}", markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=Console(file=stream),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bars:
        yield _Bar(bars, clock)


class _Pace:
    """How far a stage is and how fast, measured from its first report."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stage, self._started = "", 0.0

    def begins(self, progress: Progress) -> bool:
        """Whether this report is the first of its stage; the clock starts then."""
        if progress.stage == self._stage:
            return False
        self._stage, self._started = progress.stage, self._clock()
        return True

    def text(self, progress: Progress) -> str:
        text = f"{progress.done} of {progress.total}"
        seconds = self._clock() - self._started
        if progress.raw_tokens and seconds > 0:
            raw, response = progress.raw_tokens / seconds, progress.response_tokens / seconds
            text += f", {raw:.0f} tokens/s ({response:.0f} written)"
        return text


class _Bar:
    def __init__(self, bars: Bars, clock: Clock) -> None:
        self._bars, self._pace = bars, _Pace(clock)

    def __call__(self, progress: Progress) -> None:
        if self._pace.begins(progress):
            for task in list(self._bars.task_ids):
                self._bars.remove_task(task)
            # what earlier runs made is no part of this run's speed, which tells the time left
            self._bars.add_task(
                progress.stage, total=progress.total, completed=progress.done, pace=""
            )
        self._bars.update(
            self._bars.task_ids[-1], completed=progress.done, pace=self._pace.text(progress)
        )


class _Lines:
    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream, self._clock, self._pace = stream, clock, _Pace(clock)
        self._last = 0.0

    def __call__(self, progress: Progress) -> None:
        first, now = self._pace.begins(progress), self._clock()
        if first or now - self._last >= SECONDS_BETWEEN_LINES or progress.done == progress.total:
            self._last = now
            line = f"{progress.stage}: {self._pace.text(progress)}"
            print(one_line(line), file=self._stream, flush=True)
