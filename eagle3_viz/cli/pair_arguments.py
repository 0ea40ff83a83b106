"""The options that name a pair."""

from __future__ import annotations

import argparse
from collections.abc import Collection

from eagle3_viz.cli.option_types import device, location
from eagle3_viz.pair_specs import KNOWN_PAIRS

MODEL_FREE = ("ar", "lookup")  # methods that need no draft of a pair


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


def refuse_unfit_models(
    args: argparse.Namespace, methods: Collection[str] | None, option: str = "--method"
) -> None:
    """Raise ValueError for models that contradict each other or the methods of `option`.

    methods: None where all that the pair has drafts for are run.
    """
    if args.pair and (args.target or args.draft):
        raise ValueError("give --pair, or --target and --draft, not both")
    if methods is None:
        return
    drafting = [method for method in methods if method not in MODEL_FREE]
    if args.target and not args.draft and drafting:
        raise ValueError(
            f"--target needs --draft for {option} {drafting[0]}: name one, or use {option} ar or "
            "lookup"
        )
    if args.draft and not drafting:
        raise ValueError(
            f"--draft is not used by {option} {' '.join(methods)}: leave it out, or choose a "
            "method with a draft model"
        )
