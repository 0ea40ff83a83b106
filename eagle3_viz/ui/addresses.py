"""Where the routes of the server are."""

from __future__ import annotations

import streamlit as st


def rooted(path: str) -> str:
    """`path`, without a slash in front, as a route: below the path that the server is set to."""
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/{path}" if base else f"/{path}"
