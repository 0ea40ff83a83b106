"""Acceptance: how many drafts are kept, at which depth, and why the other tokens were missed."""

from __future__ import annotations

from eagle3_viz.ui import acceptance_page

acceptance_page.draw()
