"""Compiles what a launcher would launch, for a GPU that is not there.

For processes of its own: Triton decides on import whether it compiles or interprets.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)  # inherited from the process that runs the tests

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

COUNTED = {
    "wide_loads": r"ld\.global\.v4\.b32",
    "loads_ahead": r"cp\.async\.cg",
    "products": r"mma\.sync|wgmma\.mma_async|tcgen05\.mma",
}


class _Absent:
    """As much of a driver as compiling asks for."""

    def __init__(self, target: GPUTarget) -> None:
        self._target = target

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compiled(call: Callable[[], Any], architecture: str) -> list[Any]:
    """The kernels that `call` would launch on a GPU: a compute capability (90: H100), or AMD's name
    of an architecture (gfx942: MI300).

    Nothing runs, so the call's outputs mean nothing. Launches that share a binary return the same
    object.
    """
    amd = architecture.startswith("gfx")
    target = GPUTarget("hip", architecture, 64) if amd else GPUTarget("cuda", int(architecture), 32)
    found = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **options)
        found.append(kernel)
        return kernel

    driver.set_active(_Absent(target))
    JITFunction.run = compile_only
    try:
        call()
    finally:
        JITFunction.run = run
    return found


def resources(kernel: Any) -> dict[str, int]:
    """Registers a thread, bytes of stack a thread (spilled registers), bytes of shared memory.

    Of an NVIDIA GPU. And how many instructions load 16 bytes a thread, ahead of their use or not,
    and how many multiply on tensor cores: that accesses are coalesced shows nowhere else.
    """
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.kernel)
        file.flush()
        command = [str(tool), "-res-usage", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    usage = {name: int(re.findall(rf"{name}:(\d+)", text)[0]) for name in ("REG", "STACK")}
    return {
        "registers": usage["REG"],
        "stack": usage["STACK"],
        "shared": kernel.metadata.shared,
        **{name: len(re.findall(pattern, kernel.asm["ptx"])) for name, pattern in COUNTED.items()},
    }
