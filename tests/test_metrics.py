"""Metrics against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eagle3_viz.metrics import acceptance_by_depth, has_loop, summary
from eagle3_viz.records import Cycle, Origin, Timing
from eagle3_viz.trace import Baseline, Trace
from tests.synthetic import make_trace

A, R, B = Origin.ACCEPTED, Origin.RECOVERED, Origin.BONUS


def cycle(origins: tuple[Origin, ...], *, accepted: int, ms: float = 20.0, **more: Any) -> Cycle:
    """Without nodes; 4 drafted nodes verified; `ms` is verification, the rest adds 10."""
    timing = Timing((2.0, 3.0), tree=1.0, verify=ms, accept=3.0, commit=1.0, record=5.0)
    return Cycle(
        index=0,
        prefix_length=9,
        root=0,
        tokens=(1,) * len(origins),
        origins=origins,
        accepted=accepted,
        path=tuple(range(accepted + 1)),
        verified=5,
        drafted=8,
        draft_forwards=2,
        timing=timing,
        **more,
    )


@pytest.fixture
def trace() -> Trace:
    """Accepts 2 (recovered), 0 (recovered), 3 (bonus), and 2 cut to 1 token."""
    made = make_trace(cycles=0)
    made.header = replace(made.header, baseline=Baseline(25.0, 8, "", ""))
    made.cycles = [
        cycle((A, A, R), accepted=2),
        cycle((R,), accepted=0),
        cycle((A, A, A, B), accepted=3, ms=40.0),
        cycle((A,), accepted=2, cut=True, finish="length"),
    ]
    return made


def test_tau_is_over_uncut_cycles_and_tokens_over_all(trace: Trace) -> None:
    result = summary(trace)
    assert result.tau == pytest.approx((3 + 1 + 4) / 3)
    assert (result.tokens, result.cycles, result.uncut) == (1 + 3 + 1 + 4 + 1, 4, 3)


def test_speed_counts_kept_cycle_tokens_against_time_without_recording(trace: Trace) -> None:
    result = summary(trace)
    assert result.ms_per_token == pytest.approx((30 + 30 + 50 + 30) / 9)
    assert result.tokens_per_second == pytest.approx(9 / 0.140)
    assert result.speedup == pytest.approx(25.0 * 9 / 140)
    assert result.ar_ms_per_token == 25.0
    assert result.cycle_ms == pytest.approx((30 + 30 + 50 + 30) / 4)


def test_tau_over_the_mean_cycle_is_the_speed_where_no_cycle_was_cut(trace: Trace) -> None:
    """One slow cycle among many: a median would leave it out of one and keep it in the other."""
    slow = [cycle((A, R), accepted=1, ms=400.0), *[cycle((A, A, R), accepted=2)] * 5]
    result = summary(replace(trace, cycles=slow))
    assert result.tau is not None and result.cycle_ms is not None
    assert 1000 * result.tau / result.cycle_ms == pytest.approx(result.tokens_per_second)


def test_wasted_share_is_of_drafted_nodes_verified(trace: Trace) -> None:
    assert summary(trace).wasted == pytest.approx(1 - 7 / 16)


def test_phases_sum_to_the_time_of_the_cycles(trace: Trace) -> None:
    result = summary(trace)
    assert {p.name: p.ms for p in result.phases} == {
        "draft": 20.0,
        "tree": 4.0,
        "verify": 100.0,
        "accept": 12.0,
        "commit": 4.0,
    }
    assert [p.share for p in result.phases] == pytest.approx(
        [20 / 140, 4 / 140, 100 / 140, 12 / 140, 4 / 140]
    )
    assert (result.overhead_ms, result.overhead_share) == (20.0, pytest.approx(20 / 140))
    assert (result.record_ms, result.record_share) == (20.0, pytest.approx(20 / 160))


def test_a_run_without_cycles_has_no_rates(trace: Trace) -> None:
    result = summary(replace(trace, cycles=[]))
    assert (result.tokens, result.cycles, result.overhead_ms) == (1, 0, 0)
    assert {
        result.tau,
        result.tokens_per_second,
        result.ms_per_token,
        result.speedup,
        result.cycle_ms,
        result.wasted,
        result.overhead_share,
        result.record_share,
        *(p.share for p in result.phases),
    } == {None}
    assert summary(replace(trace, cycles=[], prefill=None)).tokens == 0


def test_there_is_no_speedup_without_a_baseline(trace: Trace) -> None:
    result = summary(replace(trace, header=replace(trace.header, baseline=None)))
    assert (result.ar_ms_per_token, result.speedup) == (None, None)
    assert result.ms_per_token is not None


def test_tau_is_none_when_the_only_cycle_was_cut(trace: Trace) -> None:
    assert summary(replace(trace, cycles=trace.cycles[-1:])).tau is None


def test_autoregression_commits_one_token_a_cycle_and_wastes_none() -> None:
    result = summary(make_trace(method="ar", cycles=5))
    assert (result.tau, result.wasted, result.tokens) == (1.0, None, 6)


def test_acceptance_by_depth_gives_both_rates(trace: Trace) -> None:
    """Depth 3: the first cycle refused it, the third accepted it, the cut one is unknown.

    The third cycle's bonus says that its node at depth 3 had no children: depth 4 has no row.
    """
    table = acceptance_by_depth(trace)
    assert table["depth"].tolist() == [1, 2, 3]
    assert table["accepted"].tolist() == [3, 3, 1]
    assert table["tested"].tolist() == [4, 3, 2]
    assert table["cycles"].tolist() == [4, 4, 4]
    assert table["conditional"].tolist() == [3 / 4, 1.0, 1 / 2]
    assert table["unconditional"].tolist() == [3 / 4, 3 / 4, 1 / 4]


@pytest.mark.parametrize("rule", ["greedy", "topk", "sample"])
def test_acceptance_by_depth_is_the_same_with_and_without_nodes(rule: Any) -> None:
    """Origins alone and the recorded trees are two independent ways to the same counts."""
    with_nodes = make_trace(rule=rule, cycles=40, finish=None)
    without = make_trace(rule=rule, cycles=40, finish=None, record="off")
    assert acceptance_by_depth(with_nodes).equals(acceptance_by_depth(without))
    assert len(acceptance_by_depth(with_nodes)) >= 3


def test_a_cut_cycle_with_nodes_counts_the_refusal_after_its_path() -> None:
    made = make_trace(rule="topk", cycles=40, finish=None)
    refused = next(c for c in made.cycles if c.origins[-1] == R and c.accepted == 1)
    cut = replace(refused, tokens=refused.tokens[:1], origins=(A,), cut=True, finish="length")
    table = acceptance_by_depth(replace(made, cycles=[cut]))
    assert table[["accepted", "tested"]].to_numpy().tolist() == [[1, 1], [0, 1]]


def test_mean_accepted_drafts_is_the_sum_of_unconditional_rates() -> None:
    made = make_trace(rule="topk", cycles=40, finish=None)
    tau = summary(made).tau
    assert tau is not None
    assert acceptance_by_depth(made)["unconditional"].sum() == pytest.approx(tau - 1)


def test_autoregression_has_no_depths() -> None:
    table = acceptance_by_depth(make_trace(method="ar"))
    assert table.empty
    assert "conditional" in table.columns


@pytest.mark.parametrize(
    ("tokens", "loops"),
    [
        ([], False),
        ([1, 2, 3, 1, 2, 3], False),
        ([9, 1, 2, 3, 1, 2, 3, 1, 2, 3], True),
        ([1, 2, 3, 1, 2, 3, 1, 2, 3, 4], False),
        ([5, 5], False),
        ([7, 5, 5, 5], True),
        ([*range(40)] * 3, True),
        ([*range(41)] * 3, False),
        ([*range(40)] * 2, False),
    ],
)
def test_a_loop_is_a_short_block_three_times_at_the_end(tokens: list[int], loops: bool) -> None:
    assert has_loop(tokens) is loops


def test_period_and_repeats_set_what_counts_as_a_loop() -> None:
    assert has_loop([1, 2, 1, 2], period=2, repeats=2)
    assert not has_loop([1, 2, 1, 2], period=1, repeats=2)
