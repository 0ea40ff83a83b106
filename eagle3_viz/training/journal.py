"""What a long job has finished, on disk the moment it is finished.

A folder belongs to one set of arguments (`claim`) and to one process at a time. A `Journal` gets a
line a finished text; a process that is killed while it writes leaves at most one torn line at the
end, which the next one cuts off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eagle3_viz.files import alone_in, write_atomically
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.generate import FINISHES, Completion

MANIFEST = "data.json"


@contextmanager
def claim(folder: Path, arguments: Mapping[str, Any], results: tuple[str, ...]) -> Iterator[None]:
    """Hold `folder` for a job with these arguments until the block ends.

    Raises DataError when another process holds it, when it belongs to other arguments, and when
    it has no manifest but already a file named in `results`.
    """
    with alone_in(folder):
        _check(folder, arguments, results)
        yield


def _check(folder: Path, arguments: Mapping[str, Any], results: tuple[str, ...]) -> None:
    path = folder / MANIFEST
    if not path.exists():
        if present := [name for name in results if (folder / name).exists()]:
            raise DataError(
                f"{folder} holds {' and '.join(present)} from elsewhere; name another folder"
            )
        write_atomically(path, json.dumps(dict(arguments), indent=1).encode())
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DataError(f"{path} is not a manifest that this version wrote; name another folder")
    names = sorted(found.keys() | arguments.keys())
    differences = [
        f"{name} {found.get(name)!r} instead of {arguments.get(name)!r}"
        for name in names
        if found.get(name) != arguments.get(name)
    ]
    if differences:
        raise DataError(
            f"{folder} was begun with {', '.join(differences)}; use the same arguments to go on, "
            "or another folder"
        )


class Journal:
    """Completions by index, one JSON line each, in the order in which they finished."""

    def __init__(self, path: Path, vocab_size: int) -> None:
        """Reads what is there. Raises DataError for a whole line that is no completion."""
        self.completions: dict[int, Completion] = {}
        path.touch()
        whole = 0
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    break
                completion = _completion(line, vocab_size)
                if completion is None or completion.index in self.completions:
                    raise DataError(
                        f"{path.name} line {number} is damaged; delete this line to write the "
                        "text anew"
                    )
                self.completions[completion.index] = completion
                whole += len(line)
        self._file = path.open("r+b", buffering=0)  # a line is one write
        self._file.truncate(whole)
        self._file.seek(whole)

    def add(self, completion: Completion) -> None:
        """Keep a completion; its index must be new."""
        record = {
            "index": completion.index,
            "finish": completion.finish,
            "tokens": completion.tokens,
        }
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[self._file.write(line) :]
        self.completions[completion.index] = completion

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _completion(line: bytes, vocab_size: int) -> Completion | None:
    try:
        record = json.loads(line)
        index, finish, tokens = record["index"], record["finish"], record["tokens"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    numbers = [index, *tokens] if isinstance(tokens, list) else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        return None
    if finish not in FINISHES or not tokens or max(tokens) >= vocab_size:
        return None
    return Completion(index, tuple(tokens), finish)
