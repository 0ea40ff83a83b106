"""How many drafted tokens a cycle accepts."""

from __future__ import annotations

from itertools import count
from statistics import fmean

import numpy as np
import plotly.graph_objects as go

from eagle3_viz.figures.colours import Mode, palette
from eagle3_viz.figures.frame import framed
from eagle3_viz.trace import Trace

TICKS = 6  # steps of the vertical axis that the chart's height has room for


def accepted_per_cycle(trace: Trace, *, mode: Mode = "light") -> go.Figure:
    """Histogram of accepted drafts per cycle with the mean, which is tau - 1.

    Cycles cut short by the end of the run are left out, as tau leaves them out.
    """
    colours = palette(mode)
    accepted = [cycle.accepted for cycle in trace.cycles if not cycle.cut]
    counts = np.bincount(accepted) if accepted else np.zeros(1, int)
    mean = fmean(accepted) if accepted else None
    bars = go.Bar(
        x=np.arange(len(counts)),
        y=counts,
        text=counts,
        textposition="outside",
        cliponaxis=False,
        marker_color=colours.accepted,
        hovertemplate="accepted drafts %{x}<br>cycles %{y}<extra></extra>",
        showlegend=False,
    )
    title = "Accepted drafts per cycle" + ("" if mean is None else f" · mean {mean:.2f}")
    figure = framed([bars], title=title, x="accepted drafts", y="cycles", colours=colours)
    figure.update_xaxes(dtick=1, range=[-0.6, len(counts) - 0.4])
    figure.update_yaxes(dtick=_whole_step(int(counts.max())), tickformat="d")
    if mean is not None:
        figure.add_vline(x=mean, line={"color": colours.ink, "width": 1.5, "dash": "dash"})
    return figure


def _whole_step(largest: int) -> int:
    """The least of 1, 2, 5, 10, 20, 50, ... that makes at most `TICKS` steps up to `largest`."""
    steps = (digit * 10**power for power in count() for digit in (1, 2, 5))
    return next(step for step in steps if step * TICKS >= largest)
