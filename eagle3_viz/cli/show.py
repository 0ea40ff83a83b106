"""`show`: what a trace file holds. Files come from other people: text in them is shown safely."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from eagle3_viz.cli.failure import as_failure
from eagle3_viz.cli.report import Row, circumstances, measured, speedup
from eagle3_viz.cli.terminal import aligned
from eagle3_viz.metrics import acceptance_by_depth
from eagle3_viz.trace import ModelSource, Trace
from eagle3_viz.trace_file import TraceFileError, load


def show(path: Path) -> int:
    """Print where the trace at `path` comes from and what it amounts to."""
    with as_failure(TraceFileError):
        trace = load(path)
    for rows in (provenance(trace), text(trace), [*measured(trace), *by_depth(trace)]):
        print(aligned(rows, sys.stdout), end="\n\n" if rows[0][0] != "tokens" else "\n")
    return 0


def provenance(trace: Trace) -> list[Row]:
    """What made the run."""
    header = trace.header
    return [
        *circumstances(trace),
        ("started", header.started_at),
        ("target", _source(header.target)),
        ("draft", "none" if header.draft is None else _source(header.draft)),
        ("settings", _settings(header.config)),
        ("software", ", ".join(f"{name} {version}" for name, version in header.versions.items())),
        ("commit", header.git_commit or "unknown"),
        ("command", " ".join(header.argv)),
    ]


def _source(source: ModelSource) -> str:
    parts = [source.name, f"{source.parameters / 1e6:.1f} M parameters", f"from {source.location}"]
    parts += [f"revision {source.revision}"] if source.revision else []
    parts += [f"sha256 {source.sha256[:12]}"] if source.sha256 else []
    return ", ".join(parts)


def _settings(config: Mapping[str, object]) -> str:
    def pair(name: str, value: object) -> str:
        if isinstance(value, Mapping):
            return f"{name} ({', '.join(f'{k} {v}' for k, v in value.items())})"
        return f"{name} {value}"

    return ", ".join(pair(name, value) for name, value in config.items())


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
