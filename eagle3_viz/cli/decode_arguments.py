"""What can be typed after `decode`, and the configuration of a run that it amounts to."""

from __future__ import annotations

import argparse
from typing import Any

from eagle3_viz.cli.option_types import DTYPES, place, text
from eagle3_viz.cli.pair_arguments import MODEL_FREE, add_models, refuse_unfit_models
from eagle3_viz.cli.sampling_arguments import add_sampling, refuse_idle_sampling
from eagle3_viz.cli.tree_arguments import add_fixed_tree
from eagle3_viz.config import METHODS, DecodeConfig, Sampling, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, FIXED_TREES

DRAFT_KINDS = ("trained", "random", "least-likely")

_DECODE = (
    "Decode a prompt. The text goes to standard output while it is decoded, the numbers to "
    "standard error. On a terminal, tokens are green where the draft was accepted and violet "
    "where the target decided."
)
_TREE = (
    "Without a size, eagle2 and eagle3 draft the tree that is fastest on this machine, as far as "
    "the draft's acceptance is known; with a size, what is not given is as here."
)


def add_decode(commands: Any) -> None:
    """Add `decode` to the sub-parsers of the program."""
    parser = commands.add_parser(
        "decode", help="decode a prompt and report what it took", description=_DECODE
    )
    parser.set_defaults(check=_check, parser=parser)
    parser.add_argument("prompt", type=text, help="what to ask; - reads standard input")
    parser.add_argument("--system", type=text, help="system message")
    parser.add_argument("--method", choices=METHODS, default="eagle3")
    parser.add_argument("--compare", action="store_true", help="run autoregression as well")
    models = add_models(parser)
    models.add_argument(
        "--draft-kind", choices=DRAFT_KINDS, default="trained", help="a draft bad on purpose"
    )
    models.add_argument("--dtype", choices=DTYPES, help="default: what suits the device")
    _add_shape(parser.add_argument_group("draft tree", _TREE))
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--temperature", type=float, default=0.0, help="default: 0, greedy")
    add_sampling(sampling)
    sampling.add_argument(
        "--draft-temperature",
        type=float,
        help="of the q that --rule sample draws from (default: --temperature)",
    )
    ends = parser.add_argument_group("length")
    ends.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help="default: 128")
    ends.add_argument(
        "--stop", action="append", default=[], type=text, help="stop after this text; repeatable"
    )
    record = parser.add_argument_group("recording")
    record.add_argument(
        "--trace", type=place, metavar="FILE.parquet", help="save the run as a trace file"
    )
    record.add_argument(
        "--record",
        choices=("off", "outcomes", "full"),
        help="how much of each cycle to keep (default: full with --trace, else off)",
    )


def _add_shape(tree: argparse._ArgumentGroup) -> None:
    usual = TreeShape()
    tree.add_argument(
        "--depth",
        type=int,
        help="draft forwards after the root's, which makes one level more "
        f"(default: {usual.depth}, {usual.levels} levels)",
    )
    tree.add_argument(
        "--top-k", type=int, help=f"children a node (default: {usual.top_k}; 1 makes a chain)"
    )
    tree.add_argument(
        "--total",
        type=int,
        help=f"nodes verified a cycle, root included (default: {usual.total})",
    )
    add_fixed_tree(tree)


def _check(args: argparse.Namespace) -> None:
    """Settles `config`. Raises ValueError for options that contradict each other or do nothing."""
    if args.method == "ar" and args.compare:
        raise ValueError("--compare needs a draft: use --method eagle3")
    if args.method in MODEL_FREE and args.draft_kind != "trained":
        raise ValueError(
            f"--draft-kind {args.draft_kind} needs a draft model, and {args.method} has none: use "
            "--method eagle3"
        )
    refuse_unfit_models(args, [args.method])
    _refuse_unused_shape(args)
    refuse_idle_sampling(args, [args.temperature], [args.method])
    if args.record not in (None, "off") and args.trace is None:
        raise ValueError(
            f"--record {args.record} keeps nothing without a file: name one with --trace"
        )
    args.config = decode_config(args)


def _refuse_unused_shape(args: argparse.Namespace) -> None:
    """Raise ValueError for a size or a tree that the method does not draft."""
    if args.method != "eagle1" and args.fixed_tree is not None:
        raise ValueError(
            "--fixed-tree is for --method eagle1; others take --depth, --top-k, --total"
        )
    for option, size in (("depth", args.depth), ("top-k", args.top_k), ("total", args.total)):
        if size is None:
            continue
        if args.method == "eagle1":
            raise ValueError(
                "--method eagle1 has a fixed tree: choose it with --fixed-tree, or use --method "
                "eagle2 with --depth, --top-k and --total"
            )
        if args.method == "ar":
            raise ValueError(f"--{option} is about a draft tree and ar drafts none: leave it out")
        if args.method == "lookup" and option == "top-k":
            raise ValueError("lookup copies a chain, which has no --top-k: leave it out")


def decode_config(args: argparse.Namespace) -> DecodeConfig:
    """The run that the options ask for. Raises ValueError when it has no meaning."""
    return DecodeConfig(
        method=args.method,
        shape=_shape(args.depth, args.top_k, args.total),
        fixed=FIXED_TREES[args.fixed_tree or DEFAULT_FIXED.name],
        sampling=Sampling(args.temperature, args.target_top_k, args.top_p),
        draft_temperature=args.draft_temperature,
        rule=args.rule,
        max_new_tokens=args.max_new_tokens,
        stop=tuple(args.stop),
        seed=args.seed,
        record=args.record or ("full" if args.trace else "off"),
    )


def _shape(depth: int | None, top_k: int | None, total: int | None) -> TreeShape:
    """The tree asked for. What is not given is as usual, and no more nodes than can be drafted."""
    usual = TreeShape()
    depth = usual.depth if depth is None else depth
    top_k = usual.top_k if top_k is None else top_k
    if total is None and depth >= 0 and top_k >= 1:
        total = min(usual.total, 1 + top_k + depth * top_k**2)
    return TreeShape(usual.total if total is None else total, depth, top_k)
