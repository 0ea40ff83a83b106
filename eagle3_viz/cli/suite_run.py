"""`suite`: methods over prompt sets, with the time left on the screen and a table at the end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from eagle3_viz.cli.failure import INTERRUPTED, Failure, as_failure
from eagle3_viz.cli.going_on import going_on
from eagle3_viz.cli.new_file import refuse_unless_folder
from eagle3_viz.cli.pace import reporting_pace
from eagle3_viz.cli.pair_loading import load
from eagle3_viz.cli.sharing import shareable
from eagle3_viz.cli.suite_tables import named, table
from eagle3_viz.config import METHODS, DecodeConfig, Method, Sampling
from eagle3_viz.fixed_tree import FIXED_TREES
from eagle3_viz.pairs import PairError
from eagle3_viz.plain_text import one_line
from eagle3_viz.prompt_sets import read_sets
from eagle3_viz.suite.manifest import refuse_foreign
from eagle3_viz.suite.plan import Plan, settings_of
from eagle3_viz.suite.runner import Outcome, run_suite
from eagle3_viz.training.data import Progress


def run(args: argparse.Namespace) -> int:
    """Run the suite that the options describe; returns the exit status."""
    if args.out is None:
        raise Failure("--out is missing: name the folder that the suite goes into")
    refuse_unless_folder("--out", args.out)
    with as_failure(PairError, ValueError, ArithmeticError, RuntimeError, OSError):
        sets = read_sets(args.prompts, args.columns, args.limit)
        settings(args, args.methods or METHODS)  # what has no meaning is told before loading
        refuse_foreign(args.out)
        pair = load(args)
        plan = Plan(sets, settings(args, args.methods or pair.methods))
        try:
            with reporting_pace(sys.stderr) as report:
                outcome = run_suite(
                    pair,
                    plan,
                    args.out,
                    command=shareable(args.argv, without_folder),
                    report=lambda done, total: report(Progress("Runs", done, total)),
                )
        except KeyboardInterrupt:
            print(
                one_line(
                    f"Interrupted. What is finished is kept in {args.out}; `suite table "
                    f"{args.out}` shows it."
                ),
                going_on(args.argv),
                sep="\n",
                file=sys.stderr,
            )
            return INTERRUPTED
    tell_skipped(outcome)
    return table(args.out)


def settings(args: argparse.Namespace, methods: Sequence[Method]) -> dict[str, DecodeConfig]:
    """The settings that the options ask for. Raises ValueError when one has no meaning."""
    return settings_of(
        tuple(dict.fromkeys(methods)),
        shapes=tuple(dict.fromkeys(args.tree)),
        fixed=tuple(FIXED_TREES[name] for name in dict.fromkeys(args.fixed_tree)),
        samplings=tuple(
            Sampling(temperature, args.target_top_k, args.top_p)
            for temperature in dict.fromkeys(args.temperature)
        ),
        rule=args.rule,
        max_new_tokens=args.max_new_tokens,
        seed=args.seed,
        record=args.record,
    )


def tell_skipped(outcome: Outcome) -> None:
    """Say which prompts the pair could not take, and why the first one."""
    if outcome.skipped:
        why = next(iter(outcome.skipped.values()))
        text = f"Skipped: {named(list(outcome.skipped))}. The first: {why}"
        print(one_line(text, 1000), file=sys.stderr)


def without_folder(argument: str) -> str:
    """The name of a place of this machine; a hub id is none."""
    path = Path(argument).expanduser()
    is_place = path.is_absolute() or (os.sep in argument and path.exists())
    return path.name if is_place else argument
