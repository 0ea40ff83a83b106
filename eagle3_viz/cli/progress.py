"""Progress of a download or a loading stage: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from eagle3_viz import backend
from eagle3_viz.plain_text import one_line

BYTES_FROM = 1_000_000  # a total from here on counts bytes; stages with steps have a few
STEP = 10  # per cent between two plain lines of one stage


@contextmanager
def reporting(stream: TextIO) -> Iterator[backend.Progress]:
    """A callback (stage, done, total) that shows where a long task is, until the block ends."""
    if not stream.isatty():
        yield _PlainLines(stream)
        return
    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[amount]}", markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=Console(file=stream),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bars:
        yield _Bar(bars)


def amount(done: int, total: int) -> str:
    """How far a stage is, in MB or in its own units; "" for a stage of one step."""
    if total >= BYTES_FROM:
        return f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
    return f"{done} of {total}" if total > 1 else ""


class _PlainLines:
    """A line per stage, and one more at every tenth of a download."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._stage, self._shown = "", 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            percent = 100 * done // total if total >= BYTES_FROM else 0
            percent -= percent % STEP
            if stage != self._stage:
                self._stage, self._shown = stage, percent
                print(one_line(stage), file=self._stream, flush=True)
            elif percent > self._shown:
                self._shown = percent
                line = f"{one_line(stage)}: {percent} % ({amount(done, total)})"
                print(line, file=self._stream, flush=True)


class _Bar:
    """One bar, replaced when the next stage begins. Hub downloads report from several threads."""

    def __init__(self, bars: Progress) -> None:
        self._bars, self._lock = bars, threading.Lock()
        self._stage = ""
        self._task: TaskID | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            if stage != self._stage or self._task is None:
                if self._task is not None:
                    self._bars.remove_task(self._task)
                self._stage = stage
                whole = total if total > 1 else None  # None: a bar that only says "at work"
                self._task = self._bars.add_task(one_line(stage), total=whole, amount="")
            self._bars.update(self._task, completed=done, amount=amount(done, total))
