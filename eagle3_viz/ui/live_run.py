"""The part of the Live page that follows a run: the live view; a failure has a box of its own."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.component import live_view
from eagle3_viz.service import Engine, Phase
from eagle3_viz.ui import live_asked, live_feed, live_state, live_status

HEIGHT = 586  # px of the live view
INTRODUCTION = (
    "Run decodes the prompt with the chosen method. Each cycle drafts a tree of tokens, verifies "
    "it in one pass of the target, and keeps what the acceptance rule lets through."
)


def draw(engine: Engine) -> None:
    """Mounts the view. One that follows a run asks for its cycles itself, and tells the script
    when the run has become still."""
    state = live_state.view()
    state.moved = False
    st.fragment(_follow)(engine)


def _follow(engine: Engine) -> None:
    state = live_state.view()
    job = state.job
    if job is None:
        with st.container(key="live_placeholder", border=True):
            st.text(INTRODUCTION)
        return
    engine.heartbeat(job)
    status = job.status
    if status.still != state.drawn.still or (state.moved and status.still):
        st.rerun(scope="app")
    if status.phase is Phase.FAILED:
        with st.container(key="live_failed", border=True):
            st.text(live_status.describe(status, job.trace))
        if job.trace is None:
            return
    live_view(
        live_status.progress(job, held=engine.paused) if status.still else None,
        feed=None if status.ended else live_feed.address(job.key),
        note=live_asked.change_words(job, live_state.request(), status),
        cycle=state.cycle,
        node=state.node,
        key="live_view",
        height=HEIGHT,
        on_select=live_state.component_selected,
    )
