"""Several traces of the library, by domain."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from eagle3_viz.analysis.trace_results import MeasuredTrace, measured_trace, results_of
from eagle3_viz.library import place
from eagle3_viz.library.entries import Entry, distinct_names
from eagle3_viz.library.store import Library, LibraryError
from eagle3_viz.library.words import plain
from eagle3_viz.trace import Trace
from eagle3_viz.ui import acceptance_domains, trace_choice
from eagle3_viz.ui.acceptance_source import Openable, Source

MOST = 60  # traces at once
MOST_MISSING = 5  # of a link, named
FIRST = ("eagle1", "eagle3")  # methods that the page opens with, decoded greedily
LINK = "traces"  # in the address: ids with commas between them
CHOSEN = "acceptance_traces"  # the select box
NONE = "Choose two traces or more: of several prompts, methods or drafts."


def draw() -> None:
    """The choice of traces, and what they amount to."""
    library = place.shared()
    entries = {entry.id: entry for entry in library.entries() if entry.cycles}
    names = distinct_names({entry.id: entry.name for entry in entries.values()})
    _follow_link(entries)
    chosen = st.multiselect(
        "Traces",
        list(entries),
        format_func=lambda trace_id: names.get(trace_id, trace_id),
        max_selections=MOST,
        key=CHOSEN,
        on_change=_keep_link,
        placeholder="Traces of the library",
    )
    if len(chosen) < 2:
        st.text(NONE)
        return
    with st.spinner("Reading the traces…"):
        traces, problems = _measure(library, [entries[one] for one in chosen if one in entries])
    for problem in problems:
        st.text(problem)
    if traces:
        acceptance_domains.draw(_source(traces))


def _follow_link(entries: Mapping[str, Entry]) -> None:
    """Open with the traces that the address names; what is not here is said."""
    named = [part.strip() for part in st.query_params.get(LINK, "").split(",") if part.strip()]
    if CHOSEN not in st.session_state:
        opening = (
            [one for one in dict.fromkeys(named) if one in entries]
            if named
            else [one.id for one in entries.values() if _opens_with(one)]
        )
        st.session_state[CHOSEN] = opening[:MOST]
    missing = [plain(one, 64) for one in named if one not in entries]
    if missing:
        shown = ", ".join(map(repr, missing[:MOST_MISSING]))
        more = f" and {len(missing) - MOST_MISSING} more" if len(missing) > MOST_MISSING else ""
        st.text(f"Not in this library, or without a cycle: {shown}{more}, which the link names.")


def _keep_link() -> None:
    """In a callback: the address names what is chosen."""
    st.query_params[LINK] = ",".join(st.session_state[CHOSEN])


def _opens_with(entry: Entry) -> bool:
    return entry.shipped and entry.rule == "greedy" and entry.method in FIRST


def _measure(library: Library, entries: list[Entry]) -> tuple[list[MeasuredTrace], list[str]]:
    """The traces that can be read, and a sentence about each other one."""
    traces, problems = [], []
    for entry in entries:
        try:
            stamp = library.stamp(entry.id)
            traces.append(_measured(library, entry.id, stamp, entry.domain))
        except (LibraryError, OSError) as error:
            problems.append(f"{entry.name} is left out: {error}")
    return traces, problems


@st.cache_resource(max_entries=500, show_spinner=False)
def _measured(_library: Library, trace_id: str, stamp: int, domain: str) -> MeasuredTrace:
    """A trace is opened once for its sums; `stamp` says which version of its file."""
    return measured_trace(trace_id, domain, _library.open(trace_id))


def _source(traces: list[MeasuredTrace]) -> Source:
    found = results_of(traces)

    def openables(setting: str, set_name: str, prompt: str) -> list[Openable]:
        return [_openable(one) for one in found.ids.get((setting, prompt), ())]

    return Source(
        key=repr([(one.id, one.domain, one.header.started_at) for one in traces]),
        results=found.results,
        title=lambda set_name, prompt: found.titles[prompt],
        openables=openables,
        about="A prompt is one trace of each setting; its domain is what the library says. "
        "Speed-up: over the autoregression that was measured with each run.",
    )


def _openable(trace_id: str) -> Openable:
    def load() -> Trace:
        return trace_choice.opened(trace_id)

    return Openable(trace_id, load, lambda: trace_id)
