"""The charts of the Acceptance page hold the numbers of their tables."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from eagle3_viz.analysis import by_depth, calibration, expected, lengths, misses
from eagle3_viz.analysis.drafted_nodes import drafted_nodes
from eagle3_viz.figures import acceptance_calibration as reliability
from eagle3_viz.figures.acceptance_depth import (
    depth_figure,
    depth_words,
    expected_figure,
    expected_words,
)
from eagle3_viz.figures.acceptance_domains import domains_figure, domains_words
from eagle3_viz.figures.acceptance_heat import miss_figure, miss_words, rank_figure, rank_words
from eagle3_viz.figures.acceptance_tau import running_tau_figure, running_tau_words
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace

HOSTILE = "<img src=x onerror=alert(1)>$x$ & more"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(cycles=40, rule="topk")


def named(figure: go.Figure, name: str) -> go.Scatter:
    (found,) = [one for one in figure.data if one.name == name]
    return found


def figures_of(trace: Trace) -> list[go.Figure]:
    nodes, endings = drafted_nodes(trace), misses.cycle_endings(trace)
    return [
        depth_figure(by_depth.acceptance_with_intervals(trace)),
        expected_figure(expected.expected_by_depth(expected.judged_visits(trace))),
        rank_figure(by_depth.acceptance_by_rank(nodes), by_depth.LAST_RANK),
        miss_figure(misses.misses_by_depth(endings), misses.miss_shares(endings)),
        running_tau_figure(lengths.running_tau(trace), lengths.WINDOW),
        reliability.reliability_figure(
            calibration.path_reliability(nodes), title="t", x="x", y="y", mode="dark"
        ),
    ]


def test_shares_by_depth_stand_between_their_bounds(trace: Trace) -> None:
    table = by_depth.acceptance_with_intervals(trace)
    figure = depth_figure(table)
    for rate in ("conditional", "unconditional"):
        line = named(figure, rate)
        np.testing.assert_allclose(line.y, table[rate])
        up, down = np.array(line.error_y.array), np.array(line.error_y.arrayminus)
        np.testing.assert_allclose(line.y + up, table[f"{rate}_high"])
        np.testing.assert_allclose(line.y - down, table[f"{rate}_low"], atol=1e-12)
    assert f"n {table.tested[0]}" in figure.layout.xaxis.ticktext[0]
    assert f"of {table.tested[0]} tested" in depth_words(table)


def test_the_rank_map_writes_accepted_over_tested_into_its_cells(trace: Trace) -> None:
    table = by_depth.acceptance_by_rank(drafted_nodes(trace))
    heat = rank_figure(table, by_depth.LAST_RANK).data[0]
    for row in table.itertuples():
        place = list(heat.y).index(str(row.rank)), list(heat.x).index(row.depth)
        assert heat.text[place[0]][place[1]] == f"{row.accepted}/{row.tested}"
        assert heat.z[place[0]][place[1]] == pytest.approx(row.rate, nan_ok=True)


def test_late_ranks_share_a_row(trace: Trace) -> None:
    nodes = drafted_nodes(trace)
    table = by_depth.acceptance_by_rank(nodes.assign(q_rank=nodes.q_rank + 500))
    assert set(table["rank"]) == {by_depth.LAST_RANK}
    heat = rank_figure(table, by_depth.LAST_RANK).data[0]
    assert heat.y[-1] == "10 or later"
    assert "rank 10" in rank_words(table)


def test_every_miss_is_in_the_map_and_every_cause_has_its_share(trace: Trace) -> None:
    endings = misses.cycle_endings(trace)
    shares = misses.miss_shares(endings)
    heat = miss_figure(misses.misses_by_depth(endings), shares).data[0]
    assert np.sum(heat.z) == shares.misses.sum()
    np.testing.assert_array_equal(np.sum(heat.z, axis=1), shares.misses)
    for label, row in zip(heat.y, shares.itertuples(), strict=True):
        assert label.startswith(f"{row.cause}<br>{row.misses}, ")
    assert f": {shares.misses.max()}" in miss_words(shares)


def test_expectation_carries_chance_as_whiskers(trace: Trace) -> None:
    table = expected.expected_by_depth(expected.judged_visits(trace))
    figure = expected_figure(table)
    diamonds = named(figure, "expected by the rule's formula, ± chance")
    up, down = np.array(diamonds.error_y.array), np.array(diamonds.error_y.arrayminus)
    np.testing.assert_allclose(table.expected + up, np.minimum(1, table.expected + table.chance))
    np.testing.assert_allclose(
        table.expected - down, np.maximum(0, table.expected - table.chance), atol=1e-12
    )
    np.testing.assert_allclose(named(figure, "counted").y, table.counted)
    assert f"of {table.n[0]}" in expected_words(table)


def test_running_tau_ends_at_tau(trace: Trace) -> None:
    table = lengths.running_tau(trace)
    figure = running_tau_figure(table, lengths.WINDOW)
    assert named(figure, "tau so far").y[-1] == pytest.approx(table.tau.iloc[-1])
    assert f"{table.tau.iloc[-1]:.2f} over all {len(table)}" in running_tau_words(table)


def test_a_larger_mark_has_more_nodes(trace: Trace) -> None:
    found = calibration.token_reliability(drafted_nodes(trace))
    figure = reliability.reliability_figure(found, title="t", x="x", y="y")
    marks = named(figure, "bins, larger for more nodes")
    order = np.argsort(found.bins.n.to_numpy(), kind="stable")
    assert np.all(np.diff(np.array(marks.marker.size)[order]) >= 0)
    assert f"n {found.n:,}" in figure.layout.title.text
    assert f"{found.error:.3f}" in reliability.reliability_words(found, "t")


def test_names_of_domains_and_settings_are_markup_to_no_chart() -> None:
    cells = pd.DataFrame(
        {
            "domain": [HOSTILE, HOSTILE, "code"],
            "setting": [HOSTILE, "b", "b"],
            "prompts": 3,
            "value": [1.0, 2.0, 3.0],
            "low": [0.5, 1.5, 2.5],
            "high": [1.5, 2.5, 3.5],
        }
    )
    figure = domains_figure(cells, "tau")
    shown = json.loads(figure.to_json())
    texts = [*shown["layout"]["yaxis"]["ticktext"], *(one["name"] for one in shown["data"])]
    texts += [str(row[0]) for one in shown["data"] for row in one["customdata"]]
    texts += [one["hovertemplate"].replace("<br>", "").split("<extra>")[0] for one in shown["data"]]
    assert texts and not any(sign in text for text in texts for sign in "<>$")
    assert "code, b: 3.00" in domains_words(cells, "tau")


@pytest.mark.parametrize("cycles", [0, 1])
def test_a_run_of_hardly_anything_is_drawn_without_an_error(cycles: int) -> None:
    for figure in figures_of(make_trace(cycles=cycles, rule="topk", finish=None)):
        json.loads(figure.to_json())


def test_a_run_that_recorded_nothing_is_drawn_without_an_error() -> None:
    for figure in figures_of(make_trace(cycles=3, record="off")):
        json.loads(figure.to_json())


def test_no_chart_draws_shapes_or_annotations(trace: Trace) -> None:
    for figure in figures_of(trace):
        assert not figure.layout.shapes and not figure.layout.annotations


def test_a_deep_tree_names_few_depths() -> None:
    table = by_depth.acceptance_with_intervals(make_trace(cycles=6, finish=None))
    table = pd.concat([table] * 20, ignore_index=True).assign(depth=range(1, 20 * len(table) + 1))
    assert len(table) > 20
    assert len(depth_figure(table).layout.xaxis.tickvals) <= 8
