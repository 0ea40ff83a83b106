"""What a long trace costs the pages: 500 cycles of 60 nodes, everything recorded.

    python -m benchmarks.bench_ui [--cycles 500] [--nodes 60] [--csv FILE]

Measured: memory of an open trace, packing it for the browser, every figure with the table behind
it, opening the Trace and Acceptance pages at the server, one scrub step at the server, and in
Chromium opening the Trace page and one scrub step of its view. Medians in milliseconds; a row a
measurement goes to the CSV with machine, versions and command. Measure on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median

import pandas as pd
import plotly.graph_objects as go
import torch
from playwright.sync_api import sync_playwright
from streamlit.testing.v1 import AppTest

from benchmarks.serving import ROOT, chromium, served
from eagle3_viz import trace_file
from eagle3_viz.analysis import by_depth, calibration, expected, lengths, misses
from eagle3_viz.analysis.drafted_nodes import drafted_nodes
from eagle3_viz.component.packed import packed_trace
from eagle3_viz.config import TreeShape
from eagle3_viz.cycle_view import distributions_at
from eagle3_viz.figures import (
    acceptance_calibration,
    acceptance_depth,
    acceptance_heat,
    acceptance_tau,
)
from eagle3_viz.figures.distributions import next_tokens
from eagle3_viz.figures.histogram import accepted_per_cycle
from eagle3_viz.figures.timings import time_per_cycle
from eagle3_viz.library import place
from eagle3_viz.provenance import measured_on
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace

RESULTS = ROOT / ".work" / "bench_ui.csv"
REPEATS = 7
STEPS = 40  # scrub steps in the browser

SCRUB = """async (slider, steps) => {
    const times = [];
    for (let i = 0; i < steps; i += 1) {
        const start = performance.now();
        slider.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
        await new Promise((done) => requestAnimationFrame(() => {
            document.body.getBoundingClientRect();
            times.push(performance.now() - start);
            setTimeout(done, 20);
        }));
    }
    return times;
}"""


def milliseconds(action: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median of `repeats` runs after one that is not counted."""
    action()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def memory_of(data: bytes) -> Iterator[tuple[str, float]]:
    """Megabytes that a trace holds once it is open, and with its packed text."""
    tracemalloc.start()
    trace = trace_file.from_bytes(data)
    yield "memory of a trace, MB", tracemalloc.get_traced_memory()[0] / 1e6
    packed = packed_trace(trace, name="long")
    yield "memory of a trace and its packed text, MB", tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    yield "packed text, MB", len(packed) / 1e6
    yield "packing, ms", milliseconds(lambda: packed_trace(trace, name="long"), 3)


def figures(trace: Trace) -> dict[str, Callable[[], go.Figure]]:
    """Every figure of the pages together with the table it draws."""
    cycle = trace.cycles[len(trace.cycles) // 2]
    at = distributions_at(cycle, 0)
    assert at is not None
    endings = misses.cycle_endings
    return {
        "next tokens": lambda: next_tokens(trace, at, after=cycle.root),
        "accepted per cycle": lambda: accepted_per_cycle(trace),
        "time per cycle": lambda: time_per_cycle(trace, selected=0),
        "acceptance by depth": lambda: acceptance_depth.depth_figure(
            by_depth.acceptance_with_intervals(trace)
        ),
        "expected acceptance": lambda: acceptance_depth.expected_figure(
            expected.expected_by_depth(expected.judged_visits(trace))
        ),
        "depth and rank": lambda: acceptance_heat.rank_figure(
            by_depth.acceptance_by_rank(drafted_nodes(trace)), by_depth.LAST_RANK
        ),
        "misses": lambda: acceptance_heat.miss_figure(
            misses.misses_by_depth(endings(trace)), misses.miss_shares(endings(trace))
        ),
        "running tau": lambda: acceptance_tau.running_tau_figure(
            lengths.running_tau(trace), lengths.WINDOW
        ),
        "calibration": lambda: acceptance_calibration.reliability_figure(
            calibration.token_reliability(drafted_nodes(trace)), title="t", x="q", y="p"
        ),
    }


def opened_page(name: str, trace_id: str) -> tuple[AppTest, float]:
    """A page drawn without a browser, and the milliseconds of its first script run."""
    page = AppTest.from_file(str(ROOT / "pages" / f"{name}.py"), default_timeout=60)
    page.query_params["trace"] = trace_id
    start = time.perf_counter()
    page.run()
    assert not page.exception
    return page, (time.perf_counter() - start) * 1e3


def at_the_server(trace_id: str) -> Iterator[tuple[str, float]]:
    """Script runs of the pages."""
    _, acceptance_ms = opened_page("acceptance", trace_id)
    yield "acceptance page opens at the server, ms", acceptance_ms
    page, trace_ms = opened_page("trace", trace_id)
    yield "trace page opens at the server, ms", trace_ms
    cycles = count(2)
    yield (
        "scrub step at the server, ms",
        milliseconds(lambda: page.number_input[0].set_value(next(cycles)).run()),
    )


def in_the_browser(trace_id: str) -> Iterator[tuple[str, float]]:
    """Chromium at 1280 x 800: until the tree is drawn, and from a key to the drawn cycle.

    The browser is there before the server, so the first visit begins the moment it answers.
    """
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        with served() as server:
            for visit in ("first", "second"):
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                start = time.perf_counter()
                page.goto(f"{server.url}/trace?trace={trace_id}")
                page.locator(".st-key-trace_component svg.tree [data-node='0']").wait_for(
                    timeout=60_000
                )
                opened = (time.perf_counter() - start) * 1e3
                yield f"trace page opens in the browser, {visit} visit, ms", opened
            page.wait_for_timeout(1000)
            times = page.locator(".st-key-trace_component .scrubber").evaluate(SCRUB, STEPS)
            yield "scrub step in the component, ms", median(times)
            yield "scrub step in the component, slowest, ms", max(times)
        browser.close()


def measurements(cycles: int, nodes: int) -> Iterator[tuple[str, float]]:
    """Name and value of everything that is measured, one after the other."""
    trace = make_trace(cycles=cycles, shape=TreeShape(nodes, 5, 10), rule="topk")
    data = trace_file.to_bytes(trace)
    yield "file, MB", len(data) / 1e6
    yield "opening the file, ms", milliseconds(lambda: trace_file.from_bytes(data), 3)
    yield from memory_of(data)
    for name, build in figures(trace).items():
        yield f"figure: {name}, ms", milliseconds(build)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EAGLE3_VIZ_LIBRARY"] = folder
        entry = place.shared().add(data, "a long run")
        yield from at_the_server(entry.id)
        yield from in_the_browser(entry.id)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows = []
    for name, value in measurements(arguments.cycles, arguments.nodes):
        print(f"{name:52} {value:8.2f}", flush=True)
        rows.append({"measured": name, "value": round(value, 2)})
    about = {
        "cycles": arguments.cycles,
        "nodes": arguments.nodes,
        **measured_on(torch.device("cpu")),
    }
    arguments.csv.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([row | about for row in rows]).to_csv(arguments.csv, index=False)
    print(f"written to {arguments.csv}")


if __name__ == "__main__":
    main()
