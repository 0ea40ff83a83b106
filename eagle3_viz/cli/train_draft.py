"""`train draft` and `train independent`: the processes of a job, before torch is loaded."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from eagle3_viz.cli.failure import Failure, as_failure
from eagle3_viz.files import alone_in
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.processes import ChildFailed, cores, is_first, several


def draft(args: argparse.Namespace) -> int:
    """Run the options of `train draft` or `train independent`; returns the exit status."""
    if args.out.exists() and not args.out.is_dir():
        raise Failure(f"--out needs a folder, {args.out} is a file: name another place")
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
    if getattr(args, "unroll", None) and args.objective != "eagle3":
        raise Failure(f"--unroll is for --objective eagle3; {args.objective} has one step")
    program = ["-m", "eagle3_viz", *args.argv[1:]]
    job = alone_in(args.out) if is_first() else nullcontext()
    with as_failure(ChildFailed, DataError), job, several(count, program, args.out):
        from eagle3_viz.cli.training_run import run

        return run(args)


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
