"""The suites that a page can open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eagle3_viz.suite.manifest import MANIFEST

MOST = 200  # suites listed


@dataclass(frozen=True)
class SuiteFolder:
    """id: the name of the folder, made unique among those found. path: where it is."""

    id: str
    path: Path


def suites_in(folders: Iterable[Path]) -> tuple[SuiteFolder, ...]:
    """The folders in `folders` that `python -m eagle3_viz suite --out` wrote, by name.

    A folder that cannot be read has none.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        for path in _children(folder):
            name, copy = path.name, 2
            while name in found:
                name, copy = f"{path.name} ({copy})", copy + 1
            found[name] = path
    return tuple(SuiteFolder(name, path) for name, path in list(found.items())[:MOST])


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if (path / MANIFEST).is_file())
    except OSError:
        return []


def traces_stamp(folder: Path) -> tuple[int, int]:
    """Newest change, in ns, and number of the suite's files: another stamp, another content."""
    times = [path.stat().st_mtime_ns for path in folder.rglob("*.parquet")]
    times.append((folder / MANIFEST).stat().st_mtime_ns)
    return max(times), len(times)
