"""Runs `suite` or a sub-command of it; each brings its own imports."""

from __future__ import annotations

import argparse


def suite(args: argparse.Namespace) -> int:
    """Run what the options name; returns the exit status."""
    if args.suite_command == "table":
        from eagle3_viz.cli.suite_tables import table

        return table(args.folder)
    if args.suite_command == "compare":
        from eagle3_viz.cli.suite_tables import compare

        return compare(args)
    from eagle3_viz.cli.suite_run import run

    return run(args)
