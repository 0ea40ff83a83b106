"""The next-token distributions at a node: target, draft and residual."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from eagle3_viz.figures.bars import RESIDUAL, WIDTH, P, Q, probability_bars, shared_mass
from eagle3_viz.figures.colours import Mode, Palette, palette
from eagle3_viz.figures.frame import framed
from eagle3_viz.figures.text import HOVER_LIMIT, token_label
from eagle3_viz.records import Distributions, Top
from eagle3_viz.trace import Trace

TOKENS = 14  # bars beyond this many cannot be told apart


def next_tokens(trace: Trace, at: Distributions, *, after: int, mode: Mode = "light") -> go.Figure:
    """p_raw, q and residual of the most likely tokens of all three as grouped bars.

    The shade over p and q is min(p, q). Diamonds mark the p the rule used where warping changed
    it and it is more than one token. A missing bar is a probability that was not recorded: the
    token is outside that distribution's recorded head, or q is 0 outside the draft vocabulary.
    `after` is the token id of the node.
    """
    colours = palette(mode)
    tops = {P: at.p_raw, Q: at.q, RESIDUAL: at.residual}
    tokens = _most_likely([top for top in tops.values() if top is not None])
    columns = {name: _column(top, tokens) for name, top in tops.items() if top is not None}
    hover = [token_label(trace, token, HOVER_LIMIT) for token in tokens]
    data: list[go.Bar | go.Scatter] = []
    for place, (name, colour) in enumerate(
        ((P, colours.accepted), (Q, colours.q), (RESIDUAL, colours.decided))
    ):
        if name in columns:
            data.append(probability_bars(columns[name], name, place, colour, hover))
    if Q in columns:
        data.append(shared_mass(columns[P], columns[Q], colours))
    if trace.header.rule != "greedy" and at.p is not None:
        data.append(_warped(_column(at.p, tokens), hover, colours))
    figure = framed(
        data,
        title=f"Next token after '{token_label(trace, after)}'",
        x=_not_shown(columns),
        y="probability",
        colours=colours,
    )
    figure.update_xaxes(
        tickvals=np.arange(len(tokens)),
        ticktext=[token_label(trace, token) for token in tokens],
        tickangle=-40,
        tickfont={"family": "monospace", "size": 11},
        title_font={"size": 11, "color": colours.muted},
        range=[-0.6, len(tokens) - 0.4],
    )
    return figure


def _most_likely(tops: list[Top]) -> list[int]:
    best: dict[int, float] = {}
    for top in tops:
        for token, probability in zip(top.token.tolist(), top.probability.tolist(), strict=True):
            best[token] = max(best.get(token, 0.0), probability)
    return sorted(best, key=lambda token: -best[token])[:TOKENS]


def _column(top: Top, tokens: list[int]) -> list[float | None]:
    known = dict(zip(top.token.tolist(), top.probability.tolist(), strict=True))
    return [known.get(token) for token in tokens]


def _warped(column: list[float | None], hover: list[str], colours: Palette) -> go.Scatter:
    return go.Scatter(
        x=np.arange(len(column)) - WIDTH,
        y=column,
        mode="markers",
        name="p used by the rule",
        marker={"symbol": "diamond-open", "size": 8, "color": colours.ink},
        customdata=hover,
        hovertemplate="%{customdata}<br>p used by the rule %{y:.4f}<extra></extra>",
    )


def _not_shown(columns: dict[str, list[float | None]]) -> str:
    rest = {name: 1.0 - sum(v for v in column if v) for name, column in columns.items()}
    words = [f"{name} {max(0.0, mass):.2f}" for name, mass in rest.items()]
    return "mass not shown: " + ", ".join(words)
