"""Lossless: which rules leave the target's distribution alone."""

from __future__ import annotations

from eagle3_viz.ui import lossless_toy

lossless_toy.draw()
