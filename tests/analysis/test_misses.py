"""Every cycle has one ending, and each cause is the first that holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eagle3_viz.analysis.misses import (
    Cause,
    Ending,
    cause_of,
    cycle_endings,
    miss_shares,
    misses_by_depth,
)
from eagle3_viz.config import Method, Rule
from eagle3_viz.records import Cycle, Miss
from tests.synthetic import make_trace


@pytest.fixture
def cycle() -> Cycle:
    """A whole cycle with a miss."""
    trace = make_trace(cycles=30, rule="topk", finish=None)
    return next(c for c in trace.cycles if c.miss is not None and c.drafted)


def with_miss(cycle: Cycle, **changes: object) -> Cycle:
    plain = {
        "in_draft_vocabulary": True,
        "beyond_depth": False,
        "expanded": True,
        "pruned": False,
        "token": -7,  # no node's
    }
    assert cycle.miss is not None
    miss: Miss = replace(cycle.miss, **(plain | changes))  # type: ignore[arg-type]
    return replace(cycle, miss=miss)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"in_draft_vocabulary": False, "beyond_depth": True}, Cause.VOCABULARY),
        ({"beyond_depth": True, "expanded": False}, Cause.DEPTH),
        ({"expanded": False, "pruned": True}, Cause.UNEXPANDED),
        ({"pruned": True}, Cause.PRUNED),
        ({}, Cause.RANK),
    ],
)
def test_the_first_cause_that_holds_is_the_one(
    cycle: Cycle, changes: dict[str, object], cause: Cause
) -> None:
    assert cause_of(with_miss(cycle, **changes)) is cause


def test_a_token_among_the_refused_children_lost_the_draw(cycle: Cycle) -> None:
    assert cycle.nodes is not None
    missed = with_miss(cycle, node=0, token=int(cycle.nodes.token[1]))
    assert cycle.nodes.parent[1] == 0
    assert cause_of(missed) is Cause.LOST


def test_cycles_without_a_miss_say_why(cycle: Cycle) -> None:
    assert cause_of(replace(cycle, cut=True, finish="length")) is Ending.CUT
    assert cause_of(replace(cycle, drafted=0)) is Ending.UNDRAFTED
    assert cause_of(replace(cycle, miss=None)) is Ending.UNRECORDED


@pytest.mark.parametrize(
    ("method", "rule"),
    [
        ("eagle3", "greedy"),
        ("eagle3", "sample"),
        ("eagle3", "typical"),
        ("eagle1", "topk"),
        ("lookup", "topk"),
        ("ar", "topk"),
    ],
)
def test_every_cycle_is_counted_once(method: Method, rule: Rule) -> None:
    trace = make_trace(cycles=30, rule=rule, method=method)
    endings = cycle_endings(trace)
    assert len(endings) == 30
    assert set(endings.ending) <= set(Cause) | set(Ending)
    explained = int(endings.ending.isin(list(Cause)).sum())
    assert misses_by_depth(endings).to_numpy().sum() == explained
    assert miss_shares(endings).misses.sum() == explained


def test_only_typical_acceptance_gives_a_token_that_it_refused() -> None:
    for rule in ("greedy", "topk", "sample"):
        endings = cycle_endings(make_trace(cycles=60, rule=rule, finish=None))
        assert Cause.LOST not in set(endings.ending)


def test_a_miss_stands_one_level_below_the_last_accepted_node() -> None:
    trace = make_trace(cycles=30, rule="topk", finish=None)
    for row, cycle in zip(cycle_endings(trace).itertuples(), trace.cycles, strict=True):
        assert cycle.nodes is not None and cycle.miss is not None
        assert row.depth == cycle.nodes.depth[cycle.miss.node] + 1


def test_a_run_without_record_has_no_causes() -> None:
    endings = cycle_endings(make_trace(cycles=8, record="off", finish=None))
    assert set(endings.ending) == {Ending.UNRECORDED}
    assert misses_by_depth(endings).empty
    assert np.isnan(miss_shares(endings).share).all()
