"""Trace: one run, cycle by cycle, node by node, step by step."""

from __future__ import annotations

from eagle3_viz.ui import trace_page

trace_page.draw()
