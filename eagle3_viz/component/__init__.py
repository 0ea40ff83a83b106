"""The live view: metrics, token strip, accept-length scrubber and draft tree in one component.

The browser side is SVG and DOM built from text nodes; `payload` makes its data, `explain` the
sentences about a node. The assets are ES modules, joined into the one module Streamlit mounts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from eagle3_viz.component.explain import miss_sentence, node_sentence
from eagle3_viz.component.payload import live_payload

__all__ = ["live_payload", "live_view", "miss_sentence", "node_sentence"]

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = (  # dependencies first; the last one has the default export
    "dom.js",
    "theme.js",
    "format.js",
    "store.js",
    "selection.js",
    "model.js",
    "fold.js",
    "layout.js",
    "measure.js",
    "figures.js",
    "tokens.js",
    "scrubber.js",
    "card.js",
    "nodes.js",
    "tree.js",
    "view.js",
)
STYLES = ("base.css", "strip.css", "tree.css")

_IMPORT = re.compile(r"^import\s[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


def bundle() -> str:
    """One ES module out of the scripts: imports between them dropped, one default export kept."""
    sources = [(ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", source)) for source in sources)


def styles() -> str:
    """The style sheets, joined."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in STYLES)


_mount = st.components.v2.component("eagle3_viz.live_view", css=styles(), js=bundle())


def live_view(
    payload: Mapping[str, object],
    *,
    key: str,
    height: int = 640,
    on_change: Callable[[], None] | None = None,
) -> Any:
    """Draws a `live_payload`. The component is `height` px tall where the page is wide enough.

    Returns the component's result. Its `.selection` is None while the newest cycle is followed,
    else {"cycle": index, "node": index or None}; with `"decided": True` when the recovered or
    bonus token was chosen, `node` then being the node where the walk stopped. `on_change` runs
    before the page when the selection changes.
    """
    return _mount(
        key=key,
        data={**payload, "height": height},
        on_selection_change=on_change or _ignore,
    )


def _ignore() -> None:
    """Streamlit exposes `.selection` only where a callback is registered."""
