"""Add a file to the library: it is checked as a whole before anything is written."""

from __future__ import annotations

from pathlib import PurePath

import streamlit as st

from eagle3_viz.library.store import MAX_BYTES, AlreadyHereError, Library, LibraryError
from eagle3_viz.library.words import MAX_NAME, MAX_TAG, MAX_TAGS
from eagle3_viz.presets import DOMAINS
from eagle3_viz.ui import library_list


def draw(library: Library) -> None:
    """The inputs, the button, and what became of the last file."""
    with st.container(border=True, key="library_upload"):
        _inputs()
        held = st.session_state.get(_key("file"))
        st.button(
            "Check and add",
            key="library_add",
            icon=":material/upload:",
            disabled=held is None,
            on_click=_add,
            args=(library,),
        )
        _tell()


def _key(part: str) -> str:
    """Of an input that is emptied after a file was added, which takes another key."""
    return f"library_new_{part}_{st.session_state.get('library_added', 0)}"


def _inputs() -> None:
    # Of every kind: a file that the browser refuses by its name stays listed, with the browser's
    # error, beside the next one. What is no trace is told when it is checked.
    st.file_uploader(
        "Add a trace, Parquet or JSON",
        key=_key("file"),
        help=f"In this program's trace format, at most {MAX_BYTES // 2**20} MB.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_new"):
        st.text_input("Name", "", MAX_NAME, key=_key("name"), placeholder="Name of the file")
        st.text_input(
            "Tags",
            "",
            MAX_TAGS * (MAX_TAG + 2),
            key=_key("tags"),
            placeholder="one, two",
        )
        st.selectbox(
            "Domain",
            ["", *DOMAINS],
            format_func=lambda domain: domain or "not said",
            key=_key("domain"),
            width=160,
        )


def _add(library: Library) -> None:
    """In a callback: check the file and keep it, or say what is wrong with it."""
    at = st.session_state
    file = at[_key("file")]
    name = at[_key("name")].strip() or PurePath(file.name).stem
    tags = at[_key("tags")].split(",")
    try:
        entry = library.add(file.getvalue(), name, tags, at[_key("domain")])
        told = f"Added: {entry.name}"
    except AlreadyHereError as error:
        entry, told = error.entry, f"Not added: {error}. It is shown above."
    except LibraryError as error:
        at.library_upload_told = ("refused", f"Not added: {error}")
        return
    at.library_added = at.get("library_added", 0) + 1
    at.library_upload_told = ("added", told)
    library_list.show(entry.id)


def _tell() -> None:
    told = st.session_state.pop("library_upload_told", None)
    if told is not None:
        outcome, sentence = told
        with st.container(key=f"library_{outcome}"):
            st.text(sentence)
