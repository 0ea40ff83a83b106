"""The matrix of domains and metrics, two settings compared, and the way from a cell to a cycle."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from eagle3_viz.analysis.domains import METRICS, domain_matrix
from eagle3_viz.figures.acceptance_domains import domains_figure, domains_words
from eagle3_viz.suite.results import Results
from eagle3_viz.ui import acceptance_compare, acceptance_prompts
from eagle3_viz.ui.acceptance_source import Source, with_interval
from eagle3_viz.ui.charts import chart, theme

METRIC_WIDTH = 152  # px: a number and its interval
ONE_PROMPT = (
    "In brackets: 95 % bootstrap intervals over prompts. A cell with one prompt has none, since "
    "one prompt says nothing about others. Click a cell to see its prompts below."
)


def draw(source: Source, other: Source | None = None) -> None:
    """Matrix, chart, comparison (with `other` where it is given), prompts."""
    if "typical" in {config.get("rule") for config in source.results.settings.values()}:
        st.warning("The rule typical changes the output distribution.", icon=":material/warning:")
    matrix = _matrix(source.key, source.results)
    rows = matrix_frame(matrix)
    st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        height="content",
        key="acceptance_matrix",
        on_select=lambda: cell_picked(rows),
        selection_mode="single-cell",
        column_config={
            metric.title: st.column_config.TextColumn(metric.title, width=METRIC_WIDTH)
            for metric in METRICS.values()
        },
        alt="Domains and settings against metrics with intervals.",
    )
    st.caption(f"{ONE_PROMPT} {source.about}")
    _chart(matrix)
    acceptance_compare.draw(source, other)
    acceptance_prompts.draw(source, matrix)


@st.cache_resource(max_entries=8, show_spinner="Drawing prompts anew for the intervals…")
def _matrix(key: str, _results: Results) -> pd.DataFrame:
    """The bootstrap of hundreds of prompts takes seconds: once for each content."""
    return domain_matrix(_results)


def matrix_frame(matrix: pd.DataFrame) -> pd.DataFrame:
    """A row for each domain and setting as text: prompts, and every metric with its interval."""
    rows = []
    for (domain, setting), cells in matrix.groupby(["domain", "setting"], sort=False):
        numbers = {
            METRICS[cell.metric].title: with_interval(cell.value, cell.low, cell.high)
            for cell in cells.itertuples()
        }
        prompts = int(cells.prompts.iloc[0])
        rows.append({"domain": domain, "setting": setting, "prompts": prompts, **numbers})
    return pd.DataFrame(rows)


def cell_picked(rows: pd.DataFrame) -> None:
    """The selects below follow the cell that was clicked."""
    cells = st.session_state.acceptance_matrix["selection"]["cells"]
    if cells:
        row = rows.iloc[cells[0][0]]
        st.session_state.acceptance_domain = row.domain
        st.session_state.acceptance_setting = row.setting


def _chart(matrix: pd.DataFrame) -> None:
    known = [name for name in METRICS if matrix[matrix.metric == name].value.notna().any()]
    metric = st.segmented_control(
        "Metric",
        known,
        default=known[0] if known else None,
        required=True,
        format_func=lambda name: METRICS[name].title,
        key="acceptance_metric",
    )
    if metric is None:
        return
    cells = matrix[(matrix.metric == metric) & matrix.value.notna()]
    title = f"{METRICS[metric].title}, by domain"
    figure = domains_figure(cells, title, mode=theme())
    chart(figure, "acceptance_domains", domains_words(cells, title))
