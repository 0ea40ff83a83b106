"""What a check found, as a table to read and as JSON and CSV to keep."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.section import Row

VERDICTS = {True: "passed", False: "FAILED", None: ""}


@dataclass(frozen=True)
class Result:
    """The rows of a section, and the seconds it took."""

    section: str
    seconds: float
    rows: list[Row]

    @property
    def passed(self) -> bool:
        """There are rows, and none failed."""
        return bool(self.rows) and all(row.passed is not False for row in self.rows)


def table(result: Result) -> str:
    """A section's rows below each other, its numbers in columns."""
    columns = list(dict.fromkeys(name for row in result.rows for name in row.numbers))
    lines = [["case", "provider", *columns, "", ""]]
    case = None
    for row in result.rows:
        numbers = [_short(row.numbers[name]) if name in row.numbers else "" for name in columns]
        shown = row.case if row.case != case else ""
        lines.append([shown, row.provider, *numbers, VERDICTS[row.passed], row.note])
        case = row.case
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    numeric = range(2, 2 + len(columns))
    body = "\n".join(
        "  ".join(
            cell.rjust(width) if place in numeric else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
    state = "passed" if result.passed else "FAILED"
    return f"\n{result.section}: {state}, {result.seconds:.0f} s\n{body}"


def _short(number: float) -> str:
    """Three significant digits, small errors as powers of ten."""
    if number and abs(number) < 1e-2:
        return f"{number:.1e}"
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def write(folder: Path, facts: dict[str, Any], results: list[Result]) -> list[Path]:
    """gpu_check-<card>.json and .csv; facts: machine, versions, commit and the like, as text.

    In JSON a number that is none, or infinite, is null.
    """
    folder.mkdir(parents=True, exist_ok=True)
    card = re.sub(r"[^a-z0-9]+", "-", facts["card"].lower()).strip("-")
    stem = folder / f"gpu_check-{card}"
    sections = [
        {
            "section": result.section,
            "passed": result.passed,
            "seconds": round(result.seconds, 1),
            "rows": [_finite(asdict(row)) for row in result.rows],
        }
        for result in results
    ]
    passed = all(result.passed for result in results)
    text = json.dumps({"passed": passed, **facts, "sections": sections}, indent=1, allow_nan=False)
    written = stem.with_suffix(".json"), stem.with_suffix(".csv")
    written[0].write_text(text + "\n", "utf-8")
    _write_csv(written[1], facts, results)
    return list(written)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: n if math.isfinite(n) else None for name, n in row["numbers"].items()}
    return {**row, "numbers": numbers}


def _write_csv(path: Path, facts: dict[str, Any], results: Iterable[Result]) -> None:
    """One line a row: section, case, provider, verdict, note, every number, every fact."""
    rows = [(result.section, row) for result in results for row in result.rows]
    columns = list(dict.fromkeys(name for _, row in rows for name in row.numbers))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["section", "case", "provider", "verdict", "note", *columns, *facts])
        for section, row in rows:
            numbers = [row.numbers.get(name, "") for name in columns]
            told = [section, row.case, row.provider, VERDICTS[row.passed], row.note]
            writer.writerow([*told, *numbers, *facts.values()])
