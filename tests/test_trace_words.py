"""A run in words and numbers: what it was."""

from __future__ import annotations

import pytest

from eagle3_viz.config import Method
from eagle3_viz.trace_words import circumstances
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
