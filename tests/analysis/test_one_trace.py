"""What the Acceptance page says of one run, against pandas on the Parquet file alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eagle3_viz.analysis.by_depth import acceptance_by_rank, acceptance_with_intervals
from eagle3_viz.analysis.calibration import path_reliability, token_reliability
from eagle3_viz.analysis.drafted_nodes import drafted_nodes
from eagle3_viz.analysis.expected import expected_by_depth, judged_visits
from eagle3_viz.analysis.lengths import accepted_lengths, running_tau
from eagle3_viz.analysis.misses import Cause, cycle_endings, miss_shares
from eagle3_viz.analysis.worst import worst_cycles
from eagle3_viz.config import Method, Rule
from eagle3_viz.trace import Trace
from eagle3_viz.trace_file import save
from tests.acceptance_by_pandas import acceptance
from tests.synthetic import make_trace

RUNS: list[tuple[Method, Rule]] = [
    ("eagle3", "greedy"),
    ("eagle3", "topk"),
    ("eagle3", "sample"),
    ("eagle3", "typical"),
    ("eagle1", "topk"),
    ("lookup", "topk"),
]


@pytest.fixture(params=RUNS, ids=lambda run: " ".join(run), scope="module")
def run(request: Any, tmp_path_factory: Any) -> tuple[Trace, dict[str, Any]]:
    method, rule = request.param
    trace = make_trace(cycles=60, method=method, rule=rule, seed=3)
    path: Path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    save(trace, path)
    return trace, acceptance(path)


def test_acceptance_by_depth_is_what_pandas_finds(run: tuple[Trace, dict[str, Any]]) -> None:
    trace, found = run
    table, again = acceptance_with_intervals(trace), found["depth"]
    assert table.depth.tolist() == again.index.tolist()
    assert table.tested.tolist() == again.tested.tolist()
    assert table.accepted.tolist() == again.accepted.tolist()
    np.testing.assert_allclose(table.unconditional, again.unconditional)
    np.testing.assert_allclose(table.conditional, again.accepted / again.tested)


def test_the_rank_map_is_what_pandas_finds(run: tuple[Trace, dict[str, Any]]) -> None:
    trace, found = run
    table = acceptance_by_rank(drafted_nodes(trace)).set_index(["depth", "rank"])
    assert table.index.tolist() == found["rank"].index.tolist()
    assert table.tested.tolist() == found["rank"].seen.tolist()
    assert table.accepted.tolist() == found["rank"].hit.tolist()


def test_expected_acceptance_is_what_pandas_finds(run: tuple[Trace, dict[str, Any]]) -> None:
    trace, found = run
    table, again = expected_by_depth(judged_visits(trace)), found["depth"]
    assert table.n.tolist() == again.tested.tolist()
    assert table.accepted.tolist() == again.accepted.tolist()
    np.testing.assert_allclose(table.expected, again.expected)


def test_lengths_and_running_tau_are_what_pandas_finds(run: tuple[Trace, dict[str, Any]]) -> None:
    trace, found = run
    table = accepted_lengths(trace)
    occurring = table[table.cycles > 0]
    assert (
        dict(zip(occurring.accepted, occurring.cycles, strict=True)) == found["lengths"].to_dict()
    )
    np.testing.assert_allclose(running_tau(trace).tau, found["tau"])


def test_calibration_errors_are_what_pandas_finds(run: tuple[Trace, dict[str, Any]]) -> None:
    trace, found = run
    nodes = drafted_nodes(trace)
    assert token_reliability(nodes).error == pytest.approx(found["token_error"])
    assert path_reliability(nodes).error == pytest.approx(found["path_error"])


def test_causes_of_misses_are_what_pandas_finds(run: tuple[Trace, dict[str, Any]]) -> None:
    trace, found = run
    shares = miss_shares(cycle_endings(trace)).set_index("cause").misses
    counts = {cause.name.lower(): int(shares[cause.value]) for cause in Cause}
    assert {name: n for name, n in counts.items() if n} == found["misses"].to_dict()


def test_the_worst_cycles_are_what_pandas_finds(run: tuple[Trace, dict[str, Any]]) -> None:
    trace, found = run
    assert [cycle.index for cycle in worst_cycles(trace)] == found["worst"].tolist()
