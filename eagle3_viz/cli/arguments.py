"""What can be typed, and the configuration of a run that it amounts to."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from eagle3_viz.cli.export_arguments import add_export
from eagle3_viz.cli.lossless_arguments import add_lossless
from eagle3_viz.cli.option_types import DTYPES, place, seed, text
from eagle3_viz.cli.pair_arguments import add_models
from eagle3_viz.cli.profile_arguments import add_profile
from eagle3_viz.cli.suite_arguments import add_suite
from eagle3_viz.cli.train_arguments import add_train
from eagle3_viz.config import METHODS, RULES, DecodeConfig, Sampling, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, FIXED_TREES
from eagle3_viz.pair_specs import KNOWN_PAIRS
from eagle3_viz.plain_text import one_line

PROGRAM = "python -m eagle3_viz"
DRAFT_KINDS = ("trained", "random", "least-likely")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {one_line(message)} (see {self.prog} --help)\n")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command in `argv` and its options, checked; exits with 2 and a sentence otherwise.

    `decode` gets its DecodeConfig as `config`.
    """
    parser = _Parser(PROGRAM, description="A microscope for speculative decoding.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    decode = commands.add_parser(
        "decode", help="decode a prompt and report what it took", description=_DECODE
    )
    _add_decode(decode)
    fetch = commands.add_parser("fetch", help="download a pair and get it ready")
    fetch.add_argument(
        "--pair",
        metavar="NAME",
        help=f"a name that `pairs` lists (default: {KNOWN_PAIRS[0].name}, the embedded pair)",
    )
    commands.add_parser("pairs", help="list the pairs that have a name")
    show = commands.add_parser("show", help="describe a saved trace")
    show.add_argument("trace", type=place, help="Parquet or JSON that this program saved")
    add_export(commands)
    add_suite(commands)
    add_lossless(commands)
    add_profile(commands)
    add_train(commands)
    args = parser.parse_args(argv)
    if args.command == "decode":
        try:
            _check(args)
            args.config = decode_config(args)
        except ValueError as error:
            decode.error(str(error))
    args.argv = ("eagle3_viz", *argv)
    return args


_DECODE = (
    "Decode a prompt. The text goes to standard output while it is decoded, the numbers to "
    "standard error. On a terminal, tokens are green where the draft was accepted and violet "
    "where the target decided."
)


def _add_decode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", type=text, help="what to ask; - reads standard input")
    parser.add_argument("--system", type=text, help="system message")
    parser.add_argument("--method", choices=METHODS, default="eagle3")
    parser.add_argument("--compare", action="store_true", help="run autoregression as well")
    models = add_models(parser)
    models.add_argument(
        "--draft-kind", choices=DRAFT_KINDS, default="trained", help="a draft bad on purpose"
    )
    models.add_argument("--dtype", choices=DTYPES, help="default: what suits the device")
    tree = parser.add_argument_group("draft tree")
    usual = TreeShape()
    tree.add_argument(
        "--depth", type=int, help=f"draft forwards after the root's (default: {usual.depth})"
    )
    tree.add_argument(
        "--top-k", type=int, help=f"children a node (default: {usual.top_k}; 1 makes a chain)"
    )
    tree.add_argument(
        "--total",
        type=int,
        help=f"nodes verified a cycle, root included (default: {usual.total})",
    )
    tree.add_argument(
        "--fixed-tree",
        choices=FIXED_TREES,
        default=DEFAULT_FIXED.name,
        help=f"the tree of eagle1 (default: {DEFAULT_FIXED.name})",
    )
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--temperature", type=float, default=0.0, help="default: 0, greedy")
    sampling.add_argument("--target-top-k", type=int, default=0, help="default: 0, off")
    sampling.add_argument("--top-p", type=float, default=1.0, help="default: 1, off")
    sampling.add_argument(
        "--rule",
        choices=RULES,
        help="default: greedy at 0, else topk; typical changes the output distribution",
    )
    sampling.add_argument(
        "--draft-temperature",
        type=float,
        help="of the q that --rule sample draws from (default: --temperature)",
    )
    sampling.add_argument("--seed", type=seed, default=0, help="of random draws; default: 0")
    ends = parser.add_argument_group("length")
    ends.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help="default: 128")
    ends.add_argument(
        "--stop", action="append", default=[], type=text, help="stop after this text; repeatable"
    )
    record = parser.add_argument_group("recording")
    record.add_argument("--trace", type=place, metavar="FILE", help="save the run as a trace file")
    record.add_argument(
        "--record",
        choices=("off", "outcomes", "full"),
        help="how much of each cycle to keep (default: full with --trace, else off)",
    )


def _check(args: argparse.Namespace) -> None:
    """Raises ValueError for options that contradict each other, before anything is loaded."""
    if args.pair and (args.target or args.draft):
        raise ValueError("give --pair, or --target and --draft, not both")
    if args.method == "ar":
        for option, given in (
            ("--compare", args.compare),
            (f"--draft-kind {args.draft_kind}", args.draft_kind != "trained"),
        ):
            if given:
                raise ValueError(f"{option} needs a draft: use --method eagle3")
    elif args.method != "lookup" and args.target and not args.draft:
        raise ValueError(
            f"--target needs --draft for --method {args.method}: name one, or use --method ar or "
            "lookup"
        )
    if args.method != "eagle1" and args.fixed_tree != DEFAULT_FIXED.name:
        raise ValueError(
            "--fixed-tree is for --method eagle1; others take --depth, --top-k, --total"
        )
    shape = (args.depth, args.top_k, args.total)
    if args.method == "eagle1" and any(size is not None for size in shape):
        raise ValueError(
            "--method eagle1 has a fixed tree: choose it with --fixed-tree, or use --method eagle2 "
            "with --depth, --top-k and --total"
        )


def decode_config(args: argparse.Namespace) -> DecodeConfig:
    """The run that the options ask for. Raises ValueError when it has no meaning."""
    return DecodeConfig(
        method=args.method,
        shape=_shape(args.depth, args.top_k, args.total),
        fixed=FIXED_TREES[args.fixed_tree],
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
