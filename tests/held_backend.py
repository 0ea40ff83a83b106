"""A backend whose every boundary can be held by a test, and waiting for what follows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from eagle3_viz.backend import PairChoice, Progress, Request
from eagle3_viz.config import DecodeConfig
from eagle3_viz.trace import Baseline, Trace
from eagle3_viz.tree_choice.choice import TreeChoice, choose
from tests.synthetic import make_trace
from tests.tree_choice.made_up import COST, KNOWN

WAIT = 30.0  # seconds until a test gives up; collecting a loaded pair takes some
BASELINE = Baseline(20.0, 32, "2025-01-01T00:00:00+00:00", "made up")
CHOSEN = (choose("eagle3", COST, KNOWN),)


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.002)


@dataclass
class ManualClock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeBackend:
    """Replays a synthetic trace; every boundary can be held by the test."""

    cycles: int = 6
    order: list[str] = field(default_factory=list)
    loads: list[str | None] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)
    baselines: list[Baseline] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    renewals: list[tuple[str, str]] = field(default_factory=list)
    judgements: list[tuple[str, int]] = field(default_factory=list)
    loading: threading.Event = field(default_factory=threading.Event)
    measuring: threading.Event = field(default_factory=threading.Event)
    token: threading.Event = field(default_factory=threading.Event)
    cycle: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(10_000))

    def __post_init__(self) -> None:
        self.loading.set()
        self.token.set()

    def pairs(self) -> tuple[PairChoice, ...]:
        return (PairChoice("x", "a made-up pair"),)

    def load(self, name: str | None, progress: Progress) -> str:
        progress("reading weights", 0, 2)
        self.loading.wait(WAIT)
        progress("reading draft", 1, 2)
        if name == "broken":
            raise ValueError("pair 'broken' has no draft\nsecond line")
        self.loads.append(name)
        return f"pair {name}"

    def trees(self, pair: str) -> tuple[TreeChoice, ...]:
        return CHOSEN if pair.startswith("pair x") else ()

    def renewed(self, pair: str, request: Request, progress: Progress) -> str:
        progress("measuring again", 0, 1)
        self.renewals.append((pair, request.prompt))
        return pair

    def judged(self, pair: str, trace: Trace) -> str:
        self.judgements.append((pair, len(trace.cycles)))
        return f"{pair.removesuffix(' judged')} judged"

    def measure(
        self, pair: str, request: Request, progress: Callable[[Trace, int], None]
    ) -> Baseline:
        self.measuring.set()
        whole = make_trace(cycles=3, method="ar")
        for done in range(3):
            progress(Trace(whole.header, whole.prefill, whole.cycles[:done]), 3)
            self.token.wait(WAIT)
        self.measured.append(request.prompt)
        return BASELINE

    def run(self, pair: str, request: Request, baseline: Baseline) -> Generator[Trace, None, None]:
        self.order.append(request.prompt)
        self.baselines.append(baseline)
        whole = make_trace(cycles=self.cycles)
        trace = Trace(whole.header, whole.prefill, [], whole.token_bytes)
        try:
            yield trace
            for cycle in whole.cycles:
                assert self.cycle.acquire(timeout=WAIT)
                if request.prompt == "explode":
                    raise RuntimeError("kernel launch failed\nwith details")
                trace.cycles.append(cycle)
                yield trace
        except GeneratorExit:
            self.closed.append(request.prompt)
            raise


def request(prompt: str, *, pair: str | None = None, method: str = "eagle3") -> Request:
    return Request(prompt, DecodeConfig(method=method), pair=pair)  # type: ignore[arg-type]
