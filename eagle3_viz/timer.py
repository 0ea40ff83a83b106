"""Consecutive laps on one device: CUDA events on a GPU, the monotonic clock on a CPU."""

from __future__ import annotations

import time

import torch

Moment = int | torch.cuda.Event  # ns of the host's clock, or an event on a GPU


class PhaseTimer:
    """Cuts time into consecutive named laps, without a device synchronization of its own.

    `start()` begins a measurement, `mark(name)` ends the lap that ran since the previous mark.
    `laps()` returns [(name, milliseconds)] and waits for what a GPU has not finished.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events = self._cuda = device.type == "cuda"
        self._last: Moment = 0
        self._laps: list[tuple[str, Moment, Moment]] = []

    def _now(self) -> Moment:
        if not self._events:
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def start(self) -> None:
        """Forget earlier laps and begin the first one now."""
        self._events = self._cuda
        self._laps, self._last = [], self._now()

    def mark(self, name: str) -> None:
        """End the current lap and call it `name`."""
        now = self._now()
        self._laps.append((name, self._last, now))
        self._last = now

    def skip(self) -> None:
        """What ran since the last mark belongs to no lap."""
        self._last = self._now()

    def settle(self) -> None:
        """Wait for everything up to the last mark; from here on the host's clock counts.

        For whoever waits for the device anyway: events that have passed cost no further wait.
        """
        if isinstance(self._last, torch.cuda.Event):
            self._last.synchronize()
        self._events = False
        self._last = self._now()

    def laps(self) -> list[tuple[str, float]]:
        """The laps since `start()`, in order, in milliseconds."""
        if isinstance(self._last, torch.cuda.Event):
            self._last.synchronize()
        return [(name, _elapsed_ms(before, after)) for name, before, after in self._laps]


def _elapsed_ms(before: Moment, after: Moment) -> float:
    if isinstance(before, int) and isinstance(after, int):
        return (after - before) / 1e6
    assert not isinstance(before, int) and not isinstance(after, int)
    return float(before.elapsed_time(after))
