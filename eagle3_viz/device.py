"""Which device and number format to run in, and the sentence that says why."""

from __future__ import annotations

import time

import torch


def choose_device() -> torch.device:
    """The first CUDA device when there is one, else the CPU."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def choose_dtype(device: torch.device) -> tuple[torch.dtype, str]:
    """bfloat16 where the hardware multiplies it natively, else float32; with the reason.

    On a CPU the reason carries a measurement: 16 rows through a 2048 x 2048 matrix in both
    formats, which is what verifying a small draft tree looks like.
    """
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported():
            return torch.bfloat16, f"bfloat16: native on {torch.cuda.get_device_name(device)}"
        return torch.float16, f"float16: {torch.cuda.get_device_name(device)} has no bfloat16"
    feature = cpu_bfloat16_feature()
    ratio = _bfloat16_speed()
    measured = f"measured {ratio:.1f}x the speed of float32 on a 16-row product"
    if feature:
        return torch.bfloat16, f"bfloat16: this CPU has {feature}; {measured}"
    return torch.float32, f"float32: this CPU has neither AVX512-BF16 nor AMX; bfloat16 {measured}"


def cpu_bfloat16_feature() -> str:
    """The instruction set that multiplies bfloat16 on this CPU, or "" when there is none."""
    if torch.cpu._is_amx_tile_supported():
        return "AMX"
    return "AVX512-BF16" if torch.cpu._is_avx512_bf16_supported() else ""


def _bfloat16_speed(repeats: int = 15) -> float:
    """Median float32 time over median bfloat16 time, interleaved."""
    times: dict[torch.dtype, list[float]] = {torch.float32: [], torch.bfloat16: []}
    operands = {t: (torch.ones(16, 2048, dtype=t), torch.ones(2048, 2048, dtype=t)) for t in times}
    for _ in range(repeats):
        for dtype, (rows, matrix) in operands.items():
            start = time.perf_counter()
            torch.nn.functional.linear(rows, matrix)
            times[dtype].append(time.perf_counter() - start)
    fast, slow = (sorted(times[t])[repeats // 2] for t in (torch.bfloat16, torch.float32))
    return slow / fast
