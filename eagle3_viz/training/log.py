"""What a training job wrote down on its way: one CSV row a logged step, one a held-out accuracy."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle3_viz.files import write_atomically
from eagle3_viz.text_lines import DataError

LOG_FILE, HELDOUT_FILE = "log.csv", "heldout.csv"
MAX_BYTES = 1 << 26  # of one file: some 400,000 rows
DOMAIN_LIMIT = 40  # characters
_QUOTED = 30  # characters of a bad value that an error repeats
_LOG_COLUMNS = (
    "step",
    "tokens",
    "seconds",
    "loss",
    "learning_rate",
    "gradient_norm",
    "tokens_per_second",
)
_HELDOUT_COLUMNS = ("step", "tokens", "domain")


@dataclass(frozen=True)
class LogRow:
    """The state of training after `step` optimizer steps.

    tokens             response tokens passed so far, by all processes together.
    seconds            of training over all runs of the job, pauses not counted.
    gradient_norm      before clipping.
    tokens_per_second  response tokens, all processes together.
    accuracy           share of training tokens on which the draft's arg-max was the target's, by
                       unroll step 1..S, over a running window; nan where nothing was counted.
    """

    step: int
    tokens: int
    seconds: float
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    accuracy: tuple[float, ...]


@dataclass(frozen=True)
class EvaluationRow:
    """Accuracy on the held-out text after `step` steps, by unroll step, of one domain or `ALL`.

    It may have one unroll step more than training has: the one that was never trained.
    """

    step: int
    tokens: int
    domain: str
    accuracy: tuple[float, ...]


class TrainingLog:
    """Appends rows to `folder`; each is on its way to the disk when the call returns.

    One process writes. A row that a crash left half written is removed on opening.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log, self._heldout = folder / LOG_FILE, folder / HELDOUT_FILE
        for path in (self._log, self._heldout):
            whole = b"".join(_lines(path))
            if path.exists() and path.stat().st_size > len(whole):
                write_atomically(path, whole)

    def add(self, row: LogRow) -> None:
        """Raises DataError when the file's rows have another number of unroll steps."""
        numbers = (row.seconds, row.loss, row.learning_rate, row.gradient_norm)
        cells = [row.step, row.tokens, *map(float, (*numbers, row.tokens_per_second))]
        _append(self._log, _LOG_COLUMNS, cells, row.accuracy)

    def add_evaluation(self, row: EvaluationRow) -> None:
        """Raises DataError when the file's rows have another number of unroll steps."""
        cells = [row.step, row.tokens, _printable(row.domain)]
        _append(self._heldout, _HELDOUT_COLUMNS, cells, row.accuracy)

    def truncate_after(self, step: int) -> None:
        """Drop the rows of later steps: they were written after the checkpoint of `step`.

        Raises DataError on a file that `read_log` or `read_evaluations` would refuse.
        """
        for path, columns in ((self._log, _LOG_COLUMNS), (self._heldout, _HELDOUT_COLUMNS)):
            lines = _lines(path)
            kept = [
                line
                for line, (place, cells) in zip(lines[1:], _rows(path, lines, columns), strict=True)
                if _count(cells[0], place) <= step
            ]
            if lines and len(kept) < len(lines) - 1:
                # without rows the header goes too: the next row may have other unroll steps
                write_atomically(path, b"".join([lines[0], *kept]) if kept else b"")


def read_log(folder: Path) -> list[LogRow]:
    """The logged steps of `folder` in order, [] before the first.

    A last line without its end, as a crash or a writer at work leaves it, is passed over. Raises
    DataError naming file and line for everything else that `TrainingLog` would not have written.
    """
    rows: list[LogRow] = []
    path = _existing(folder) / LOG_FILE
    width = len(_LOG_COLUMNS)
    for place, cells in _rows(path, _lines(path), _LOG_COLUMNS):
        step, tokens = (_count(cell, place) for cell in cells[:2])
        if rows and step <= rows[-1].step:
            raise DataError(f"{place}: step {step} comes after step {rows[-1].step}")
        seconds, loss, rate, norm, speed = (_number(cell, place) for cell in cells[2:width])
        accuracy = _shares(cells[width:], place)
        rows.append(LogRow(step, tokens, seconds, loss, rate, norm, speed, accuracy))
    return rows


