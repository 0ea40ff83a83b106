"""A suite result, by domain."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from eagle3_viz import trace_file
from eagle3_viz.analysis.suite_folders import SuiteFolder, suites_in, traces_stamp
from eagle3_viz.interpreter import typed
from eagle3_viz.library import place
from eagle3_viz.library.folder import SUITES
from eagle3_viz.library.words import MAX_NAME, plain
from eagle3_viz.suite.plan import trace_path
from eagle3_viz.suite.results import Results, read_results
from eagle3_viz.text_lines import DataError
from eagle3_viz.trace import Trace
from eagle3_viz.ui import acceptance_domains
from eagle3_viz.ui.acceptance_source import Openable, Source
from eagle3_viz.wording import counted

CHECKOUT = Path(__file__).resolve().parents[2] / "docs" / "results"
TAG = "suite"
ABOUT = (
    "Intervals are over prompts: all turns of a prompt are drawn together. Speed-up: over the "
    "autoregression of the same suite. A trace that is opened is put into the library first."
)


def draw() -> None:
    """The choice of a suite, and what it amounts to."""
    own = place.shared().folder / SUITES
    suites = {suite.id: suite for suite in suites_in([own, CHECKOUT])}
    if not suites:
        st.text("There is no suite yet. Make one with this command, then open this page again:")
        st.code(typed(["eagle3_viz", "suite", "--out", str(own / "first")]), language=None)
        return
    with st.container(horizontal=True):
        chosen = st.selectbox("Suite", list(suites), key="acceptance_suite", width=320)
        other = st.selectbox(
            "Compare with",
            [name for name in suites if name != chosen],
            index=None,
            key="acceptance_other",
            placeholder="itself",
            width=320,
        )
    source = _source(suites[chosen])
    if source is not None:
        acceptance_domains.draw(source, None if other is None else _source(suites[other]))


def _source(suite: SuiteFolder) -> Source | None:
    """The suite as far as it has come, or None after the sentence about what is wrong with it."""
    try:
        stamp = traces_stamp(suite.path)
        results = _results(str(suite.path), stamp)
    except (DataError, OSError) as error:
        st.text(str(error))
        return None
    if results.incomplete:
        left_out = counted(len(results.incomplete), "prompt")
        st.text(f"{suite.id}: left out, as some setting has not finished them: {left_out}.")

    def openables(setting: str, set_name: str, prompt: str) -> list[Openable]:
        runs = results.runs
        own = (runs.setting == setting) & (runs["set"] == set_name) & (runs.prompt == prompt)
        turns = sorted(runs[own].turn.tolist())
        return [_openable(suite, setting, set_name, prompt, turn) for turn in turns]

    return Source(
        key=f"{suite.path} {stamp}",
        results=results,
        title=lambda set_name, prompt: f"{set_name}/{prompt}",
        openables=openables,
        about=ABOUT,
    )


@st.cache_resource(max_entries=3, show_spinner="Reading the suite…")
def _results(folder: str, stamp: tuple[int, int]) -> Results:
    """A suite is read once; `stamp` says as far as it had come."""
    return read_results(Path(folder))


def _openable(suite: SuiteFolder, setting: str, set_name: str, prompt: str, turn: int) -> Openable:
    path = trace_path(suite.path, set_name, prompt, turn, setting)
    name = plain(f"{suite.id} {set_name}/{prompt} turn {turn} {setting}", MAX_NAME)

    def load() -> Trace:
        return trace_file.load(path)

    return Openable(f"turn {turn}", load, lambda: _in_library(load(), name))


def _in_library(trace: Trace, name: str) -> str:
    """The id of the trace in the library, which the Trace page reads; it is put there once."""
    library = place.shared()
    for entry in library.entries():
        if (entry.name, entry.started_at) == (name, trace.header.started_at):
            return entry.id
    return library.save(trace, name, tags=(TAG,)).id
