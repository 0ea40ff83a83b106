"""Text from models and files, made fit for a terminal: it may be read, it may not steer.

Escape sequences move the cursor, rewrite what stands on the screen or set the window's title;
bidirectional controls show text in an order it does not have. Both become visible signs.
"""

from __future__ import annotations

import codecs
import os
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TextIO

from eagle3_viz.records import Origin
from eagle3_viz.tokens import visible

LINE_LIMIT = 400  # characters shown of a value of unknown length
USUAL_COLUMNS = 80  # of a terminal that does not tell
GREEN, VIOLET, RESET = "\x1b[32m", "\x1b[35m", "\x1b[0m"
COLOURS = {Origin.ACCEPTED: GREEN, Origin.RECOVERED: VIOLET, Origin.BONUS: VIOLET}
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


def uses_colour(stream: TextIO) -> bool:
    """True for a terminal, unless NO_COLOR or TERM=dumb asks for plain text."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def painted(text: str, colour: str, use: bool) -> str:
    """`text` in an ANSI colour where `use` is true."""
    return f"{colour}{text}{RESET}" if use and text and colour else text


def aligned(rows: Sequence[tuple[str, str]], stream: TextIO) -> str:
    """Rows of (label, value) as lines; on a terminal long values are wrapped under themselves."""
    margin = max(len(label) for label, _ in rows) + 2
    lines = []
    for label, value in rows:
        line = f"{label:<{margin}}{one_line(value)}"
        if stream.isatty():
            columns = os.get_terminal_size(stream.fileno()).columns or USUAL_COLUMNS
            width = max(margin + 20, columns)
            line = textwrap.fill(
                line, width, subsequent_indent=" " * margin, break_on_hyphens=False
            )
        lines.append(line)
    return "\n".join(lines)


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
