"""`train draft` and `train independent`: the processes of a job, before torch is loaded."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

from eagle3_viz.cli.failure import INTERRUPTED, Failure, as_failure
from eagle3_viz.cli.going_on import going_on
from eagle3_viz.cli.new_file import refuse_unless_folder
from eagle3_viz.files import alone_in
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.conversations import any_conversation
from eagle3_viz.training.processes import (
    ChildFailed,
    cores,
    is_first,
    launched,
    processes,
    several,
)


def draft(args: argparse.Namespace) -> int:
    """Run the options of `train draft` or `train independent`; returns the exit status."""
    _refuse_early(args)
    count = args.processes or _usual_processes(args.micro_batches, args.device)
    if count > 1 and _names_a_gpu(args.device):
        raise Failure(
            f"--device {args.device} is one GPU and {count} processes take one each: use "
            "--device cuda, or one process"
        )
    if args.micro_batches % count:
        raise Failure(
            f"--micro-batches {args.micro_batches} cannot be shared out over {count} processes"
        )
    program = ["-m", "eagle3_viz", *args.argv[1:]]
    job = alone_in(args.out) if is_first() else nullcontext()
    try:
        with as_failure(ChildFailed, DataError), job, several(count, program, args.out):
            from eagle3_viz.cli.training_run import run

            return run(args)
    except KeyboardInterrupt:  # outside the training, which takes it as a wish to stop
        if is_first():
            kept = "Interrupted. What is finished, features too, is kept."
            print(kept, going_on(args.argv), sep="\n", file=sys.stderr)
        return INTERRUPTED


def _refuse_early(args: argparse.Namespace) -> None:
    """Raise Failure for files and folders that the job would stumble over once it has loaded."""
    for option, folder in (("--out", args.out), ("--features", args.features)):
        if folder is not None:
            refuse_unless_folder(option, folder)
    with as_failure(DataError):
        any_conversation(args.heldout)
        if not any_conversation(args.data):
            raise DataError(f"there is no conversation in {', '.join(map(str, args.data))}")
    start: Path | None = getattr(args, "start", None)
    if start is not None and not (start / "config.json").is_file():
        raise Failure(f"--start {start}: there is no config.json; name the folder of a draft")
    if args.processes and launched() and args.processes != processes():
        raise Failure(
            f"--processes {args.processes}: a launcher started {processes()} already; leave it out"
        )


def _usual_processes(micro_batches: int, device: str | None) -> int:
    """As many as share the micro-batches evenly: one a GPU, on a CPU at most one a core.

    Two processes of one thread each are faster and steadier than one of two threads.
    """
    import torch

    if _names_a_gpu(device):
        return 1
    places = (device != "cpu" and torch.cuda.device_count()) or cores()
    return max(n for n in range(1, min(places, micro_batches) + 1) if micro_batches % n == 0)


def _names_a_gpu(device: str | None) -> bool:
    return device is not None and ":" in device
