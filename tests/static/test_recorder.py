"""Recordings end where their marks are, whatever happens, in memory that outlives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from eagle3_viz.static import recorder as recorder_module
from eagle3_viz.static.recorder import CudaGraphs


class Card:
    """The parts of `torch.cuda` that a recorder calls, for one stream that records or does not.

    pools: how many graphs there are in each; like torch, it refuses a pool that all have left.
    """

    def __init__(self) -> None:
        self.recording: Graph | None = None
        self.pools: dict[int, int] = {}
        self.log: list[str] = []
        card = self

        class Own(Graph):
            def __init__(self) -> None:
                super().__init__(card)

        self.CUDAGraph = Own

    def device(self, device: torch.device) -> Any:
        return nullcontext()

    stream = device

    def current_stream(self, device: torch.device) -> Any:
        return SimpleNamespace(wait_stream=lambda other: None)

    Stream = current_stream

    def synchronize(self, device: torch.device) -> None:
        assert self.recording is None

    def do(self, name: str) -> None:
        """An operation."""
        (self.log if self.recording is None else self.recording.noted).append(name)


class Graph:
    def __init__(self, card: Card) -> None:
        self.card, self.noted = card, list[str]()

    def capture_begin(self, pool: int | None, capture_error_mode: str) -> None:
        assert self.card.recording is None
        self._pool = len(self.card.pools) if pool is None else pool
        if pool is not None:
            assert self.card.pools[pool] > 0, "INTERNAL ASSERT FAILED"
        self.card.pools[self._pool] = self.card.pools.get(self._pool, 0) + 1
        self.card.recording = self

    def capture_end(self) -> None:
        assert self.card.recording is self
        self.card.recording = None

    def pool(self) -> int:
        return self._pool

    def replay(self) -> None:
        self.card.log += self.noted

    def __del__(self) -> None:
        if hasattr(self, "_pool"):
            self.card.pools[self._pool] -= 1


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    card = Card()
    monkeypatch.setattr(recorder_module, "torch", SimpleNamespace(cuda=card))
    yield card


def work(card: Card) -> Callable[[Callable[[str], None]], str]:
    def two_parts(mark: Callable[[str], None]) -> str:
        card.do("a")
        card.do("b")
        mark("first")
        card.do("c")
        mark("second")
        return "result"

    return two_parts


def test_a_run_replays_what_stands_before_each_mark_and_marks(card: Card) -> None:
    recorded = CudaGraphs(torch.device("cuda")).record(work(card), "pool")
    card.log.clear()
    assert recorded.run(lambda name: card.log.append(f"mark {name}")) == "result"
    assert card.log == ["a", "b", "mark first", "c", "mark second"]


def test_work_that_fails_ends_its_recording(card: Card) -> None:
    graphs = CudaGraphs(torch.device("cuda"))

    def failing(mark: Callable[[str], None]) -> None:
        mark("first")
        if card.recording is not None:
            raise ValueError("too much")

    with pytest.raises(ValueError, match="too much"):
        graphs.record(failing, "pool")
    assert card.recording is None
    assert graphs.record(work(card), "pool").run(lambda name: None) == "result"


def test_a_pool_can_be_recorded_into_after_its_recordings_were_dropped(card: Card) -> None:
    graphs = CudaGraphs(torch.device("cuda"))
    for _ in range(2):
        graphs.record(work(card), "pool")
    assert list(card.pools.values()) == [1]  # and nothing else is left of them
    graphs.record(work(card), "other")
    assert list(card.pools.values()) == [1, 1]
