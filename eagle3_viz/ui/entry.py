"""A page opened by its own address before the app ever ran."""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager


def through_app() -> None:
    """Run app.py first. Until it has run once, Streamlit takes `pages/` for its older kind of
    pages and runs this one alone: no navigation, no style."""
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()
