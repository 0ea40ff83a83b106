"""Counts, probabilities, commands and kinds of JSON values in words."""

import shlex
from collections.abc import Sequence
from math import isfinite

MAX_QUOTED = 40  # characters of a value that an error repeats


def counted(count: int, noun: str) -> str:
    """`count` and its noun, with the plural s where it is not one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def rounded(number: float) -> str:
    """Two decimals, more where they would read 0.00 without being zero; NaN is unknown."""
    if not isfinite(number):
        return "unknown"
    return f"{number:.2f}" if number == 0 or number >= 0.005 else f"{number:.1g}"


def command_words(argv: Sequence[str]) -> str:
    """A recorded command line as a shell reads it, from the program's name on."""
    own = ("python", "-m", *argv) if tuple(argv[:1]) == ("eagle3_viz",) else argv
    return shlex.join(own)


def json_kind(value: object) -> str:
    """A value of JSON as people call it who do not write Python, its beginning included."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value[:MAX_QUOTED]!r}"
    if isinstance(value, int | float):
        return f"the number {str(value)[:MAX_QUOTED]}"
    return "a list" if isinstance(value, list) else "an object"
