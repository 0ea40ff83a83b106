"""Training on a terminal while it runs: a whole view, one line that lives, or plain lines."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from eagle3_viz.plain_text import one_line
from eagle3_viz.prompt_records import ALL
from eagle3_viz.training.log import EvaluationRow, LogRow

REFRESHES = 2  # a second
PLAIN_SECONDS = 30.0  # between two plain lines
LOSSES = 48  # values of the sparkline
DOMAINS = 8  # rows of the table by domain
LABELS = 23  # characters of the first column, the same in every block
_LEVELS = "▁▂▃▄▅▆▇█"
# Green is the draft's success and blue is time, as on the charts.
_SUCCESS, _TIME, _QUIET = "green", "blue", "bright_black"


@dataclass(frozen=True)
class Watched:
    """All that a view shows. Times are seconds of the watch's clock."""

    total_tokens: int
    doing: str = "training"
    row: LogRow | None = None
    losses: tuple[float, ...] = ()
    started: tuple[float, int] | None = None  # (time, tokens) of this run's first row
    seen: float = 0.0  # time of this run's last row
    heldout: tuple[EvaluationRow, ...] = ()  # of the last evaluation, one a domain
    checkpoint: tuple[float, int] | None = None  # (time, step)

    def with_row(self, row: LogRow, now: float) -> Watched:
        losses = (*self.losses, row.loss)[-LOSSES:]
        started = self.started or (now, row.tokens)
        return replace(self, row=row, losses=losses, started=started, seen=now)

    def with_evaluation(self, row: EvaluationRow) -> Watched:
        same = (other for other in self.heldout if other.step == row.step)
        kept = (other for other in same if other.domain != row.domain)
        return replace(self, heldout=(*kept, row))

    @property
    def tokens(self) -> int:
        return self.row.tokens if self.row else 0

    def seconds_left(self) -> float | None:
        """Until all tokens have passed at this run's mean speed, pauses included."""
        if self.row is None:
            return None
        speed = self.row.tokens_per_second
        if self.started and self.seen > self.started[0]:
            speed = (self.tokens - self.started[1]) / (self.seen - self.started[0])
        return max(self.total_tokens - self.tokens, 0) / speed if speed > 0 else None


class Watch:
    """Shows the rows it is fed until its `with` block ends; the last view stays on the screen.

    `full` asks for the whole view instead of one line. Where `stream` is no terminal, a plain line
    is printed every `PLAIN_SECONDS` and at each evaluation and checkpoint.
    """

    def __init__(
        self,
        total_tokens: int,
        *,
        stream: TextIO,
        full: bool = False,
        log: Sequence[LogRow] = (),
        evaluations: Iterable[EvaluationRow] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`log` and `evaluations` are what earlier runs of a resumed job wrote."""
        losses = tuple(row.loss for row in log[-LOSSES:])
        self._state = Watched(total_tokens, row=log[-1] if log else None, losses=losses)
        for row in evaluations:
            self._state = self._state.with_evaluation(row)
        self._stream, self._clock = stream, clock
        self._due = -math.inf
        self._live: Live | None = None
        if stream.isatty() and os.environ.get("TERM") != "dumb":
            view = whole_view if full else one_line_view
            self._live = Live(
                get_renderable=lambda: view(self._state, clock()),
                console=Console(file=stream, markup=False, highlight=False, emoji=False),
                refresh_per_second=REFRESHES,
                redirect_stdout=False,  # it may be a file
            )

    def __enter__(self) -> Watch:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        state = self._state
        self.doing("finished" if state.tokens >= state.total_tokens else "stopped")
        if self._live:
            self._live.stop()
        elif state.started:
            self._print(summary(self._state))

    def doing(self, what: str) -> None:
        """Name what goes on when it is not training; the next row ends it."""
        self._state = replace(self._state, doing=what)

    def row(self, row: LogRow) -> None:
        """Show the state after a logged step."""
        now = self._clock()
        self._state = replace(self._state, doing="training").with_row(row, now)
        if self._live is None and now >= self._due:
            self._due = now + PLAIN_SECONDS
            self._print(summary(self._state))

    def evaluation(self, row: EvaluationRow) -> None:
        """Show a held-out accuracy; rows of one step are shown together."""
        self._state = self._state.with_evaluation(row)
        if self._live is None and row.domain == ALL:
            self._print(f"held out at step {row.step:,} · accuracy {_shares(row.accuracy)}")

    def checkpoint(self, step: int) -> None:
        """Show that the state after `step` is safe on the disk."""
        self._state = replace(self._state, checkpoint=(self._clock(), step))
        if self._live is None:
            self._print(f"checkpoint of step {step:,} written")

    def _print(self, line: str) -> None:
        print(one_line(line), file=self._stream, flush=True)


def summary(state: Watched) -> str:
    """The state in one line of plain text."""
    parts = [state.doing, _percent(state), _tokens(state)]
    if row := state.row:
        parts += [f"step {row.step:,}", f"loss {row.loss:.4f}"]
        parts += [f"accuracy {_shares(row.accuracy)}", f"{row.tokens_per_second:,.0f} tokens/s"]
    return " · ".join([*parts, *_left(state)])


def one_line_view(state: Watched, now: float) -> RenderableType:
    """A bar with the numbers that matter most beside it."""
    texts = [_percent(state)]
    if row := state.row:
        speed = f"{row.tokens_per_second:,.0f} tokens/s"
        texts += [f"loss {row.loss:.3f}", *(f"accuracy {a:.3f}" for a in row.accuracy[:1])]
        texts.append(speed if state.doing == "training" else one_line(state.doing))
    return _bar_line(state, [*texts, *_left(state)])


def whole_view(state: Watched, now: float) -> RenderableType:
    """Progress, loss, speed, accuracy by unroll step and by domain; fits 80 x 24 characters."""
    texts = [_percent(state), _tokens(state), *_left(state)]
    blocks: list[RenderableType] = [_bar_line(state, texts, label=one_line(state.doing))]
    if state.row:
        blocks += ["", _numbers(state, state.row, now)]
    if state.row or state.heldout:
        blocks += ["", _by_unroll_step(state)]
    if any(row.domain != ALL for row in state.heldout):
        blocks += ["", _by_domain(state.heldout)]
    return Group(*blocks)


def sparkline(values: Sequence[float]) -> str:
    """A block a value, from the lowest of them to the highest; "×" for one that is not finite."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    scale = (len(_LEVELS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        _LEVELS[round((value - low) * scale)] if math.isfinite(value) else "×" for value in values
    )


