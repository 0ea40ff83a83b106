"""How many drafted tokens a cycle accepts."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import plotly.graph_objects as go

from eagle3_viz.figures.colours import Mode, palette
from eagle3_viz.figures.frame import framed
from eagle3_viz.trace import Trace


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
        hovertemplate="%{y} cycles accepted %{x} drafted tokens<extra></extra>",
        showlegend=False,
    )
    title = "Accepted drafts per cycle" + ("" if mean is None else f" · mean {mean:.2f}")
    figure = framed([bars], title=title, x="accepted drafts", y="cycles", colours=colours)
    figure.update_xaxes(dtick=1, range=[-0.6, len(counts) - 0.4])
    if mean is not None:
        figure.add_vline(x=mean, line={"color": colours.ink, "width": 1.5, "dash": "dash"})
    return figure
