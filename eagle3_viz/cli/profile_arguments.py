"""What can be typed after `profile`."""

from __future__ import annotations

from typing import Any

from eagle3_viz.cli.option_types import DTYPES, place, text, whole_number
from eagle3_viz.cli.pair_arguments import add_models
from eagle3_viz.cli.suite_arguments import MAX_TOKENS, tree
from eagle3_viz.config import METHODS, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, FIXED_TREES

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
    usual = TreeShape()
    parser.add_argument(
        "--tree",
        type=tree,
        default=usual,
        metavar="TOTAL,DEPTH,TOP_K",
        help=f"default: {usual.total},{usual.depth},{usual.top_k}",
    )
    parser.add_argument(
        "--fixed-tree",
        choices=FIXED_TREES,
        default=DEFAULT_FIXED.name,
        help=f"of eagle1; default: {DEFAULT_FIXED.name}",
    )
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
