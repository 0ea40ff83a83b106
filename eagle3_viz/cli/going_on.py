"""What is told when Ctrl-C ends a job that can go on."""

from __future__ import annotations

from collections.abc import Sequence

from eagle3_viz.interpreter import typed
from eagle3_viz.plain_text import one_line

MAX_CHARS = 4000


def going_on(argv: Sequence[str]) -> str:
    """A sentence with the command in `argv`, as `arguments.parse` left it, fit for a shell."""
    return one_line(f"The same command goes on from there: {typed(argv)}", MAX_CHARS)
