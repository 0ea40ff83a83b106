"""Two maps over depth: how often each draft rank was accepted, and why tokens were missed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from eagle3_viz.figures.acceptance_frame import HEIGHT, TICKS, percent, shade
from eagle3_viz.figures.colours import Mode, Palette, palette
from eagle3_viz.figures.frame import framed

_FAINT, _FULL = (
    0.05,
    0.6,
)  # opacity of the smallest and the largest value, so that text stays legible
_LABELLED = 8  # columns that have room for text in their cells


def rank_figure(table: pd.DataFrame, last_rank: int, *, mode: Mode = "light") -> go.Figure:
    """Share accepted of those tested, depth across, the draft's rank down.

    table: of `analysis.by_depth.acceptance_by_rank`; rank `last_rank` holds all from there on. A
    cell without a number was verified and never tested.
    """
    colours = palette(mode)
    ranks = list(range(1, int(table["rank"].max()) + 1)) if len(table) else []
    depths = sorted(table.depth.unique().tolist())
    rates, tested, accepted, verified = (
        table.pivot(index="rank", columns="depth", values=name).reindex(ranks)
        for name in ("rate", "tested", "accepted", "verified")
    )
    cells = [
        ["" if np.isnan(n) else f"{hits:.0f}/{n:.0f}" for hits, n in zip(*row, strict=True)]
        for row in zip(accepted.to_numpy(float), tested.to_numpy(float), strict=True)
    ]
    heat = _heat(depths, [_rank_label(rank, last_rank) for rank in ranks], rates, cells, colours)
    heat.update(
        colorscale=_scale(colours.accepted),
        zmin=0,
        zmax=1,
        customdata=verified.to_numpy(float),
        hovertemplate="depth %{x}, rank %{y}<br>accepted/tested %{text}: %{z:.3f}"
        "<br>verified %{customdata}<extra></extra>",
    )
    return _map(heat, "Accepted / tested by depth and draft rank", "rank in q", colours, len(ranks))


def _rank_label(rank: int, last_rank: int) -> str:
    return f"{rank} or later" if rank == last_rank else str(rank)


def rank_words(table: pd.DataFrame) -> str:
    """What `rank_figure` shows, for whoever cannot see it: the first depth, rank by rank."""
    parts = [
        f"rank {row.rank}: {row.accepted} of {row.tested}"
        for row in table[table.depth == 1].itertuples()
    ]
    return f"Accepted of tested by depth and draft rank. At depth 1, {'; '.join(parts)}."


def miss_figure(counts: pd.DataFrame, shares: pd.DataFrame, *, mode: Mode = "light") -> go.Figure:
    """Misses by cause, down, and depth, across.

    counts: of `analysis.misses.misses_by_depth`; shares: of `miss_shares`. Each cause is named with
    its share of all misses.
    """
    colours = palette(mode)
    names = [
        f"{row.cause}<br>{row.misses}, {percent(row.share)} ({percent(row.share_low)} to "
        f"{percent(row.share_high)})"
        for row in shares.itertuples()
    ]
    cells = [["" if n == 0 else str(n) for n in row] for row in counts.to_numpy(int)]
    heat = _heat(counts.columns.tolist(), names, counts, cells, colours)
    heat.update(
        colorscale=_scale(colours.decided),
        zmin=0,
        zmax=max(1, int(counts.to_numpy().max(initial=0))),
        hovertemplate="depth %{x}: %{z} misses<extra></extra>",
    )
    return _map(heat, "Why the decided token was not in the tree", "", colours, 2 * len(names))


def miss_words(shares: pd.DataFrame) -> str:
    """What `miss_figure` shows, for whoever cannot see it."""
    parts = [f"{row.cause}: {row.misses}" for row in shares.itertuples() if row.misses]
    return f"Why the decided token was not in the tree. {'; '.join(parts)}."


def _heat(
    depths: Sequence[int],
    rows: Sequence[str],
    values: pd.DataFrame,
    cells: list[list[str]],
    colours: Palette,
) -> go.Heatmap:
    return go.Heatmap(
        x=list(depths),
        y=list(rows),
        z=values.to_numpy(float),
        text=cells,
        texttemplate="%{text}" if len(depths) <= _LABELLED else None,
        textfont={"color": colours.ink},
        showscale=False,
        xgap=2,
        ygap=2,
        hoverongaps=False,
    )


def _scale(colour: str) -> list[tuple[float, str]]:
    return [(0.0, shade(colour, _FAINT)), (1.0, shade(colour, _FULL))]


def _map(heat: go.Heatmap, title: str, y: str, colours: Palette, lines: int) -> go.Figure:
    """lines: of text down the vertical axis, each of which needs its room."""
    height = max(HEIGHT, 90 + 18 * lines)
    figure = framed([heat], title=title, x="depth", y=y, colours=colours, height=height)
    depths = heat.x
    step = -(-len(depths) // TICKS) or 1
    figure.update_xaxes(tickvals=depths[::step])
    return figure.update_yaxes(
        autorange="reversed", rangemode="normal", automargin=True, type="category", showgrid=False
    )
