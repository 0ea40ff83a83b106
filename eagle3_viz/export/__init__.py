"""A trace in other forms: a web page of one file, CSV, GraphML, and Markdown for a bug report.

Token texts come from a model and names from people: in every form they are text, never markup.
"""

from __future__ import annotations

from eagle3_viz.export.graph import graphml
from eagle3_viz.export.page import html_file
from eagle3_viz.export.summary import markdown_summary
from eagle3_viz.export.tables import cycles_csv, nodes_csv

__all__ = ["cycles_csv", "graphml", "html_file", "markdown_summary", "nodes_csv"]
