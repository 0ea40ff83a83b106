"""What one can do with a trace of the library: open it, take it along, name it, delete it."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.library.entries import Entry
from eagle3_viz.library.store import Library, LibraryError
from eagle3_viz.library.words import MAX_NAME, MAX_TAG, MAX_TAGS
from eagle3_viz.presets import DOMAINS
from eagle3_viz.settings import method_title
from eagle3_viz.ui import library_downloads, trace_choice
from eagle3_viz.wording import counted

READ_ONLY = "This trace ships with the program: it can be opened and taken along, not changed."


def draw(library: Library, entry: Entry) -> None:
    """The panel of one entry."""
    with st.container(border=True, key="library_panel"):
        _facts(entry)
        _open_buttons(entry)
        try:
            trace = trace_choice.opened(entry.id)
        except LibraryError as error:
            st.text(f"The trace cannot be opened: {error}")
        else:
            library_downloads.draw(library, entry, trace)
        if entry.shipped:
            st.caption(READ_ONLY)
        else:
            _labels(library, entry)
            _delete(library, entry)
        told = st.session_state.pop("library_told", None)
        if told:
            st.text(told)


def _facts(entry: Entry) -> None:
    parts = [
        method_title(entry.method),
        f"rule {entry.rule}",
        entry.pair,
        f"{counted(entry.tokens, 'token')} in {counted(entry.cycles, 'cycle')}",
    ]
    parts += [] if entry.tau is None else [f"tau {entry.tau:.2f}"]
    parts += [] if entry.speedup is None else [f"speed-up {entry.speedup:.2f}"]
    parts.append(f"{entry.bytes / 1024:,.0f} kB")
    with st.container(key="library_facts", gap=None):
        st.text(" · ".join(parts))
        st.text(f"Prompt: {entry.prompt}")


def _open_buttons(entry: Entry) -> None:
    with st.container(horizontal=True):
        if st.button(
            "Open on the Trace page",
            key="library_open",
            type="primary",
            icon=":material/account_tree:",
        ):
            trace_choice.open_in_trace_page(entry.id)
        if st.button(
            "Open on the Acceptance page", key="library_acceptance", icon=":material/bar_chart:"
        ):
            trace_choice.open_in_acceptance_page(entry.id)


def _labels(library: Library, entry: Entry) -> None:
    """Name, tags and domain; the keys name the entry, so that another one brings its own."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_labels"):
        st.text_input("Name", entry.name, MAX_NAME, key=f"library_name_{entry.id}")
        st.text_input(
            "Tags",
            ", ".join(entry.tags),
            MAX_TAGS * (MAX_TAG + 2),
            key=f"library_tags_{entry.id}",
            help=f"Up to {MAX_TAGS}, with commas between them.",
        )
        options = ["", *DOMAINS, *({entry.domain} - {"", *DOMAINS})]
        st.selectbox(
            "Domain",
            options,
            options.index(entry.domain),
            format_func=lambda domain: domain or "not said",
            key=f"library_domain_{entry.id}",
            width=160,
        )
        st.button("Save", key="library_save", on_click=_relabel, args=(library, entry))


def _relabel(library: Library, entry: Entry) -> None:
    """In a callback: write what changed."""
    at = st.session_state
    name, domain = at[f"library_name_{entry.id}"], at[f"library_domain_{entry.id}"]
    tags = tuple(at[f"library_tags_{entry.id}"].split(","))
    try:
        if name != entry.name:
            library.rename(entry.id, name)
        library.tag(entry.id, tags)
        if domain != entry.domain:
            library.file_under(entry.id, domain)
    except LibraryError as error:
        at.library_told = f"Not saved: {error}"
        return
    _forget_inputs(entry)
    at.library_told = "Saved."


def _forget_inputs(entry: Entry) -> None:
    """The inputs show again what is kept, cleaned."""
    for part in ("name", "tags", "domain"):
        st.session_state.pop(f"library_{part}_{entry.id}", None)


def _delete(library: Library, entry: Entry) -> None:
    with st.popover("Delete…", icon=":material/delete:", key="library_delete"):
        st.text(
            "The file goes away for everybody who uses this server, and cannot be brought back:"
        )
        st.text(entry.name)
        st.button(
            "Delete this trace",
            key="library_delete_sure",
            type="primary",
            on_click=_deleted,
            args=(library, entry),
        )


def _deleted(library: Library, entry: Entry) -> None:
    try:
        library.delete(entry.id)
    except LibraryError as error:
        st.session_state.library_told = f"Not deleted: {error}"
    else:
        st.session_state.library_told = f"Deleted: {entry.name}"
