"""The application shell: one navigation bar over the pages."""

from __future__ import annotations

import streamlit as st

st.set_page_config(page_title="EAGLE-3 microscope", page_icon=":material/biotech:", layout="wide")
st.navigation(
    [st.Page("pages/live.py", title="Live", icon=":material/play_circle:", default=True)],
    position="top",
).run()
