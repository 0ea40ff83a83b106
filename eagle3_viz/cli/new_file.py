"""Where a result is to be written: looked at before the work that makes it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from eagle3_viz.cli.failure import Failure
from eagle3_viz.trace_file import destination


def refuse_unless_new(option: str, path: Path) -> None:
    """Raise Failure unless a file of this name can be made; nothing that exists is overwritten."""
    if path.is_dir():
        raise Failure(f"{option} needs a file, {path} is a folder: name a file in it")
    refuse_unwritable(option, path)
    if os.path.lexists(path):
        raise Failure(f"{option} {path} exists already: name another file, or remove it first")


def refuse_other_ending(option: str, path: Path, ending: str) -> None:
    """Raise Failure for a name that promises something else than what is written."""
    if path.suffix.lower() != ending:
        raise Failure(
            f"{option} {path} must end in {ending}, which is what is written: rename it to "
            f"{path.stem}{ending}"
        )


def refuse_unwritable(option: str, path: Path) -> None:
    """Raise Failure where the folder of a file is missing or closed."""
    try:
        folder = destination(path).parent
    except OSError as error:
        raise Failure(f"{option} {path}: {error.strerror}") from error
    if not folder.is_dir():
        raise Failure(f"the folder of {option} {path} does not exist: create it first")
    if reason := _closed(folder):
        raise Failure(
            f"the folder of {option} {path} cannot be written to ({reason}): {_ELSEWHERE}"
        )


def refuse_unless_folder(option: str, path: Path) -> None:
    """Raise Failure unless `path` is a folder that can be written to, or can become one."""
    if os.path.lexists(path) and not path.is_dir():
        raise Failure(f"{option} needs a folder, {path} is a file: name another place")
    existing = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
    if not existing.is_dir():
        raise Failure(f"{option} {path} cannot be made, {existing} is a file: name another place")
    if reason := _closed(existing):
        raise Failure(f"{option} {path} cannot be written to ({reason}): {_ELSEWHERE}")


_ELSEWHERE = "name another place, or change its permissions"


def _closed(folder: Path) -> str | None:
    """Why nothing can be written to `folder`. Tried, as permissions alone do not tell."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)
