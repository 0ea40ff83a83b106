"""Where the milliseconds of each cycle went."""

from __future__ import annotations

import plotly.graph_objects as go

from eagle3_viz.figures.colours import Mode, palette
from eagle3_viz.figures.frame import framed
from eagle3_viz.trace import Trace

PHASES = ("draft", "tree", "verify", "accept", "commit", "record")


def time_per_cycle(trace: Trace, *, selected: int | None = None, mode: Mode = "light") -> go.Figure:
    """Stacked milliseconds by phase, one bar a cycle, the one of index `selected` marked.

    Cycles are numbered from 1, as on the screens. Recording is hatched: it is timed apart and
    counts in no speed.
    """
    colours = palette(mode)
    number = [cycle.index + 1 for cycle in trace.cycles]
    bars = []
    for phase in PHASES:
        ms = [getattr(cycle.timing, phase) for cycle in trace.cycles]
        if not any(ms):
            continue
        counted = phase != "record"
        bars.append(
            go.Bar(
                x=number,
                y=ms,
                name=phase if counted else "record (not counted)",
                marker={
                    "color": colours.phases[phase],
                    "pattern": {"shape": "" if counted else "/", "fgcolor": colours.muted},
                },
                hovertemplate=f"cycle %{{x}}: {phase} %{{y:.2f}} ms<extra></extra>",
            )
        )
    figure = framed(bars, title="Time per cycle", x="", y="ms", colours=colours)
    figure.update_layout(
        barmode="stack",
        bargap=0.1,
        margin={"b": 84},
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": -0.14,
            "traceorder": "normal",
        },
    )
    figure.update_xaxes(range=[0.4, max(len(number), 8) + 0.6])
    if selected is not None:
        figure.add_vrect(
            x0=selected + 0.5, x1=selected + 1.5, fillcolor=colours.overlap, line_width=0
        )
    return figure
