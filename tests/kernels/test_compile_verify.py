"""What a compiler for GPUs says of the kernels around a verification."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILED = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
READ_A_VOCABULARY = {"row_parts", "refuse_children", "left_parts", "draw_token", "best_of_chunk"}
KERNELS = {
    *("row_parts", "unite_rows", "walk"),
    *("refuse_children", "drawn_chances", "left_parts", "draw_token"),
    *("move_rows", "best_of_chunk", "best_of_row"),
}


def answer(*arguments: str) -> Any:
    """Not interpreted: the compiler's own answer, in a process of its own."""
    command = [sys.executable, "-m", "tests.kernels.compile_verify", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@COMPILED
@pytest.mark.slow
def test_trees_of_many_sizes_share_their_binaries() -> None:
    """Between two powers of two nothing is compiled anew: not for an odd number of nodes, and
    not for uniforms that begin elsewhere. A walk is another one under another rule."""
    rules = {"walk": 2, "left_parts": 2, "draw_token": 2}
    once = ("row_parts", "unite_rows", "refuse_children", "drawn_chances")
    assert answer("90", "sizes") == {**rules, **dict.fromkeys(once, 1)}


@COMPILED
@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_the_kernels_compile_for_gpus_without_spilling(capability: int) -> None:
    found = answer(str(capability))
    assert {kernel["kernel"] for kernel in found} == KERNELS
    assert [kernel for kernel in found if kernel["stack"]] == []
    reads = [kernel for kernel in found if kernel["kernel"] in READ_A_VOCABULARY]
    assert [kernel for kernel in reads if kernel["wide_loads"] == 0] == []
