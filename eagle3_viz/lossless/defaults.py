"""What the checks do when nothing else is asked; imports no model code."""

from __future__ import annotations

from eagle3_viz.config import TreeShape

SAMPLING_PROMPT = "Name a colour and say why you like it."
SAMPLING_TREE = TreeShape(total=5, depth=1, top_k=3)
