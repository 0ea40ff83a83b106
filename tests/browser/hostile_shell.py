"""The Live page alone, with its style."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

st.set_page_config(layout="wide")
root = Path(__file__).resolve().parents[2]
st.html(root / "eagle3_viz" / "ui" / "style.css")
page = root / "pages" / "live.py"
st.navigation([st.Page(page, title="Live", default=True)], position="top").run()
