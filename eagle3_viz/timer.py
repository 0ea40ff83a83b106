"""Consecutive laps on one device: CUDA events on a GPU, the monotonic clock on a CPU."""

from __future__ import annotations

import time

import torch


class PhaseTimer:
    """Cuts time into consecutive named laps, without a device synchronization of its own.

    `start()` begins a measurement, `mark(name)` ends the lap that ran since the previous mark.
    `laps()` returns [(name, milliseconds)] and waits for the device on a GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._marks: list[tuple[str, int | torch.cuda.Event]] = []

    def _now(self) -> int | torch.cuda.Event:
        if not self._cuda:
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self) -> None:
        """Forget earlier laps and begin the first one now."""
        self._marks = [("", self._now())]

    def mark(self, name: str) -> None:
        """End the current lap and call it `name`."""
        self._marks.append((name, self._now()))

    def laps(self) -> list[tuple[str, float]]:
        """The laps since `start()`, in order, in milliseconds."""
        if self._cuda:
            last = self._marks[-1][1]
            assert isinstance(last, torch.cuda.Event)
            last.synchronize()
        return [
            (name, _elapsed_ms(before, after))
            for (_, before), (name, after) in zip(self._marks, self._marks[1:], strict=False)
        ]


def _elapsed_ms(before: int | torch.cuda.Event, after: int | torch.cuda.Event) -> float:
    if isinstance(before, int) and isinstance(after, int):
        return (after - before) / 1e6
    assert not isinstance(before, int) and not isinstance(after, int)
    return float(before.elapsed_time(after))
