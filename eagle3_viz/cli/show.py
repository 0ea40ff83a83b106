"""`show`: what a trace file holds. Files come from other people: text in them is shown safely."""

from __future__ import annotations

import sys
from pathlib import Path

from eagle3_viz.cli.failure import as_failure
from eagle3_viz.cli.terminal import aligned
from eagle3_viz.library.content import trace_at
from eagle3_viz.metrics import acceptance_by_depth
from eagle3_viz.plain_text import Row
from eagle3_viz.trace import Trace
from eagle3_viz.trace_file import TraceFileError
from eagle3_viz.trace_words import measured, provenance, speedup


def show(path: Path) -> int:
    """Print where the trace at `path` comes from and what it amounts to."""
    with as_failure(TraceFileError):
        trace = trace_at(path)
    for rows in (provenance(trace), text(trace), [*measured(trace), *by_depth(trace)]):
        print(aligned(rows, sys.stdout), end="\n\n" if rows[0][0] != "tokens" else "\n")
    return 0


def text(trace: Trace) -> list[Row]:
    """What was asked and what came."""
    asked = len(trace.header.prompt_ids)
    return [("prompt", f"{trace.header.prompt} ({asked} tokens)"), ("text", trace.text)]


def by_depth(trace: Trace) -> list[Row]:
    """The speed-up where it was measured, and acceptance at each drafted depth."""
    table = acceptance_by_depth(trace)
    rows = speedup(trace)
    if len(table):
        shares = (f"{row.depth}: {row.conditional:.0%}" for row in table.itertuples())
        rows.append(("acceptance", "by depth, where tested: " + ", ".join(shares)))
    return rows
