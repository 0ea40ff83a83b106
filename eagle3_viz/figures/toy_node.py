"""One enumerated node: what its children face, and what each rule commits beside p."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from eagle3_viz.figures.bars import RESIDUAL, P, Q, probability_bars, shared_mass
from eagle3_viz.figures.colours import Mode, Palette, palette
from eagle3_viz.figures.frame import framed
from eagle3_viz.figures.text import literal
from eagle3_viz.toy_node import LOSSLESS, RELAXED, NodeOutcome, Walk

EXACT = 1e-12  # what is closer to p than this differs by rounding
COLUMNS, ROW_HEIGHT = 3, 205  # px
_OUTPUT = ("accepted", "recovered")
_REFUSED = 1e-12  # all children are refused with less probability than this: never


def proposal_figure(
    outcome: NodeOutcome, walk: Walk, tokens: Sequence[str], *, mode: Mode = "light"
) -> go.Figure:
    """p, q and the residual after all children of `walk` were refused; min(p, q) is hatched.

    `tokens` names the vocabulary. There is no residual where some child is accepted for sure.
    """
    colours, labels = palette(mode), [literal(token) for token in tokens]
    p, q = outcome.p.tolist(), outcome.q.tolist()
    bars = [
        probability_bars(p, P, 0, colours.accepted, labels),
        probability_bars(q, Q, 1, colours.q, labels),
        shared_mass(p, q, colours),
    ]
    title = "Some child is always accepted"
    if walk.refused > _REFUSED:
        left = walk.residual.tolist()
        bars.insert(2, probability_bars(left, RESIDUAL, 2, colours.decided, labels))
        title = f"All children refused with probability {walk.refused:.3f}"
    figure = framed(bars, title=title, x="", y="probability", colours=colours)
    figure.update_xaxes(tickvals=np.arange(len(labels)), ticktext=labels)
    figure.update_layout(
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": -0.1}, margin={"b": 54}
    )
    return figure


def outputs_figure(
    outcomes: Sequence[NodeOutcome], tokens: Sequence[str], *, mode: Mode = "light"
) -> go.Figure:
    """What each rule commits, as a panel of bars, with p as diamonds: lossless bars end in them.

    A bar is made of what was accepted and what was recovered from the residual. The heading of a
    panel says how far the output is from p.
    """
    colours, labels = palette(mode), [literal(token) for token in tokens]
    rows = -(-len(outcomes) // COLUMNS)
    figure = framed([], title="", x="", y="", colours=colours, height=rows * ROW_HEIGHT + 68)
    figure.set_subplots(
        rows=rows,
        cols=COLUMNS,
        shared_yaxes="all",
        subplot_titles=[_heading(outcome) for outcome in outcomes],
        horizontal_spacing=0.03,
        vertical_spacing=0.26,
    )
    for panel, outcome in enumerate(outcomes):
        row, column = divmod(panel, COLUMNS)
        for drawn in _panel(outcome, labels, colours, named=panel == 0):
            figure.add_trace(drawn, row=row + 1, col=column + 1)
    figure.update_annotations(font={"size": 13, "color": colours.ink})
    figure.update_xaxes(tickvals=np.arange(len(labels)), ticktext=labels, showgrid=False)
    figure.update_yaxes(gridcolor=colours.line, zeroline=False, rangemode="tozero")
    figure.update_layout(
        barmode="stack",
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": -0.08, "yanchor": "top"},
        margin={"t": 44, "b": 54},
    )
    return figure


def _heading(outcome: NodeOutcome) -> str:
    sign = "= p" if outcome.error < EXACT else f"≠ p, up to {outcome.error:.3f}"
    return f"<b>{outcome.rule}</b><br>{sign}"  # two lines: panels are narrow on a phone


def _panel(
    outcome: NodeOutcome, labels: Sequence[str], colours: Palette, *, named: bool
) -> list[go.Bar | go.Scatter]:
    """The stacked output of one rule and p; `named` puts them into the legend."""
    parts = (outcome.accepted, outcome.recovered)
    looks = (colours.accepted, ""), (colours.decided, ".")
    bars: list[go.Bar | go.Scatter] = [
        go.Bar(
            x=np.arange(len(labels)),
            y=part.tolist(),
            name=name,
            marker={"color": colour, "pattern": {"shape": shape, "size": 5}},
            legendgroup=name,
            showlegend=named,
            customdata=labels,
            hovertemplate=f"%{{customdata}}<br>{outcome.rule}: {name} %{{y:.4f}}<extra></extra>",
        )
        for name, part, (colour, shape) in zip(_OUTPUT, parts, looks, strict=True)
    ]
    diamonds = go.Scatter(
        x=np.arange(len(labels)),
        y=outcome.p.tolist(),
        mode="markers",
        name=P,
        marker={"symbol": "diamond-open", "size": 9, "color": colours.ink, "line": {"width": 2}},
        legendgroup=P,
        showlegend=named,
        customdata=np.column_stack([labels, [f"{mass:.4f}" for mass in outcome.output]]),
        hovertemplate=f"%{{customdata[0]}}<br>{P} %{{y:.4f}}<br>"
        f"{outcome.rule} commits it with %{{customdata[1]}}<extra></extra>",
    )
    return [*bars, diamonds]


def outcome_in_words(outcome: NodeOutcome, tokens: Sequence[str]) -> str:
    """One sentence: whether the rule commits p, and by how much it misses it."""
    rule, error = outcome.rule, outcome.error
    if rule in LOSSLESS:
        return f"{rule} commits p: max |output - p| is {error:.1e}, which is rounding."
    if error < EXACT:
        return f"{rule} is not lossless in general, but on these p and q it happens to commit p."
    worst = int(np.abs(outcome.output - outcome.p).argmax())
    how = "changes the distribution, as it says" if rule in RELAXED else "does not commit p"
    return (
        f"{rule} {how}: max |output - p| is {error:.3f}, at token {tokens[worst]}, committed "
        f"with probability {outcome.output[worst]:.3f} where p is {outcome.p[worst]:.3f}."
    )
