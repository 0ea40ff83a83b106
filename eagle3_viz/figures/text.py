"""Token text inside Plotly, which reads pseudo-HTML and TeX in every label it draws."""

from __future__ import annotations

from eagle3_viz.tokens import visible
from eagle3_viz.trace import Trace

LABEL_LIMIT = 12  # characters of a token on an axis
HOVER_LIMIT = 60  # characters of a token in a hover label

# Entities are resolved after tags and `$...$` were looked for, so what they stand for stays text.
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})


def literal(text: str) -> str:
    """`text` in a form that Plotly draws character by character."""
    return text.translate(_ENTITIES)


def token_label(trace: Trace, token: int, limit: int = LABEL_LIMIT) -> str:
    """The visible text of a token, shortened, for a Plotly label."""
    text = visible(trace.token_bytes.get(int(token), b""))
    return literal(text if len(text) <= limit else text[:limit] + "…")
