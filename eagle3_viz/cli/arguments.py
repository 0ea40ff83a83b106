"""What can be typed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from eagle3_viz.cli.decode_arguments import add_decode
from eagle3_viz.cli.export_arguments import add_export
from eagle3_viz.cli.lossless_arguments import add_lossless
from eagle3_viz.cli.option_types import place
from eagle3_viz.cli.profile_arguments import add_profile
from eagle3_viz.cli.suite_arguments import add_suite
from eagle3_viz.cli.train_arguments import add_train
from eagle3_viz.interpreter import typed
from eagle3_viz.pair_specs import KNOWN_PAIRS
from eagle3_viz.plain_text import one_line


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {one_line(message)} (see {self.prog} --help)\n")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command in `argv` and its options, checked; exits with 2 and a sentence otherwise."""
    parser = _Parser(typed(["eagle3_viz"]), description="A microscope for speculative decoding.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_decode(commands)
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
    if "check" in args:  # what the options of a command amount to together
        try:
            args.check(args)
        except ValueError as error:
            args.parser.error(str(error))
    args.argv = ("eagle3_viz", *argv)
    return args
