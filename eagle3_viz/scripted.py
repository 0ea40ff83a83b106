"""Functions of few small operations, called without Python between the operations.

A step of one token on a CPU is some eight hundred operations, and a call from Python costs more
than many of them take: TorchScript saves a tenth of the step (docs/results).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")
_COMPILER = Lock()  # two threads at a time would define the same class twice, which is refused


def fastest(function: F, x: torch.Tensor) -> F:
    """`function` itself, or on a CPU what TorchScript makes of it; both compute the same."""
    return _scripted(function) if x.device.type == "cpu" else function


def fastest_module(module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """As `fastest`, for a module: what it holds is not handed over in every call."""
    return _compiled(module) if device.type == "cpu" else module


@cache
def _scripted(function: F) -> F:
    return _compiled(function)


def _compiled(what: T) -> T:
    with _COMPILER, warnings.catch_warnings():
        # Its successor compiles C++ where it runs, and needs a compiler there.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        compiled: Any = torch.jit.script(what)
    return compiled
