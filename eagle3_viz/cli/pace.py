"""How far a long job is and how fast: a bar with the time left on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from eagle3_viz.plain_text import one_line
from eagle3_viz.training.data import Progress

SECONDS_BETWEEN_LINES = 30.0

Clock = Callable[[], float]


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
