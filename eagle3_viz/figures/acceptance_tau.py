"""Tokens per cycle over the run."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from eagle3_viz.figures.acceptance_frame import HEIGHT, legend_below, shade
from eagle3_viz.figures.colours import Mode, palette
from eagle3_viz.figures.frame import framed


def running_tau_figure(table: pd.DataFrame, window: int, *, mode: Mode = "light") -> go.Figure:
    """tau so far with its band, and over the last `window` cycles, by position.

    table: of `analysis.lengths.running_tau`. Faint dots are the cycles themselves.
    """
    colours = palette(mode)
    x = table.position.tolist()
    banded = table[table.low.notna()]
    band = go.Scatter(
        x=[*banded.position, *banded.position[::-1]],
        y=[*banded.high, *banded.low[::-1]],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=shade(colours.accepted, 0.16),
        name="95 % interval of tau so far",
        hoverinfo="skip",
    )
    dots = go.Scatter(
        x=x,
        y=table.tokens.tolist(),
        mode="markers",
        marker={"color": colours.muted, "size": 4, "opacity": 0.5},
        name="a cycle",
        customdata=(table.cycle + 1).tolist(),
        hovertemplate="cycle %{customdata}: %{y} tokens<extra></extra>",
    )
    moving = go.Scatter(
        x=x,
        y=table.moving.tolist(),
        mode="lines",
        line={"color": colours.plain, "width": 1.5, "dash": "dot"},
        name=f"last {window} cycles",
        hovertemplate=f"last {window} cycles: %{{y:.2f}}<extra></extra>",
    )
    so_far = go.Scatter(
        x=x,
        y=table.tau.tolist(),
        mode="lines",
        line={"color": colours.accepted, "width": 2},
        name="tau so far",
        customdata=table[["n", "low", "high"]].to_numpy(),
        hovertemplate="tau of %{customdata[0]} cycles: %{y:.2f}<br>%{customdata[1]:.2f} to "
        "%{customdata[2]:.2f}<extra></extra>",
    )
    figure = framed(
        [band, dots, moving, so_far],
        title="Tokens per cycle over the answer",
        x="tokens generated",
        y="tokens per cycle",
        colours=colours,
        height=HEIGHT,
    )
    return legend_below(figure)


def running_tau_words(table: pd.DataFrame) -> str:
    """What `running_tau_figure` shows, for whoever cannot see it."""
    if table.empty:
        return "Tokens per cycle over the answer: no cycle."
    halves = table.tokens[: len(table) // 2], table.tokens[len(table) // 2 :]
    first, second = (f"{half.mean():.2f}" if len(half) else "none" for half in halves)
    return (
        f"Tokens per cycle over the answer: {table.tau.iloc[-1]:.2f} over all {len(table)} cycles, "
        f"{first} in the first half, {second} in the second."
    )
