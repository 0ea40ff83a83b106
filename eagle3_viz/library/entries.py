"""What the list of the library says about a trace, and what its owner said about it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from eagle3_viz import trace_file, trace_provenance
from eagle3_viz.library.words import MAX_NAME, MAX_TAG, plain, tags_of
from eagle3_viz.metrics import summary
from eagle3_viz.text_lines import DataError

MAX_PROMPT = 200  # characters shown of a prompt
MAX_LABELS_BYTES = 16_384
_FIELDS = {"name", "tags", "domain"}


@dataclass(frozen=True)
class Labels:
    """What people say about a trace; empty where nobody said anything."""

    name: str
    tags: tuple[str, ...] = ()
    domain: str = ""

    def cleaned(self) -> Labels:
        """The same, each a bounded line of plain text."""
        return Labels(plain(self.name, MAX_NAME), tags_of(self.tags), plain(self.domain, MAX_TAG))


@dataclass(frozen=True)
class Entry:
    """One trace of the library. None where the run has nothing to compute a number from.

    id        URL-safe, [a-z0-9-]{1,64}; of a trace that ships with the program "shipped-...".
    shipped   read-only, comes with the program.
    domain    of the prompt, "" where it is not known.
    tau       tokens per cycle; speedup over autoregression (MATH.md 4).
    bytes     size of the Parquet file.
    """

    id: str
    name: str
    tags: tuple[str, ...]
    shipped: bool
    domain: str
    method: str
    rule: str
    pair: str
    prompt: str
    started_at: str
    cycles: int
    tokens: int
    tau: float | None
    speedup: float | None
    bytes: int

    def labelled(self, labels: Labels) -> Entry:
        """The same trace under other labels."""
        return replace(self, name=labels.name, tags=labels.tags, domain=labels.domain)


def described(path: Path, trace_id: str, shipped: bool) -> Entry:
    """The entry of the trace file at `path`, named by its id. Raises `TraceFileError`."""
    return _described(path, trace_id, shipped, path.stat().st_mtime_ns)


@lru_cache(maxsize=4096)
def _described(path: Path, trace_id: str, shipped: bool, _stamp: int) -> Entry:
    """Kept until the file changes: a list is drawn far more often than a file is written."""
    trace = trace_file.outline(path)
    header, numbers = trace.header, summary(trace)
    return Entry(
        id=trace_id,
        name=trace_id,
        tags=(),
        shipped=shipped,
        domain="",
        method=header.method,
        rule=header.rule,
        pair=plain(header.pair, MAX_NAME),
        prompt=plain(header.prompt, MAX_PROMPT),
        started_at=plain(header.started_at, MAX_NAME),
        cycles=numbers.cycles,
        tokens=numbers.tokens,
        tau=numbers.tau,
        speedup=numbers.speedup,
        bytes=path.stat().st_size,
    )


def distinct_names(names: Mapping[str, str]) -> dict[str, str]:
    """What to call each trace, by its id: its name, with the id where two have the same."""
    times = Counter(names.values())
    return {
        trace_id: name if times[name] == 1 else f"{name} ({trace_id})"
        for trace_id, name in names.items()
    }


def labels_to_json(labels: Labels) -> bytes:
    """The content of the file beside a trace."""
    return json.dumps(asdict(labels), ensure_ascii=False, indent=1).encode("utf-8")


def labels_in(path: Path) -> Labels:
    """The labels in the file at `path`. Raises DataError when they cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_LABELS_BYTES + 1)
        if len(data) > MAX_LABELS_BYTES:
            raise DataError(f"it is longer than {MAX_LABELS_BYTES} bytes")
        return _labels(trace_provenance.parsed(data.decode("utf-8"), "labels")).cleaned()
    except OSError as error:
        raise DataError(f"it cannot be read: {error.strerror}") from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"it is damaged: {trace_file.first_line(error)}") from error


def _labels(data: Any) -> Labels:
    if not isinstance(data, dict) or set(data) != _FIELDS:
        raise DataError(f"expected the fields {sorted(_FIELDS)}")
    texts = (data["name"], data["domain"])
    tags = data["tags"]
    if not all(isinstance(text, str) for text in texts) or not (
        isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
    ):
        raise DataError("expected name and domain as text, and tags as a list of texts")
    return Labels(data["name"], tuple(tags), data["domain"])
