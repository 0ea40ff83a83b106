"""The application shell: one navigation bar over the pages."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from eagle3_viz.ui import live_state

UI = Path(__file__).parent / "eagle3_viz" / "ui"

st.set_page_config(page_title="EAGLE-3 microscope", page_icon=str(UI / "icon.svg"), layout="wide")
# No icons: a page's icon becomes the tab's, fetched from a server of fonts.
PAGES = [
    st.Page("pages/live.py", title="Live", default=True),
    st.Page("pages/trace.py", title="Trace"),
    st.Page("pages/acceptance.py", title="Acceptance"),
    st.Page("pages/lossless.py", title="Lossless"),
    st.Page("pages/library.py", title="Library"),
]
page = st.navigation(PAGES, position="top")
if page.title != "Live":
    live_state.leave()
st.html(UI / "style.css")
page.run()
