"""Reliability diagrams of the draft's confidence."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from eagle3_viz.analysis.calibration import Reliability
from eagle3_viz.figures.acceptance_frame import HEIGHT, legend_below, percent, whiskers
from eagle3_viz.figures.colours import Mode, palette
from eagle3_viz.figures.frame import framed

_SIZES = 7.0, 20.0  # px of the mark of the fewest and of the most nodes


def reliability_figure(
    found: Reliability, *, title: str, x: str, y: str, mode: Mode = "light"
) -> go.Figure:
    """Confidence against what it is held against, a mark a bin, larger for more nodes.

    On the dashed diagonal the draft means what it says; below it the draft is overconfident.
    """
    colours = palette(mode)
    bins = found.bins
    bounded = bins.outcome_low.notna().any()
    marks = go.Scatter(
        x=bins.confidence.tolist(),
        y=bins.outcome.tolist(),
        mode="lines+markers",
        name="bins, larger for more nodes",
        marker={"color": colours.accepted, "size": _sizes(bins.n.to_numpy(float)), "opacity": 0.9},
        line={"color": colours.accepted, "width": 1},
        error_y=whiskers(bins, "outcome", colours.accepted) if bounded else None,
        customdata=bins[["low_edge", "high_edge", "n"]].to_numpy(),
        hovertemplate="confidence %{customdata[0]:.1f} to %{customdata[1]:.1f}, "
        "%{customdata[2]} nodes<br>mean confidence %{x:.3f}<br>found %{y:.3f}<extra></extra>",
    )
    diagonal = go.Scatter(
        x=[0, 1],
        y=[0, 1],
        mode="lines",
        name="perfect",
        line={"dash": "dash", "color": colours.muted, "width": 1},
        hoverinfo="skip",
    )
    error = "" if np.isnan(found.error) else f" · ECE {found.error:.3f}, n {found.n:,}"
    figure = framed(
        [diagonal, marks], title=title + error, x=x, y=y, colours=colours, height=HEIGHT
    )
    figure.update_xaxes(range=[-0.03, 1.03])
    figure.update_yaxes(range=[-0.03, 1.03], rangemode="normal")
    return legend_below(figure)


def _sizes(n: np.ndarray) -> list[float]:
    """Areas grow with n; a mark that is the largest twice over is still seen as one."""
    least, most = _SIZES
    share = np.sqrt(n / n.max()) if len(n) else n
    return (least + (most - least) * share).tolist()


def reliability_words(found: Reliability, title: str) -> str:
    """What `reliability_figure` shows, for whoever cannot see it."""
    if not found.n:
        return f"{title}: no nodes."
    parts = [
        f"confidence {percent(row.confidence)}: {percent(row.outcome)} of {row.n}"
        for row in found.bins.itertuples()
    ]
    return f"{title}. Expected calibration error {found.error:.3f}. {'; '.join(parts)}."
