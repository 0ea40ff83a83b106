"""A backend without models: synthetic traces, cycle by cycle, for tests of what stands in front."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from eagle3_viz.backend import PairChoice, Progress, Request
from eagle3_viz.trace import Baseline, Trace
from eagle3_viz.tree_choice.choice import TreeChoice
from tests.synthetic import make_trace

BASELINE = Baseline(20.0, 32, "2025-01-01T00:00:00+00:00", "made up")
PAIRS = (
    PairChoice("made-up", "A made-up pair"),
    PairChoice("huge", "A huge pair", "needs 145 GB and a download; not tried here"),
)


@dataclass
class SyntheticBackend:
    """Replays `make_trace` of the request's method, tree and rule with `pause` s before a cycle.

    The prompt "fail" raises on its first cycle; "slow" has ten times the pause.
    """

    cycles: int = 12
    pause: float = 0.0
    loading: float = 0.0
    chosen: tuple[TreeChoice, ...] = ()

    def pairs(self) -> tuple[PairChoice, ...]:
        return PAIRS

    def load(self, name: str | None, progress: Progress) -> str:
        for done in range(3):
            progress("Reading weights", done, 3)
            time.sleep(self.loading / 3)
        return f"pair {name}"

    def trees(self, pair: str) -> tuple[TreeChoice, ...]:
        return self.chosen

    def renewed(self, pair: str, request: Request, progress: Progress) -> str:
        return pair

    def judged(self, pair: str, trace: Trace) -> str:
        return pair

    def measure(
        self, pair: str, request: Request, progress: Callable[[Trace, int], None]
    ) -> Baseline | None:
        return BASELINE

    def run(
        self, pair: str, request: Request, baseline: Baseline | None
    ) -> Generator[Trace, None, None]:
        config = request.config
        whole = make_trace(
            cycles=self.cycles,
            seed=config.seed,
            shape=config.shape,
            rule=config.rule or "greedy",
            record=config.record,
            method=config.method,
        )
        header = replace(whole.header, baseline=baseline, prompt=request.prompt)
        trace = Trace(header, whole.prefill, [], whole.token_bytes)
        yield trace
        for cycle in whole.cycles:
            time.sleep(self.pause * (10 if request.prompt == "slow" else 1))
            if request.prompt == "fail":
                raise ValueError("the made-up pair <b>failed</b> as asked")
            trace.cycles.append(cycle)
            yield trace
