"""Files that are whole or not there, in a folder that one job at a time writes to."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from eagle3_viz.text_lines import DataError

LOCK = ".lock"


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside `path`, flush to the disk, rename: a crash leaves the old file or the new.

    An error leaves nothing beside them. Raises OSError, about `path`, when writing fails.
    """
    # Threads and processes may write the same file at the same time.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(content)
        flush(partial)
        partial.replace(path)
    except OSError as error:  # about the temporary file, whose name means nothing to a person
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until the contents of `path` are on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def tensors_written(path: Path) -> Iterator[None]:
    """Inside, a disk that refuses is an OSError naming `path`; safetensors has its own for it."""
    try:
        yield
    except SafetensorError as error:
        raise OSError(f"{path} cannot be written: {error}") from error


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make `folder` and keep other jobs out of it. Raises DataError when one is at work there.

    A job that came to nothing leaves neither its lock nor a folder that was not there before.
    """
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise DataError(
            f"another process is writing to {folder}; wait for it or name another folder"
        ) from None
    try:
        yield
    finally:
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()  # while it is held: FileLock notices a name that went away
            if made:
                folder.rmdir()
        lock.release()
