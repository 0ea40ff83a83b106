"""The training chart: the numbers of the log in their order, whatever the log holds."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace

import plotly.graph_objects as go
import pytest

from eagle3_viz.figures.colours import LIGHT, Mode, palette
from eagle3_viz.figures.training import (
    DOMAIN_LIMIT,
    DOMAINS,
    HELD_OUT,
    POINTS,
    SMOOTHED,
    TRAINING,
    training_figure,
    training_in_words,
)
from eagle3_viz.training.log import EvaluationRow, LogRow

HOSTILE = "<b>$x$</b>" + "h" * 1000


def log(rows: int, unroll: int = 3) -> list[LogRow]:
    return [
        LogRow(
            step=10 * i,
            tokens=7680 * i,
            seconds=6.0 * i,
            loss=6 / i + 0.1 * math.sin(i),
            learning_rate=2e-3 / i,
            gradient_norm=0.4,
            tokens_per_second=1280.0,
            accuracy=tuple(0.6 * (1 - 1 / i) * 0.8**k for k in range(unroll)),
        )
        for i in range(1, rows + 1)
    ]


def heldout(*domains: str, evaluations: int = 2, unroll: int = 4) -> list[EvaluationRow]:
    return [
        EvaluationRow(100 * i, 76800 * i, domain, tuple(0.1 * i + 0.01 * k for k in range(unroll)))
        for i in range(1, evaluations + 1)
        for domain in ("all", *domains)
    ]


def lines(figure: go.Figure, meta: str) -> list[go.Scatter]:
    return [line for line in figure.data if line.meta == meta]


def named(figure: go.Figure, name: str) -> go.Scatter:
    (line,) = (line for line in figure.data if line.name == name and line.meta is None)
    return line


def test_each_logged_value_stands_over_its_response_tokens() -> None:
    rows = log(40)
    figure = training_figure(rows, [])
    tokens = tuple(row.tokens for row in rows)
    assert named(figure, "loss").x == tokens
    assert named(figure, "loss").y == tuple(row.loss for row in rows)
    assert named(figure, "learning rate").y == tuple(row.learning_rate for row in rows)
    for step, line in enumerate(lines(figure, TRAINING)):
        assert line.x == tokens and line.y == tuple(row.accuracy[step] for row in rows)
    assert [line.name for line in lines(figure, TRAINING)] == ["1", "2", "3"]


def test_held_out_lines_hold_the_accuracy_over_all_domains_by_unroll_step() -> None:
    rows = heldout("code", "math", evaluations=3)
    marked = lines(training_figure(log(40), rows), HELD_OUT)
    assert [line.name for line in marked] == ["1", "2", "3", "4, not trained"]
    for step, line in enumerate(marked):
        assert line.x == (76800, 153600, 230400)
        assert line.y == pytest.approx([0.1 + 0.01 * step, 0.2 + 0.01 * step, 0.3 + 0.01 * step])
        assert "markers" in line.mode


def test_the_smoothed_loss_is_the_mean_around_each_row_without_those_that_diverged() -> None:
    rows = log(SMOOTHED * 3)
    rows[7] = replace(rows[7], loss=math.nan)
    smoothed = named(training_figure(rows, []), "smoothed loss").y
    for i in range(len(rows)):
        around = [row.loss for row in rows[max(i - 1, 0) : i + 2] if not math.isnan(row.loss)]
        assert smoothed[i] == pytest.approx(sum(around) / len(around))


def test_loss_accuracy_and_rate_have_axes_that_do_not_overlap() -> None:
    figure = training_figure(log(5), heldout())
    assert named(figure, "loss").yaxis == "y" and named(figure, "learning rate").yaxis == "y3"
    assert {line.yaxis for meta in (TRAINING, HELD_OUT) for line in lines(figure, meta)} == {"y2"}
    domains = [figure.layout[axis].domain for axis in ("yaxis3", "yaxis2", "yaxis")]
    edges = [edge for domain in domains for edge in domain]
    assert edges == sorted(edges) and len(set(edges)) == 6


def test_unroll_steps_differ_in_colour_and_in_mark_and_keep_theirs_in_both_lines() -> None:
    figure = training_figure(log(5, unroll=4), heldout(unroll=5))
    marked = lines(figure, HELD_OUT)
    assert len({line.line.color for line in marked}) == 5
    assert len({line.marker.symbol for line in marked}) == 5
    for faint, line in zip(lines(figure, TRAINING), marked, strict=False):
        assert faint.line.color == line.line.color and faint.legendgroup == line.legendgroup
        assert faint.opacity < 1


def test_the_legend_names_every_unroll_step_once() -> None:
    with_heldout = training_figure(log(5), heldout())
    shown = [line.name for line in with_heldout.data if line.showlegend]
    assert shown == ["1", "2", "3", "4, not trained"]
    without = training_figure(log(5), [])
    assert [line.name for line in without.data if line.showlegend and line.x] == ["1", "2", "3"]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_first_unroll_step_has_the_theme_s_green_of_accepted_tokens(mode: Mode) -> None:
    figure = training_figure(log(5), heldout(), mode=mode)
    red, green, blue = map(int, re.findall(r"\d+", lines(figure, HELD_OUT)[0].line.color))
    assert f"#{red:02x}{green:02x}{blue:02x}" == palette(mode).accepted
    assert figure.layout.font.color == palette(mode).ink
    assert figure.layout.yaxis3.gridcolor == palette(mode).line


def test_an_empty_log_says_so() -> None:
    figure = training_figure([], [])
    assert not any(line.x for line in figure.data)
    assert "no step was logged yet" in [note.text for note in figure.layout.annotations]
    assert training_in_words([], []) == "No step was logged yet."


def test_a_log_of_one_row_is_a_visible_point() -> None:
    figure = training_figure(log(1), heldout(evaluations=1))
    for line in figure.data:
        assert len(line.x) == 1 and "markers" in line.mode


def test_an_evaluation_before_the_first_logged_step_is_shown() -> None:
    marked = lines(training_figure([], heldout()), HELD_OUT)
    assert [line.name for line in marked] == ["1", "2", "3", "4"]
    assert all(len(line.x) == 2 for line in marked)


def test_a_long_log_keeps_its_ends_and_is_thinned() -> None:
    rows = log(3 * POINTS)
    x = named(training_figure(rows, []), "loss").x
    assert len(x) == POINTS and x[0] == rows[0].tokens and x[-1] == rows[-1].tokens
    assert list(x) == sorted(x)


def test_a_marked_point_lists_the_accuracy_in_each_domain_at_its_own_step() -> None:
    rows = heldout("math", "code")
    rows[4] = replace(rows[4], accuracy=(0.9, 0.8, 0.7, 0.6))  # math, second evaluation
    label = lines(training_figure(log(5), rows), HELD_OUT)[2].customdata
    assert list(label) == ["<br>code 0.120<br>math 0.120", "<br>code 0.220<br>math 0.700"]


def test_more_domains_than_a_label_holds_are_counted() -> None:
    rows = heldout(*(f"domain {n:02}" for n in range(DOMAINS + 2)), evaluations=1)
    (label,) = lines(training_figure([], rows), HELD_OUT)[0].customdata
    assert label.count("domain ") == DOMAINS and label.endswith("<br>and 2 more")


def test_a_hostile_domain_reaches_no_label_as_markup_and_is_cut() -> None:
    figure = training_figure(log(5), heldout(HOSTILE, evaluations=1))
    (label,) = lines(figure, HELD_OUT)[0].customdata
    line = label.removeprefix("<br>")
    assert "<" not in line and "$" not in line
    assert html.unescape(line) == HOSTILE[: DOMAIN_LIMIT - 1] + "… 0.100"
    assert "hhhhhhhhhhhhhhhhhhhhhhhh" not in figure.to_json()


def test_the_figure_of_a_diverged_run_is_valid_json() -> None:
    rows = [replace(row, loss=math.nan, gradient_norm=math.inf) for row in log(5)]

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(training_figure(rows, heldout()).to_json(), parse_constant=refuse)


def test_the_words_state_first_and_last_loss_and_the_last_held_out_accuracies() -> None:
    rows = [replace(row, loss=loss) for row, loss in zip(log(2), (6.5, 2.25), strict=True)]
    words = training_in_words(rows, heldout("code"))
    assert "Over 15,360 response tokens in 20 steps the loss went from 6.50 to 2.25." in words
    assert "After 153,600 tokens" in words and "on 20 %, 21 %, 22 %, 23 % of" in words


def test_no_colour_of_another_state_is_used() -> None:
    text = training_figure(log(5), heldout()).to_json()
    assert LIGHT.rejected not in text and LIGHT.decided not in text
