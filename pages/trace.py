"""Trace: one run, cycle by cycle, node by node, step by step."""

from __future__ import annotations

from eagle3_viz.ui import entry, trace_page

entry.through_app()
trace_page.draw()
