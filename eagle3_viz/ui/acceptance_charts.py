"""The charts of one run, and the tables behind them."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from eagle3_viz.analysis import by_depth, calibration, expected, lengths, misses
from eagle3_viz.analysis.drafted_nodes import drafted_nodes
from eagle3_viz.figures import acceptance_calibration as reliability
from eagle3_viz.figures import acceptance_depth, acceptance_heat, acceptance_tau
from eagle3_viz.figures.colours import Mode
from eagle3_viz.figures.histogram import accepted_per_cycle
from eagle3_viz.trace import Trace
from eagle3_viz.ui.charts import chart, theme

Panel = Callable[[Trace, Mode], pd.DataFrame]

RECORDED = "This needs the nodes of every cycle: run with record outcomes or full."
RECORDED_FULL = "This needs what record full keeps: run with record full."
DEPTH_NOTE = (
    "Conditional: accepted there / tested there, that is, where the node above was accepted and "
    "had children. Unconditional: accepted there / all cycles, what serving engines publish as "
    "per-position acceptance."
)
EXPECTED_NOTES = {
    "greedy": "Greedy draws nothing: at every visit the formula gives 0 or 1, and the two agree.",
    "topk": "The formula of topk: the sum of p over the children of the node.",
    "sample": "The formula of sample: 1 - prod (1 - A) over the children drawn, A the accept "
    "probability of each; with one child, the sum of min(p, q).",
    "typical": "Typical draws nothing: at every visit the formula gives 0 or 1, and the two agree.",
}
COMPARABLE = (
    "Comparable: both are taken over the same visits of the walk, with the p that the rule used, "
    "so they differ by chance alone. Not comparable: two depths, since the walk only gets deeper "
    "where everything above was accepted; and the overlap sum of min(p_raw, q) of the Trace page, "
    "which is taken at temperature 1."
)
RANK_NOTE = (
    "A sibling is tested after those before it were refused: the share of a later rank is of the "
    "cases that the earlier ones left. Nodes that the walk never came to are not in it."
)
MISS_NOTE = (
    "For each cycle that ended with a token that no verified child matched, the first cause that "
    "holds: the draft vocabulary lacks the token; the walk was at the deepest level; the node was "
    "not expanded; the token stood there and was refused; the budget pruned it; the draft ranked "
    "it below its top-k."
)
LOOKUP_MISS = " Prompt lookup has one guess a node: outside the top-k means the text went on "
LOOKUP_MISS += "differently, not expanded that the copy ended."
TOKEN_NOTE = (
    "Every verified node: the draft's q of its token against the target's p at temperature 1. "
    "ECE is the expected calibration error over ten bins."
)
PATH_NOTE = (
    "Every verified node: exp of its score, the product of q along its path, against whether the "
    "whole path was accepted. Nodes of one tree exclude each other, so the intervals are a guide."
)
SAMPLED_PATH = (
    " Under sample a drawn path is not accepted with the product of its p, so the diagonal is no "
    "yardstick for this draft."
)
NO_CONFIDENCE = "Prompt lookup copies text and has no confidence to calibrate."
LENGTH_NOTE = "Uncut cycles. The mean is tau - 1: the target adds a token of its own."
TAU_NOTE = (
    "Uncut cycles in their order. The band is of the mean so far, by the central limit theorem: it "
    "takes the cycles for independent draws, which a text's are not quite."
)


def draw(trace: Trace) -> None:
    """Two charts a row where there is room, then their numbers."""
    panels: tuple[Panel, ...] = (
        _depth,
        _expected,
        _ranks,
        _misses,
        _lengths,
        _tau,
        _token_reliability,
        _path_reliability,
    )
    mode, tables = theme(), {}
    with st.container(key="acceptance_charts"):  # stacked by the style sheet where it is narrow
        for pair in zip(panels[::2], panels[1::2], strict=True):
            for column, panel in zip(st.columns(2, gap="medium"), pair, strict=True):
                with column:
                    table = panel(trace, mode)
                    if len(table):
                        tables[_title(panel)] = table
    _as_tables(tables)


def _title(panel: Panel) -> str:
    return panel.__name__.strip("_").replace("_", " ")


def _depth(trace: Trace, mode: Mode) -> pd.DataFrame:
    table = by_depth.acceptance_with_intervals(trace)
    figure = acceptance_depth.depth_figure(table, mode=mode)
    chart(figure, "acceptance_depth", acceptance_depth.depth_words(table))
    st.caption(DEPTH_NOTE)
    return table


def _expected(trace: Trace, mode: Mode) -> pd.DataFrame:
    visits = expected.judged_visits(trace)
    if visits.empty:
        return _missing("Expected and counted acceptance", RECORDED_FULL)
    table = expected.expected_by_depth(visits)
    figure = acceptance_depth.expected_figure(table, mode=mode)
    chart(figure, "acceptance_expected", acceptance_depth.expected_words(table))
    st.caption(f"{EXPECTED_NOTES[trace.header.rule]} {COMPARABLE}")
    return table


def _ranks(trace: Trace, mode: Mode) -> pd.DataFrame:
    nodes = drafted_nodes(trace)
    if nodes.empty:
        return _missing("Accepted / tested by depth and draft rank", RECORDED)
    table = by_depth.acceptance_by_rank(nodes)
    figure = acceptance_heat.rank_figure(table, by_depth.LAST_RANK, mode=mode)
    chart(figure, "acceptance_ranks", acceptance_heat.rank_words(table))
    st.caption(RANK_NOTE)
    return table


def _misses(trace: Trace, mode: Mode) -> pd.DataFrame:
    endings = misses.cycle_endings(trace)
    counts, shares = misses.misses_by_depth(endings), misses.miss_shares(endings)
    if counts.empty:
        return _missing("Why the decided token was not in the tree", RECORDED_FULL)
    figure = acceptance_heat.miss_figure(counts, shares, mode=mode)
    chart(figure, "acceptance_misses", acceptance_heat.miss_words(shares))
    others = endings.ending.value_counts().reindex(list(misses.Ending)).dropna().astype(int)
    rest = "".join(f" Not in it: {n} of {len(endings)}, {why}." for why, n in others.items())
    st.caption(MISS_NOTE + (LOOKUP_MISS if trace.header.method == "lookup" else "") + rest)
    return shares


def _lengths(trace: Trace, mode: Mode) -> pd.DataFrame:
    table = lengths.accepted_lengths(trace)
    parts = [f"{row.accepted} drafts: {row.cycles}" for row in table.itertuples()]
    alt = f"Accepted drafts per cycle. {'; '.join(parts)} cycles."
    chart(accepted_per_cycle(trace, mode=mode), "acceptance_lengths", alt)
    st.caption(LENGTH_NOTE)
    return table


def _tau(trace: Trace, mode: Mode) -> pd.DataFrame:
    table = lengths.running_tau(trace)
    figure = acceptance_tau.running_tau_figure(table, lengths.WINDOW, mode=mode)
    chart(figure, "acceptance_tau", acceptance_tau.running_tau_words(table))
    st.caption(TAU_NOTE)
    return table


def _token_reliability(trace: Trace, mode: Mode) -> pd.DataFrame:
    title, nodes = "Confidence in a token", drafted_nodes(trace)
    if trace.header.method == "lookup" or nodes.empty:
        return _missing(title, RECORDED if nodes.empty else NO_CONFIDENCE)
    found = calibration.token_reliability(nodes)
    figure = reliability.reliability_figure(
        found, title=title, x="q of the token", y="mean p at temperature 1", mode=mode
    )
    chart(figure, "acceptance_token", reliability.reliability_words(found, title))
    st.caption(TOKEN_NOTE)
    return found.bins


def _path_reliability(trace: Trace, mode: Mode) -> pd.DataFrame:
    title, nodes = "Confidence in a path", drafted_nodes(trace)
    if trace.header.method == "lookup" or nodes.empty:
        return _missing(title, RECORDED if nodes.empty else NO_CONFIDENCE)
    found = calibration.path_reliability(nodes)
    figure = reliability.reliability_figure(
        found, title=title, x="product of q along the path", y="share accepted", mode=mode
    )
    chart(figure, "acceptance_path", reliability.reliability_words(found, title))
    st.caption(PATH_NOTE + (SAMPLED_PATH if trace.header.rule == "sample" else ""))
    return found.bins


def _missing(title: str, why: str) -> pd.DataFrame:
    """A box in place of the chart; there is no table."""
    with st.container(border=True):
        st.text(title)
        st.text(why)
    return pd.DataFrame()


@st.fragment
def _as_tables(tables: dict[str, pd.DataFrame]) -> None:
    """Sent to the browser when somebody opens them."""
    box = st.expander(
        "The numbers of the charts as tables", key="acceptance_tables", on_change="rerun"
    )
    if not box.open:
        return
    with box:
        for title, table in tables.items():
            st.text(title.capitalize())
            st.dataframe(
                table,
                hide_index=True,
                width="stretch",
                key=f"acceptance_table_{title.replace(' ', '_')}",
                placeholder="–",
                alt=f"The numbers of the chart: {title}",
                column_config={
                    name: st.column_config.NumberColumn(name, format="%.4f")
                    for name in table.select_dtypes("float")
                },
            )
