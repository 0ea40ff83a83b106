"""What can be typed after `suite`."""

from __future__ import annotations

import argparse
from typing import Any

from eagle3_viz.cli.option_types import DTYPES, place, seed, whole_number
from eagle3_viz.cli.pair_arguments import add_models
from eagle3_viz.config import METHODS, RULES, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, FIXED_TREES
from eagle3_viz.prompt_records import COLUMNS

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


def _add_what(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what is run")
    what.add_argument(
        "--methods", nargs="+", choices=METHODS, help="default: all that the pair has drafts for"
    )
    what.add_argument(
        "--prompts",
        nargs="+",
        default=["sample"],
        metavar="SOURCE",
        help="JSONL (question.jsonl as it is published), CSV or Parquet files; sample, the "
        "default, is our own prompts by domain",
    )
    what.add_argument(
        "--columns",
        type=columns,
        default={},
        metavar="NAME=COLUMN,...",
        help="what the files call prompt, turns, messages, id, domain or system, as in "
        "prompt=question,domain=topic",
    )
    what.add_argument(
        "--limit", type=whole_number(1, MAX_LIMIT), metavar="N", help="prompts of each set"
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    settings = parser.add_argument_group("settings (of several values, every one is run)")
    usual = TreeShape()
    settings.add_argument(
        "--tree",
        nargs="+",
        type=tree,
        default=[usual],
        metavar="TOTAL,DEPTH,TOP_K",
        help=f"default: {usual.total},{usual.depth},{usual.top_k}",
    )
    settings.add_argument(
        "--fixed-tree",
        nargs="+",
        choices=FIXED_TREES,
        default=[DEFAULT_FIXED.name],
        help=f"of eagle1; default: {DEFAULT_FIXED.name}",
    )
    settings.add_argument(
        "--temperature", nargs="+", type=float, default=[0.0], help="default: 0, greedy"
    )
    settings.add_argument("--target-top-k", type=int, default=0, help="default: 0, off")
    settings.add_argument("--top-p", type=float, default=1.0, help="default: 1, off")
    settings.add_argument(
        "--rule",
        choices=RULES,
        help="default: greedy at 0, else topk; typical changes the output distribution",
    )
    settings.add_argument("--seed", type=seed, default=0, help="of random draws; default: 0")
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


def tree(value: str) -> TreeShape:
    """Three sizes of a dynamic tree."""
    parts = value.split(",")
    try:
        total, depth, top_k = (whole_number(0, 10_000)(part) for part in parts)
        return TreeShape(total, depth, top_k)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"in {value!r}: {error}") from error
    except ValueError as error:
        reason = str(error) if len(parts) == 3 else f"expected TOTAL,DEPTH,TOP_K, found {value!r}"
        raise argparse.ArgumentTypeError(reason) from error


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
