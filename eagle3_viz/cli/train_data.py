"""`train data`: the target writes training text, with its pace on the screen."""

from __future__ import annotations

import argparse
import sys

from eagle3_viz.cli.failure import INTERRUPTED, as_failure
from eagle3_viz.cli.going_on import going_on
from eagle3_viz.cli.new_file import refuse_unless_folder
from eagle3_viz.cli.pace import reporting_pace
from eagle3_viz.cli.pair_loading import load_target, target_version
from eagle3_viz.cli.terminal import aligned
from eagle3_viz.embedded import PairError
from eagle3_viz.plain_text import one_line
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.data import HELD_OUT, TRAIN, Outcome, make_data
from eagle3_viz.training.prompts import read_prompts
from eagle3_viz.wording import counted

USUAL_COUNT = 1000


def data(args: argparse.Namespace) -> int:
    """Run the options of `train data`; returns the exit status."""
    with as_failure(DataError, PairError, ValueError, ArithmeticError, RuntimeError, OSError):
        refuse_unless_folder("--out", args.out)
        prompts = read_prompts(args.prompts, args.count) if args.prompts else None
        pair = load_target(args, sys.stderr)
        try:
            with reporting_pace(sys.stderr) as report:
                outcome = make_data(
                    pair.target,
                    args.out,
                    target_name=target_version(pair.target_source),
                    count=args.count or USUAL_COUNT,
                    prompts=prompts,
                    seed=args.seed,
                    batch=args.batch,
                    max_length=args.max_length,
                    holdout_share=args.holdout,
                    report=report,
                )
        except KeyboardInterrupt:
            print(
                one_line(f"Interrupted. What is finished is kept in {args.out}."),
                going_on(args.argv),
                sep="\n",
                file=sys.stderr,
            )
            return INTERRUPTED
    print(aligned(described(outcome), sys.stdout))
    return 0


def described(outcome: Outcome) -> list[tuple[str, str]]:
    """What came out, as rows of label and value."""
    dropped = [f"{count} {reason}" for reason, count in outcome.dropped.most_common()]
    answered = sum(outcome.finishes.values())
    share = 100 * outcome.finishes["loop"] / answered if answered else 0.0
    tokens = [f"{domain} {count}" for domain, count in sorted(outcome.tokens.items())]
    return [
        (TRAIN, counted(outcome.train, "conversation")),
        (HELD_OUT, counted(outcome.held_out, "conversation")),
        ("dropped", ", ".join(dropped) or "nothing"),
        ("response tokens", f"{outcome.tokens.total()}: {', '.join(tokens)}"),
        ("ended in a loop", f"{share:.1f} % of the answers; cut after the first round"),
    ]
