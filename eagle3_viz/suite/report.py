"""A suite's tables as CSV, Parquet and Markdown, with what the numbers need to be repeated."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pandas as pd

from eagle3_viz.files import write_atomically
from eagle3_viz.metrics import PHASES
from eagle3_viz.suite.compare import Comparison
from eagle3_viz.suite.results import Results
from eagle3_viz.suite.table import group_title
from eagle3_viz.wording import counted

TABLE, RUNS = "table", "runs"
SHOWN_DEPTHS = 5
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#|~!&])")

Cells = list[list[str]]


def write_tables(results: Results, table: pd.DataFrame, folder: Path) -> list[Path]:
    """Write `table.csv`, `table.parquet`, `table.md` and `runs.parquet`; returns their paths.

    In CSV and Parquet every row carries the facts, so that a row can be moved elsewhere.
    """
    whole = table.assign(**results.facts)
    contents = {
        f"{TABLE}.csv": whole.to_csv(index=False).encode(),
        f"{TABLE}.parquet": _parquet(whole),
        f"{TABLE}.md": markdown(results, table).encode(),
        f"{RUNS}.parquet": _parquet(results.runs),
    }
    for name, content in contents.items():
        write_atomically(folder / name, content)
    return [folder / name for name in contents]


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def markdown(results: Results, table: pd.DataFrame) -> str:
    """The whole report as a Markdown text; text of files is escaped."""
    lines = ["# Suite", ""]
    lines += [f"* {name}: {_escaped(value)}" for name, value in results.facts.items()]
    if results.incomplete:
        left_out = counted(len(results.incomplete), "prompt")
        lines.append(f"* not counted, as some setting has not finished them: {left_out}")
    lines += ["", _LEGEND]
    if "typical" in set(table.rule):
        lines += ["", "**The rule `typical` changes the output distribution.**"]
    for title, rows in groups(table):
        lines += ["", f"## {_escaped(title)}", "", *_pipes(overview(rows))]
        lines += ["", *_pipes(details(rows))]
    return "\n".join(lines) + "\n"


_LEGEND = (
    "tau: tokens per cycle over uncut cycles. Speed-up: ms per token of autoregression over that "
    "of the setting, decode only, same prompts, same run. In brackets: 95 % bootstrap intervals "
    "over prompts. Phases: ms per cycle. Depth d: accepted there / tested there."
)


def groups(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Each group of prompts with its title and its rows of the table."""
    return [
        (group_title(str(name), str(domain)), rows)
        for (name, domain), rows in table.groupby(["set", "domain"], sort=False)
    ]


def overview(rows: pd.DataFrame) -> Cells:
    """A header and a line for each setting: how much and how fast."""
    cells = [["setting", "prompts", "tau", "tokens/s", "speed-up", "loops"]]
    for row in rows.to_dict("records"):
        cells.append(
            [
                row["setting"],
                str(row["prompts"]),
                _with_interval(row["tau"], row["tau_low"], row["tau_high"]),
                _number(row["tokens_per_second"], 1),
                _with_interval(row["speedup"], row["speedup_low"], row["speedup_high"], "x"),
                f"{row['loops']:.0%}",
            ]
        )
    return cells


def details(rows: pd.DataFrame) -> Cells:
    """A header and a line for each setting: ms per cycle by phase, and acceptance by depth."""
    depths = [d for d in range(1, SHOWN_DEPTHS + 1) if f"conditional_{d}" in rows]
    cells = [["setting", *PHASES, *(f"depth {d}" for d in depths)]]
    for row in rows.to_dict("records"):
        phases = [_number(row[f"{phase}_ms"], 2) for phase in PHASES]
        shares = [_number(row[f"conditional_{d}"], 2) for d in depths]
        cells.append([row["setting"], *phases, *shares])
    return cells


def compared(comparison: Comparison) -> Cells:
    """A header and a line for each pair of settings and group of prompts."""
    cells = [["set", "settings", "prompts", "tau", "difference", "speed b/a", "speed-up b/a"]]
    for row in comparison.table.to_dict("records"):
        names = dict.fromkeys([row["setting_a"], row["setting_b"]])
        bounded = [
            _with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"], unit)
            for name, unit in (
                ("tau_difference", ""),
                ("speed_ratio", "x"),
                ("speedup_ratio", "x"),
            )
        ]
        tau = f"{_number(row['tau_a'], 2)}, {_number(row['tau_b'], 2)}"
        title = group_title(row["set"], row["domain"])
        cells.append([title, " / ".join(names), str(row["prompts"]), tau, *bounded])
    return cells


def _with_interval(value: float, low: float, high: float, unit: str = "") -> str:
    if pd.isna(value):
        return "-"
    if pd.isna(low):
        return f"{value:.2f}{unit}"
    return f"{value:.2f}{unit} ({low:.2f} to {high:.2f})"


def _number(value: float, digits: int) -> str:
    return "-" if pd.isna(value) else f"{value:.{digits}f}"


def _pipes(cells: Cells) -> list[str]:
    head, *rows = [[_escaped(cell) for cell in row] for row in cells]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]


def _escaped(text: str) -> str:
    """`text` as one line that Markdown shows as it is, control characters as U+FFFD."""
    return _MARKUP.sub(r"\\\1", _CONTROL.sub("\ufffd", " ".join(text.split())))
