"""How long a call takes on a device, and the least it could take there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

WARM_UP = 3
MEASURED_US = 30_000  # a measurement repeats a call for about so long
LEAST, MOST = 10, 100  # repetitions


@dataclass(frozen=True)
class Limits:
    """What the device does at best: bytes moved, and bfloat16 operations in matrix products."""

    bytes_per_us: float
    operations_per_us: float

    def floor_us(self, size: int, operations: int = 0) -> float:
        """The longer of moving `size` bytes and carrying out `operations`."""
        return max(size / self.bytes_per_us, operations / self.operations_per_us)


class Timer:
    """Medians of repeated calls on a GPU, by events on the device. Each begins with an empty L2
    cache, as in a model whose weights pass through it between two calls. Elsewhere, where only the
    check itself is tried, a single call is timed."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        if self._cuda:
            cache = torch.cuda.get_device_properties(device).L2_cache_size
            self._flushed = torch.empty(max(2 * cache, 2**26), dtype=torch.uint8, device=device)

    def median_us(self, call: Callable[[], object]) -> float:
        """Microseconds of a call, its launches on the host included unless the device lags."""
        if not self._cuda:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e6
        fastest = min(self._once(call) for _ in range(WARM_UP))
        repetitions = min(max(int(MEASURED_US / fastest), LEAST), MOST)
        return median(self._once(call) for _ in range(repetitions))

    def _once(self, call: Callable[[], object]) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flushed.zero_()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3

    def replay(self, call: Callable[[], object]) -> Callable[[], object]:
        """`call` captured in a CUDA graph, so that the host's part is left out; elsewhere itself.

        Its outputs stand where it writes them; what it returns is gone.
        """
        if not self._cuda:
            return call
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            call()  # compiles: not allowed while a graph is captured
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay
