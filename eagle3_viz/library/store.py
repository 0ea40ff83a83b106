"""A folder of traces: each a Parquet file, and beside it a small JSON file with its labels."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from eagle3_viz import trace_file
from eagle3_viz.files import write_atomically
from eagle3_viz.library.content import holds, is_json, trace_in
from eagle3_viz.library.entries import (
    Entry,
    Labels,
    described,
    distinct_names,
    labels_in,
    labels_to_json,
)
from eagle3_viz.library.examine import examine
from eagle3_viz.library.folder import (
    SHIPPED,
    Found,
    located,
    own_files,
    shipped_files,
    shipped_labels,
)
from eagle3_viz.library.words import plain, slug
from eagle3_viz.text_lines import DataError
from eagle3_viz.trace import Trace
from eagle3_viz.trace_file import TraceFileError

MAX_BYTES = 64 * 2**20  # of one trace, as the upload of the page
MAX_TRACES = 1_000
MAX_FOLDER_BYTES = 4 * 2**30
MAX_SENTENCE = 500  # characters about a file, whose own words may be in it


class LibraryError(ValueError):
    """What was asked cannot be done; the message says why and what to do."""


class AlreadyHereError(LibraryError):
    """The library has that very trace: it is `entry`."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(f"the library has this very trace already, as {entry.name}")
        self.entry = entry


@dataclass(frozen=True)
class Listing:
    """All that is in the library: own traces, newest first, then those that ship; then problems.

    A problem is the sentence about a file that is no trace, or whose labels are lost.
    """

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]


