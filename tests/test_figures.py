from __future__ import annotations

import html
import json
import re

import numpy as np
import plotly.graph_objects as go
import pytest

from eagle3_viz.config import Rule
from eagle3_viz.figures.colours import DARK, LIGHT
from eagle3_viz.figures.distributions import next_tokens
from eagle3_viz.figures.histogram import accepted_per_cycle
from eagle3_viz.figures.text import literal, token_label
from eagle3_viz.figures.timings import PHASES, time_per_cycle
from eagle3_viz.tokens import visible
from eagle3_viz.trace import Trace
from tests.synthetic import make_trace

TAG = re.compile(r"<[^>]*>")


def traces_named(figure: go.Figure) -> dict[str, go.Bar]:
    return {trace.name: trace for trace in figure.data}


def visited(trace: Trace, index: int = 0) -> go.Figure:
    cycle = trace.cycles[index]
    at = cycle.distributions[0]
    assert cycle.nodes is not None
    return next_tokens(trace, at, after=int(cycle.nodes.token[at.node]))


@pytest.mark.parametrize("text", ["<b>x</b>", "$x$", "a<br>b", "&lt;", '<a href="x">', "a & b"])
def test_literal_text_has_no_markup_and_decodes_to_itself(text: str) -> None:
    shown = literal(text)
    assert not TAG.search(shown) and "$" not in shown
    assert html.unescape(shown) == text


def test_hostile_tokens_reach_no_label_as_markup() -> None:
    trace = make_trace(cycles=12, rule="topk")
    for index in range(len(trace.cycles)):
        payload = json.loads(visited(trace, index).to_json())
        axis = payload["layout"]["xaxis"]["ticktext"]
        hovers = [text for bar in payload["data"] for text in bar.get("customdata", [])]
        for label in (*axis, *hovers, payload["layout"]["title"]["text"]):
            assert "<" not in label and ">" not in label and "$" not in label


def test_a_token_label_decodes_to_the_visible_text_of_the_token() -> None:
    trace = make_trace(cycles=1)
    for token, data in trace.token_bytes.items():
        assert html.unescape(token_label(trace, token, 1000)) == visible(data)


@pytest.mark.parametrize("rule", ["greedy", "topk", "sample"])
def test_bars_are_the_recorded_probabilities_and_the_shade_is_their_minimum(rule: Rule) -> None:
    trace = make_trace(cycles=6, rule=rule)
    at = trace.cycles[2].distributions[0]
    figure = traces_named(visited(trace, 2))
    p, q, shade = (figure[name].y for name in ("p target", "q draft", "min(p, q)"))
    assert at.q is not None
    assert max(v for v in p if v) == pytest.approx(float(at.p_raw.probability[0]))
    assert max(v for v in q if v) == pytest.approx(float(at.q.probability[0]))
    for left, right, least in zip(p, q, shade, strict=True):
        both = left is not None and right is not None
        assert least == (min(left, right) if both else None)


def test_the_rule_s_own_p_is_drawn_only_where_it_is_a_distribution_of_its_own() -> None:
    assert "p used by the rule" in traces_named(visited(make_trace(cycles=2, rule="topk")))
    assert "p used by the rule" not in traces_named(visited(make_trace(cycles=2, rule="greedy")))


def test_the_residual_is_drawn_only_where_the_rule_has_one() -> None:
    assert "residual" not in traces_named(visited(make_trace(cycles=2, rule="greedy")))
    assert "residual" in traces_named(visited(make_trace(cycles=2, rule="topk")))


def test_a_node_without_draft_shows_p_alone() -> None:
    trace = make_trace(cycles=2, method="ar")
    assert [bar.name for bar in visited(trace).data] == ["p target"]


def test_the_histogram_counts_every_uncut_cycle_once() -> None:
    trace = make_trace(cycles=12)
    uncut = [cycle.accepted for cycle in trace.cycles if not cycle.cut]
    assert any(cycle.cut for cycle in trace.cycles), "the trace needs a cut cycle"
    figure = accepted_per_cycle(trace)
    counts = dict(zip(figure.data[0].x.tolist(), figure.data[0].y.tolist(), strict=True))
    assert counts == {n: uncut.count(n) for n in range(max(uncut) + 1)}
    assert figure.layout.shapes[0].x0 == pytest.approx(sum(uncut) / len(uncut))


@pytest.mark.parametrize("cycles", [2, 12, 90])
def test_the_histogram_counts_cycles_in_few_whole_steps(cycles: int) -> None:
    figure = accepted_per_cycle(make_trace(cycles=cycles))
    step, largest = figure.layout.yaxis.dtick, max(figure.data[0].y)
    assert step == int(step) >= 1 and largest / step <= 6


def test_the_histogram_of_an_empty_run_is_empty() -> None:
    figure = accepted_per_cycle(make_trace(cycles=0, finish=None))
    assert not figure.data[0].y.any() and not figure.layout.shapes


def test_the_stack_without_recording_is_the_cycle_s_total() -> None:
    trace = make_trace(cycles=5)
    bars = time_per_cycle(trace).data
    stacked = np.sum([bar.y for bar in bars if bar.name in PHASES], axis=0)
    np.testing.assert_allclose(stacked, [cycle.timing.total for cycle in trace.cycles])


def test_timings_use_no_colour_of_a_state() -> None:
    for colours in (LIGHT, DARK):
        states = {colours.accepted, colours.rejected, colours.decided, colours.plain, colours.q}
        assert not states & set(colours.phases.values())
        assert set(colours.phases) == set(PHASES)
