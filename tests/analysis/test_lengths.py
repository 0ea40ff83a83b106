"""tau, its interval and its course, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eagle3_viz.analysis.lengths import WINDOW, accepted_lengths, running_tau, tau_estimate
from eagle3_viz.metrics import summary
from tests.synthetic import make_trace


def test_tau_is_that_of_the_summary_inside_its_interval() -> None:
    trace = make_trace(cycles=40, rule="topk")
    tau = tau_estimate(trace)
    assert tau is not None
    assert tau.value == pytest.approx(summary(trace).tau)
    assert 1 <= tau.low < tau.value < tau.high
    assert tau.n == sum(not cycle.cut for cycle in trace.cycles)


def test_the_interval_of_tau_is_about_two_standard_errors_wide() -> None:
    trace = make_trace(cycles=20, rule="topk", finish=None)
    trace.cycles *= 20
    lengths = [len(cycle.tokens) for cycle in trace.cycles]
    tau = tau_estimate(trace)
    assert tau is not None
    error = np.std(lengths, ddof=1) / np.sqrt(len(lengths))
    assert (tau.high - tau.low) / 2 == pytest.approx(1.96 * error, rel=0.1)


def test_a_run_of_one_cut_cycle_has_no_tau() -> None:
    trace = make_trace(cycles=30, rule="topk")
    cut = [cycle for cycle in trace.cycles if cycle.cut]
    assert len(cut) == 1
    alone = replace(trace, cycles=cut)
    assert tau_estimate(alone) is None
    assert running_tau(alone).empty and accepted_lengths(alone).empty


def test_positions_count_prefill_s_token_and_every_kept_one() -> None:
    trace = make_trace(cycles=25, rule="topk", finish=None)
    table = running_tau(trace)
    assert table.position.iloc[-1] == len(trace.tokens)
    assert table.position.iloc[0] == 1 + len(trace.cycles[0].tokens)
    assert table.tau.iloc[-1] == pytest.approx(summary(trace).tau)


def test_the_moving_tau_is_over_the_last_cycles() -> None:
    table = running_tau(make_trace(cycles=30, rule="topk", finish=None))
    assert table.moving[: WINDOW - 1].isna().all()
    assert table.moving.iloc[-1] == pytest.approx(table.tokens[-WINDOW:].mean())


def test_shares_of_lengths_sum_to_one() -> None:
    table = accepted_lengths(make_trace(cycles=60, rule="topk"))
    assert table.share.sum() == pytest.approx(1)
    assert ((table.share_low <= table.share) & (table.share <= table.share_high)).all()
