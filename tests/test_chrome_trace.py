"""The timeline of a run: every phase once, end to end, with the record's own milliseconds."""

from __future__ import annotations

import json

import pytest

from eagle3_viz.chrome_trace import chrome_trace
from tests.synthetic import make_trace


def test_phases_follow_each_other_and_fill_their_cycles() -> None:
    cycles = make_trace().cycles
    events = json.loads(chrome_trace(cycles))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    of_cycles = [span for span in spans if span["tid"] == 1]
    phases = [span for span in spans if span["tid"] == 2]
    assert [span["name"] for span in of_cycles] == [f"cycle {c.index + 1}" for c in cycles]
    end = 0.0
    for span in phases:
        assert span["ts"] == pytest.approx(end, abs=2e-3)
        end = span["ts"] + span["dur"]
    total = sum(cycle.timing.total + cycle.timing.record for cycle in cycles)
    assert end == pytest.approx(1e3 * total, abs=0.01 * len(phases))
    for span, cycle in zip(of_cycles, cycles, strict=True):
        assert span["dur"] == pytest.approx(1e3 * (cycle.timing.total + cycle.timing.record), abs=1)
        assert span["args"]["tokens"] == len(cycle.tokens)
    names = [
        name
        for cycle in cycles
        for name in (
            *(f"draft level {n}" for n in range(1, len(cycle.timing.draft_levels) + 1)),
            *("tree", "verify", "accept", "commit", "record"),
        )
    ]
    assert [span["name"] for span in phases] == names
