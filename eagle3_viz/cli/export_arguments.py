"""What can be typed after `export`."""

from __future__ import annotations

import argparse
from typing import Any

from eagle3_viz.cli.option_types import place, whole_number
from eagle3_viz.trace_file import MAX_CYCLES

_EXPORT = (
    "Write a saved trace in another form. Without --out it goes to standard output. A file is "
    "written whole or not at all, and one that exists already is left alone."
)


def add_export(commands: Any) -> None:
    """Add `export` to the sub-parsers of the program."""
    export = commands.add_parser(
        "export",
        help="write a saved trace as a web page, CSV, GraphML or Markdown",
        description=_EXPORT,
    )
    export.add_argument("trace", type=place, help="Parquet or JSON that this program saved")
    form = export.add_mutually_exclusive_group(required=True)
    _add_form(form, "--html", "one web page with scrubber and inspector; needs no server")
    _add_form(form, "--csv", "a row a cycle")
    _add_form(form, "--nodes", "CSV, a row a verified node")
    _add_form(form, "--markdown", "configuration, versions and numbers, for a bug report")
    form.add_argument(
        "--graphml",
        type=whole_number(1, MAX_CYCLES),
        metavar="CYCLE",
        help="the draft tree of one cycle, counted from 1",
    )
    export.add_argument("--out", type=place, metavar="FILE", help="default: -, standard output")


def _add_form(group: argparse._MutuallyExclusiveGroup, option: str, help: str) -> None:
    group.add_argument(
        option, dest="form", action="store_const", const=option.lstrip("-"), help=help
    )
