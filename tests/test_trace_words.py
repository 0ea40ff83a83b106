"""A run in words and numbers: what it was."""

from __future__ import annotations

import pytest

from eagle3_viz.config import METHODS, Method
from eagle3_viz.records import Finish
from eagle3_viz.trace_words import circumstances, measured, provenance
from tests.synthetic import make_trace


@pytest.mark.parametrize(
    ("method", "title", "tree"),
    [
        ("eagle3", "EAGLE-3", "tree total 10, depth 3, top_k 4 (4 levels)"),
        ("eagle2", "EAGLE-2", "tree total 10, depth 3, top_k 4 (4 levels)"),
        ("independent", "Independent draft", "tree total 10, depth 3, top_k 4 (4 levels)"),
        ("lookup", "Prompt lookup", "tree total 5, depth 3, top_k 1 (4 levels)"),
        ("eagle1", "EAGLE-1", "tree seven"),
        ("ar", "Autoregression", None),
    ],
)
def test_a_run_is_told_by_its_method_and_the_tree_it_has(
    method: Method, title: str, tree: str | None
) -> None:
    told = dict(circumstances(make_trace(cycles=1, method=method)))["method"]
    assert told == f"{title}, rule greedy" + (f", {tree}" if tree else "")


def test_a_rule_that_changes_the_distribution_is_told_as_such() -> None:
    told = dict(circumstances(make_trace(cycles=1, rule="typical")))["method"]
    assert "rule typical (changes the output distribution)" in told


@pytest.mark.parametrize("method", METHODS)
def test_only_the_settings_that_the_method_uses_are_told(method: Method) -> None:
    trace = make_trace(cycles=1, method=method)
    told = dict(provenance(trace))["settings"]
    trees = [name for name in ("shape", "fixed") if f"{name} (" in told]
    assert trees == {"ar": [], "eagle1": ["fixed"]}.get(method, ["shape"])
    assert "draft_temperature" not in told
    assert f"seed {trace.header.config['seed']}" in told


def test_the_drafts_own_temperature_is_told_under_the_rule_that_draws_from_q() -> None:
    told = dict(provenance(make_trace(cycles=1, rule="sample")))["settings"]
    assert "draft_temperature" in told


@pytest.mark.parametrize("finish", ["length", None])
def test_tau_says_over_how_many_cycles_it_is_taken_where_one_was_cut(
    finish: Finish | None,
) -> None:
    trace = make_trace(cycles=6, finish=finish)
    uncut = [len(cycle.tokens) for cycle in trace.cycles if not cycle.cut]
    assert (len(uncut) < 6) is (finish == "length")
    over = f" over the {len(uncut)} uncut cycles" if finish else ""
    told = f"{sum(uncut) / len(uncut):.2f} tokens per cycle{over}"
    assert dict(measured(trace))["tau"] == told
