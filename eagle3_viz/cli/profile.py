"""`profile`: the budget of a cycle, and a timeline of the run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch

from eagle3_viz.chrome_trace import chrome_trace
from eagle3_viz.cli.failure import Failure, as_failure
from eagle3_viz.cli.new_file import refuse_unless_new
from eagle3_viz.cli.pair_loading import load
from eagle3_viz.cli.suite_tables import aligned_columns
from eagle3_viz.config import DecodeConfig
from eagle3_viz.cycle_budget import WARM_UP, Part, budget, run_cycles
from eagle3_viz.files import write_atomically
from eagle3_viz.fixed_tree import FIXED_TREES
from eagle3_viz.pairs import LoadedPair, PairError
from eagle3_viz.plain_text import one_line
from eagle3_viz.provenance import machine
from eagle3_viz.records import Cycle
from eagle3_viz.settings import method_title
from eagle3_viz.wording import counted

LEGEND = (
    "share: of the cycle, which recording is no part of. floor: what the products with weights\n"
    "take alone, right behind each cycle and in its order; a ratio just below 1 is the spread of\n"
    "the clock. LM head and attention are parts of verify, measured once more by themselves;\n"
    "attention has no floor, as it multiplies by no weights."
)


def profile(args: argparse.Namespace) -> int:
    """Run, print the table, write the timeline; returns the exit status."""
    if args.chrome is not None:
        refuse_unless_new("--chrome", args.chrome)
    config = DecodeConfig(
        method=args.method,
        shape=args.tree,
        fixed=FIXED_TREES[args.fixed_tree],
        max_new_tokens=args.max_new_tokens,
        record="full",
    )
    with as_failure(PairError, ValueError, ArithmeticError, RuntimeError, OSError):
        pair = load(args)
        measured = run_cycles(pair, args.prompt, config)
        parts = budget(pair.target, measured)
    cycles = [one.cycle for one in measured]
    print(*map(one_line, circumstances(pair, config, cycles)), "", sep="\n")
    print(*aligned_columns(cells(parts)), "", LEGEND, sep="\n")
    if args.chrome is not None:
        save(args.chrome, cycles)
    return 0


def circumstances(pair: LoadedPair, config: DecodeConfig, cycles: Sequence[Cycle]) -> list[str]:
    """What was run, on what."""
    uncut = [len(cycle.tokens) for cycle in cycles if not cycle.cut]
    tau = (
        f"tau {fmean(uncut):.2f} over {counted(len(uncut), 'uncut cycle')}"
        if uncut
        else "tau unknown, all were cut"
    )
    verified = cycles[-1].verified
    dtype = str(pair.target.dtype).removeprefix("torch.")
    return [
        f"{method_title(config.method)}, {counted(verified, 'node')} a cycle",
        f"{counted(len(cycles), 'cycle')} after {WARM_UP} that only warm up; {tau}",
        f"{machine(pair.target.device)}, {counted(torch.get_num_threads(), 'thread')}, {dtype}",
    ]


def cells(parts: Sequence[Part]) -> list[list[str]]:
    """The table, its header first."""
    total = parts[0].ms
    rows = [["part", "ms", "share", "floor", "ms / floor"]]
    for part in parts:
        floor = "-" if part.floor is None else f"{part.floor:.2f}"
        ratio = f"{part.ms / part.floor:.2f}" if part.floor else "-"
        share = f"{part.ms / total:.1%}" if total else "-"
        rows.append([f"{'  ' * part.level}{part.name}", f"{part.ms:.2f}", share, floor, ratio])
    return rows


def save(path: Path, cycles: Sequence[Cycle]) -> None:
    """Write the timeline. Raises Failure."""
    try:
        write_atomically(path, chrome_trace(cycles).encode())
    except OSError as error:
        raise Failure(f"the timeline could not be written as {path}: {error.strerror}") from error
    print(one_line(f"Written: {path}"))
