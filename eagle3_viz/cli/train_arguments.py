"""What can be typed after `train`: one function a sub-command."""

from __future__ import annotations

import argparse
from typing import Any

from eagle3_viz.cli.option_types import (
    DTYPES,
    device,
    location,
    place,
    rate,
    seed,
    share,
    whole_number,
)
from eagle3_viz.pair_specs import KNOWN_PAIRS

MAX_COUNT = 10_000_000
MAX_BATCH = 4096
MAX_LENGTH = 32_768
MAX_VOCABULARY = 1_000_000
MAX_TOKENS = 10**12
MAX_BATCH_TOKENS = 1_000_000
USUAL_EVALUATE = 500_000
OBJECTIVES = ("eagle3", "eagle3-no-ttt", "eagle1")


def add_train(commands: Any) -> None:
    """Add `train` and its sub-commands to the sub-parsers of the program."""
    train = commands.add_parser("train", help="make a draft for a target")
    steps = train.add_subparsers(dest="train_command", required=True, metavar="STEP")
    _add_data(steps)
    _add_draft(steps)
    _add_independent(steps)


_DATA = (
    "Let the target write its own training text. Without --prompts it writes the questions too. "
    "What is finished is kept at once: stopped or killed, the same command goes on from there."
)


def _add_data(steps: Any) -> None:
    parser = steps.add_parser("data", help="text from the target to train on", description=_DATA)
    parser.add_argument("--out", type=place, required=True, metavar="FOLDER", help="where it goes")
    parser.add_argument(
        "--prompts",
        type=place,
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


_DRAFT = (
    "Train an EAGLE draft on conversations that the target wrote. The target's features are "
    "computed once and kept; the draft is published in FOLDER/draft at every checkpoint. Stopped "
    "or killed, the same command goes on from the last checkpoint."
)


def _add_draft(steps: Any) -> None:
    parser = steps.add_parser("draft", help="train an EAGLE draft", description=_DRAFT)
    _add_text(parser)
    kind = parser.add_argument_group("what to train")
    kind.add_argument("--objective", choices=OBJECTIVES, default="eagle3", help="default: eagle3")
    kind.add_argument(
        "--taps",
        choices=("three", "top"),
        help="what EAGLE-3 reads: three taps, or the final state in place of each "
        "(default: three); EAGLE-1 reads the final state",
    )
    kind.add_argument(
        "--vocabulary",
        type=whole_number(1, MAX_VOCABULARY),
        metavar="N",
        help="tokens an EAGLE-3 draft can propose (default: 8192), or that EAGLE-1 is trained over "
        "(default: all)",
    )
    kind.add_argument(
        "--unroll",
        type=whole_number(1, 16),
        metavar="N",
        help="steps of the training-time test, eagle3 alone has them; default: 4",
    )
    kind.add_argument(
        "--start", type=place, metavar="FOLDER", help="a draft to go on from (default: fresh)"
    )
    add_target(parser)
    _add_optimizer(parser)
    parser.set_defaults(check=_check_draft, parser=parser)


def _check_draft(args: argparse.Namespace) -> None:
    """Raises ValueError for options that contradict each other or have no effect."""
    if args.unroll and args.objective != "eagle3":
        raise ValueError(f"--unroll is for --objective eagle3; {args.objective} has one step")
    if args.taps == "three" and args.objective == "eagle1":
        raise ValueError(
            "--taps three is for eagle3; an EAGLE-1 draft reads the target's final state: leave it "
            "out"
        )
    _check_text(args)


_INDEPENDENT = (
    "Train a small language model on the same text, distilled from the target: the draft of plain "
    "speculative decoding. It is saved as a transformers model in FOLDER/draft."
)


def _add_independent(steps: Any) -> None:
    parser = steps.add_parser(
        "independent", help="train a small language model as a draft", description=_INDEPENDENT
    )
    _add_text(parser)
    size = parser.add_argument_group("size")
    size.add_argument(
        "--width", type=whole_number(1, 8192), default=192, metavar="N", help="default: 192"
    )
    size.add_argument(
        "--layers", type=whole_number(1, 128), default=4, metavar="N", help="default: 4"
    )
    add_target(parser)
    _add_optimizer(parser)
    parser.set_defaults(check=_check_text, parser=parser)


def _check_text(args: argparse.Namespace) -> None:
    """Settles `evaluate`. Raises ValueError when there is no text to score on."""
    if args.evaluate is not None and not args.heldout:
        raise ValueError("--evaluate scores on the held-out text: name it with --heldout")
    args.evaluate = USUAL_EVALUATE if args.evaluate is None else args.evaluate


def _add_text(parser: argparse.ArgumentParser) -> None:
    """Where the text comes from and where everything goes."""
    parser.add_argument("--out", type=place, required=True, metavar="FOLDER", help="where it goes")
    text = parser.add_argument_group("text")
    text.add_argument(
        "--data", type=place, nargs="+", required=True, metavar="FILE", help="files of `train data`"
    )
    text.add_argument(
        "--heldout", type=place, nargs="+", default=[], metavar="FILE", help="text to score on"
    )
    text.add_argument(
        "--conversations",
        type=whole_number(1, MAX_COUNT),
        metavar="N",
        help="train on a random sample of so many (default: all)",
    )
    text.add_argument(
        "--features",
        type=place,
        metavar="FOLDER",
        help="the target's features of this text, to share between jobs (default: in --out)",
    )
    text.add_argument(
        "--licence", default="other", metavar="SPDX", help="for the model card; default: other"
    )


def _add_optimizer(parser: argparse.ArgumentParser) -> None:
    job = parser.add_argument_group("training (tokens are response tokens, every pass counted)")
    job.add_argument(
        "--tokens",
        type=whole_number(1, MAX_TOKENS),
        default=3_000_000,
        metavar="N",
        help="to pass in all; may be raised before the rate falls; default: 3000000",
    )
    job.add_argument(
        "--batch-tokens",
        type=whole_number(1, MAX_BATCH_TOKENS),
        default=512,
        metavar="N",
        help="of a micro-batch; default: 512",
    )
    job.add_argument(
        "--micro-batches",
        type=whole_number(1, MAX_BATCH),
        default=2,
        metavar="N",
        help="of an optimizer step, shared out over the processes; default: 2",
    )
    job.add_argument("--learning-rate", type=rate, default=1.5e-3, help="peak; default: 0.0015")
    job.add_argument(
        "--warmup", type=whole_number(0, MAX_COUNT), default=40, metavar="STEPS", help="default: 40"
    )
    job.add_argument(
        "--decay",
        type=share,
        default=0.6,
        metavar="SHARE",
        help="last share of the tokens, over which the rate falls to zero; default: 0.6",
    )
    job.add_argument("--seed", type=seed, default=0, help="of weights and order; default: 0")
    job.add_argument(
        "--processes",
        type=whole_number(1, 1024),
        metavar="N",
        help="default: one a GPU, on a CPU as many as share the micro-batches, one a core",
    )
    job.add_argument(
        "--checkpoint-minutes", type=rate, default=10.0, metavar="N", help="default: 10"
    )
    job.add_argument(
        "--evaluate",
        type=whole_number(0, MAX_TOKENS),
        metavar="N",
        help="tokens between two scores on the held-out text, 0 for one at the end; "
        f"default: {USUAL_EVALUATE}",
    )
    job.add_argument("--watch", action="store_true", help="show the whole state, not one line")


def add_target(parser: argparse.ArgumentParser) -> None:
    """Options that name the target a sub-command works on."""
    models = parser.add_argument_group(f"target (default: that of {KNOWN_PAIRS[0].name})")
    which = models.add_mutually_exclusive_group()
    which.add_argument("--pair", metavar="NAME", help="the target of a pair that `pairs` lists")
    which.add_argument(
        "--target", type=location, metavar="FOLDER_OR_ID", help="a target of your own"
    )
    models.add_argument("--dtype", choices=DTYPES, help="default: what suits the device")
    models.add_argument("--device", type=device, metavar="cpu|cuda[:N]", help="default: a GPU")
    models.add_argument(
        "--trust-remote-code", action="store_true", help="run code that comes with the target"
    )
