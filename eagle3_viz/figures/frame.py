"""What every chart has in common: size, margins, legend, a title that is never read as markup."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from eagle3_viz.figures.colours import Palette

HEIGHT = 270  # px


def framed(
    bars: Sequence[go.Bar | go.Scatter],
    *,
    title: str,
    x: str,
    y: str,
    colours: Palette,
    height: int = HEIGHT,
) -> go.Figure:
    """A figure of `bars` with a left-aligned title and the legend in the upper right corner.

    `title`, `x` and `y` are Plotly text: pass token text through `text.literal` first.
    """
    figure = go.Figure(data=list(bars))
    axis = {"gridcolor": colours.line, "zeroline": False, "title": {"standoff": 14}}
    figure.update_layout(
        height=height,
        margin={"l": 62, "r": 8, "t": 36, "b": 44},
        title={"text": title, "x": 0, "xanchor": "left", "font": {"size": 14}},
        # charts of this kind are lowest on the right
        legend={"x": 1, "xanchor": "right", "y": 1.04, "yanchor": "top", "font": {"size": 11}},
        barmode="overlay",
        bargap=0.15,
        hovermode="closest",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": colours.ink, "size": 12},
    )
    figure.update_xaxes(**axis, title_text=x, showgrid=False)
    figure.update_yaxes(**axis, title_text=y, rangemode="tozero")
    return figure
