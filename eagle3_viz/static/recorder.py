"""Work that is done again and again on the same buffers: called again, or replayed as CUDA graphs.

Replayed work must not depend on anything but the contents of tensors: what Python decided when it
was recorded stays decided, and so do the addresses.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import torch

from eagle3_viz.tree import Mark

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Work = Callable[[Mark], T]
WARM_UPS = 2  # calls that compile kernels and fill what is computed once


class Recorded(Protocol[T_co]):
    """Work that can be done again."""

    def run(self, mark: Mark) -> T_co:
        """Do it; `mark` is called where the work called it. Returns what the work returned."""


class Recorder(Protocol):
    """How work is recorded."""

    def record(self, work: Work[T], pool: str) -> Recorded[T]:
        """Record `work`. Its last act must be a call of the `mark` it is given.

        It may be called several times before it is run once, and must not mind. pool: what a run
        returns may be overwritten when another recording of the same pool is run, and not before.
        """


class Called:
    """No recording: the work is called every time."""

    def record(self, work: Work[T], pool: str) -> Recorded[T]:
        """As `Recorder.record`."""
        return _Call(work)


class _Call(Generic[T]):
    def __init__(self, work: Work[T]) -> None:
        self.run = work


class CudaGraphs:
    """Records CUDA graphs, one from each mark to the next.

    The work's tensors live in its pool: a later run finds its results where the first one did.
    Memory that one recording has let go may be given to the next, results included: so a pool
    serves recordings only whose results are not needed at the same time.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pools: dict[str, torch.cuda.CUDAGraph] = {}

    def record(self, work: Work[T], pool: str) -> Recorded[T]:
        """As `Recorder.record`."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            for _ in range(WARM_UPS):
                work(lambda name: None)
            torch.cuda.synchronize(self._device)
            pieces = _Pieces(self._memory(pool))
            try:
                result = work(pieces.end)
            finally:  # or the stream would go on recording for ever
                pieces.close()
        current.wait_stream(self._stream)
        return _Replayed(pieces.done, result)

    def _memory(self, pool: str) -> Any:
        """Its handle. An empty graph keeps it: torch takes none back that all graphs have left."""
        if pool not in self._pools:
            self._pools[pool] = _Pieces(None).close()
        return self._pools[pool].pool()


class _Pieces:
    """The graphs of one recording, by the name of the mark that ends each."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.done: list[tuple[str, torch.cuda.CUDAGraph]] = []
        self._begin()

    def _begin(self) -> None:
        self._open = torch.cuda.CUDAGraph()
        # what other threads ask of the device meanwhile is not a part of it, nor does it end it
        self._open.capture_begin(pool=self._pool, capture_error_mode="thread_local")

    def end(self, name: str) -> None:
        self._open.capture_end()
        self.done.append((name, self._open))
        self._begin()

    def close(self) -> torch.cuda.CUDAGraph:
        """End and return what was begun behind the last mark."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
            self._open.capture_end()
        return self._open


class _Replayed(Generic[T]):
    def __init__(self, pieces: list[tuple[str, torch.cuda.CUDAGraph]], result: T) -> None:
        self._pieces, self._result = pieces, result

    def run(self, mark: Mark) -> T:
        for name, graph in self._pieces:
            graph.replay()
            mark(name)
        return self._result


def recorder_for(device: torch.device) -> Recorder:
    """CUDA graphs where there are any."""
    return CudaGraphs(device) if device.type == "cuda" else Called()
