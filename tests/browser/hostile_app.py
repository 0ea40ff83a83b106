"""The application on a backend whose tokens try to be markup."""

from __future__ import annotations

import streamlit as st

from eagle3_viz.service import shared_engine
from eagle3_viz.ui import live_feed
from tests.fake_backend import SyntheticBackend

shared_engine(SyntheticBackend(cycles=40, pause=0.05, loading=0.6))
app = st.App("hostile_shell.py", routes=[live_feed.route()])
