"""What the charts of the Acceptance page have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import hex_to_rgb

HEIGHT = 310  # px
TICKS = 8  # depths named on an axis; more would overlap where the page is narrow
_LEGEND = 74  # px below the axis for its title and the legend


def shade(colour: str, opacity: float) -> str:
    """A colour "#rrggbb" as one that lets through what is behind it."""
    red, green, blue = hex_to_rgb(colour)
    return f"rgba({red}, {green}, {blue}, {opacity})"


def legend_below(figure: go.Figure, *, tick_lines: int = 1) -> go.Figure:
    """`figure` with its legend in a row at the bottom, under tick labels of so many lines."""
    return figure.update_layout(
        margin={"b": _LEGEND + 14 * (tick_lines - 1)},
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 0,
            "yanchor": "bottom",
            "yref": "container",
            "traceorder": "normal",
        },
    )


def depth_ticks(figure: go.Figure, depths: Sequence[int], n: Sequence[int]) -> go.Figure:
    """`figure` with the depths on its horizontal axis, each over the n it was counted from."""
    step = -(-len(depths) // TICKS) or 1
    return figure.update_xaxes(
        tickvals=list(depths)[::step],
        ticktext=[f"{depth}<br>n {many}" for depth, many in zip(depths, n, strict=True)][::step],
        range=[0.5, max(depths, default=1) + 0.5],
    )


def whiskers(table: pd.DataFrame, rate: str, colour: str, *, cap: int = 4) -> dict[str, object]:
    """Error bars from `rate`_low to `rate`_high; none is seen of an unknown one without a cap."""
    return {
        "type": "data",
        "symmetric": False,
        "array": (table[f"{rate}_high"] - table[rate]).tolist(),
        "arrayminus": (table[rate] - table[f"{rate}_low"]).tolist(),
        "color": colour,
        "thickness": 1.5,
        "width": cap,
    }


def percent(share: float) -> str:
    """A share in whole per cent, a dash where there is none."""
    return "-" if np.isnan(share) else f"{100 * share:.0f} %"
