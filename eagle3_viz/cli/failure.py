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
    """Turn errors of these kinds into a Failure with their `sentence`."""
    try:
        yield
    except BrokenPipeError:  # an OSError, but the reader's choice and no failure
        raise
    except kinds as error:
        raise Failure(sentence(error)) from error


def sentence(error: Exception) -> str:
    """What an error says, in one line; of the system's own errors the file and the reason."""
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f" {error.filename}"
        return f"cannot read or write{place}: {error.strerror}; check the disk"
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
