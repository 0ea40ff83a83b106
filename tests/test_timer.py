"""Laps of one device's clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from eagle3_viz import timer as timer_module
from eagle3_viz.timer import PhaseTimer


def test_laps_follow_each_other_and_a_wait_in_between_is_nobodys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([1_000_000, 3_000_000, 9_000_000, 10_000_000, 12_000_000, 12_500_000])
    monkeypatch.setattr(timer_module.time, "perf_counter_ns", lambda: next(clock))
    timer = PhaseTimer(torch.device("cpu"))
    timer.start()
    timer.mark("first")
    timer.settle()
    timer.mark("second")
    timer.skip()
    timer.mark("second")
    assert timer.laps() == [("first", 2.0), ("second", 1.0), ("second", 0.5)]


def test_the_clock_is_the_stream_of_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Any] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self, stream: Any = "of the current device") -> None:
            recorded.append(stream)

    cuda = SimpleNamespace(Event=Event, current_stream=lambda device: f"of {device}")
    monkeypatch.setattr(torch, "cuda", cuda)
    timer = PhaseTimer(torch.device("cuda", 1))
    timer.start()
    timer.mark("first")
    assert recorded == ["of cuda:1", "of cuda:1"]


class Event:
    """An event of a device whose clock is a count of events."""

    count = 0
    waited = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: object) -> None:
        Event.count += 1
        self.at = Event.count

    def synchronize(self) -> None:
        Event.waited += 1

    def elapsed_time(self, later: Event) -> float:
        return float(later.at - self.at)


def test_on_a_gpu_events_are_waited_for_once_and_the_hosts_clock_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([5_000_000, 9_000_000])
    monkeypatch.setattr(timer_module.time, "perf_counter_ns", lambda: next(clock))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    timer = PhaseTimer(torch.device("cuda"))
    timer.start()
    timer.mark("draft")
    timer.mark("verify")
    timer.settle()
    timer.mark("commit")
    assert timer.laps() == [("draft", 1.0), ("verify", 1.0), ("commit", 4.0)]
    assert Event.waited == 1
