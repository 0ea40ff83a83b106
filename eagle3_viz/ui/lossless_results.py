"""What the checks on the real pair found, as words, tables and charts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from eagle3_viz.figures.lossless import cells_figure, margins_figure, p_values_figure
from eagle3_viz.ui.charts import chart, theme
from eagle3_viz.ui.lossless_tasks import SamplingFound

if TYPE_CHECKING:
    from eagle3_viz.lossless.contrast import ShortRun
    from eagle3_viz.lossless.greedy_test import GreedyRun

SHOWN_CELLS = 14
P_VALUES = ("p_value", "p_corrected")  # of a wrong rule they have dozens of zeros


def sampling(found: SamplingFound) -> None:
    """The tests made so far, at least one, and the cells of one of them."""
    from eagle3_viz.lossless.chi_square import FAMILY_LEVEL
    from eagle3_viz.lossless.report import sampling_table, sampling_words
    from eagle3_viz.lossless.sampling_test import judged

    family = judged(found.results)
    _sentences([f"The drawn tokens follow: …{found.prefix}", *sampling_words(family)])
    table = sampling_table(family)
    chart(p_values_figure(table, FAMILY_LEVEL, mode=theme()), "lossless_sampling_p")
    place = st.selectbox(
        "Texts of",
        range(len(family)),
        format_func=lambda index: _test_title(table, index),
        key="lossless_sampling_test",
    )
    cells = family[place].result.test.cells
    listed = [cell for cell in cells if cell.text is not None][:SHOWN_CELLS]
    rest = [cell for cell in cells if cell not in listed]
    labels = [found.texts[cell.text] for cell in listed if cell.text is not None]
    expected = [cell.expected for cell in listed]
    seen = [cell.seen for cell in listed]
    if rest:
        labels.append("all others")
        expected.append(sum(cell.expected for cell in rest))
        seen.append(sum(cell.seen for cell in rest))
    chart(cells_figure(labels, expected, seen, mode=theme()), "lossless_sampling_cells")
    st.dataframe(
        table,
        hide_index=True,
        width="stretch",
        key="lossless_sampling_table",
        column_config={
            name: st.column_config.NumberColumn(name, format="scientific") for name in P_VALUES
        },
    )


def _sentences(sentences: Iterable[str]) -> None:
    with st.container(gap=None):
        for sentence in sentences:
            st.text(sentence)


def _test_title(table: pd.DataFrame, index: int) -> str:
    if index >= len(table):  # a longer list was shown before
        return ""
    row = table.iloc[index]
    return f"{row.method} {row.rule}, seed {row.seed}: corrected p {row.p_corrected:.2g}"


def greedy(runs: tuple[GreedyRun, ...]) -> None:
    """The comparisons made so far, and the margins of all their tokens by number format."""
    from eagle3_viz.lossless.report import greedy_table, greedy_words

    _sentences(greedy_words(runs))
    formats = dict.fromkeys(run.dtype for run in runs)
    for column, name in zip(st.columns(len(formats)), formats, strict=True):
        margins = [run.plain.margins for run in runs if run.dtype == name]
        with column:
            st.text(f"{name}: every token of every text")
            chart(
                margins_figure(
                    [value for one in margins for value in one.margin.tolist()],
                    [value for one in margins for value in one.noise.tolist()],
                    [value for one in margins for value in one.flipped.tolist()],
                    mode=theme(),
                ),
                f"lossless_greedy_{name}",
            )
    st.dataframe(greedy_table(runs), hide_index=True, width="stretch", key="lossless_greedy_table")


def contrast(runs: tuple[ShortRun, ...]) -> None:
    """The texts side by side."""
    from eagle3_viz.lossless.contrast import contrast_words

    _sentences(contrast_words(runs))
    for column, one in zip(st.columns(len(runs)), runs, strict=True):
        with column, st.container(border=True):
            tau = "" if one.tau is None else f", tau {one.tau:.2f}"
            pace = "" if one.ms_per_token is None else f", {one.ms_per_token:.0f} ms a token"
            st.text(f"{one.title}{tau}{pace}")
            st.code(one.text, language=None, wrap_lines=True)
