"""Below a still run: the selected node in words, its distributions, the run in two charts."""

from __future__ import annotations

import streamlit as st

from eagle3_viz import trace_file
from eagle3_viz.component import miss_sentence, node_sentence
from eagle3_viz.cycle_view import distributions_at, node_labels, node_table, stop_node
from eagle3_viz.figures.distributions import next_tokens
from eagle3_viz.figures.histogram import accepted_per_cycle
from eagle3_viz.figures.timings import time_per_cycle
from eagle3_viz.records import Cycle
from eagle3_viz.trace import Header, ModelSource, Trace
from eagle3_viz.trace_words import NOT_LOSSLESS
from eagle3_viz.ui import live_save, live_state
from eagle3_viz.ui.charts import chart, theme
from eagle3_viz.ui.live_state import View
from eagle3_viz.wording import counted

ELSEWHERE = "The walk did not go through the selected node: shown where it was judged."
NOTES = {
    "greedy": "Bars: p at temperature 1. The rule takes the arg-max of p.",
    "topk": "Bars: p at temperature 1. The rule accepts with the warped p (diamonds, where it "
    "differs); q is only the draft's confidence.",
    "sample": "Bars: p at temperature 1. The rule accepts with min(1, p/q) of the warped p "
    "(diamonds, where it differs).",
    "typical": "Bars: p at temperature 1. The rule keeps what the warped p (diamonds, where it "
    "differs) gives more than a threshold: this changes the output distribution.",
}
PROBABILITIES = ("q draft", "p target", "p of the rule", "p when tested", "accept probability")


def draw(trace: Trace, state: View) -> None:
    """Twins of the view's selection, the sentence, the charts, the table and the download.

    Autoregression has no tree: what is about nodes is left out. A run that ended at prefill has
    no cycle: only the download and what made the run are left.
    """
    if not trace.header.lossless:
        st.warning(NOT_LOSSLESS, icon=":material/warning:")
    if not trace.cycles:
        with st.container(horizontal=True, key="live_selection"):
            _download(trace)
            live_save.button(trace)
        live_save.tell(trace)
        _about(trace.header)
        return
    cycle = trace.cycles[-1 if state.cycle is None else min(state.cycle, len(trace.cycles) - 1)]
    node = stop_node(cycle) if state.node is None else state.node
    if cycle.nodes is not None:
        node = min(node, len(cycle.nodes) - 1)
    with st.container(horizontal=True, vertical_alignment="bottom", key="live_selection"):
        _twins(trace, cycle, node)
        _download(trace)
        live_save.button(trace)
    live_save.tell(trace)
    with st.container(key="live_sentence", gap=None):
        st.text(node_sentence(trace, cycle.index, node))
        if _drafted(trace) and node == stop_node(cycle):
            st.text(miss_sentence(trace, cycle.index))
    _charts(trace, cycle, node)
    _table(trace, cycle)
    _about(trace.header)


def _download(trace: Trace) -> None:
    st.download_button(
        "Download the trace",
        data=lambda: trace_file.to_bytes(trace),
        file_name="trace.parquet",
        mime="application/vnd.apache.parquet",
        key="live_download",
        icon=":material/download:",
        on_click="ignore",
    )


def _drafted(trace: Trace) -> bool:
    return trace.header.method != "ar"


def _twins(trace: Trace, cycle: Cycle, node: int) -> None:
    """Keyboard twins of clicks in the view; their state is set from it before they are drawn."""
    labels = node_labels(trace, cycle) if _drafted(trace) else []
    st.session_state.live_cycle = cycle.index + 1
    st.number_input(
        "Cycle",
        1,
        len(trace.cycles),
        key="live_cycle",
        on_change=live_state.cycle_typed,
        width=130,
    )
    if labels:
        st.session_state.live_node = node
        st.selectbox(
            "Node",
            range(len(labels)),
            format_func=lambda index: labels[index],
            key="live_node",
            on_change=live_state.node_picked,
            width=340,
        )


def _charts(trace: Trace, cycle: Cycle, node: int) -> None:
    mode = theme()
    with st.container(key="live_charts"):  # stacked by the style sheet where the page is narrow
        left, *middle, right = st.columns([5, 3, 4] if _drafted(trace) else [1, 1])
    at = distributions_at(cycle, node)
    with left:
        if at is None:
            st.text("Distributions were not recorded: choose record full.")
        else:
            after = cycle.root if cycle.nodes is None else int(cycle.nodes.token[at.node])
            chart(next_tokens(trace, at, after=after, mode=mode), "live_distributions")
            st.caption(_note(trace, at.node == node))
    for column in middle:
        with column:
            chart(accepted_per_cycle(trace, mode=mode), "live_histogram")
    with right:
        chart(time_per_cycle(trace, selected=cycle.index, mode=mode), "live_timings")


def _note(trace: Trace, own: bool) -> str:
    """What the bars are, and what they are not."""
    return NOTES[trace.header.rule] if own else f"{ELSEWHERE} {NOTES[trace.header.rule]}"


def _table(trace: Trace, cycle: Cycle) -> None:
    table = node_table(trace, cycle)
    if table.empty or not _drafted(trace):
        return
    with st.expander(f"Nodes of cycle {cycle.index + 1}", key="live_nodes"):
        st.dataframe(
            table,
            hide_index=True,
            width="stretch",
            column_config={
                "token": st.column_config.TextColumn("token"),
                **{
                    name: st.column_config.NumberColumn(name, format="%.4f")
                    for name in PROBABILITIES
                },
                "draw": st.column_config.NumberColumn("draw", format="%.4f"),
            },
        )


def _about(header: Header) -> None:
    """What made the run; the trace holds all of it."""
    with st.expander("About this run", key="live_about"):
        st.text(f"target  {_source(header.target)}")
        if header.draft is not None:
            st.text(f"draft   {_source(header.draft)}, {header.draft_vocabulary:,} tokens")
        threads = counted(header.threads, "thread")
        st.text(f"numbers {header.dtype_reason}; {threads} on {header.device}")
        if header.baseline is not None:
            baseline = header.baseline
            st.text(f"AR      {baseline.ms_per_token:.1f} ms a token: {baseline.how}")


def _source(source: ModelSource) -> str:
    return f"{source.name}, {source.parameters / 1e6:,.1f} M parameters, {source.location}"
