"""What ends a command: one sentence for the person who typed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""Exit status after Ctrl-C."""


class Failure(Exception):
    """The command cannot go on. The message is one sentence fit to show."""


@contextmanager
def as_failure(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into a Failure with the first line of their message."""
    try:
        yield
    except BrokenPipeError:  # an OSError, but the reader's choice and no failure
        raise
    except kinds as error:
        lines = str(error).strip().splitlines()
        raise Failure(lines[0] if lines else type(error).__name__) from error
