"""Which trace a page shows, and which cycle and node of it: one choice for all pages, in the URL.

`?trace=<id>&cycle=<from 1>&node=<index>` restores a view. Streamlit can bind a select box to the
URL itself, but then puts the label there: names change, ids do not, so it is done by hand here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

from eagle3_viz.library import place
from eagle3_viz.library.folder import LIVE, SHIPPED
from eagle3_viz.library.store import LibraryError
from eagle3_viz.library.words import plain
from eagle3_viz.service import Job
from eagle3_viz.settings import method_title
from eagle3_viz.trace import Trace
from eagle3_viz.ui import live_state
from eagle3_viz.wording import counted

DEFAULT = f"{SHIPPED}eagle3-code"
OPEN_TRACES = 4  # kept in memory, of all visitors together
EMPTY = (
    "There is no trace to show. Run something on the Live page, or add a trace on the Library page."
)
NO_LIVE = (
    "The link shows a run that was live in another browser tab, and this tab has none. Save the "
    "run to the library there: then it has a link that works anywhere."
)
NO_SUCH = "The link names the trace {!r}, which is not in this library. Choose another one."
_CHOICE, _VIEW = "trace_choice", "trace_view"


@dataclass(frozen=True)
class Choice:
    """The trace shown last, and the run that was live then: a newer run goes first again."""

    trace: str
    job: Job | None


@dataclass(frozen=True)
class Place:
    """A cycle and a node of it, both counted from 0; None where the link names none."""

    cycle: int | None = None
    node: int | None = None


def chosen_trace(prefix: str) -> tuple[str, str, Trace] | None:
    """Draw the select box; (id, name, trace) of what it holds, None after saying why there is none.

    prefix: of the widget's key, one a page. A run that goes on is returned as far as it has come.
    """
    names = _names()
    if not names:
        st.text(EMPTY)
        return None
    asked = st.query_params.get("trace")
    chosen = _remembered(names) if asked is None else asked
    known = chosen in names
    key = f"{prefix}_trace"
    st.session_state[key] = chosen if known else None
    st.selectbox(
        "Trace",
        list(names),
        format_func=lambda trace_id: names.get(trace_id, trace_id),
        key=key,
        index=None,
        required=True,
        placeholder="Choose a trace",
        on_change=_picked,
        args=(key,),
    )
    if not known:
        st.text(NO_LIVE if chosen == LIVE else NO_SUCH.format(plain(chosen, 64)))
        return None
    _remember(chosen)
    _write(trace=chosen)
    return _opened_or_told(chosen, names[chosen])


def place_in(trace_id: str, trace: Trace) -> Place:
    """What the URL says to look at, else what this tab looked at last in this trace.

    A link to a cycle that is not there says so, and is taken as one to the trace alone; one to a
    node that is not there as one to its cycle.
    """
    params = st.query_params
    if "cycle" not in params:
        last, view = st.session_state.get(_VIEW, ("", Place()))
        if last != trace_id or not _fits(view, trace):
            return Place()
        keep_place(trace_id, view)
        return view
    wanted = Place(
        _number(params["cycle"]) - 1, _number(params["node"]) if "node" in params else None
    )
    if not _fits(replace(wanted, node=None), trace):
        st.text(
            f"The link names cycle {plain(params['cycle'], 12)}; the trace has "
            f"{counted(len(trace.cycles), 'cycle')}, counted from 1."
        )
        return Place()
    if not _fits(wanted, trace):
        nodes = trace.cycles[wanted.cycle or 0].verified
        st.text(
            f"The link names node {plain(params['node'], 12)} of cycle {params['cycle']}, which "
            f"has {counted(nodes, 'node')}, counted from 0: the cycle is shown."
        )
        return replace(wanted, node=None)
    keep_place(trace_id, wanted)
    return wanted


def keep_place(trace_id: str, view: Place) -> None:
    """Put what is looked at into the URL, and remember it for when this tab comes back."""
    st.session_state[_VIEW] = (trace_id, view)
    query = address(trace_id, view.cycle, view.node)
    _write(cycle=query.get("cycle"), node=query.get("node"))


def address(trace_id: str, cycle: int | None = None, node: int | None = None) -> dict[str, str]:
    """The query parameters of a link to a trace, and to a cycle and node of it, counted from 0."""
    query = {"trace": trace_id}
    if cycle is not None:
        query["cycle"] = str(cycle + 1)
        if node is not None:
            query["node"] = str(node)
    return query


def open_in_trace_page(trace_id: str, cycle: int | None = None, node: int | None = None) -> None:
    """Go to the Trace page, at a cycle and node counted from 0. Ends the script run."""
    _go("pages/trace.py", trace_id, cycle, node)


def open_in_acceptance_page(trace_id: str) -> None:
    """Go to the Acceptance page with this trace. Ends the script run."""
    _go("pages/acceptance.py", trace_id)


def _go(page: str, trace_id: str, cycle: int | None = None, node: int | None = None) -> None:
    st.session_state.pop(_VIEW, None)
    st.switch_page(page, query_params=address(trace_id, cycle, node))


def _names() -> dict[str, str]:
    """What each trace on offer is called, this tab's run first; no two are called the same."""
    names = place.shared().names()
    trace = _live()
    if trace is None:
        return names
    return {LIVE: f"This tab's run, {method_title(trace.header.method)}", **names}


