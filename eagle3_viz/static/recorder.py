"""Work that is done again and again on the same buffers: called again, or replayed as CUDA graphs.

Replayed work must not depend on anything but the contents of tensors: what Python decided when it
was recorded stays decided, and so do the addresses.
"""

from __future__ import annotations

import gc
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

    def record(self, work: Work[T]) -> Recorded[T]:
        """Record `work`. Its last act must be a call of the `mark` it is given.

        It may be called several times before it is run once, and must not mind.
        """


class Called:
    """No recording: the work is called every time."""

    def record(self, work: Work[T]) -> Recorded[T]:
        """As `Recorder.record`."""
        return _Call(work)


class _Call(Generic[T]):
    def __init__(self, work: Work[T]) -> None:
        self.run = work


class CudaGraphs:
    """Records CUDA graphs, one from each mark to the next, in one pool of memory.

    The work's tensors live in that pool: a later run finds its results where the first one did.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Work[T]) -> Recorded[T]:
        """As `Recorder.record`."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            for _ in range(WARM_UPS):
                work(lambda name: None)
            torch.cuda.synchronize(self._device)
            gc.collect()  # a tensor that is freed during the recording would break it
            pieces = _Pieces(self._pool)
            result = work(pieces.end)
            pieces.close()
        current.wait_stream(self._stream)
        return _Replayed(pieces.done, result)


class _Pieces:
    """The graphs of one recording, by the name of the mark that ends each."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.done: list[tuple[str, torch.cuda.CUDAGraph]] = []
        self._begin()

    def _begin(self) -> None:
        self._open = torch.cuda.CUDAGraph()
        self._open.capture_begin(pool=self._pool)

    def end(self, name: str) -> None:
        self._open.capture_end()
        self.done.append((name, self._open))
        self._begin()

    def close(self) -> None:
        """Drop what was begun behind the last mark."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
            self._open.capture_end()


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
