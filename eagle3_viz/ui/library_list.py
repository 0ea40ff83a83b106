"""The list of the Library page: where things are, what is looked for, which trace is picked."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from eagle3_viz.library.entries import Entry, distinct_names
from eagle3_viz.library.filtering import Filter, matching
from eagle3_viz.library.store import Library, Listing
from eagle3_viz.library.words import plain
from eagle3_viz.settings import method_title
from eagle3_viz.ui.trace_choice import NO_SUCH
from eagle3_viz.wording import counted

PICKED = "library_entry"  # the select box with the trace that the page is about
TABLE = "library_table"
FILTERS = ("library_text", "library_methods", "library_domains", "library_tags")
NAME_WIDTH = 178  # px: with tau and the speed-up beside it, what a phone has room for
MAX_LISTED = 20  # problems
MAX_LINE = 300  # characters of a problem
NONE_YET = "Nothing is kept here yet. Save a run on the Live page, or add a file below."
NOTHING_FOUND = "No trace has all of that. Take something out of the filters."


def introduce(library: Library, listing: Listing) -> None:
    """Which folder this is, who sees it, and what in it is no trace."""
    with st.container(key="library_place", gap=None):
        st.text(f"Traces saved here are files in {_from_home(library.folder)}.")
        st.text("Everybody who reaches this server can open, rename and delete them.")
    if listing.problems:
        title = f"{counted(len(listing.problems), 'file')} could not be listed"
        with st.expander(title, icon=":material/warning:", key="library_problems"):
            for sentence in listing.problems[:MAX_LISTED]:
                st.text(plain(sentence, MAX_LINE))
            if len(listing.problems) > MAX_LISTED:
                st.text(f"… and {len(listing.problems) - MAX_LISTED} more")


def _from_home(folder: Path) -> str:
    """A path as its owner writes it, fit to be on a picture."""
    try:
        return str(Path("~") / folder.relative_to(Path.home()))
    except ValueError:
        return str(folder)


def choose(entries: Sequence[Entry]) -> Entry | None:
    """Draw filters, the table and the select box; the picked entry, None where there is none."""
    if not entries:
        st.text(NONE_YET)
        return None
    shown = matching(entries, _filter(entries))
    if not shown:
        st.text(NOTHING_FOUND)
        return None
    ids = [entry.id for entry in shown]
    _follow_link(ids, {entry.id for entry in entries})
    if st.session_state.get(PICKED) not in ids:
        st.session_state[PICKED] = ids[0]
    _table(shown, ids)
    return _pick(shown)


def show(trace_id: str) -> None:
    """In a callback: look at this trace next, whatever was looked for."""
    for key in FILTERS:
        st.session_state.pop(key, None)
    _picked(trace_id)


def _follow_link(ids: Sequence[str], known: Container[str]) -> None:
    """Pick what the address names, once; what is not here is said until something is picked."""
    named = st.query_params.get("trace")
    if named is None:
        return
    if named not in known:
        st.text(NO_SUCH.format(plain(named, 64)))
    elif PICKED not in st.session_state and named in ids:
        st.session_state[PICKED] = named


def _filter(entries: Iterable[Entry]) -> Filter:
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_filters"):
        text = st.text_input(
            "Search", key="library_text", placeholder="Name, prompt, tag, pair", max_chars=100
        )
        return Filter(
            text or "",
            _several("Method", "library_methods", (e.method for e in entries), method_title),
            _several("Domain", "library_domains", (e.domain for e in entries), str),
            _several("Tag", "library_tags", (tag for e in entries for tag in e.tags), str),
        )


def _several(label: str, key: str, values: Iterable[str], title: Callable[[str], str]) -> list[str]:
    """A choice among the values that occur; one that went away is not chosen any more."""
    options = sorted(set(values) - {""}, key=title)
    kept = st.session_state.get(key, [])
    st.session_state[key] = [value for value in kept if value in options]
    return st.multiselect(
        label, options, format_func=title, key=key, placeholder="Any", disabled=not options
    )


def _table(shown: Sequence[Entry], ids: Sequence[str]) -> None:
    """One row a trace; a click on one picks it, as the select box below does."""
    row = ids.index(st.session_state[PICKED])
    st.session_state[TABLE] = {"selection": {"rows": [row], "columns": [], "cells": []}}
    number = st.column_config.NumberColumn
    st.dataframe(
        _rows(shown),
        hide_index=True,
        width="stretch",
        height=min(400, 38 + 35 * len(shown)),
        key=TABLE,
        alt="Traces of the library",
        on_select=lambda: _row_clicked(ids),
        selection_mode="single-row-required",
        column_config={
            "name": st.column_config.TextColumn("name", width=NAME_WIDTH, pinned=True),
            "tau": number("tau", format="%.2f", help="Tokens per cycle.", width=60),
            "speed-up": number("speed-up", format="%.2f", help="Over autoregression.", width=80),
        },
    )


def _rows(shown: Sequence[Entry]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": [entry.name for entry in shown],
            "tau": pd.array([entry.tau for entry in shown], "Float64"),
            "speed-up": pd.array([entry.speedup for entry in shown], "Float64"),
            "method": [method_title(entry.method) for entry in shown],
            "domain": [entry.domain for entry in shown],
            "rule": [entry.rule for entry in shown],
            "tokens": [entry.tokens for entry in shown],
            "cycles": [entry.cycles for entry in shown],
            "tags": [", ".join(entry.tags) for entry in shown],
            "started": [entry.started_at[:16].replace("T", " ") for entry in shown],
            "from": ["the program" if entry.shipped else "here" for entry in shown],
        }
    )


def _row_clicked(ids: Sequence[str]) -> None:
    rows = st.session_state[TABLE].selection.rows
    if rows and rows[0] < len(ids):
        _picked(ids[rows[0]])


def _picked(trace_id: str) -> None:
    """In a callback: the address names what is looked at."""
    st.session_state[PICKED] = trace_id
    st.query_params["trace"] = trace_id


def _pick(shown: Sequence[Entry]) -> Entry:
    names = distinct_names({entry.id: entry.name for entry in shown})
    picked = st.selectbox(
        "Trace",
        list(names),
        format_func=lambda trace_id: names.get(trace_id, trace_id),
        key=PICKED,
        on_change=lambda: _picked(st.session_state[PICKED]),
    )
    return next(entry for entry in shown if entry.id == picked)
