"""How a draft learned: loss, accuracy by unroll step and learning rate over the text passed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import find_intermediate_color, hex_to_rgb

from eagle3_viz.figures.colours import Mode, Palette, palette
from eagle3_viz.figures.frame import framed
from eagle3_viz.figures.text import literal
from eagle3_viz.prompt_records import ALL
from eagle3_viz.training.log import EvaluationRow, LogRow

HEIGHT = 560  # px
POINTS = 2000  # of a line; more cannot be told apart
SMOOTHED = 30  # a smoothed loss is the mean over 1/30 of the rows
DOMAINS = 8  # listed in a hover label
DOMAIN_LIMIT = 20  # characters
TRAINING, HELD_OUT = "training", "held out"  # `meta` of the accuracy lines
_LOSS, _ACCURACY, _RATE = "y", "y2", "y3"
_HEADING = 0.65  # share of the height below the heading of the accuracy chart
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
_PALEST = 0.55  # how far the colour of the last unroll step is on its way to the grid's


def training_figure(
    log: Sequence[LogRow], evaluations: Sequence[EvaluationRow], *, mode: Mode = "light"
) -> go.Figure:
    """Three charts over response tokens passed: loss, accuracy by unroll step, learning rate.

    Faint lines are the training batches, marked ones the held-out text of all domains; the hover
    label of a marked point lists its domains. The loss is drawn as logged and smoothed.
    """
    colours = palette(mode)
    unroll = max((len(row.accuracy) for row in log), default=0)
    steps = max((unroll, *(len(row.accuracy) for row in evaluations)))
    shades = _shades(steps, colours)
    lines = _losses(log, colours)
    lines += [_batches(log, step, shades[step]) for step in range(unroll)]
    trained = unroll or steps
    lines += [_heldout(evaluations, step, shades[step], step < trained) for step in range(steps)]
    lines.append(_rates(log, colours))
    figure = framed(
        lines,
        title="Training",
        x="response tokens passed",
        y="loss",
        colours=colours,
        height=HEIGHT,
    )
    _lay_out(figure)
    if log or evaluations:
        _name_steps(figure, heldout=any(row.domain == ALL for row in evaluations))
    else:
        _say_nothing_is_there(figure)
    return figure


def training_in_words(log: Sequence[LogRow], evaluations: Sequence[EvaluationRow]) -> str:
    """What the figure shows, for whoever cannot see it."""
    sentences = []
    if log:
        first, last = log[0], log[-1]
        sentences.append(
            f"Over {last.tokens:,} response tokens in {last.step:,} steps the loss went from "
            f"{first.loss:.2f} to {last.loss:.2f}."
        )
    heldout = [row for row in evaluations if row.domain == ALL]
    if heldout:
        shares = ", ".join(f"{100 * share:.0f} %" for share in heldout[-1].accuracy)
        sentences.append(
            f"After {heldout[-1].tokens:,} tokens the draft's most likely token was the target's "
            f"on {shares} of the held-out tokens, by unroll step from 1 on."
        )
    return " ".join(sentences) or "No step was logged yet."


def _losses(log: Sequence[LogRow], colours: Palette) -> list[go.Scatter]:
    loss = [row.loss for row in log]
    window = max(len(loss) // SMOOTHED, 1)
    smoothed = pd.Series(loss, dtype=float).rolling(window, center=True, min_periods=1).mean()
    faint = {"color": colours.plain, "width": 1}
    solid = {"color": colours.plain, "width": 2}
    label = _hover("smoothed loss", ".4f")
    return [
        _line(log, loss, _LOSS, "loss", faint, None, opacity=0.35),
        _line(log, smoothed.tolist(), _LOSS, "smoothed loss", solid, label),
    ]


def _rates(log: Sequence[LogRow], colours: Palette) -> go.Scatter:
    rates = [row.learning_rate for row in log]
    look = {"color": colours.muted, "width": 1.5}
    return _line(log, rates, _RATE, "learning rate", look, _hover("learning rate", ".2e"))


def _batches(log: Sequence[LogRow], step: int, shade: str) -> go.Scatter:
    """Accuracy on the training batches at the unroll step of index `step`."""
    shares = [_at(row.accuracy, step) for row in log]
    look = {"color": shade, "width": 1}
    label = f"training, unroll step {step + 1}<br>{_hover('accuracy', '.3f')}"
    line = _line(log, shares, _ACCURACY, f"{step + 1}", look, label, opacity=0.5)
    return line.update(legendgroup=str(step), meta=TRAINING)


def _line(
    log: Sequence[LogRow],
    values: Sequence[float],
    axis: str,
    name: str,
    look: Mapping[str, object],
    label: str | None,
    *,
    opacity: float = 1.0,
) -> go.Scatter:
    """One value a logged step, at most POINTS of them, evenly chosen.

    Without `label` the line does not answer the pointer, which another line is to have.
    """
    chosen = np.unique(np.linspace(0, max(len(log) - 1, 0), min(len(log), POINTS)).astype(int))
    return go.Scatter(
        x=[log[i].tokens for i in chosen],
        y=[values[i] for i in chosen],
        yaxis=axis,
        name=name,
        mode="lines" if len(log) > 1 else "markers",  # one point has no line
        line=look,
        marker={"color": look["color"], "size": 5},
        opacity=opacity,
        hovertemplate=label,
        hoverinfo="skip" if label is None else None,
        showlegend=False,
    )


def _heldout(
    evaluations: Sequence[EvaluationRow], step: int, shade: str, trained: bool
) -> go.Scatter:
    """Accuracy on the held-out text at the unroll step of index `step`."""
    by_step: dict[int, list[EvaluationRow]] = defaultdict(list)
    for row in evaluations:
        by_step[row.step].append(row)
    rows = [row for row in evaluations if row.domain == ALL]
    name = f"{step + 1}" if trained else f"{step + 1}, not trained"
    return go.Scatter(
        x=[row.tokens for row in rows],
        y=[_at(row.accuracy, step) for row in rows],
        customdata=[_by_domain(by_step[row.step], step) for row in rows],
        yaxis=_ACCURACY,
        name=name,
        meta=HELD_OUT,
        legendgroup=str(step),
        mode="lines+markers",
        line={"color": shade, "width": 2},
        marker={"symbol": _SYMBOLS[step % len(_SYMBOLS)], "size": 7},
        hovertemplate=f"held out, unroll step {name}<br>"
        + _hover("accuracy", ".3f", "%{customdata}"),
        showlegend=True,
    )


def _hover(what: str, number: str, more: str = "") -> str:
    return f"after %{{x:.3s}} tokens: {what} %{{y:{number}}}{more}<extra></extra>"


def _by_domain(rows: Sequence[EvaluationRow], step: int) -> str:
    """Lines of a hover label: the accuracy in each domain."""
    domains = sorted((row for row in rows if row.domain != ALL), key=lambda row: row.domain)
    lines = [
        f"<br>{_shortened(row.domain)} {_at(row.accuracy, step):.3f}" for row in domains[:DOMAINS]
    ]
    if len(domains) > DOMAINS:
        lines.append(f"<br>and {len(domains) - DOMAINS} more")
    return "".join(lines)


def _shortened(domain: str) -> str:
    cut = domain if len(domain) <= DOMAIN_LIMIT else domain[: DOMAIN_LIMIT - 1] + "…"
    return literal(cut)


def _at(shares: Sequence[float], step: int) -> float:
    return shares[step] if step < len(shares) else float("nan")


def _shades(steps: int, colours: Palette) -> list[str]:
    """One colour an unroll step: the green of accepted tokens, paler with every step."""
    strong, pale = hex_to_rgb(colours.accepted), hex_to_rgb(colours.line)
    mixes = np.linspace(0, _PALEST, steps)
    mixed = [find_intermediate_color(strong, pale, float(mix)) for mix in mixes]
    return ["rgb({:.0f}, {:.0f}, {:.0f})".format(*shade) for shade in mixed]


def _lay_out(figure: go.Figure) -> None:
    """Three charts under each other, the legend as heading of the one it belongs to."""
    style = figure.layout.yaxis.to_plotly_json() | {"rangemode": "tozero"}
    accuracy = {"domain": [0.21, 0.58], "title": {"text": "accuracy", "standoff": 14}}
    rate = {"domain": [0, 0.13], "title": {"text": "learning<br>rate", "standoff": 14}}
    figure.update_layout(
        yaxis={"domain": [0.74, 1]},
        yaxis2=style | accuracy,
        yaxis3=style | rate | {"nticks": 3},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": _HEADING, "yanchor": "top"},
        margin={"l": 74},
    )
    figure.update_xaxes(anchor=_RATE, rangemode="tozero", tickformat="~s")


def _name_steps(figure: go.Figure, *, heldout: bool) -> None:
    """Legend and pointer go to the held-out lines where there are any, else to the training's."""
    note = " (marked: held out, faint: training)" if heldout else ""
    figure.add_annotation(
        text=f"accuracy by unroll step{note}",
        xref="paper",
        yref="paper",
        x=0,
        y=_HEADING,
        xanchor="left",
        yanchor="bottom",
        showarrow=False,
    )
    if heldout:
        figure.update_traces(hoverinfo="skip", hovertemplate=None, selector={"meta": TRAINING})
    else:
        figure.update_traces(showlegend=True, opacity=1, selector={"meta": TRAINING})


def _say_nothing_is_there(figure: go.Figure) -> None:
    figure.update_xaxes(range=[0, 1], showticklabels=False)
    figure.update_yaxes(range=[0, 1], showticklabels=False)
    figure.add_annotation(
        text="no step was logged yet", xref="paper", yref="paper", x=0.5, y=0.4, showarrow=False
    )
