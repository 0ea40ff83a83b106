"""Laps of one device's clock."""

from __future__ import annotations

import pytest
import torch

from eagle3_viz import timer as timer_module
from eagle3_viz.timer import PhaseTimer


def test_laps_follow_each_other_and_a_wait_in_between_is_nobodys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([1_000_000, 3_000_000, 9_000_000, 10_000_000, 10_500_000])
    monkeypatch.setattr(timer_module.time, "perf_counter_ns", lambda: next(clock))
    timer = PhaseTimer(torch.device("cpu"))
    timer.start()
    timer.mark("first")
    timer.settle()
    timer.mark("second")
    timer.mark("second")
    assert timer.laps() == [("first", 2.0), ("second", 1.0), ("second", 0.5)]
