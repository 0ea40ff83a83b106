"""The application on a backend whose tokens try to be markup."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from eagle3_viz.service import shared_engine
from tests.fake_backend import SyntheticBackend

shared_engine(SyntheticBackend(cycles=40, pause=0.05, loading=0.6))
st.set_page_config(layout="wide")
root = Path(__file__).resolve().parents[2]
st.html(root / "eagle3_viz" / "ui" / "style.css")
page = root / "pages" / "live.py"
st.navigation([st.Page(page, title="Live", default=True)], position="top").run()
