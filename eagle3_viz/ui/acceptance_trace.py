"""The acceptance of one run: numbers, charts, the worst cycles, the metric ledger."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.trace import Trace
from eagle3_viz.ui import (
    acceptance_charts,
    acceptance_headline,
    acceptance_ledger,
    acceptance_worst,
    trace_choice,
)
from eagle3_viz.wording import counted

NOT_LOSSLESS = (
    "The rule typical changes the output distribution: what it accepts says nothing about a "
    "lossless rule."
)


def draw() -> None:
    """The chosen trace; what it has nothing to show for is said in a sentence."""
    chosen = trace_choice.chosen_trace("acceptance")
    if chosen is None:
        return
    trace_id, _, trace = chosen
    nothing = nothing_to_show(trace)
    if nothing:
        st.text(nothing)
        return
    if not trace.header.lossless:
        st.warning(NOT_LOSSLESS, icon=":material/warning:")
    acceptance_headline.draw(trace)
    acceptance_charts.draw(trace)
    st.subheader("The worst cycles")
    acceptance_worst.draw(
        trace,
        lambda cycle: trace_choice.open_in_trace_page(trace_id, cycle),
        key="acceptance_worst",
    )
    acceptance_ledger.draw(trace)


def nothing_to_show(trace: Trace) -> str:
    """Why the trace has no acceptance to show, "" where it has."""
    if trace.header.method == "ar":
        return (
            "Autoregression drafts nothing, so there is no acceptance to show. Choose a trace of "
            "another method."
        )
    if not trace.cycles:
        return (
            "This run has no cycle yet."
            if trace.finish is None
            else "This run ended with the token that prefill decided: it has no cycle."
        )
    if not any(cycle.verified > 1 for cycle in trace.cycles):
        cycles = counted(len(trace.cycles), "cycle")
        return f"Nothing was drafted in the {cycles} of this run: there is no acceptance to show."
    return ""
