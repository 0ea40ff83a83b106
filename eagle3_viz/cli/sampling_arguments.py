"""The options that say how tokens are drawn, and which of them have an effect on what is run."""

from __future__ import annotations

import argparse
from collections.abc import Collection

from eagle3_viz.cli.option_types import seed
from eagle3_viz.config import RULES


def add_sampling(parser: argparse._ActionsContainer) -> None:
    """Add the options that go with --temperature."""
    parser.add_argument("--target-top-k", type=int, default=0, help="default: 0, off")
    parser.add_argument("--top-p", type=float, default=1.0, help="default: 1, off")
    parser.add_argument(
        "--rule",
        choices=RULES,
        help="default: greedy at 0, else topk; typical changes the output distribution",
    )
    parser.add_argument("--seed", type=seed, default=0, help="of random draws; default: 0")


def refuse_idle_sampling(
    args: argparse.Namespace, temperatures: Collection[float], methods: Collection[str] | None
) -> None:
    """Raise ValueError for an option of `add_sampling` without effect; methods None is every one.

    The seed is never refused: it is recorded as a fact about the run.
    """
    if not any(temperatures):
        for option, given in (
            ("--target-top-k", args.target_top_k != 0),
            ("--top-p", args.top_p != 1.0),
        ):
            if given:
                raise ValueError(
                    f"{option} changes nothing at temperature 0: give a --temperature above 0, or "
                    "leave it out"
                )
    if args.rule is None or methods is None:
        return
    if set(methods) <= {"ar"}:
        raise ValueError("--rule is about drafted tokens and ar drafts none: leave it out")
    if args.rule == "sample" and set(methods) <= {"ar", "lookup"}:
        raise ValueError(
            "--rule sample draws from q, and lookup copies text: it has no q; use rule='topk'"
        )
