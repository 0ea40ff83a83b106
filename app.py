"""The application shell: one navigation bar over the pages."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

# The browser often shares the processor with the engine. OpenMP threads that spin while they wait
# then block each other for whole time slices (measured on two cores: a step 20 times as long), so
# here they sleep instead. Set before torch is imported; benchmarks keep the faster default.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

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
st.html(UI / "style.css")
page.run()
