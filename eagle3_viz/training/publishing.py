"""A folder that appears whole under its name, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eagle3_viz.training.draft_provenance import PROVENANCE


class PublishError(ValueError):
    """The draft cannot be written under that name; the message says why in one sentence."""


@contextmanager
def published(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """An empty folder beside `folder` to write into; it takes that name when the block ends.

    When the block raises, or the renaming does, what was there before stays. A crash between the
    two renames of a replacement leaves the old draft beside it, and the next call brings it back.
    Raises PublishError when the name is taken: always by something that is no published draft, by
    a published draft unless `overwrite`.
    """
    folder = folder.resolve()
    partial = folder.with_name(f".{folder.name}.partial")
    retired = folder.with_name(f".{folder.name}.old")
    if retired.exists() and not folder.exists():
        retired.rename(folder)
    _refuse_taken(folder, overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for stale in (partial, retired):
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        for path in (*partial.rglob("*"), partial):
            _flush(path)
        _take_name(partial, folder, retired)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _flush(folder.parent)
    shutil.rmtree(retired, ignore_errors=True)


def _refuse_taken(folder: Path, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not (folder / PROVENANCE).is_file() or any(path.is_dir() for path in folder.iterdir()):
        raise PublishError(
            f"{folder.name} exists and is not a draft that was exported here; name another folder"
        )
    if not overwrite:
        raise PublishError(
            f"{folder.name} holds a draft already; name another folder or ask to overwrite it"
        )


def _take_name(partial: Path, folder: Path, retired: Path) -> None:
    try:
        if folder.exists():
            folder.rename(retired)
        partial.rename(folder)
    except BaseException:  # Ctrl-C between the renames too
        if retired.exists() and not folder.exists():
            retired.rename(folder)
        raise


def _flush(path: Path) -> None:
    """Have the disk hold a file's content, or a folder's names where the system can say so."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
