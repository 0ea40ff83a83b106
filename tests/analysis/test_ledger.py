"""The metric ledger by hand, on a run small enough to count on fingers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eagle3_viz.analysis.ledger.counts import counts_of
from eagle3_viz.analysis.ledger.entry import LedgerEntry
from eagle3_viz.analysis.ledger.table import ledger
from eagle3_viz.metrics import acceptance_by_depth, summary
from eagle3_viz.records import Cycle, Nodes, NodeState, Origin, Pool, Prefill, Timing
from eagle3_viz.trace import Baseline, Trace
from tests.synthetic import make_trace

A, R, B = Origin.ACCEPTED, Origin.RECOVERED, Origin.BONUS
TIMING = Timing((2.0, 3.0), tree=1.0, verify=20.0, accept=3.0, commit=1.0, record=5.0)  # 30 ms


def cycle(origins: tuple[Origin, ...], accepted: int, verified: int, *, cut: bool = False) -> Cycle:
    return Cycle(
        index=0,
        prefix_length=9,
        root=0,
        tokens=(1,) * len(origins),
        origins=origins,
        accepted=accepted,
        path=tuple(range(accepted + 1)),
        verified=verified,
        drafted=verified - 1,
        draft_forwards=2,
        timing=TIMING,
        cut=cut,
        finish="length" if cut else None,
    )


@pytest.fixture
def trace() -> Trace:
    """Accepts 2 of 4 and 0 of 4; a cycle without a draft; 3 of 3, of which the end keeps one.

    Prefill takes 40 + 10 ms, autoregression 25 ms a token.
    """
    made = make_trace(cycles=0)
    made.header = replace(made.header, baseline=Baseline(25.0, 8, "", ""))
    made.prefill = Prefill(9, 0, 40.0, 10.0)
    made.cycles = [
        cycle((A, A, R), 2, 5),
        cycle((R,), 0, 5),
        cycle((Origin.PLAIN,), 0, 1),
        cycle((A,), 3, 4, cut=True),
    ]
    return made


def entry(trace: Trace, project: str, name: str) -> LedgerEntry:
    (found,) = [e for e in ledger(trace) if (e.project, e.name) == (project, name)]
    return found


@pytest.mark.parametrize(
    ("project", "name", "value", "worked"),
    [
        ("this program", "tokens per cycle (tau)", 5 / 3, "5 / 3"),
        ("EAGLE papers", "average acceptance length (tau)", 9 / 4, "(5 + 4) / 4"),
        ("EAGLE papers", "tau as their script prints it", 9 / 3, "9 / 3"),
        ("vLLM", "num_drafts", 3, "3"),
        ("vLLM", "num_draft_tokens", 4 + 4 + 3, "11"),
        ("vLLM", "num_accepted_tokens", 5, "5"),
        ("vLLM", "mean acceptance length", 1 + 5 / 3, "1 + 5 / 3"),
        ("vLLM", "draft acceptance rate", 5 / 11, "5 / 11"),
        ("SGLang", "spec_verify_ct", 4, "4"),
        ("SGLang", "accept_length of a request", 7 / 4, "7 / 4"),
        ("SGLang", "accept len of the server log", 6 / 4, "(2 + 4) / 4"),
        ("SGLang", "accept_rate of a request", 2 / 16, "2 / (4 x 4)"),
        ("Spec-Bench", "#Mean accepted tokens (#MAT)", 9 / 4, "9 / 4"),
        ("Spec-Bench", "speedup", 265 / 170, "(9 / 0.17 s) / (9 / 0.27 s)"),
        ("llama.cpp", "n_drafted", 11, "11"),
        ("llama.cpp", "n_accept", 5, "5"),
        ("llama.cpp", "accept rate", 5 / 11, "5 / 11"),
    ],
)
def test_every_metric_of_a_run_counted_by_hand(
    trace: Trace, project: str, name: str, value: float, worked: str
) -> None:
    found = entry(trace, project, name)
    assert found.values == pytest.approx((value,))
    assert found.worked == worked


def test_positions_are_conditional_for_eagle_and_unconditional_for_vllm(trace: Trace) -> None:
    """Depth 1 was tested in three cycles (the one without a draft had no children)."""
    alpha = entry(trace, "EAGLE papers", "n-alpha, n = 0, 1, ...")
    assert alpha.values == pytest.approx((2 / 3, 2 / 2, 1 / 2))
    assert alpha.values == pytest.approx(tuple(acceptance_by_depth(trace).conditional))
    positions = entry(trace, "vLLM", "per-position acceptance rate")
    assert positions.values == pytest.approx((2 / 3, 2 / 3, 1 / 3))
    assert positions.worked == "2 / 3, 2 / 3, 1 / 3"


def test_a_level_of_a_wide_tree_counts_one_for_llama_cpp_s_tree_example() -> None:
    trace = make_trace(cycles=6, rule="topk")
    deepest = [int(c.pool.depth.max()) for c in trace.cycles if c.pool is not None]
    found = entry(trace, "llama.cpp", "n_drafted of examples/speculative")
    assert found.values == (float(sum(deepest)),)
    assert found.values < entry(trace, "llama.cpp", "n_drafted").values
    without = entry(make_trace(cycles=6, record="off"), found.project, found.name)
    assert without.values == ()


def test_where_all_drafts_are_kept_and_nothing_is_cut_the_lengths_agree() -> None:
    trace = make_trace(cycles=30, rule="topk", finish=None)
    tau = summary(trace).tau
    for project, name in (
        ("this program", "tokens per cycle (tau)"),
        ("EAGLE papers", "average acceptance length (tau)"),
        ("vLLM", "mean acceptance length"),
        ("SGLang", "accept len of the server log"),
        ("Spec-Bench", "#Mean accepted tokens (#MAT)"),
    ):
        assert entry(trace, project, name).values == pytest.approx((tau,))
        assert entry(trace, project, name).bonus


def test_ratios_per_drafted_node_leave_the_target_s_own_token_out(trace: Trace) -> None:
    assert all(not e.bonus for e in ledger(trace) if e.per == "drafted nodes")


def test_nothing_is_divided_by_nothing() -> None:
    trace = make_trace(cycles=0, finish=None)
    for found in ledger(replace(trace, header=replace(trace.header, baseline=None))):
        assert all(np.isfinite(found.values)), found.name
    one = make_trace(cycles=1, finish=None)
    assert entry(one, "EAGLE papers", "tau as their script prints it").values == ()


def test_counts_see_what_the_pool_drafted_and_the_budget_dropped() -> None:
    nan = np.full(2, np.nan, np.float32)
    ints, zeros = np.zeros(2, np.int32), np.zeros(2, np.float32)
    nodes = Nodes(
        token=ints,
        parent=np.array([-1, 0], np.int32),
        depth=np.array([0, 1], np.int32),
        draft_logprob=zeros,
        score=zeros,
        q_rank=ints,
        p_raw=nan,
        p=nan,
        p_rank=ints,
        p_tested=nan,
        accept_probability=nan,
        uniform=nan,
        state=np.array([NodeState.ROOT, NodeState.REJECTED], np.int8),
        expanded=np.array([True, True]),
        pool_index=np.array([-1, 0], np.int32),
    )
    pool = Pool(ints, np.array([-1, 0], np.int32), np.array([1, 2], np.int32), zeros, zeros)
    trace = make_trace(cycles=0, finish=None)
    trace.cycles = [replace(cycle((R,), 0, 2), nodes=nodes, pool=pool)]
    assert counts_of(trace).levels == 2
    trace.cycles = [replace(cycle((R,), 0, 2), nodes=nodes)]
    assert counts_of(trace).levels == 1
