"""What can be typed after `train`: one function a sub-command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from eagle3_viz.cli.option_types import DTYPES, device, seed, share, whole_number
from eagle3_viz.pair_specs import KNOWN_PAIRS

MAX_COUNT = 10_000_000
MAX_BATCH = 4096
MAX_LENGTH = 32_768


def add_train(commands: Any) -> None:
    """Add `train` and its sub-commands to the sub-parsers of the program."""
    train = commands.add_parser("train", help="make a draft for a target")
    steps = train.add_subparsers(dest="train_command", required=True, metavar="STEP")
    _add_data(steps)


_DATA = (
    "Let the target write its own training text. Without --prompts it writes the questions too. "
    "What is finished is kept at once: stopped or killed, the same command goes on from there."
)


def _add_data(steps: Any) -> None:
    parser = steps.add_parser("data", help="text from the target to train on", description=_DATA)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where it goes")
    parser.add_argument(
        "--prompts",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="JSONL with turns, prompt or messages, or text (default: the target asks itself)",
    )
    parser.add_argument(
        "--count",
        type=whole_number(1, MAX_COUNT),
        metavar="N",
        help="prompts to write or to read (default: 1000 written, all of those read)",
    )
    add_target(parser)
    job = parser.add_argument_group("generation")
    job.add_argument("--seed", type=seed, default=0, help="of random draws; default: 0")
    job.add_argument(
        "--batch",
        type=whole_number(1, MAX_BATCH),
        default=64,
        metavar="N",
        help="texts decoded side by side; default: 64",
    )
    job.add_argument(
        "--max-length",
        type=whole_number(1, MAX_LENGTH),
        default=330,
        metavar="N",
        help="tokens of an answer at most; default: 330",
    )
    job.add_argument(
        "--holdout",
        type=share,
        default=0.02,
        metavar="SHARE",
        help="share of the prompts kept apart for evaluation; default: 0.02",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """Options that name the target a sub-command works on."""
    models = parser.add_argument_group(f"target (default: that of {KNOWN_PAIRS[0].name})")
    which = models.add_mutually_exclusive_group()
    which.add_argument("--pair", metavar="NAME", help="the target of a pair that `pairs` lists")
    which.add_argument("--target", metavar="FOLDER_OR_ID", help="a target of your own")
    models.add_argument("--dtype", choices=DTYPES, help="default: what suits the device")
    models.add_argument("--device", type=device, metavar="cpu|cuda[:N]", help="default: a GPU")
    models.add_argument(
        "--trust-remote-code", action="store_true", help="run code that comes with the target"
    )
