"""Acceptance by depth: what was counted, and what the rule's formula expects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from eagle3_viz.figures.acceptance_frame import (
    HEIGHT,
    depth_ticks,
    legend_below,
    percent,
    whiskers,
)
from eagle3_viz.figures.colours import Mode, palette
from eagle3_viz.figures.frame import framed

_SHIFT = 0.08  # of a depth: two marks of one depth stand side by side
_COUNTED_HOVER = (
    "depth %{customdata[0]}<br>%{customdata[1]} of %{customdata[2]}: %{y:.3f}"
    "<br>95 % interval %{customdata[3]:.3f} to %{customdata[4]:.3f}"
)


def depth_figure(table: pd.DataFrame, *, mode: Mode = "light") -> go.Figure:
    """Conditional and unconditional acceptance with their Wilson intervals.

    table: of `analysis.by_depth.acceptance_with_intervals`. The n on the axis is that of the
    conditional share; the other's is the number of cycles.
    """
    colours = palette(mode)
    cycles = int(table.cycles.max()) if len(table) else 0
    series = [
        _counted(table, "conditional", "tested", colours.accepted, "circle", "solid", -_SHIFT),
        _counted(table, "unconditional", "cycles", colours.plain, "square", "dot", _SHIFT),
    ]
    figure = framed(
        series,
        title="Acceptance by depth",
        x=f"depth, n tested there ({cycles} cycles in all)",
        y="share accepted",
        colours=colours,
        height=HEIGHT,
    )
    figure.update_yaxes(range=[0, 1.04])
    return legend_below(depth_ticks(figure, table.depth, table.tested), tick_lines=2)


def _counted(
    table: pd.DataFrame, rate: str, n: str, colour: str, symbol: str, dash: str, shift: float
) -> go.Scatter:
    return go.Scatter(
        x=(table.depth + shift).tolist(),
        y=table[rate].tolist(),
        mode="lines+markers",
        name=rate,
        marker={"color": colour, "symbol": symbol, "size": 8},
        line={"color": colour, "dash": dash, "width": 1.5},
        error_y=whiskers(table, rate, colour),
        customdata=table[["depth", "accepted", n, f"{rate}_low", f"{rate}_high"]].to_numpy(),
        hovertemplate=f"{rate}, {_COUNTED_HOVER}<extra></extra>",
    )


def depth_words(table: pd.DataFrame) -> str:
    """What `depth_figure` shows, for whoever cannot see it."""
    parts = [
        f"depth {row.depth}: {percent(row.conditional)} of {row.tested} tested, "
        f"{percent(row.unconditional)} of {row.cycles} cycles"
        for row in table.itertuples()
    ]
    return f"Acceptance by depth. {'; '.join(parts)}."


def expected_figure(table: pd.DataFrame, *, mode: Mode = "light") -> go.Figure:
    """Counted acceptance beside its expectation at the same visits.

    table: of `analysis.expected.expected_by_depth`. The whiskers of a diamond are how far the count
    may lie from it by chance, within 0 and 1.
    """
    colours = palette(mode)
    counted = go.Scatter(
        x=(table.depth - _SHIFT).tolist(),
        y=table.counted.tolist(),
        mode="markers",
        name="counted",
        marker={"color": colours.accepted, "symbol": "circle", "size": 9},
        customdata=table[["depth", "accepted", "n", "counted_low", "counted_high"]].to_numpy(),
        hovertemplate=f"counted, {_COUNTED_HOVER}<extra></extra>",
    )
    expected = go.Scatter(
        x=(table.depth + _SHIFT).tolist(),
        y=table.expected.tolist(),
        mode="markers",
        name="expected by the rule's formula, ± chance",
        marker={"color": colours.ink, "symbol": "diamond-open", "size": 9, "line": {"width": 2}},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": np.minimum(table.chance, 1 - table.expected).tolist(),
            "arrayminus": np.minimum(table.chance, table.expected).tolist(),
            "color": colours.ink,
            "thickness": 2,
            "width": 0,  # where nothing is drawn by chance, nothing is seen
        },
        customdata=table[["depth", "n", "chance"]].to_numpy(),
        hovertemplate="expected, depth %{customdata[0]}<br>mean of %{customdata[1]} visits: "
        "%{y:.3f}<br>chance ± %{customdata[2]:.3f}<extra></extra>",
    )
    figure = framed(
        [counted, expected],
        title="Expected and counted acceptance",
        x="depth, n visits",
        y="share accepted",
        colours=colours,
        height=HEIGHT,
    )
    figure.update_yaxes(range=[0, 1.04])
    return legend_below(depth_ticks(figure, table.depth, table.n), tick_lines=2)


def expected_words(table: pd.DataFrame) -> str:
    """What `expected_figure` shows, for whoever cannot see it."""
    parts = [
        f"depth {row.depth}: expected {percent(row.expected)}, counted {percent(row.counted)} of "
        f"{row.n}"
        for row in table.itertuples()
    ]
    return f"Expected and counted acceptance by depth. {'; '.join(parts)}."