def read_evaluations(folder: Path) -> list[EvaluationRow]:
    """The held-out accuracies of `folder` in order; tolerates and raises what `read_log` does."""
    rows: list[EvaluationRow] = []
    path = _existing(folder) / HELDOUT_FILE
    for place, cells in _rows(path, _lines(path), _HELDOUT_COLUMNS):
        step, tokens = (_count(cell, place) for cell in cells[:2])
        if rows and step < rows[-1].step:
            raise DataError(f"{place}: step {step} comes after step {rows[-1].step}")
        domain = cells[2]
        if domain != _printable(domain):
            raise DataError(f"{place}: a domain is up to {DOMAIN_LIMIT} printable characters")
        rows.append(EvaluationRow(step, tokens, domain, _shares(cells[3:], place)))
    return rows


def _append(
    path: Path, columns: Sequence[str], cells: Sequence[object], accuracy: Sequence[float]
) -> None:
    header = _line([*columns, *_accuracy_names(len(accuracy))])
    with path.open("a+b") as file:  # opened anew for each row: nothing is left to close
        file.seek(0)
        found = file.readline()
        if found not in (b"", header):
            raise DataError(
                f"{path} has {found.count(b',') + 1 - len(columns)} accuracies a row, the new row "
                f"has {len(accuracy)}; train into another folder"
            )
        line = _line([*cells, *map(float, accuracy)])
        file.write(line if found else header + line)


def _line(cells: Sequence[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _accuracy_names(unroll: int) -> list[str]:
    return [f"accuracy_{step}" for step in range(1, unroll + 1)]


def _printable(domain: str) -> str:
    """`domain` on one line, cut: line breaks and steering characters would break files and views.

    Domains come from the training text, which anybody may have written.
    """
    return "".join(c if c.isprintable() else "\ufffd" for c in domain[:DOMAIN_LIMIT])


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; expected one that training wrote to")
    return folder


def _lines(path: Path) -> list[bytes]:
    """The lines of `path` that have their end; none where there is no file."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DataError(f"{path} is longer than {MAX_BYTES} bytes")
    return [line + b"\n" for line in content.split(b"\n")[:-1]]


def _rows(
    path: Path, lines: Sequence[bytes], columns: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """(place, cells) of each line below the header, which begins with `columns`."""
    header: list[str] = []
    for number, line in enumerate(lines, start=1):
        place = f"{path} line {number}"
        cells = _cells(line, place)
        if number == 1:
            unroll = len(cells) - len(columns)
            if unroll < 1 or cells != [*columns, *_accuracy_names(unroll)]:
                raise DataError(f"{place}: expected the columns {','.join(columns)},accuracy_1,...")
            header = cells
        elif len(cells) != len(header):
            raise DataError(f"{place} has {len(cells)} values for {len(header)} columns")
        else:
            yield place, cells


def _cells(line: bytes, place: str) -> list[str]:
    try:
        return next(csv.reader([line.decode()], strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise DataError(f"{place} is not a line of comma-separated UTF-8 text") from None


def _count(cell: str, place: str) -> int:
    if not (cell.isascii() and cell.isdecimal() and len(cell) < 19):
        raise DataError(f"{place}: expected a whole number; found {cell[:_QUOTED]!r}")
    return int(cell)


def _number(cell: str, place: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise DataError(f"{place}: expected a number; found {cell[:_QUOTED]!r}") from None


def _shares(cells: Sequence[str], place: str) -> tuple[float, ...]:
    shares = tuple(_number(cell, place) for cell in cells)
    for cell, share in zip(cells, shares, strict=True):
        if share < 0 or share > 1:  # nan is neither
            raise DataError(f"{place}: expected an accuracy from 0 to 1; found {cell[:_QUOTED]!r}")
    return shares
