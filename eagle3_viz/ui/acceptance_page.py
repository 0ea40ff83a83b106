"""What the Acceptance page is about: one trace, several traces, or a suite."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.ui import acceptance_several, acceptance_suite, acceptance_trace

SOURCES = {
    "One trace": acceptance_trace.draw,
    "Several traces": acceptance_several.draw,
    "A suite": acceptance_suite.draw,
}


def draw() -> None:
    """The control, and below it the numbers of what it holds."""
    first = "Several traces" if acceptance_several.LINK in st.query_params else "One trace"
    source = st.segmented_control(
        "What the numbers are of",
        list(SOURCES),
        default=first,
        required=True,
        key="acceptance_of",
        bind="query-params",
        label_visibility="collapsed",
    )
    SOURCES[source or first]()
