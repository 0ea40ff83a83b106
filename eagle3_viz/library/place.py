"""Where the library of this machine is."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from eagle3_viz.library.store import Library

_SHIPPED = Path(__file__).resolve().parents[2] / "docs" / "traces"


def shared() -> Library:
    """The library that every page and everybody who reaches this server uses."""
    return _at(folder())


@cache
def _at(folder: Path) -> Library:
    return Library(folder, _SHIPPED)


def folder() -> Path:
    """EAGLE3_VIZ_LIBRARY, else a folder among the user's data."""
    if chosen := os.environ.get("EAGLE3_VIZ_LIBRARY"):
        return Path(chosen).expanduser()
    return _user_data() / "eagle3_viz" / "traces"


def _user_data() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    xdg = os.environ.get("XDG_DATA_HOME")
    return Path(xdg) if xdg else Path.home() / ".local" / "share"
