"""Which files of a folder are traces, and what to say about those that are not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from eagle3_viz.config import METHODS
from eagle3_viz.library.entries import Labels
from eagle3_viz.presets import DOMAINS
from eagle3_viz.settings import METHOD_TITLES

SHIPPED = "shipped-"  # how the id of a trace begins that comes with the program
LIVE = "live"  # the id of the run that is on the screen, never one of the library
SUITES = "suites"  # the folder of suite results in that of the library
_ID = re.compile(r"[a-z0-9-]{1,64}")
_ADVICE = "move it elsewhere, or upload it"


@dataclass(frozen=True)
class Found:
    """A file that may be a trace, and the id it has then."""

    id: str
    path: Path


def own_files(folder: Path, report: Callable[[str], None]) -> Iterator[Found]:
    """The trace files in `folder`, the newest first; `report` hears about every other file.

    Hidden files are nobody's business, suite results that of another page. A folder that is not
    there holds nothing.
    """
    try:
        paths = [
            path
            for path in folder.iterdir()
            if not path.name.startswith(".") and path.name != SUITES
        ]
    except FileNotFoundError:
        return
    except OSError as error:
        report(f"{folder} cannot be read: {error.strerror}; set EAGLE3_VIZ_LIBRARY to another one")
        return
    traces = [path for path in paths if _is_own(path)]
    known = {path.stem for path in traces}
    for path in sorted(paths):
        labels = path.suffix == ".json" and path.stem in known
        if not labels and path not in traces:
            report(f"{path.name!r} is no trace of this library; {_ADVICE}")
    for path in sorted(traces, key=lambda path: (-_written_at(path), path.name)):
        yield Found(path.stem, path)


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # somebody deleted it just now
        return 0


def _is_own(path: Path) -> bool:
    return (
        path.suffix == ".parquet"
        and _ID.fullmatch(path.stem) is not None
        and not path.stem.startswith(SHIPPED)
        and path.stem != LIVE
        and path.is_file()
        and not path.is_symlink()
    )


def located(trace_id: str, own: Path, shipped: Path | None) -> Path | None:
    """The file of a trace, None where there is none of that id; an id can name no other folder."""
    if not _ID.fullmatch(trace_id):
        return None
    if not trace_id.startswith(SHIPPED):
        path = own / f"{trace_id}.parquet"
        return path if _is_own(path) else None
    if shipped is None:
        return None
    path = shipped / f"{trace_id.removeprefix(SHIPPED)}.parquet"
    return path if path.is_file() else None


def shipped_files(folder: Path | None) -> Iterator[Found]:
    """The trace files that come with the program, by method and domain."""
    if folder is None or not folder.is_dir():
        return
    paths = [path for path in folder.glob("*.parquet") if _ID.fullmatch(SHIPPED + path.stem)]
    for path in sorted(paths, key=_place):
        yield Found(SHIPPED + path.stem, path)


def _place(path: Path) -> tuple[int, int, str]:
    """The methods that speculate best first, the domains as everywhere."""
    method, domain = _named(path)
    return (
        -METHODS.index(method) if method in METHODS else 1,
        DOMAINS.index(domain) if domain in DOMAINS else len(DOMAINS),
        path.name,
    )


def _named(path: Path) -> tuple[str, str]:
    """Method and domain, which make the name of a file that ships."""
    method, _, domain = path.stem.partition("-")
    return method, domain


def shipped_labels(path: Path) -> Labels:
    """What the name of a file that ships says about it."""
    method, domain = _named(path)
    if method not in METHODS or domain not in DOMAINS:
        return Labels(path.stem)
    return Labels(f"{METHOD_TITLES[method]}, {domain}", domain=domain)
