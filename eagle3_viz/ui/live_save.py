"""Keep the run of the Live page in the library, so that others and later days can see it."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.library import place
from eagle3_viz.library.store import LibraryError
from eagle3_viz.presets import load_presets
from eagle3_viz.settings import method_title
from eagle3_viz.trace import Trace

_TOLD = "live_saved"  # (which state of which run, whether it is kept, the sentence)


def button(trace: Trace) -> None:
    """Disabled once the run is kept as it stands; a run that went on can be kept again."""
    kept = _told(trace)
    st.button(
        "Save to library",
        key="live_save",
        icon=":material/bookmark_add:",
        on_click=_save,
        args=(trace,),
        disabled=kept is not None and kept[0],
        help="Everybody who reaches this server can see it there.",
    )


def tell(trace: Trace) -> None:
    """What became of the last press."""
    kept = _told(trace)
    if kept is not None:
        with st.container(key="live_saved_note"):
            st.text(kept[1])


def name_of(trace: Trace) -> str:
    """Method and prompt: what tells runs apart."""
    return f"{method_title(trace.header.method)}: {trace.header.prompt}"


@st.cache_resource(show_spinner=False)
def _domains() -> dict[str, str]:
    """The domain of each prompt that ships."""
    return {preset.prompt: name for name, presets in load_presets().items() for preset in presets}


def _save(trace: Trace) -> None:
    """In a callback."""
    domain = _domains().get(trace.header.prompt, "")
    try:
        entry = place.shared().save(trace, name_of(trace), domain=domain)
        outcome = (True, f"Saved to the library as {entry.name}")
    except LibraryError as error:
        outcome = (False, f"Not saved: {error}")
    st.session_state[_TOLD] = (_state_of(trace), outcome)


def _told(trace: Trace) -> tuple[bool, str] | None:
    state, outcome = st.session_state.get(_TOLD, (None, None))
    return outcome if state == _state_of(trace) else None


def _state_of(trace: Trace) -> tuple[str, int]:
    return trace.header.started_at, len(trace.cycles)
