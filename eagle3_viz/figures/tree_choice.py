"""Why a tree is the fastest: what widths cost, and what every size of tree promises."""

from __future__ import annotations

import plotly.graph_objects as go

from eagle3_viz.figures.colours import Mode, Palette, palette
from eagle3_viz.figures.frame import framed
from eagle3_viz.tree_choice.choice import Candidate, TreeChoice
from eagle3_viz.tree_choice.cycle_cost import Curve, CycleCost

HEIGHT = 250  # px
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
AUTOREGRESSION = "autoregression"


def cost_figure(cost: CycleCost, *, mode: Mode = "light") -> go.Figure:
    """Milliseconds of a target forward by its nodes, and of a draft forward by its top-k."""
    colours = palette(mode)
    lines = [
        _curve(cost.verify, "target, nodes verified", colours.phases["verify"], "solid", "circle"),
        _curve(cost.level, "draft, a level of top-k", colours.phases["draft"], "dash", "diamond"),
    ]
    title = "What a forward costs here"
    return _by_width(framed(lines, title=title, x="width", y="ms", colours=colours, height=HEIGHT))


def cost_words(cost: CycleCost) -> str:
    """What `cost_figure` shows, for whoever cannot see it."""
    target = ", ".join(f"{width} {ms:.1f}" for width, ms in cost.verify)
    draft = ", ".join(f"{width} {ms:.1f}" for width, ms in cost.level)
    return (
        f"Milliseconds of a target forward by nodes verified: {target}. "
        f"Of a draft forward by top-k: {draft}."
    )


def promise_figure(choice: TreeChoice, *, mode: Mode = "light") -> go.Figure:
    """Predicted speed-up of the best tree of each number of verified nodes, the chosen marked."""
    colours = palette(mode)
    best = go.Scatter(
        **_points([choice.chosen]),
        mode="markers+text",
        marker={"color": colours.accepted, "size": 13, "symbol": "star"},
        text=["chosen"],
        textposition="top center",
        name="chosen",
    )
    every = go.Scatter(
        **_points(choice.by_total),
        mode="lines+markers",
        line={"color": colours.plain, "width": 2},
        marker={"size": 5},
        name="best tree of a size",
    )
    figure = framed(
        [every, best],
        title="Predicted speed-up by nodes verified",
        x="nodes verified a cycle, the root included",
        y="times autoregression",
        colours=colours,
        height=HEIGHT,
    )
    _mark_autoregression(figure, colours)
    figure.update_yaxes(range=[0, 1.2 * choice.best.speedup])
    figure.update_layout(showlegend=False)
    return _by_width(figure)


def promise_words(choice: TreeChoice) -> str:
    """What `promise_figure` shows, for whoever cannot see it."""
    sizes = ", ".join(f"{found.shape.total} {found.speedup:.2f}x" for found in choice.by_total)
    return (
        f"Predicted speed-up of the best tree by nodes verified: {sizes}. Chosen: "
        f"{choice.shape.total}."
    )


def _curve(curve: Curve, name: str, colour: str, dash: str, symbol: str) -> go.Scatter:
    widths, ms = zip(*curve, strict=True)
    return go.Scatter(
        x=widths,
        y=ms,
        mode="lines+markers",
        line={"color": colour, "width": 2, "dash": dash},
        marker={"size": 6, "symbol": symbol},
        name=name,
        hovertemplate=f"{name}: %{{x}}<br>%{{y:.1f}} ms<extra></extra>",
    )


def _points(candidates: tuple[Candidate, ...] | list[Candidate]) -> dict[str, object]:
    return {
        "x": [found.shape.total for found in candidates],
        "y": [found.speedup for found in candidates],
        "customdata": [
            [found.shape.depth, found.shape.top_k, found.tau, found.ms] for found in candidates
        ],
        "hovertemplate": "total %{x}, depth %{customdata[0]}, top-k %{customdata[1]}<br>"
        "%{customdata[2]:.2f} tokens in %{customdata[3]:.1f} ms: %{y:.2f}x<extra></extra>",
    }


def _mark_autoregression(figure: go.Figure, colours: Palette) -> None:
    figure.add_hline(
        y=1.0,
        line={"color": colours.muted, "width": 1, "dash": "dot"},
        annotation={"text": AUTOREGRESSION, "font": {"color": colours.muted, "size": 11}},
        annotation_position="bottom left",  # the curve comes down to the line on the right
    )


def _by_width(figure: go.Figure) -> go.Figure:
    figure.update_xaxes(type="log", tickvals=WIDTHS, ticktext=[str(width) for width in WIDTHS])
    figure.update_layout(
        margin={"t": 66},
        title={"yref": "container", "y": 1, "yanchor": "top", "pad": {"t": 10}},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
    )
    return figure
