"""The server of the pages: `streamlit run app.py`."""

from __future__ import annotations

import streamlit as st
from starlette.middleware import Middleware

from eagle3_viz.spinning import spin_briefly
from eagle3_viz.ui import live_feed, start
from eagle3_viz.ui.ahead import Ahead

spin_briefly()

app = st.App(
    "shell.py",
    lifespan=start.serving,
    routes=[live_feed.route()],
    middleware=[Middleware(Ahead)],
)
