"""This program as a person types it where it runs now."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path


def interpreter() -> str:
    """The Python that runs this, relative to the current folder where it lies below it.

    The link of a virtual environment is kept: what it points to has none of its packages.
    """
    try:
        return str(Path(sys.executable).relative_to(Path.cwd()))
    except ValueError:
        return sys.executable


def typed(argv: Sequence[str]) -> str:
    """The command in `argv`, "eagle3_viz" first, fit for a shell in the current folder."""
    return shlex.join([interpreter(), "-m", *argv])