def _remembered(names: dict[str, str]) -> str:
    """The one shown last while no run is newer; else this tab's run, what ships, or the first."""
    choice: Choice | None = st.session_state.get(_CHOICE)
    if choice is not None and choice.trace in names and choice.job is live_state.view().job:
        return choice.trace
    return next(name for name in (LIVE, DEFAULT, *names) if name in names)


def _remember(trace_id: str) -> None:
    st.session_state[_CHOICE] = Choice(trace_id, live_state.view().job)


def _picked(key: str) -> None:
    """The select box moved to another trace: the cycle and node of the last one mean nothing."""
    st.session_state.pop(_VIEW, None)
    _write(trace=st.session_state[key], cycle=None, node=None)


def _write(**query: str | None) -> None:
    """Change the query parameters that are named; None removes one.

    All together, for the browser's history gets an entry each time.
    """
    now = st.query_params.to_dict()
    wanted = {name: value for name, value in {**now, **query}.items() if value is not None}
    if wanted != now:
        st.query_params.from_dict(wanted)


def _live() -> Trace | None:
    job = live_state.view().job
    trace = None if job is None else job.trace
    if job is None or trace is None or job.status.ended:
        return trace
    return replace(trace, cycles=list(trace.cycles), token_bytes=dict(trace.token_bytes))


def _opened_or_told(trace_id: str, name: str) -> tuple[str, str, Trace] | None:
    live = _live() if trace_id == LIVE else None
    try:
        return trace_id, name, live or opened(trace_id)
    except LibraryError as error:
        st.text(f"The trace cannot be opened: {error}")
        return None


def opened(trace_id: str) -> Trace:
    """A trace of the library, kept for a while. Raises LibraryError."""
    library = place.shared()
    return _opened(str(library.folder), trace_id, library.stamp(trace_id))


@st.cache_resource(max_entries=OPEN_TRACES, show_spinner=False)
def _opened(folder: str, trace_id: str, stamp: int) -> Trace:
    """Read once while the file stays as it is; several visitors share one trace."""
    return place.shared().open(trace_id)


def _number(text: str) -> int:
    """A number in the URL; -1, which is nowhere, for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def _fits(view: Place, trace: Trace) -> bool:
    if view.cycle is None:
        return view.node is None
    if not 0 <= view.cycle < len(trace.cycles):
        return False
    return view.node is None or 0 <= view.node < trace.cycles[view.cycle].verified
