"""The phases of a run as a timeline for chrome://tracing and ui.perfetto.dev."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from eagle3_viz.records import Cycle, Timing


def chrome_trace(cycles: Sequence[Cycle]) -> str:
    """JSON in the trace event format: a lane of cycles, one of their phases below it.

    Phases stand one after the other as they ran; time between cycles is not in the record.
    """
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "eagle3_viz"}},
        *_lane(1, "cycles"),
        *_lane(2, "phases"),
    ]
    start = 0.0
    for cycle in cycles:
        spans = list(_phases(cycle.timing))
        length = sum(ms for _, ms in spans)
        about = {
            "tokens": len(cycle.tokens),
            "accepted": cycle.accepted,
            "verified": cycle.verified,
            "prefix": cycle.prefix_length,
        }
        events.append(_span(1, f"cycle {cycle.index + 1}", start, length, about))
        for name, ms in spans:
            events.append(_span(2, name, start, ms, {}))
            start += ms
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _phases(timing: Timing) -> Iterator[tuple[str, float]]:
    """Phase and milliseconds, in order; the tree is built between the draft's levels."""
    for level, ms in enumerate(timing.draft_levels, start=1):
        yield f"draft level {level}", ms
    for name in ("tree", "verify", "accept", "commit", "record"):
        yield name, getattr(timing, name)


def _span(lane: int, name: str, start: float, ms: float, about: dict[str, int]) -> dict[str, Any]:
    """One bar; the format counts in microseconds."""
    place = {"ph": "X", "pid": 1, "tid": lane, "name": name}
    return {**place, "ts": round(1e3 * start, 3), "dur": round(1e3 * ms, 3), "args": about}


def _lane(lane: int, name: str) -> list[dict[str, Any]]:
    named = {"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}}
    order = {
        "ph": "M",
        "name": "thread_sort_index",
        "pid": 1,
        "tid": lane,
        "args": {"sort_index": lane},
    }
    return [named, order]
