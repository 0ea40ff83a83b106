"""The application shell: one navigation bar over the pages."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

STYLE = Path(__file__).parent / "eagle3_viz" / "ui" / "style.css"

st.set_page_config(page_title="EAGLE-3 microscope", page_icon=":material/biotech:", layout="wide")
st.html(STYLE)
st.navigation(
    [st.Page("pages/live.py", title="Live", icon=":material/play_circle:", default=True)],
    position="top",
).run()