class Library:
    """The traces in `folder`, which is made when the first one is kept, and those in `shipped`.

    Whatever is asked raises LibraryError when it cannot be done: an id that is not there, a file
    that is no trace, a disk that refuses. Several threads and processes may use one folder.
    """

    def __init__(self, folder: Path, shipped: Path | None = None) -> None:
        self.folder, self.shipped = folder, shipped
        self._writing = threading.Lock()

    def listing(self) -> Listing:
        """Everything there is. Raises nothing: what cannot be read is a problem."""
        problems: list[str] = []
        own = list(self._own(problems.append))
        shipped = list(self._shipped(problems.append))
        return Listing((*own, *shipped), tuple(problems))

    def entries(self) -> tuple[Entry, ...]:
        """The entries of `listing`."""
        return self.listing().entries

    def names(self) -> dict[str, str]:
        """What to call each trace, by its id: own ones first, and no two called the same.

        Much quicker than the entries, for no trace is read: a damaged one is among them.
        """
        own = {
            found.id: self._labels(found.id, found.path).name
            for found in own_files(self.folder, lambda _: None)
        }
        shipped = {
            found.id: shipped_labels(found.path).name for found in shipped_files(self.shipped)
        }
        return distinct_names(own | shipped)

    def entry(self, trace_id: str) -> Entry:
        """The entry of one trace."""
        path = self._path(trace_id)
        shipped = trace_id.startswith(SHIPPED)
        try:
            found = described(path, trace_id, shipped)
        except (TraceFileError, OSError) as error:
            raise LibraryError(f"{trace_id}: {plain(str(error), MAX_SENTENCE)}") from error
        return found.labelled(self._labels(trace_id, path))

    def open(self, trace_id: str) -> Trace:
        """The whole trace, checked."""
        try:
            return trace_file.load(self._path(trace_id))
        except TraceFileError as error:
            raise LibraryError(f"{trace_id}: {plain(str(error), MAX_SENTENCE)}") from error

    def read(self, trace_id: str) -> bytes:
        """The Parquet file of a trace."""
        try:
            return self._path(trace_id).read_bytes()
        except OSError as error:
            raise LibraryError(f"{trace_id} cannot be read: {error.strerror}") from error

    def stamp(self, trace_id: str) -> int:
        """A number that changes when the file of the trace does."""
        try:
            return self._path(trace_id).stat().st_mtime_ns
        except OSError as error:
            raise LibraryError(f"{trace_id} cannot be read: {error.strerror}") from error

    def add(self, data: bytes, name: str, tags: Iterable[str] = (), domain: str = "") -> Entry:
        """Keep the trace in the content of a file, Parquet or JSON, once all of it is checked.

        The content comes from somebody else: it is read in a process of its own first. On an
        error nothing is written; one that is here already is an AlreadyHereError.
        """
        if len(data) > MAX_BYTES:
            raise LibraryError(
                f"the file has {len(data) / 2**20:.0f} MB, a trace in the library at most "
                f"{MAX_BYTES // 2**20} MB; record fewer cycles or a lower record level"
            )
        try:
            examine(data)
            content = trace_file.to_bytes(trace_in(data)) if is_json(data) else data
        except TraceFileError as error:
            raise LibraryError(plain(str(error), MAX_SENTENCE)) from error
        same = self._with_content(content)
        if same is not None:
            raise AlreadyHereError(self.entry(same))
        return self._keep(content, Labels(name, tuple(tags), domain))

    def save(self, trace: Trace, name: str, tags: Iterable[str] = (), domain: str = "") -> Entry:
        """Keep a trace of this program; a live one as far as it has come."""
        try:
            content = trace_file.to_bytes(trace)
        except ValueError as error:
            raise LibraryError(f"the run is no trace that can be kept: {error}") from error
        return self._keep(content, Labels(name, tuple(tags), domain))

    def rename(self, trace_id: str, name: str) -> Entry:
        """Give a trace another name; its id stays."""
        return self._relabel(trace_id, lambda labels: replace(labels, name=name))

    def tag(self, trace_id: str, tags: Iterable[str]) -> Entry:
        """Put these tags on a trace, and no others."""
        return self._relabel(trace_id, lambda labels: replace(labels, tags=tuple(tags)))

    def file_under(self, trace_id: str, domain: str) -> Entry:
        """Say what domain the prompt of a trace is of; "" for none."""
        return self._relabel(trace_id, lambda labels: replace(labels, domain=domain))

    def delete(self, trace_id: str) -> None:
        """Remove a trace and its labels."""
        path = self._own_path(trace_id, "deleted")
        with self._written():
            path.unlink()
            path.with_suffix(".json").unlink(missing_ok=True)

    def _own(self, report: Callable[[str], None]) -> Iterator[Entry]:
        for found in own_files(self.folder, report):
            entry = self._listed(found, report)
            if entry is not None:
                yield entry.labelled(self._labels(found.id, found.path, report))

    def _shipped(self, report: Callable[[str], None]) -> Iterator[Entry]:
        for found in shipped_files(self.shipped):
            entry = self._listed(found, report)
            if entry is not None:
                yield entry.labelled(shipped_labels(found.path))

    @staticmethod
    def _listed(found: Found, report: Callable[[str], None]) -> Entry | None:
        try:
            return described(found.path, found.id, found.id.startswith(SHIPPED))
        except FileNotFoundError:  # somebody deleted it just now
            return None
        except (TraceFileError, OSError) as error:
            report(f"{found.path.name}: {plain(str(error), MAX_SENTENCE)}")
            return None

    def _labels(
        self, trace_id: str, path: Path, report: Callable[[str], None] | None = None
    ) -> Labels:
        """A trace whose labels are lost is listed under its id."""
        if trace_id.startswith(SHIPPED):
            return shipped_labels(path)
        beside = path.with_suffix(".json")
        try:
            labels = labels_in(beside) if beside.exists() else Labels(trace_id)
        except DataError as error:
            labels = Labels(trace_id)
            if report is not None:
                report(f"{beside.name}: {error}; give the trace {trace_id} its name again")
        return labels if labels.name else replace(labels, name=trace_id)

    def _relabel(self, trace_id: str, change: Callable[[Labels], Labels]) -> Entry:
        path = self._own_path(trace_id, "changed")
        with self._written():
            labels = _checked(change(self._labels(trace_id, path)))
            write_atomically(path.with_suffix(".json"), labels_to_json(labels))
        return self.entry(trace_id)

    def _keep(self, content: bytes, labels: Labels) -> Entry:
        labels = _checked(labels)
        with self._written():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_room(len(content))
            trace_id = f"{_readable(labels.name)}-{secrets.token_hex(4)}"
            path = self.folder / f"{trace_id}.parquet"
            write_atomically(path, content)
            try:
                write_atomically(path.with_suffix(".json"), labels_to_json(labels))
            except OSError:
                path.unlink()
                raise
        return self.entry(trace_id)

    def _with_content(self, content: bytes) -> str | None:
        """The id of the trace whose file has exactly this content."""
        files = (*own_files(self.folder, lambda _: None), *shipped_files(self.shipped))
        return next((found.id for found in files if holds(found.path, content)), None)

    def _check_room(self, size: int) -> None:
        kept = [found.path.stat().st_size for found in own_files(self.folder, lambda _: None)]
        if len(kept) >= MAX_TRACES or sum(kept) + size > MAX_FOLDER_BYTES:
            raise LibraryError(
                f"the library is full: {len(kept)} traces of {sum(kept) / 2**20:.0f} MB; delete "
                "some first"
            )

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Inside, this library alone writes, and a disk that refuses is a LibraryError."""
        with self._writing:
            try:
                yield
            except OSError as error:
                raise LibraryError(
                    f"the library cannot be written: {error.strerror or error}; free some space, "
                    "or set EAGLE3_VIZ_LIBRARY to another folder"
                ) from error

    def _own_path(self, trace_id: str, what: str) -> Path:
        path = self._path(trace_id)
        if trace_id.startswith(SHIPPED):
            raise LibraryError(
                f"{trace_id} ships with the program and cannot be {what}; download it and add it "
                "under a name of your own"
            )
        return path

    def _path(self, trace_id: str) -> Path:
        path = located(trace_id, self.folder, self.shipped)
        if path is None:
            raise LibraryError(
                f"the library has no trace {trace_id[:64]!r}; it may have been deleted"
            )
        return path


def _checked(labels: Labels) -> Labels:
    labels = labels.cleaned()
    if not labels.name:
        raise LibraryError("a trace needs a name with at least one visible character")
    return labels


def _readable(name: str) -> str:
    """The part of an id that people read; never the mark of what ships."""
    readable = slug(name) or "trace"
    return f"own-{readable}" if f"{readable}-".startswith(SHIPPED) else readable
