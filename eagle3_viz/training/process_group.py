"""The link between the processes of one training job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
from accelerate import Accelerator, InitProcessGroupKwargs

# Processes wait for each other while shards are made and drafts are written.
PATIENCE = timedelta(hours=24)


@contextmanager
def joined(device: str | None) -> Iterator[Accelerator]:
    """Inside, this process is linked with the others of its job, on GPUs where there are any.

    Of several processes each takes a GPU of its own, one alone takes the one that `device` names.
    The link is taken down at the end: a process that exits while the threads of its link still
    run is now and then aborted, after all its work.
    """
    cpu = device == "cpu" or not torch.cuda.is_available()
    if device and ":" in device and not cpu:
        torch.cuda.set_device(device)
    accelerator = Accelerator(cpu=cpu, kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)])
    try:
        yield accelerator
    finally:
        accelerator.end_training()
