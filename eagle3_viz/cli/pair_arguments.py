"""The options that name a pair."""

from __future__ import annotations

import argparse

from eagle3_viz.cli.option_types import device, location
from eagle3_viz.pair_specs import KNOWN_PAIRS


def add_models(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options that name a pair; returns their group, which still lacks --dtype."""
    models = parser.add_argument_group(
        f"models (default: {KNOWN_PAIRS[0].name}, the embedded pair)"
    )
    models.add_argument("--pair", metavar="NAME", help="a name that `pairs` lists")
    models.add_argument(
        "--target", type=location, metavar="FOLDER_OR_ID", help="a target of your own"
    )
    models.add_argument(
        "--draft",
        type=location,
        metavar="FOLDER_OR_ID",
        action="append",
        default=[],
        help="a draft of your own; repeatable, one a method",
    )
    models.add_argument("--device", type=device, metavar="cpu|cuda[:N]", help="default: a GPU")
    models.add_argument(
        "--trust-remote-code", action="store_true", help="run code that comes with the target"
    )
    return models
