"""What is written to a terminal: rows, and tokens while they arrive, coloured by origin."""

from __future__ import annotations

import codecs
import os
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TextIO

from eagle3_viz import plain_text
from eagle3_viz.plain_text import Row, margin, safe
from eagle3_viz.records import Origin

USUAL_COLUMNS = 80  # of a terminal that does not tell
GREEN, VIOLET, RESET = "\x1b[32m", "\x1b[35m", "\x1b[0m"
COLOURS = {Origin.ACCEPTED: GREEN, Origin.RECOVERED: VIOLET, Origin.BONUS: VIOLET}


def uses_colour(stream: TextIO) -> bool:
    """True for a terminal, unless NO_COLOR or TERM=dumb asks for plain text."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def painted(text: str, colour: str, use: bool) -> str:
    """`text` in an ANSI colour where `use` is true."""
    return f"{colour}{text}{RESET}" if use and text and colour else text


def aligned(rows: Sequence[Row], stream: TextIO) -> str:
    """Rows of (label, value) as lines; on a terminal long values are wrapped under themselves."""
    lines = plain_text.aligned(rows)
    if stream.isatty():
        indent = margin(rows)
        columns = os.get_terminal_size(stream.fileno()).columns or USUAL_COLUMNS
        lines = [_wrapped(line, indent, max(indent + 20, columns)) for line in lines]
    return "\n".join(lines)


def _wrapped(line: str, indent: int, columns: int) -> str:
    return textwrap.fill(line, columns, subsequent_indent=" " * indent, break_on_hyphens=False)


class TokenStream:
    """Writes tokens as text while they arrive, coloured by origin on request.

    Bytes that begin a character wait for the token that completes it, which gives its colour.
    """

    def __init__(self, stream: TextIO, colour: bool) -> None:
        self._stream, self._colour = stream, colour
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._last = "\n"

    def write(self, tokens: Iterable[tuple[bytes, Origin]]) -> None:
        """Show the tokens, given as (bytes, origin), at once."""
        pieces = [(COLOURS.get(origin, ""), self._decoder.decode(data)) for data, origin in tokens]
        for colour, run in groupby(pieces, key=lambda piece: piece[0]):
            self._put(safe("".join(text for _, text in run)), colour)
        self._stream.flush()

    def close(self) -> None:
        """Show what is left of a broken character, and end the line."""
        self._put(self._decoder.decode(b"", final=True), "")
        if self._last != "\n":
            self._put("\n", "")
        self._stream.flush()

    def _put(self, text: str, colour: str) -> None:
        if text:
            self._stream.write(painted(text, colour, self._colour))
            self._last = text[-1]
