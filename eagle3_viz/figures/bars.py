"""Bars of probabilities side by side, and the shade of min(p, q) over two of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from eagle3_viz.figures.colours import Palette

P, Q, RESIDUAL, SHARED = "p target", "q draft", "residual", "min(p, q)"
WIDTH = 0.26  # of a bar, in tokens; three stand side by side
LEFT = -1.5 * WIDTH


def probability_bars(
    column: Sequence[float | None], name: str, place: int, colour: str, hover: Sequence[str]
) -> go.Bar:
    """One bar a token, at `place` 0, 1 or 2 of its group. None draws no bar.

    `hover` holds what names each token, as Plotly text.
    """
    return go.Bar(
        x=np.arange(len(column)),
        y=column,
        width=WIDTH,
        offset=LEFT + WIDTH * place,
        name=name,
        marker_color=colour,
        customdata=hover,
        hovertemplate=f"%{{customdata}}<br>{name} %{{y:.4f}}<extra></extra>",
    )


def shared_mass(p: Sequence[float | None], q: Sequence[float | None], colours: Palette) -> go.Bar:
    """min(p, q), hatched over the bars at places 0 and 1, where both are known."""
    both = zip(p, q, strict=True)
    least = [None if p is None or q is None else min(p, q) for p, q in both]
    return go.Bar(
        x=np.arange(len(least)),
        y=least,
        width=2 * WIDTH,
        offset=LEFT,
        name=SHARED,
        marker={
            "color": "rgba(0,0,0,0)",
            "pattern": {"shape": "/", "size": 5, "solidity": 0.3, "fgcolor": colours.ink},
        },
        hoverinfo="skip",
    )
