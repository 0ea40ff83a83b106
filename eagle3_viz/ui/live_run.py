"""The part of the Live page that follows a run: a status line and the live view."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.component import live_payload, live_view
from eagle3_viz.component.payload import Status as Shown
from eagle3_viz.service import Engine, Phase, Status
from eagle3_viz.trace import Trace
from eagle3_viz.ui import live_state
from eagle3_viz.ui.live_state import View
from eagle3_viz.wording import counted

REFRESH = 0.2  # seconds between updates of a run; drawing twice as often slows the engine by half
HEARTBEAT = 30.0  # seconds, while paused
HEIGHT = 560  # px of the live view
TAIL = 12  # cycles an update repeats, in case the browser skipped the ones before
INTRODUCTION = (
    "Run decodes the prompt with the chosen method. Each cycle drafts a tree of tokens, verifies "
    "it in one pass of the target, and keeps what the acceptance rule lets through."
)
ENDS = {
    "eos": "the answer is complete",
    "length": "the token limit is reached",
    "context": "the context is full",
    "stop": "a stop string was produced",
}
SHOWN: dict[Phase, Shown] = {
    Phase.QUEUED: "queued",
    Phase.LOADING: "queued",
    Phase.MEASURING: "queued",
    Phase.RUNNING: "running",
    Phase.PAUSED: "paused",
    Phase.FINISHED: "finished",
    Phase.STOPPED: "stopped",
    Phase.FAILED: "failed",
}


def draw(engine: Engine) -> None:
    """Mounts the fragment at the pace the job needs; the whole trace is sent first."""
    state = live_state.view()
    status = state.job.status if state.job is not None else Status(Phase.STOPPED)
    state.still, state.sent, state.moved = status.still, 0, False
    pace = None if status.ended else HEARTBEAT if status.still else REFRESH
    st.fragment(_follow, run_every=pace)(engine)


def _follow(engine: Engine) -> None:
    state = live_state.view()
    job = state.job
    if job is None:
        _placeholder(INTRODUCTION)
        return
    engine.heartbeat(job)
    status, trace = job.status, job.trace
    _tell(status, trace, held=engine.paused)
    if trace is not None:
        _show(state, trace, status)
    if status.still != state.still or (state.moved and status.still):
        st.rerun(scope="app")


def _tell(status: Status, trace: Trace | None, *, held: bool) -> None:
    """The sentence: a line above the live view, a box of its own while there is no view."""
    sentence = describe(status, trace, held=held)
    if status.phase is Phase.FAILED:
        with st.container(key="live_failed", border=True):
            st.text(sentence)
    elif trace is None:
        _placeholder(sentence, progress=status)
    else:
        with st.container(key="live_status"):
            st.text(sentence)


def _show(state: View, trace: Trace, status: Status) -> None:
    cycles = len(trace.cycles)
    payload = live_payload(
        trace,
        status=SHOWN[status.phase],
        first_cycle=max(0, state.sent - TAIL),
        selected_cycle=state.cycle,
        selected_node=state.node,
    )
    state.sent = cycles
    live_view(payload, key="live_view", height=HEIGHT, on_change=live_state.component_selected)


def _placeholder(text: str, progress: Status | None = None) -> None:
    with st.container(key="live_placeholder", border=True):
        st.text(text)
        if progress is not None and progress.total:
            st.progress(min(1.0, progress.done / progress.total))


def describe(status: Status, trace: Trace | None, *, held: bool = False) -> str:
    """One plain sentence about where a job is; `held`: the run being decoded is paused."""
    if status.ended or not status.stopping:
        return _plainly(status, trace, held)
    return "Stopping at the next cycle boundary…"


def _plainly(status: Status, trace: Trace | None, held: bool) -> str:
    cycles = counted(len(trace.cycles) if trace is not None else 0, "cycle")
    match status.phase:
        case Phase.QUEUED:
            why = "a paused run holds the engine" if held else "one run decodes at a time"
            return f"Queued, position {status.position}: {why}."
        case Phase.LOADING:
            return f"Loading the pair: {status.message or 'starting'}{_amount(status)}"
        case Phase.MEASURING:
            return f"Measuring autoregression on this prompt, for the speed-up{_amount(status)}"
        case Phase.RUNNING:
            return "Pausing at the next cycle boundary…" if status.pausing else "Running"
        case Phase.PAUSED:
            return f"Paused after {cycles}."
        case Phase.STOPPED:
            return f"Stopped after {cycles}."
        case Phase.FAILED:
            return f"Failed: {status.message}"
        case Phase.FINISHED:
            return f"Finished after {cycles}: {_end(trace)}."


def _amount(status: Status) -> str:
    return f" ({status.done} of {status.total})" if status.total else ""


def _end(trace: Trace | None) -> str:
    last = None
    if trace is not None:
        last = trace.cycles[-1] if trace.cycles else trace.prefill
    return ENDS[last.finish] if last is not None and last.finish else "nothing is left to do"
