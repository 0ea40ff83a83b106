"""Text from models and files, made fit to show: it may be read, it may not steer.

Escape sequences move a terminal's cursor, rewrite what stands on the screen or set the window's
title; bidirectional controls show text in an order it does not have. Both become visible signs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from eagle3_viz.tokens import visible

Row = tuple[str, str]  # what it is, and its value

LINE_LIMIT = 400  # characters shown of a value of unknown length
_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
_KEPT = "\n\t\u200c\u200d"  # the joiners shape emoji and several scripts, and steer nothing


def safe(text: str) -> str:
    """`text` with every character that could steer a terminal replaced by a visible sign."""
    return "".join(map(_sign, text))


def _sign(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _STEERING:
        return character
    return visible(character.encode("utf-8", "surrogatepass"))


def one_line(text: str, limit: int = LINE_LIMIT) -> str:
    """`safe` text without line breaks, cut to `limit` characters."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return safe(cut).replace("\n", "↵").replace("\t", "⇥")


def margin(rows: Sequence[Row]) -> int:
    """Columns that the labels of `rows` take, with the space before the values."""
    return max(len(label) for label, _ in rows) + 2


def aligned(rows: Sequence[Row]) -> list[str]:
    """One safe line a row, the values below each other."""
    width = margin(rows)
    return [f"{label:<{width}}{one_line(value)}" for label, value in rows]
