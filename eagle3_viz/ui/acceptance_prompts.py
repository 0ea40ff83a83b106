"""From a cell of the matrix to its prompts, from a prompt to its cycles."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from eagle3_viz.analysis.domains import METRICS, prompts_of_cell
from eagle3_viz.ui import acceptance_worst, trace_choice
from eagle3_viz.ui.acceptance_source import Openable, Source, drafting


def draw(source: Source, matrix: pd.DataFrame) -> None:
    """Selects for the cell, its prompts, and the worst cycles of the picked prompt."""
    st.subheader("Prompts of a cell")
    domains, settings = (matrix[name].unique().tolist() for name in ("domain", "setting"))
    for key, options in (("acceptance_domain", domains), ("acceptance_setting", settings)):
        if st.session_state.get(key) not in options:  # of other traces than now
            st.session_state.pop(key, None)
    st.session_state.setdefault("acceptance_setting", drafting(source.results)[0])
    with st.container(horizontal=True):
        domain = st.selectbox("Domain", domains, key="acceptance_domain", width=220)
        setting = st.selectbox("Setting", settings, key="acceptance_setting", width=320)
    table = prompts_of_cell(source.results, domain, setting)
    if table.empty:
        st.text("No prompt of this domain was decoded under this setting.")
        return
    st.dataframe(
        _frame(source, table),
        hide_index=True,
        width="stretch",
        key="acceptance_prompts",
        placeholder="–",
        column_config={
            metric.title: st.column_config.NumberColumn(metric.title, format="%.3f")
            for metric in METRICS.values()
        },
        alt="The prompts of the cell with their metrics.",
    )
    place = st.selectbox(
        "Cycles of the prompt",
        range(len(table)),
        format_func=lambda row: source.title(*_name(table, row)) if row < len(table) else "",
        key="acceptance_prompt",
    )
    _cycles(source, setting, *_name(table, place))


def _name(table: pd.DataFrame, row: int) -> tuple[str, str]:
    found = table.iloc[row]
    return str(found["set"]), str(found["prompt"])


def _frame(source: Source, table: pd.DataFrame) -> pd.DataFrame:
    numbers = {metric.title: table[name] for name, metric in METRICS.items()}
    titles = [source.title(*_name(table, row)) for row in range(len(table))]
    return pd.DataFrame(
        {"prompt": titles, "domain": table.domain, "cycles": table.cycles, **numbers}
    )


def _cycles(source: Source, setting: str, set_name: str, prompt: str) -> None:
    """The worst cycles of the trace, the one of the first turn unless another is picked."""
    traces = source.openables(setting, set_name, prompt)
    if not traces:
        st.text("The traces of this prompt are not there any more.")
        return
    picked = traces[0]
    if len(traces) > 1:
        names = [one.name for one in traces]
        place = st.selectbox(
            "Trace",
            range(len(traces)),
            format_func=lambda row: names[row] if row < len(names) else "",
            key="acceptance_turn",
        )
        picked = traces[place or 0]
    try:
        trace = picked.load()
    except (ValueError, OSError) as error:
        st.text(str(error))
        return
    acceptance_worst.draw(trace, lambda cycle: _open(picked, cycle), key="acceptance_prompt_worst")


def _open(picked: Openable, cycle: int) -> None:
    try:
        trace_id = picked.in_library()
    except (ValueError, OSError) as error:
        st.text(str(error))
        return
    trace_choice.open_in_trace_page(trace_id, cycle)
