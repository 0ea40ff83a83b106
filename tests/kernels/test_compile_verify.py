"""What a compiler for GPUs says of the kernels around a verification."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

COMPILE = Path(__file__).with_name("compile_verify.py")
KERNELS = {
    *("row_parts", "unite_rows", "walk"),
    *("refuse_children", "drawn_chances", "left_parts", "draw_token"),
    *("move_rows", "best_of_chunk", "best_of_row"),
}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("capability", [80, 90])
def test_the_kernels_compile_for_gpus_without_spilling(capability: int) -> None:
    """Not interpreted: the compiler's own answer, in a process of its own."""
    command = [sys.executable, "-m", "tests.kernels.compile_verify", str(capability)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, cwd=COMPILE.parents[2]
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert {kernel["kernel"] for kernel in found} == KERNELS
    assert [kernel for kernel in found if kernel["stack"]] == []
