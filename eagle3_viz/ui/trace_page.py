"""The Trace page around its view: which trace, its facts, twins of clicks, its address."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import streamlit as st

from eagle3_viz import service
from eagle3_viz.component.packed import packed_trace
from eagle3_viz.component.trace_view import trace_view
from eagle3_viz.cycle_view import node_labels, stop_node, token_text
from eagle3_viz.library import place
from eagle3_viz.library.folder import LIVE
from eagle3_viz.library.words import plain
from eagle3_viz.records import Cycle, Origin
from eagle3_viz.trace import Trace
from eagle3_viz.trace_words import NOT_LOSSLESS, circumstances, provenance
from eagle3_viz.ui import live_state, trace_state
from eagle3_viz.ui.trace_choice import address, chosen_trace, opened
from eagle3_viz.ui.trace_state import View
from eagle3_viz.wording import counted

HEIGHT = 652  # px of the view: all of it is on a screen of 800
PACKED = 4  # traces kept packed, of all visitors together
PROMPT_LIMIT = 8000  # characters
FACT_LIMIT = 200  # characters of a line
ONLY_HERE = "This run is in this browser tab alone: save it to the library, then it has a link."


def draw() -> None:
    """The whole page."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="trace_top"):
        goes_on = _goes_on()  # first: a trace that is read after it is as whole or more so
        chosen = chosen_trace("trace")
        growing = goes_on and chosen is not None and chosen[0] == LIVE
        if growing:
            st.button("Refresh", icon=":material/refresh:", on_click=trace_state.refresh)
        if st.button("Library", icon=":material/folder_open:", key="trace_library"):
            st.switch_page("pages/library.py")
    if chosen is None:
        return
    trace_id, name, whole = chosen
    view = trace_state.view()
    trace = view.still(trace_id, whole, growing=growing)
    view.follow(trace_id, trace)
    _facts(trace, growing=growing)
    trace_view(
        _packed(_key(trace_id, name, trace), trace),
        key=trace_state.COMPONENT,
        cycle=view.wished.cycle,
        node=view.wished.node,
        height=HEIGHT,
        asked=view.asked,
        on_change=trace_state.component_selected,
    )
    with st.container(horizontal=True, vertical_alignment="bottom", key="trace_twins"):
        _twins(trace, view)
        _share(trace_id, view)
    _about(trace)


def prepare(trace_id: str) -> None:
    """Have a trace of the library opened and packed before the page is drawn.

    Raises LibraryError where the page will have nothing to show.
    """
    trace = opened(trace_id)
    name = place.shared().names().get(trace_id)
    if name is not None:
        _packed(_key(trace_id, name, trace), trace)


def _goes_on() -> bool:
    """Whether this tab has a run that goes on; then the engine hears that its page is alive."""
    job = live_state.view().job
    if job is None or job.status.ended:
        return False
    service.shared_engine().heartbeat(job)
    return True


def _key(trace_id: str, name: str, trace: Trace) -> tuple[str, ...]:
    """What tells one packed trace from another: a file by its time, this tab's run by its start."""
    header = trace.header
    run = f"{header.started_at}#{header.seed}#{trace.finish}"
    made = run if trace_id == LIVE else str(place.shared().stamp(trace_id))
    return trace_id, name, made, str(len(trace.cycles))


@st.cache_resource(max_entries=PACKED, show_spinner=False)
def _packed(key: tuple[str, ...], _trace: Trace) -> str:
    return packed_trace(_trace, name=key[1])


def _facts(trace: Trace, *, growing: bool) -> None:
    """One line on what ran, one on how far a run has come, and a warning where it is due."""
    if not trace.header.lossless:
        st.warning(NOT_LOSSLESS, icon=":material/warning:")
    with st.container(key="trace_facts", gap=None):
        st.text(facts(trace))
        if growing:
            cycles = counted(len(trace.cycles), "cycle")
            st.text(f"The run goes on: {cycles} so far. Refresh shows what came since.")


def facts(trace: Trace) -> str:
    """Pair, method, rule, tree, temperature and seed, in one line."""
    header = trace.header
    (_, pair), (_, method), (_, where) = circumstances(trace)
    sampling = header.config.get("sampling")
    temperature = sampling.get("temperature") if isinstance(sampling, Mapping) else None
    words = [method, f"temperature {temperature}", f"seed {header.seed}", pair, where]
    return " · ".join(plain(str(word), FACT_LIMIT) for word in words)


def _twins(trace: Trace, view: View) -> None:
    """Keyboard twins of clicks in the view; their state is set from it before they are drawn."""
    if not trace.cycles:
        return
    cycle = trace.cycles[view.place.cycle or 0]
    st.session_state[trace_state.CYCLE] = cycle.index + 1
    st.number_input(
        "Cycle",
        1,
        len(trace.cycles),
        key=trace_state.CYCLE,
        on_change=trace_state.cycle_typed,
        width=130,
    )
    labels = _labels(trace, cycle)
    if labels:
        node = view.place.node
        last = len(labels) - 1 if _decided(cycle) else stop_node(cycle)
        st.session_state[trace_state.NODE] = last if node is None else node
        st.selectbox(
            "Node",
            range(len(labels)),
            format_func=lambda index: labels[index],
            key=trace_state.NODE,
            on_change=trace_state.node_picked,
            args=(cycle.verified,),
            width=300,
        )


def _labels(trace: Trace, cycle: Cycle) -> list[str]:
    """One line a node, the recovered or bonus token after them; none where no tree is drawn."""
    if trace.header.method == "ar":
        return []
    labels = node_labels(trace, cycle)
    if labels and _decided(cycle):
        origin = cycle.origins[-1].name.lower()
        labels.append(f"end  {token_text(trace, cycle.tokens[-1])}  {origin}")
    return labels


def _decided(cycle: Cycle) -> bool:
    return bool(cycle.origins) and cycle.origins[-1] in (Origin.RECOVERED, Origin.BONUS)


def _share(trace_id: str, view: View) -> None:
    """The end of the address that restores this view."""
    with st.container(key="trace_share", gap=None):
        if trace_id == LIVE:
            st.caption(ONLY_HERE)
        else:
            st.caption("Link to this view")
            link = address(trace_id, view.place.cycle or 0, view.place.node)
            st.text(f"?{urlencode(link)}")


def _about(trace: Trace) -> None:
    """What was asked, and everything that made the run."""
    header = trace.header
    with st.expander("Prompt and provenance", key="trace_about"):
        st.text(f"{'prompt':9} {counted(len(header.prompt_ids), 'token')}")
        prompt = header.prompt
        st.text(prompt[:PROMPT_LIMIT] or " ")
        if len(prompt) > PROMPT_LIMIT:
            st.text(f"{len(prompt) - PROMPT_LIMIT} more characters are in the trace file.")
        with st.container(gap="xsmall"):
            for label, value in provenance(trace):
                st.text(f"{label:9} {plain(value, 4 * FACT_LIMIT)}")
