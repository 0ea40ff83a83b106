"""The operations that decide how fast speculative decoding is: Triton kernels and their PyTorch.

Every public operation has a module of its own and asks `implementation` which of its two forms to
run. Importing this package imports neither torch nor Triton, and it carries no version: there is a
library of the same name, and transformers would take this package for it.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from typing import Literal

Implementation = Literal["torch", "triton"]

OVERRIDE = "EAGLE3_VIZ_KERNELS"
INTERPRETER = "TRITON_INTERPRET"
_YES = ("1", "true", "on", "yes", "y")  # as Triton reads its own switches


def implementation(device_type: str) -> Implementation:
    """Which form of an operation runs on tensors of this device type ("cpu", "cuda", ...).

    Triton on GPUs that it makes good code for, where it is installed; PyTorch everywhere else.
    The environment variable EAGLE3_VIZ_KERNELS, "torch" or "triton", overrules that. Raises
    ValueError when it holds anything else, RuntimeError when it asks for Triton where Triton
    cannot run.
    """
    wanted = os.environ.get(OVERRIDE, "")
    if wanted not in ("", "torch", "triton"):
        raise ValueError(f"{OVERRIDE} must be torch, triton or unset; it is {wanted!r}")
    if wanted == "torch":
        return "torch"
    if wanted == "triton":
        _refuse_unless_triton_runs(device_type)
        return "triton"
    suits = device_type == "cuda" and triton_installed() and gpus_are_recent()
    return "triton" if suits else "torch"


@cache
def triton_installed() -> bool:
    """Whether Triton can be imported; there is none for macOS and Windows."""
    return importlib.util.find_spec("triton") is not None


@cache
def gpus_are_recent() -> bool:
    """Whether no GPU is older than compute capability 8.0 (Ampere): for those Triton makes products
    without tensor cores, or no code at all."""
    import torch

    devices = range(torch.cuda.device_count())
    return all(torch.cuda.get_device_capability(device) >= (8, 0) for device in devices)


def _refuse_unless_triton_runs(device_type: str) -> None:
    if not triton_installed():
        raise RuntimeError(
            f"{OVERRIDE}=triton, but Triton is not installed; unset {OVERRIDE}, or on Linux "
            "install the triton that requirements.txt names"
        )
    if device_type != "cuda" and os.environ.get(INTERPRETER, "").lower() not in _YES:
        raise RuntimeError(
            f"{OVERRIDE}=triton, but the tensors are on {device_type!r}: Triton compiles for GPUs "
            f"only; unset {OVERRIDE}, or set {INTERPRETER}=1 before the start to interpret the "
            "kernels, slowly"
        )
