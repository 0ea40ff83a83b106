"""Where a result is to be written: looked at before the work that makes it."""

from __future__ import annotations

import os
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


def refuse_unwritable(option: str, path: Path) -> None:
    """Raise Failure where the folder of a file is missing or closed."""
    try:
        folder = destination(path).parent
    except OSError as error:
        raise Failure(f"{option} {path}: {error.strerror}") from error
    if not folder.is_dir():
        raise Failure(f"the folder of {option} {path} does not exist: create it first")
    if not os.access(folder, os.W_OK):
        raise Failure(f"the folder of {option} {path} is not writable: choose another one")
