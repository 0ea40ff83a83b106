"""Files of lines that other people wrote, read one bounded line at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

MAX_LINE_BYTES = 1 << 22


class DataError(ValueError):
    """Data that cannot be used; the message says why in one sentence."""


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """(place, text) of each line that is not empty; never more than one line in memory.

    Raises DataError for a file that cannot be read, is not UTF-8, or has a line that is too long.
    """
    number = 0
    try:
        with path.open("rb") as file:
            while raw := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                place = f"{path.name} line {number}"
                if len(raw) > MAX_LINE_BYTES:
                    raise DataError(f"{place} is longer than {MAX_LINE_BYTES} bytes")
                line = raw.decode("utf-8").strip()
                if line:
                    yield place, line
    except UnicodeDecodeError:
        raise DataError(f"{path.name} line {number} is not UTF-8; convert the file first") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
