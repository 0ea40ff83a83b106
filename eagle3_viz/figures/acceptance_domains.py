"""One metric of every domain and setting with its interval."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from eagle3_viz.figures.acceptance_frame import legend_below, whiskers
from eagle3_viz.figures.colours import Mode, palette
from eagle3_viz.figures.frame import framed
from eagle3_viz.figures.text import literal

SYMBOLS = ("circle", "diamond-open", "square", "triangle-up-open", "x", "star-open")
LABEL_CHARS = 24  # of a domain or a setting
_ROW = 20  # px of a mark


def domains_figure(cells: pd.DataFrame, title: str, *, mode: Mode = "light") -> go.Figure:
    """A row a domain, a mark a setting, whiskers from `low` to `high`.

    cells: the rows of one metric of `analysis.domains.domain_matrix`. Settings differ by symbol;
    beyond `SYMBOLS` symbols come again, and the order from above tells them apart.
    """
    colours = palette(mode)
    domains, settings = cells.domain.unique().tolist(), cells.setting.unique().tolist()
    shown = cells.rename(columns={"low": "value_low", "high": "value_high"})
    marks = []
    for place, setting in enumerate(settings):
        rows = shown[shown.setting == setting]
        colour = colours.ink if place % 2 == 0 else colours.muted
        y = [_height(domains.index(domain), place, len(settings)) for domain in rows.domain]
        marks.append(
            go.Scatter(
                x=rows.value.tolist(),
                y=y,
                mode="markers",
                name=_label(setting),
                marker={"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9, "color": colour},
                error_x=whiskers(rows, "value", colour, cap=0),
                customdata=[
                    [_label(row.domain), row.prompts, _bounds(row.value_low, row.value_high)]
                    for row in rows.itertuples()
                ],
                hovertemplate=f"{_label(setting)}, %{{customdata[0]}}<br>%{{x:.3f}}, "
                "%{customdata[2]}<br>prompts: %{customdata[1]}<extra></extra>",
            )
        )
    height = 150 + max(26, _ROW * len(settings)) * len(domains)
    figure = framed(marks, title=title, x="", y="", colours=colours, height=height)
    figure.update_yaxes(
        tickvals=list(range(len(domains))),
        ticktext=[_label(domain) for domain in domains],
        range=[len(domains) - 0.5, -0.5],
        rangemode="normal",
        automargin=True,
    )
    figure.update_xaxes(showgrid=True)
    return legend_below(figure)


def _height(domain: int, setting: int, settings: int) -> float:
    """Settings of a domain stand below each other around it."""
    return domain + (setting - (settings - 1) / 2) * 0.7 / settings


def _bounds(low: float, high: float) -> str:
    return "no interval" if np.isnan(low) else f"{low:.3f} to {high:.3f}"


def _label(name: str) -> str:
    return literal(name if len(name) <= LABEL_CHARS else name[:LABEL_CHARS] + "…")


def domains_words(cells: pd.DataFrame, title: str) -> str:
    """What `domains_figure` shows, for whoever cannot see it."""
    known = cells[cells.value.notna()]
    parts = [f"{row.domain}, {row.setting}: {row.value:.2f}" for row in known.itertuples()]
    return f"{title}. {'; '.join(parts)}."
