"""What a file that somebody brings may be: a trace as Parquet or as JSON."""

from __future__ import annotations

from pathlib import Path

from eagle3_viz import trace_file, trace_json
from eagle3_viz.trace import Trace
from eagle3_viz.trace_file import TraceFileError


def trace_at(path: Path) -> Trace:
    """The trace in the file at `path`, whatever it is called. Raises TraceFileError naming it."""
    data = trace_file.content(path)
    try:
        return trace_in(data)
    except TraceFileError as error:
        raise TraceFileError(f"{str(path)!r}: {error}") from error


def trace_in(data: bytes) -> Trace:
    """The trace in the content of a file. Raises TraceFileError."""
    if is_json(data):
        return trace_json.loads(data)
    if not data:
        raise TraceFileError("the file is empty; choose a trace this program saved")
    return trace_file.from_bytes(data)


def is_json(data: bytes) -> bool:
    """Whether `data` begins as a JSON object does."""
    return data[:64].lstrip().startswith(b"{")


def holds(path: Path, content: bytes) -> bool:
    """Whether the file at `path` has exactly this content; one that just went away has not."""
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except FileNotFoundError:
        return False
