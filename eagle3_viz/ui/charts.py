"""How every page shows a Plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from eagle3_viz.figures.colours import Mode

CHART = {"displaylogo": False, "showSendToCloud": False, "displayModeBar": False}


def theme() -> Mode:
    """The theme of the browser tab this script runs for."""
    return "dark" if st.context.theme.type == "dark" else "light"


def chart(figure: go.Figure, key: str, alt: str | None = None) -> None:
    """As wide as its column, without buttons that would send data elsewhere.

    `alt` says what it shows to whoever cannot see it.
    """
    st.plotly_chart(figure, key=key, config=CHART, width="stretch", alt=alt)
