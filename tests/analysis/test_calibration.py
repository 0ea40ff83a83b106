"""Calibration against hand-made nodes and a draft that is right by construction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from eagle3_viz.analysis.calibration import path_reliability, token_reliability
from eagle3_viz.analysis.drafted_nodes import drafted_nodes
from eagle3_viz.records import NodeState
from tests.synthetic import make_trace


def nodes(**columns: list[float]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_bins_hold_means_counts_and_the_error_by_hand() -> None:
    found = token_reliability(nodes(q=[0.05, 0.15, 0.11, 1.0], p_raw=[0.0, 0.2, 0.4, 0.9]))
    assert found.bins.low_edge.tolist() == pytest.approx([0.0, 0.1, 0.9])
    assert found.bins.n.tolist() == [1, 2, 1]
    assert found.bins.confidence.tolist() == pytest.approx([0.05, 0.13, 1.0])
    assert found.bins.outcome.tolist() == pytest.approx([0.0, 0.3, 0.9])
    assert found.error == pytest.approx((0.05 + 2 * 0.17 + 0.1) / 4)
    assert found.n == 4 and found.bins.outcome_low.isna().all()


def test_accepted_paths_are_counted_with_their_interval() -> None:
    accepted, other = NodeState.ACCEPTED, NodeState.UNREACHED
    found = path_reliability(nodes(path_q=[0.55, 0.52, 0.58, 0.51], state=[accepted, *[other] * 3]))
    row = found.bins.iloc[0]
    assert (row.n, row.outcome) == (4, 0.25)
    assert 0 < row.outcome_low < 0.25 < row.outcome_high < 1


def test_a_perfect_draft_is_calibrated_and_a_bold_one_is_not() -> None:
    rng = np.random.default_rng(0)
    path_q = rng.uniform(size=20_000)
    state = np.where(rng.uniform(size=20_000) < path_q, NodeState.ACCEPTED, NodeState.REJECTED)
    perfect = path_reliability(pd.DataFrame({"path_q": path_q, "state": state}))
    bold = path_reliability(pd.DataFrame({"path_q": np.sqrt(path_q), "state": state}))
    assert perfect.error < 0.015 < 0.1 < bold.error


def test_nodes_without_a_probability_are_left_out() -> None:
    found = token_reliability(nodes(q=[0.5, np.nan, 0.5], p_raw=[0.5, 0.5, np.nan]))
    assert (found.n, found.error) == (1, 0.0)
    empty = token_reliability(drafted_nodes(make_trace(cycles=3, record="off")))
    assert empty.n == 0 and np.isnan(empty.error) and empty.bins.empty


def test_drafted_nodes_are_the_recorded_trees_without_their_roots() -> None:
    trace = make_trace(cycles=5, rule="topk")
    table = drafted_nodes(trace)
    assert len(table) == sum(cycle.verified - 1 for cycle in trace.cycles)
    for cycle in trace.cycles:
        assert cycle.nodes is not None
        own = table[table.cycle == cycle.index]
        assert own.node.tolist() == list(range(1, cycle.verified))
        np.testing.assert_allclose(own.q, np.exp(cycle.nodes.draft_logprob[1:]), rtol=1e-6)
        assert own.state.tolist() == cycle.nodes.state[1:].tolist()
