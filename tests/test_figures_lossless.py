from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from eagle3_viz.figures.colours import DARK, LIGHT
from eagle3_viz.figures.lossless import (
    LEAST_LOGIT,
    LEAST_P,
    cells_figure,
    margins_figure,
    p_values_figure,
)

TABLE = pd.DataFrame(
    {
        "method": ["eagle3", "eagle3", "eagle2", "eagle3"],
        "rule": ["topk", "topk", "sample", "ratio"],
        "lossless": [True, True, True, False],
        "temperature": [0.8] * 4,
        "seed": [0, 1, 0, 0],
        "p_corrected": [1.0, 0.3, 0.002, 0.0],
    }
)


def test_every_test_is_a_mark_in_the_row_of_its_method_and_rule() -> None:
    right, wrong = p_values_figure(TABLE, 0.01).data
    assert list(zip(right.y, right.x, strict=True)) == [
        ("eagle3 topk", 1.0),
        ("eagle3 topk", 0.3),
        ("eagle2 sample", 0.002),
    ]
    assert (list(wrong.y), list(wrong.x)) == (["eagle3 ratio"], [LEAST_P])
    assert right.marker.symbol != wrong.marker.symbol


def test_the_line_stands_at_the_level_and_the_first_method_on_top() -> None:
    figure = p_values_figure(TABLE, 0.01)
    (line,) = figure.layout.shapes
    assert line.x0 == line.x1 == 0.01
    assert figure.layout.xaxis.type == "log"
    assert list(figure.layout.yaxis.categoryarray) == [
        "eagle3 ratio",
        "eagle2 sample",
        "eagle3 topk",
    ]


def test_without_wrong_rules_there_is_no_mark_for_them() -> None:
    assert len(p_values_figure(TABLE[TABLE.lossless], 0.01).data) == 1


def test_cells_show_draws_beside_expectation_with_two_standard_deviations() -> None:
    bars, diamonds = cells_figure(["<b>a</b>", "$b$"], [30.0, 70.0], [25, 75]).data
    assert list(bars.y) == [25, 75] and list(diamonds.y) == [30.0, 70.0]
    np.testing.assert_allclose(diamonds.error_y.array, 2 * np.sqrt(100 * 0.3 * 0.7))
    assert list(bars.customdata) == ["&lt;b&gt;a&lt;/b&gt;", "&#36;b&#36;"]


def test_margins_tell_other_tokens_apart_and_draw_zero_at_the_least_value() -> None:
    figure = margins_figure([2.0, 0.0, 0.5], [0.1, 0.2, 0.0], [False, True, False])
    same, other, diagonal = figure.data
    assert (list(same.x), list(same.y)) == ([2.0, 0.5], [0.1, LEAST_LOGIT])
    assert (list(other.x), list(other.y)) == ([LEAST_LOGIT], [0.2])
    assert list(diagonal.x) == list(diagonal.y)
    assert len(margins_figure([1.0], [0.1], [False]).data) == 2


@pytest.mark.parametrize(("mode", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_both_themes_have_their_own_colours(mode, colours) -> None:
    bars = cells_figure(["a"], [1.0], [1], mode=mode).data[0]
    assert bars.marker.color == colours.accepted
