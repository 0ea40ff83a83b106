"""What can be typed after `suite`."""

from __future__ import annotations

import argparse
from typing import Any

from eagle3_viz.cli.option_types import DTYPES, location, place, whole_number
from eagle3_viz.cli.pair_arguments import add_models, refuse_unfit_models
from eagle3_viz.cli.sampling_arguments import add_sampling, refuse_idle_sampling
from eagle3_viz.cli.tree_arguments import add_fixed_tree, add_tree, refuse_unused_trees
from eagle3_viz.config import METHODS, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED
from eagle3_viz.prompt_records import COLUMNS
from eagle3_viz.prompt_sets import SAMPLE

MAX_LIMIT = 100_000
MAX_TOKENS = 32_768

_SUITE = (
    "Run methods over prompt sets, in turn on every prompt, and tabulate tau, speed-up over "
    "autoregression, phases and acceptance. Every run is kept at once: stopped or killed, the same "
    "command goes on from there. `suite table FOLDER` and `suite compare FOLDER FOLDER` read what "
    "is there."
)


def add_suite(commands: Any) -> None:
    """Add `suite` and its sub-commands to the sub-parsers of the program."""
    suite = commands.add_parser(
        "suite", help="measure methods over prompt sets", description=_SUITE
    )
    reading = suite.add_subparsers(dest="suite_command", metavar="[table|compare]")
    table = reading.add_parser("table", help="tabulate a suite as far as it has come")
    table.add_argument("folder", type=place, help="what --out named")
    compare = reading.add_parser("compare", help="compare two suites prompt by prompt")
    compare.add_argument("a", type=place, metavar="FOLDER", help="what --out named")
    compare.add_argument("b", type=place, metavar="FOLDER", help="the same of another suite")
    compare.add_argument(
        "--settings",
        nargs=2,
        metavar="NAME",
        help="a setting of the first and one of the second (default: those of one name)",
    )
    suite.add_argument("--out", type=place, metavar="FOLDER", help="where it goes; needed to run")
    _add_what(suite)
    add_models(suite).add_argument("--dtype", choices=DTYPES, help="default: what suits the device")
    _add_settings(suite)
    suite.set_defaults(check=lambda args: _check_run(args), parser=suite)
    for reader in (table, compare):
        reader.set_defaults(check=lambda args: _check_reading(args, suite), parser=reader)


def _check_run(args: argparse.Namespace) -> None:
    """Raises ValueError for options that contradict each other or have no effect."""
    refuse_unfit_models(args, args.methods, "--methods")
    refuse_unused_trees(args, args.methods)
    refuse_idle_sampling(args, args.temperature, args.methods)
    if args.columns and set(args.prompts) == {SAMPLE}:
        raise ValueError("--columns is about files, and no file is among --prompts: leave it out")
    args.tree = args.tree or [TreeShape()]
    args.fixed_tree = args.fixed_tree or [DEFAULT_FIXED.name]


def _check_reading(args: argparse.Namespace, suite: argparse.ArgumentParser) -> None:
    """Raises ValueError for an option of a run before `table` or `compare`, which read a folder."""
    for name, value in vars(args).items():
        if name not in _OF_READING and value != suite.get_default(name):
            raise ValueError(
                f"--{name.replace('_', '-')} is for a run, and suite {args.suite_command} reads "
                "what one made: leave it out"
            )


_OF_READING = ("command", "suite_command", "check", "parser", "folder", "a", "b", "settings")


def _add_what(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what is run")
    what.add_argument(
        "--methods", nargs="+", choices=METHODS, help="default: all that the pair has drafts for"
    )
    what.add_argument(
        "--prompts",
        nargs="+",
        type=location,
        default=[SAMPLE],
        metavar="SOURCE",
        help="JSONL (question.jsonl as it is published), CSV or Parquet files; sample, the "
        "default, is our own prompts by domain",
    )
    what.add_argument(
        "--columns",
        type=columns,
        default={},
        metavar="NAME=COLUMN,...",
        help="what files call prompt, turns, messages, id, domain or system, as in "
        "prompt=question,domain=topic; a file that calls them so already is read as it is",
    )
    what.add_argument(
        "--limit", type=whole_number(1, MAX_LIMIT), metavar="N", help="prompts of each set"
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    settings = parser.add_argument_group("settings (of several values, every one is run)")
    add_tree(settings, [TreeShape()], several=True)
    add_fixed_tree(settings, several=True)
    settings.add_argument(
        "--temperature", nargs="+", type=float, default=[0.0], help="default: 0, greedy"
    )
    add_sampling(settings)
    settings.add_argument(
        "--max-new-tokens",
        type=whole_number(1, MAX_TOKENS),
        default=128,
        metavar="N",
        help="of an answer; default: 128",
    )
    settings.add_argument(
        "--record",
        choices=("off", "outcomes", "full"),
        default="off",
        help="how much of each cycle to keep; default: off, all that the table needs",
    )


def columns(value: str) -> dict[str, str]:
    """A mapping of names to columns, "prompt=question,domain=topic"."""
    found: dict[str, str] = {}
    for part in value.split(","):
        name, equals, column = part.partition("=")
        if name not in COLUMNS or not equals or not column or name in found:
            raise argparse.ArgumentTypeError(
                f"expected NAME=COLUMN with a name out of {', '.join(COLUMNS)} at most once, found "
                f"{part!r}"
            )
        found[name] = column
    return found
