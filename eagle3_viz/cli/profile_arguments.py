"""What can be typed after `profile`."""

from __future__ import annotations

import argparse
from typing import Any

from eagle3_viz.cli.option_types import DTYPES, place, text, whole_number
from eagle3_viz.cli.pair_arguments import add_models, refuse_unfit_models
from eagle3_viz.cli.suite_arguments import MAX_TOKENS
from eagle3_viz.cli.tree_arguments import add_fixed_tree, add_tree, refuse_unused_trees
from eagle3_viz.config import METHODS, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED

PROMPT = "Write a Python function that counts the words of a text, and explain it."

_PROFILE = (
    "Run one prompt greedily and tell where the milliseconds of a cycle go, beside the floor: what "
    "the matrix products of each part take alone. Medians over cycles; measure on a quiet machine."
)


def add_profile(commands: Any) -> None:
    """Add `profile` to the sub-parsers of the program."""
    parser = commands.add_parser(
        "profile", help="where the milliseconds of a cycle go", description=_PROFILE
    )
    parser.add_argument(
        "prompt", nargs="?", type=text, default=PROMPT, help="default: a question about code"
    )
    parser.add_argument("--method", choices=METHODS, default="eagle3")
    add_tree(parser, [TreeShape()])
    add_fixed_tree(parser)
    parser.add_argument(
        "--max-new-tokens",
        type=whole_number(8, MAX_TOKENS),
        default=96,
        metavar="N",
        help="default: 96",
    )
    parser.add_argument(
        "--chrome",
        type=place,
        metavar="FILE",
        help="also write the phases as JSON for chrome://tracing and ui.perfetto.dev",
    )
    models = add_models(parser)
    models.add_argument("--dtype", choices=DTYPES, help="default: what suits the device")
    parser.set_defaults(check=_check, parser=parser)


def _check(args: argparse.Namespace) -> None:
    """Raises ValueError for options that contradict each other or have no effect."""
    refuse_unfit_models(args, [args.method])
    refuse_unused_trees(args, [args.method])
    args.tree = args.tree or TreeShape()
    args.fixed_tree = args.fixed_tree or DEFAULT_FIXED.name
