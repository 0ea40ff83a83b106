"""Lossless: which rules leave the target's distribution alone."""

from __future__ import annotations

from eagle3_viz import service
from eagle3_viz.ui import lossless_pair, lossless_toy

lossless_toy.draw()
lossless_pair.draw(service.shared_engine())
