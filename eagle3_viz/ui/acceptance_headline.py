"""The numbers at the top: each with its interval and the n it comes from."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.analysis.by_depth import acceptance_with_intervals
from eagle3_viz.analysis.expected import expected_overall, judged_visits
from eagle3_viz.analysis.intervals import wilson
from eagle3_viz.analysis.ledger.counts import counts_of
from eagle3_viz.analysis.lengths import tau_estimate
from eagle3_viz.trace import Trace
from eagle3_viz.wording import counted

ABOUT = (
    "Intervals are 95 %. Those of shares are Wilson's; that of tau is a bootstrap over the cycles "
    "of this run. All are of one prompt: they say nothing about others."
)


def draw(trace: Trace) -> None:
    """Four numbers in a row that wraps, and what their intervals are."""
    with st.container(horizontal=True, key="acceptance_headline"):
        for title, number, detail in headline(trace):
            with st.container(border=True, gap=None):
                st.metric(title, number)
                st.caption(detail)
    st.caption(ABOUT)


def headline(trace: Trace) -> list[tuple[str, str, str]]:
    """Title, number, and interval with n of each."""
    return [_tau(trace), _first_depth(trace), _of_verified(trace), _expected(trace)]


def _tau(trace: Trace) -> tuple[str, str, str]:
    title, tau = "Tokens per cycle (tau)", tau_estimate(trace)
    if tau is None:
        return title, "–", "no cycle that the end of the run did not cut"
    n = counted(tau.n, "uncut cycle")
    if tau.n < 2:
        return title, f"{tau.value:.2f}", f"no interval, n {n}"
    return title, f"{tau.value:.2f}", f"{tau.low:.2f} to {tau.high:.2f}, n {n}"


def _first_depth(trace: Trace) -> tuple[str, str, str]:
    title, table = "Accepted at depth 1", acceptance_with_intervals(trace)
    if table.empty:
        return title, "–", "no child of a root was tested"
    row = table.iloc[0]
    return title, *_share(row.accepted, row.tested, "cycle")


def _of_verified(trace: Trace) -> tuple[str, str, str]:
    counts = counts_of(trace)
    return "Accepted of verified drafts", *_share(counts.accepted, counts.drafted, "node")


def _share(hits: int, n: int, noun: str) -> tuple[str, str]:
    low, high = wilson(hits, n)
    bounds = f"{100 * float(low):.1f} to {100 * float(high):.1f} %"
    return f"{100 * hits / n:.1f} %", f"{bounds}, n {counted(int(n), noun)}"


def _expected(trace: Trace) -> tuple[str, str, str]:
    title = "Accepted per cycle, expected"
    judged = sum(bool(cycle.distributions) for cycle in trace.cycles)
    overall = expected_overall(judged_visits(trace), judged)
    if overall is None:
        return title, "–", "kept with record full only"
    detail = f"± {overall.chance:.2f} by chance; counted {overall.counted:.2f}"
    return title, f"{overall.expected:.2f}", f"{detail}, n {counted(overall.cycles, 'cycle')}"
