from __future__ import annotations

from typing import Any

import pytest

from eagle3_viz.figures.colours import DARK, LIGHT, Mode
from eagle3_viz.figures.tree_choice import cost_figure, cost_words, promise_figure, promise_words
from eagle3_viz.tree_choice.choice import choose
from tests.tree_choice.made_up import COST, KNOWN

CHOICE = choose("eagle3", COST, KNOWN)


def named(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def test_the_cost_figure_draws_what_was_measured() -> None:
    lines = named(cost_figure(COST))
    target, draft = lines["target, nodes verified"], lines["draft, a level of top-k"]
    assert tuple(zip(target.x, target.y, strict=True)) == COST.verify
    assert tuple(zip(draft.x, draft.y, strict=True)) == COST.level
    assert target.line.dash != draft.line.dash and target.marker.symbol != draft.marker.symbol


def test_the_promise_figure_draws_every_size_and_marks_the_chosen_one() -> None:
    lines = named(promise_figure(CHOICE))
    every, chosen = lines["best tree of a size"], lines["chosen"]
    assert list(every.x) == [2, 3, 4]
    assert list(every.y) == [found.speedup for found in CHOICE.by_total]
    assert (chosen.x, chosen.y) == ((CHOICE.shape.total,), (max(every.y),))
    assert chosen.text == ("chosen",), "not by its colour alone"


def test_the_legend_stands_above_the_gridlines_and_the_mark_where_the_curve_is_not() -> None:
    legend = cost_figure(COST).layout.legend
    assert legend.y > 1 and legend.yanchor == "bottom"
    (mark,) = promise_figure(CHOICE).layout.annotations
    assert mark.xanchor == "left" and mark.yanchor == "top", "left of where it falls, below 1"


@pytest.mark.parametrize(("mode", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_both_themes_have_their_own_colours(mode: Mode, colours: Any) -> None:
    lines = named(cost_figure(COST, mode=mode))
    assert lines["target, nodes verified"].line.color == colours.phases["verify"]
    assert named(promise_figure(CHOICE, mode=mode))["chosen"].marker.color == colours.accepted


def test_the_words_have_the_numbers_of_the_figures() -> None:
    assert "1 19.0, 5 21.0, 9 29.0" in cost_words(COST) and "1 1.0, 3 2.0" in cost_words(COST)
    for found in CHOICE.by_total:
        assert f"{found.shape.total} {found.speedup:.2f}x" in promise_words(CHOICE)
    assert promise_words(CHOICE).endswith("Chosen: 4.")
