"""What every launch of a Triton kernel needs to know about its tensors."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def on_device(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """Triton launches on the current device, which need not be the tensor's."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def refuse_double(tensor: torch.Tensor, instead: str) -> None:
    """Raise TypeError for a dtype that kernels, which compute in float32, would make less of."""
    if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise TypeError(
            f"the Triton kernel takes float32, bfloat16 and float16, found {tensor.dtype}: use "
            f"{instead}"
        )


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << (number - 1).bit_length()
