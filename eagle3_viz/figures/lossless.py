"""A sampling test and a greedy comparison, drawn: what was seen beside what had to be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from eagle3_viz.figures.bars import P
from eagle3_viz.figures.colours import Mode, palette
from eagle3_viz.figures.frame import framed
from eagle3_viz.figures.text import literal

LEAST_P = 1e-12  # smaller p-values are drawn here
LEAST_LOGIT = 1e-7  # likewise for margins and noise: a logarithm has no zero
ROW_HEIGHT = 26  # px


def p_values_figure(table: pd.DataFrame, level: float, *, mode: Mode = "light") -> go.Figure:
    """Corrected p-values of all tests, a row for each method and rule, a mark for each seed.

    table: as `report.sampling_table`. What lies left of the dashed line at `level` is rejected.
    """
    colours = palette(mode)
    names = table.method + " " + table.rule
    marks = []
    for lossless, title, colour, symbol in (
        (True, "has to keep p", colours.accepted, "circle"),
        (False, "has to be rejected", colours.rejected, "x"),
    ):
        rows = table[table.lossless == lossless]
        if rows.empty:
            continue
        marks.append(
            go.Scatter(
                x=rows.p_corrected.clip(lower=LEAST_P).tolist(),
                y=names[rows.index].tolist(),
                mode="markers",
                name=title,
                marker={"color": colour, "symbol": symbol, "size": 9, "opacity": 0.8},
                customdata=rows[["temperature", "seed", "p_corrected"]].to_numpy(),
                hovertemplate="%{y}, temperature %{customdata[0]:g}, seed %{customdata[1]}<br>"
                "corrected p %{customdata[2]:.3g}<extra></extra>",
            )
        )
    rows_shown = names.nunique()
    figure = framed(
        marks,
        title="Could the drawn texts come from the target?",
        x="p-value, corrected for the number of tests",
        y="",
        colours=colours,
        height=130 + ROW_HEIGHT * rows_shown,
    )
    figure.update_xaxes(type="log", range=[np.log10(LEAST_P) - 0.5, 0.5], exponentformat="power")
    figure.update_yaxes(
        categoryorder="array", categoryarray=names.unique()[::-1].tolist(), automargin=True
    )
    figure.add_vline(x=level, line={"dash": "dash", "color": colours.muted})
    figure.update_layout(
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": -0.25, "yanchor": "top"},
        margin={"b": 84},
    )
    return figure


def cells_figure(
    labels: Sequence[str],
    expected: Sequence[float],
    seen: Sequence[int],
    *,
    mode: Mode = "light",
) -> go.Figure:
    """How often each text was drawn, with the number that the target's p asks for as diamonds.

    The whiskers of a diamond are two standard deviations of the draws. All are [cells].
    """
    colours, places = palette(mode), np.arange(len(labels))
    shown = [literal(label) for label in labels]
    mean = np.array(expected, dtype=float)
    scatter = 2 * np.sqrt(mean * (1 - mean / mean.sum()))
    bars = go.Bar(
        x=places,
        y=list(seen),
        name="drawn by speculation",
        marker={"color": colours.accepted},
        customdata=shown,
        hovertemplate="%{customdata}<br>drawn %{y} times<extra></extra>",
    )
    diamonds = go.Scatter(
        x=places,
        y=mean.tolist(),
        mode="markers",
        name=P,
        marker={"symbol": "diamond-open", "size": 9, "color": colours.ink, "line": {"width": 2}},
        error_y={"type": "data", "array": scatter.tolist(), "color": colours.ink, "thickness": 1},
        customdata=shown,
        hovertemplate="%{customdata}<br>expected %{y:.1f}<extra></extra>",
    )
    figure = framed(
        [bars, diamonds], title="Texts of three tokens", x="", y="draws", colours=colours
    )
    figure.update_xaxes(tickvals=places, ticktext=shown, automargin=True)
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    return figure


def margins_figure(
    margin: Sequence[float],
    noise: Sequence[float],
    flipped: Sequence[bool],
    *,
    mode: Mode = "light",
) -> go.Figure:
    """The target's margin at every token beside its noise between the two forwards, in logits.

    Below the diagonal the noise is smaller than the margin and cannot turn the choice.
    """
    colours = palette(mode)
    x, y = (np.maximum(np.array(values, dtype=float), LEAST_LOGIT) for values in (margin, noise))
    turned = np.array(flipped, dtype=bool)
    marks: list[go.Scatter] = [
        go.Scatter(
            x=x[which].tolist(),
            y=y[which].tolist(),
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": size},
            hovertemplate="margin %{x:.3g}, noise %{y:.3g}<extra></extra>",
        )
        for which, name, colour, symbol, size in (
            (~turned, "same token", colours.plain, "circle", 5),
            (turned, "other token", colours.rejected, "x", 10),
        )
        if which.any()
    ]
    ends = [LEAST_LOGIT, 100.0]
    marks.append(
        go.Scatter(
            x=ends,
            y=ends,
            mode="lines",
            name="noise = margin",
            line={"dash": "dash", "color": colours.muted, "width": 1},
            hoverinfo="skip",
        )
    )
    figure = framed(
        marks,
        title="Can rounding turn the choice?",
        x="top-2 margin, logits",
        y="noise of the margin, logits",
        colours=colours,
        height=340,
    )
    figure.update_xaxes(type="log", exponentformat="power", range=[-4, 2])
    figure.update_yaxes(type="log", exponentformat="power", range=[-7.2, 2], rangemode="normal")
    figure.update_layout(legend={"x": 0, "xanchor": "left", "y": 1.0, "yanchor": "top"})
    return figure
