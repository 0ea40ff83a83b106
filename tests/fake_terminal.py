"""A stream that says it is a terminal and keeps what was written to it."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
