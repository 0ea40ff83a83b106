"""What can be typed after `lossless`."""

from __future__ import annotations

import argparse
from typing import Any

from eagle3_viz.cli.option_types import DTYPES, place, rate, seed, text, whole_number
from eagle3_viz.cli.pair_arguments import add_models, refuse_unfit_models
from eagle3_viz.cli.suite_arguments import MAX_TOKENS
from eagle3_viz.cli.tree_arguments import add_fixed_tree, add_tree, refuse_unused_trees
from eagle3_viz.config import METHODS, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED
from eagle3_viz.lossless.defaults import SAMPLING_PROMPT, SAMPLING_TREE

GREEDY_TREES = (TreeShape(4, 2, 2), TreeShape(8, 3, 4), TreeShape(16, 5, 4))
MAX_DRAWS, MAX_PROMPTS = 1_000_000, 1000

_LOSSLESS = (
    "Check that speculation leaves the target's output alone: texts drawn at random against the "
    "target's own distribution, or greedy texts against autoregression. The exit status is 1 when "
    "something that should be lossless is not."
)
_SAMPLING = (
    "Draw the next three tokens after a fixed prefix many times, with every method, rule and seed, "
    "and compare them with the target's exact joint distribution by a chi-square test. Wrong rules "
    "go through the same test: one that is not rejected shows that the draws were too few."
)
_GREEDY = (
    "Decode prompts greedily with every method and tree and compare the texts with autoregression, "
    "token for token. A difference is numerical only where the target's margin is inside the noise "
    "between the two shapes of its forward."
)


def add_lossless(commands: Any) -> None:
    """Add `lossless` and its two checks to the sub-parsers of the program."""
    lossless = commands.add_parser(
        "lossless", help="check that the output is the target's own", description=_LOSSLESS
    )
    checks = lossless.add_subparsers(
        dest="lossless_check", required=True, metavar="sampling|greedy"
    )
    sampling = checks.add_parser(
        "sampling", help="drawn texts against exact probabilities", description=_SAMPLING
    )
    _add_sampling(sampling)
    greedy = checks.add_parser(
        "greedy", help="greedy texts against autoregression", description=_GREEDY
    )
    _add_greedy(greedy)
    sampling.set_defaults(check=_check_sampling, parser=sampling)
    greedy.set_defaults(check=_check_greedy, parser=greedy)
    for parser in (sampling, greedy):
        parser.add_argument(
            "--methods", nargs="+", choices=METHODS, help="default: all that the pair has"
        )
        add_fixed_tree(parser)
        parser.add_argument("--csv", type=place, metavar="FILE", help="every test as a row")


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompt",
        type=text,
        default=SAMPLING_PROMPT,
        help="the prefix is a part of the greedy answer to it after which the next tokens are open",
    )
    parser.add_argument(
        "--rules",
        nargs="+",
        choices=("topk", "sample"),
        default=["topk", "sample"],
        help="default: topk sample",
    )
    parser.add_argument(
        "--without-wrong", action="store_true", help="leave out the rules that must be rejected"
    )
    parser.add_argument(
        "--draws",
        type=whole_number(50, MAX_DRAWS),
        default=500,
        metavar="N",
        help="texts of a test; default: 500",
    )
    parser.add_argument(
        "--seeds", nargs="+", type=seed, default=list(range(5)), help="default: 0 1 2 3 4"
    )
    parser.add_argument("--temperature", nargs="+", type=rate, default=[1.0], help="default: 1")
    parser.add_argument("--target-top-k", type=int, default=0, help="default: 0, off")
    parser.add_argument("--top-p", type=float, default=0.9, help="default: 0.9")
    add_tree(parser, [SAMPLING_TREE])
    add_models(parser).add_argument(
        "--dtype",
        choices=DTYPES,
        default="float32",
        help="default: float32; in shorter formats p itself depends on the shape of the forward",
    )


def _add_greedy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompts",
        type=whole_number(1, MAX_PROMPTS),
        default=4,
        metavar="N",
        help="sample prompts, one of each domain in turn; default: 4",
    )
    parser.add_argument(
        "--max-new-tokens",
        type=whole_number(2, MAX_TOKENS),
        default=64,
        metavar="N",
        help="of a text; default: 64",
    )
    add_tree(parser, GREEDY_TREES, several=True)
    parser.add_argument(
        "--padded",
        action="store_true",
        help="also run autoregression in the shape of the verification, and report which "
        "differences vanish",
    )
    add_models(parser).add_argument(
        "--dtype",
        nargs="+",
        choices=DTYPES,
        default=["float32"],
        help="default: float32; bfloat16 beside it shows near ties fall both ways",
    )


def _check_sampling(args: argparse.Namespace) -> None:
    """Raises ValueError for options that contradict each other or have no effect."""
    refuse_unfit_models(args, args.methods, "--methods")
    # wrong rules are tried on a tree of that shape whatever the methods are
    shaped = args.methods and [*args.methods, *([] if args.without_wrong else ["eagle3"])]
    refuse_unused_trees(args, shaped)
    if set(args.methods or METHODS) <= {"ar", "lookup"} and "topk" not in args.rules:
        raise ValueError(
            f"--rules sample draws from q, and {' and '.join(args.methods)} has no q: use --rules "
            "topk"
        )
    args.tree = args.tree or SAMPLING_TREE
    args.fixed_tree = args.fixed_tree or DEFAULT_FIXED.name


def _check_greedy(args: argparse.Namespace) -> None:
    """Raises ValueError for options that contradict each other or have no effect."""
    refuse_unfit_models(args, args.methods, "--methods")
    refuse_unused_trees(args, args.methods)
    args.tree = args.tree or list(GREEDY_TREES)
    args.fixed_tree = args.fixed_tree or DEFAULT_FIXED.name
