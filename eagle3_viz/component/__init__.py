"""The live view: metrics, token strip, accept-length scrubber and draft tree in one component.

The browser side is SVG and DOM built from text nodes; `payload` makes its data, `explain` the
sentences about a node. The assets are ES modules, joined into the one module Streamlit mounts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from eagle3_viz.component import bundling
from eagle3_viz.component.explain import miss_sentence, node_sentence
from eagle3_viz.component.payload import live_payload, waiting_payload

__all__ = ["live_payload", "live_view", "miss_sentence", "node_sentence", "waiting_payload"]

ENTRY = "view.js"
STYLES = ("base.css", "strip.css", "tree.css")

_mount = st.components.v2.component(
    "eagle3_viz.live_view", css=bundling.styles(STYLES), js=bundling.bundle(ENTRY)
)


def live_view(
    payload: Mapping[str, object] | None,
    *,
    feed: str | None,
    note: str,
    key: str,
    cycle: int | None = None,
    node: int | None = None,
    height: int = 640,
    on_select: Callable[[], None] | None = None,
) -> Any:
    """Draws a `live_payload`. The component is `height` px tall where the page is wide enough.

    `feed` is the address, seen from the page, at which the view asks for more: often while it has
    no payload, since the run moves then, and now and then to say that it is still there. None: the
    run has ended. When `still` there is not what is drawn here, the script runs again. `note` is
    what else to know about the run, beside the sentence that says where it is.

    `cycle` and `node` are what is looked at. The result's `.selection` is None while the newest
    cycle is followed, else {"cycle": index, "node": index or None}; with `"decided": True` when
    the recovered or bonus token was chosen, `node` then being the node where the walk stopped.
    `on_select` runs before the page when the selection changes.
    """
    return _mount(
        key=key,
        data={
            "run": payload,
            "feed": feed,
            "note": note,
            "cycle": cycle,
            "node": node,
            "height": height,
        },
        on_selection_change=on_select or _ignore,
        on_turned_change=_ignore,
    )


def _ignore() -> None:
    """Streamlit exposes a value of the component only where a callback is registered."""