def _bar_line(state: Watched, texts: Sequence[str], label: str = "") -> Table:
    line = Table.grid(padding=(0, 2, 0, 0), expand=True)
    if label:
        line.add_column(no_wrap=True)
    line.add_column(ratio=1)
    for _ in texts:
        line.add_column(no_wrap=True)
    bar = _bar(state.tokens, state.total_tokens, _TIME)
    line.add_row(*([Text(label, style="bold")] if label else []), bar, *map(Text, texts))
    return line


def _numbers(state: Watched, row: LogRow, now: float) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=_QUIET, min_width=LABELS)
    table.add_column(no_wrap=True)
    table.add_row("loss", Text(f"{row.loss:.4f}  {sparkline(state.losses)}"))
    rates = f"{row.learning_rate:.2e}, gradient norm {row.gradient_norm:.3g}"
    table.add_row("learning rate", Text(rates))
    speed = f"{row.tokens_per_second:,.0f} tokens/s, {_span(row.seconds)} for {row.step:,} steps"
    table.add_row("speed", Text(speed))
    if state.checkpoint:
        written, step = state.checkpoint
        table.add_row("checkpoint", Text(f"{_span(now - written)} ago, at step {step:,}"))
    return table


def _by_unroll_step(state: Watched) -> Table:
    """Accuracy on the training batches as a bar a step, with the held-out numbers beside it."""
    training = state.row.accuracy if state.row else ()
    heldout = next((row for row in state.heldout if row.domain == ALL), None)
    table = _table("accuracy by unroll step", expand=True)
    table.add_column(ratio=1)
    table.add_column("training", justify="right", no_wrap=True)
    if heldout:
        table.add_column("held out", justify="right", no_wrap=True)
    for step in range(max(len(training), len(heldout.accuracy) if heldout else 0)):
        trained = step < len(training)
        cells: list[RenderableType] = [
            Text(f"{step + 1}" if trained else f"{step + 1}, not trained"),
            _bar(training[step], 1.0, _SUCCESS) if trained else "",
            _share(training[step]) if trained else "",
        ]
        if heldout:
            cells.append(_share(heldout.accuracy[step]) if step < len(heldout.accuracy) else "")
        table.add_row(*cells)
    return table


def _by_domain(heldout: Sequence[EvaluationRow]) -> Table:
    rows = sorted((row for row in heldout if row.domain != ALL), key=lambda row: row.domain)
    table = _table(f"held out at step {rows[0].step:,}")
    for step in range(max(len(row.accuracy) for row in rows)):
        table.add_column(str(step + 1), justify="right", no_wrap=True)
    for row in rows[:DOMAINS]:
        table.add_row(Text(one_line(row.domain, LABELS)), *map(_share, row.accuracy))
    if len(rows) > DOMAINS:
        table.add_row(Text(f"and {len(rows) - DOMAINS} more", style=_QUIET))
    return table


def _table(title: str, expand: bool = False) -> Table:
    table = Table(
        box=None, expand=expand, padding=(0, 2, 0, 0), pad_edge=False, header_style=_QUIET
    )
    table.add_column(title, no_wrap=True, min_width=LABELS)
    return table


def _bar(done: float, total: float, style: str) -> ProgressBar:
    done = 0.0 if math.isnan(done) else done
    return ProgressBar(
        total=max(total, 1e-9),
        completed=min(done, total),
        style=_QUIET,
        complete_style=style,
        finished_style=style,
    )


def _percent(state: Watched) -> str:
    return f"{100 * state.tokens / max(state.total_tokens, 1):.0f} %"


def _tokens(state: Watched) -> str:
    if state.total_tokens >= 1_000_000:
        return f"{state.tokens / 1e6:.2f} of {state.total_tokens / 1e6:.2f} M tokens"
    return f"{state.tokens:,} of {state.total_tokens:,} tokens"


def _left(state: Watched) -> list[str]:
    left = state.seconds_left()
    return [f"{_span(left)} left"] if left else []


def _span(seconds: float) -> str:
    """h:mm:ss"""
    return str(timedelta(seconds=round(seconds)))


def _share(share: float) -> str:
    return "–" if math.isnan(share) else f"{share:.3f}"


def _shares(shares: Sequence[float]) -> str:
    return " ".join(map(_share, shares))
