"""Runs a sub-command of `train`; each brings its own imports."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def train(args: argparse.Namespace) -> int:
    """Run the sub-command that the options name; returns the exit status."""
    return COMMANDS[args.train_command](args)


def _data(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.train_data import data

    return data(args)


def _draft(args: argparse.Namespace) -> int:
    from eagle3_viz.cli.train_draft import draft

    return draft(args)


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "data": _data,
    "draft": _draft,
    "independent": _draft,
}
