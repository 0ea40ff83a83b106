"""A trace of the library as files of other kinds; each is made when its button is pressed."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from eagle3_viz import export, trace_json
from eagle3_viz.library.entries import Entry
from eagle3_viz.library.store import Library
from eagle3_viz.trace import Trace

NO_TREES = "Recorded without trees: run it again with record full to have them."


def draw(library: Library, entry: Entry, trace: Trace) -> None:
    """The buttons. What needs trees is disabled where none were recorded."""
    trees = any(cycle.nodes is not None for cycle in trace.cycles)
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_downloads"):
        _button("Parquet", entry.id, "parquet", lambda: library.read(entry.id))
        _button("JSON", entry.id, "json", lambda: trace_json.dumps(trace))
        _button("Web page", entry.id, "html", lambda: export.html_file(trace, name=entry.name))
        _button("Cycles CSV", f"{entry.id}-cycles", "csv", lambda: export.cycles_csv(trace))
        _button(
            "Nodes CSV", f"{entry.id}-nodes", "csv", lambda: export.nodes_csv(trace), off=not trees
        )
        _button("Summary", entry.id, "md", lambda: export.markdown_summary(trace, entry.name))
        if trace.cycles:
            _graph(entry, trace, trees)


def _graph(entry: Entry, trace: Trace, trees: bool) -> None:
    cycle = st.number_input(
        "Cycle",
        1,
        len(trace.cycles),
        key=f"library_cycle_{entry.id}",
        width=120,
        disabled=not trees,
    )
    name = f"{entry.id}-cycle-{cycle}"
    _button("GraphML", name, "graphml", lambda: export.graphml(trace, cycle - 1), off=not trees)


MIMES = {
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "html": "text/html",
    "csv": "text/csv",
    "md": "text/markdown",
    "graphml": "application/xml",
}


def _button(
    label: str, stem: str, kind: str, make: Callable[[], str | bytes], *, off: bool = False
) -> None:
    st.download_button(
        label,
        data=make,
        file_name=f"{stem}.{kind}",
        mime=MIMES[kind],
        key=f"library_take_{label.replace(' ', '_').lower()}",
        icon=":material/download:",
        on_click="ignore",
        disabled=off,
        help=NO_TREES if off else None,
    )
