"""The trace view: a whole trace to scrub, inspect and play, in one component without a server.

Data of the module's `mount`: {"packed": what `packed_trace` gives, "cycle": from 0 or None, "node":
index or None, "height": px, "asked": int}. The view takes cycle and node over when one of them or
`asked` is another than before; else what the reader chose stays. Streamlit's style variables are
used where they exist; a page without Streamlit may define `--st-background-color` and the like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from eagle3_viz.component import bundling

ENTRY = "trace_view.js"
STYLES = (
    "base.css",
    "strip.css",
    "tree.css",
    "trace.css",
    "inspector.css",
    "walk.css",
    "tabs.css",
)


def trace_bundle() -> str:
    """The view as one ES module with `export default function mount(...)`."""
    return bundling.bundle(ENTRY)


def trace_styles() -> str:
    """The style sheets of the view, joined."""
    return bundling.styles(STYLES)


_mount = st.components.v2.component("eagle3_viz.trace_view", css=trace_styles(), js=trace_bundle())


def trace_view(
    packed: str,
    *,
    key: str,
    cycle: int | None = None,
    node: int | None = None,
    height: int = 652,
    asked: int = 0,
    on_change: Callable[[], None] | None = None,
) -> Any:
    """Draws a `packed_trace`. The view is `height` px tall where the page is wide enough.

    `cycle` and `node` are where it opens, both from 0; node None is the token the cycle ended
    with. They stay as they are while the reader moves, so that nothing is sent again; another
    `asked` makes the view take them over once more.

    Returns the component's result. Its `.selection` is {"cycle", "node", "tab"}; node is None for
    the token the cycle ended with and for a pruned candidate. `on_change` runs before the page
    when the selection has rested.
    """
    return _mount(
        key=key,
        data={"packed": packed, "cycle": cycle, "node": node, "height": height, "asked": asked},
        on_selection_change=on_change or _ignore,
    )


def _ignore() -> None:
    """Streamlit exposes `.selection` only where a callback is registered."""
