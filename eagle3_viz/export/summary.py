"""A trace in Markdown, for a bug report: configuration, versions, numbers, prompt and text.

What a model or a person wrote stands in fenced code whose fence is longer than any run of backticks
in it, so nothing of it is read as Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from eagle3_viz.metrics import acceptance_by_depth
from eagle3_viz.plain_text import Row, aligned, safe
from eagle3_viz.trace import Trace
from eagle3_viz.trace_words import measured, provenance, speedup

TEXT_LIMIT = 4000  # characters of the prompt and of the text


def markdown_summary(trace: Trace, name: str) -> str:
    """The whole report; `name` is what the reader calls the trace."""
    parts = [
        "# A run of speculative decoding",
        _fenced(_rows([("trace", name), *provenance(trace)])),
        "## Numbers",
        _fenced(_rows([*measured(trace), *speedup(trace)])),
        *_by_depth(trace),
        f"## Prompt ({len(trace.header.prompt_ids)} tokens)",
        _fenced(_cut(trace.header.prompt)),
        "## Text",
        _fenced(_cut(trace.text)),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(rows: Sequence[Row]) -> str:
    return "\n".join(aligned(rows))


def _cut(text: str) -> str:
    left = len(text) - TEXT_LIMIT
    return text if left <= 0 else f"{text[:TEXT_LIMIT]}… ({left} more characters)"


def _fenced(text: str) -> str:
    """A code block that `text` cannot end (CommonMark: a closing fence is no shorter)."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{safe(text)}\n{fence}"


def _by_depth(trace: Trace) -> list[str]:
    """Acceptance at every drafted depth (MATH.md 4) as a table of numbers; nothing without one."""
    table = acceptance_by_depth(trace)
    if table.empty:
        return []
    rows = [
        f"| {row.depth} | {row.accepted} | {row.tested} | {row.conditional:.1%} "
        f"| {row.unconditional:.1%} |"
        for row in table.itertuples()
    ]
    head = [
        "| depth | accepted | tested | of those tested | of all cycles |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    return ["## Acceptance by depth", "\n".join([*head, *rows])]
