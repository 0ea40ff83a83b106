"""The server of the pages: `streamlit run app.py`."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from eagle3_viz.spinning import spin_briefly
from eagle3_viz.ui import live_feed, page_html, start
from eagle3_viz.ui.ahead import Ahead

PAGES = Path(__file__).parent / "pages"

spin_briefly()

app = st.App(
    "shell.py",
    lifespan=start.serving,
    routes=[live_feed.route(), *page_html.routes(page.stem for page in PAGES.glob("*.py"))],
    middleware=[Middleware(Ahead)],
)
