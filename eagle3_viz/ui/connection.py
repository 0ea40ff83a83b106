"""A browser tab's tie to the engine: when the tab goes, its jobs are released."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.service import Engine


@st.cache_resource(
    scope="session", on_release=lambda held: held[0].release(held[1]), show_spinner=False
)
def connected(_engine: Engine, session: str) -> tuple[Engine, str]:
    """Held for as long as the browser tab is connected."""
    return _engine, session
