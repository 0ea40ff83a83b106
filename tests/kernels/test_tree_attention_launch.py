"""How tree attention is cut into programs, and what a compiler for GPUs says of its kernels."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kernels.attention_sizes import AttentionSizes
from kernels.tree_attention_triton import Card, plan_launch

H100 = Card(multiprocessors=132, shared_memory=227 * 1024)
A100 = Card(multiprocessors=108, shared_memory=163 * 1024)
RTX3090 = Card(multiprocessors=82, shared_memory=99 * 1024)
T4 = Card(multiprocessors=40, shared_memory=63 * 1024)


def sizes(nodes: int, keys: int, batch: int = 1, head_dim: int = 128) -> AttentionSizes:
    """An 8B Llama's: 8 key/value heads, 4 query heads each."""
    return AttentionSizes(batch, 8, 4, nodes, nodes, keys, head_dim)


@pytest.mark.parametrize("card", [H100, A100, RTX3090, T4])
@pytest.mark.parametrize("nodes", [1, 8, 16, 32, 60, 256])
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_one_block_of_everything_fits_the_shared_memory(
    card: Card, nodes: int, head_dim: int, itemsize: int
) -> None:
    plan = plan_launch(sizes(nodes, 8192, head_dim=head_dim), itemsize, card)
    assert plan.block_d >= head_dim
    assert 64 % plan.block_n == 0  # a block of the tree lies in one word of the mask
    blocks = plan.block_m + 2 * plan.stages * plan.block_n
    assert blocks * plan.block_d * itemsize <= card.shared_memory


@pytest.mark.parametrize("card", [H100, A100, RTX3090])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_two_small_programs_share_a_multiprocessor_and_both_load_ahead(
    card: Card, head_dim: int
) -> None:
    plan = plan_launch(sizes(1, 8192, head_dim=head_dim), 2, card)
    assert plan.stages >= 2
    assert 2 * (plan.block_m + 2 * plan.stages * plan.block_n) * head_dim * 2 <= card.shared_memory
    assert 1.5 * card.multiprocessors < 8 * plan.splits <= 2 * card.multiprocessors


def test_splits_fill_the_card_and_never_outnumber_the_blocks() -> None:
    one = plan_launch(sizes(1, 8192), 2, H100)
    assert 132 <= 8 * one.splits <= 2 * 132
    assert plan_launch(sizes(1, 100), 2, H100).splits == 2
    assert plan_launch(sizes(1, 8192, batch=64), 2, H100).splits == 1
    assert plan_launch(sizes(60, 8192), 2, H100).splits < one.splits


ROOT = Path(__file__).resolve().parents[2]
COMPILE = "tests.kernels.compile_tree_attention"


def ask_compiler(architecture: str, shared_memory: int, which: str) -> Any:
    """What the compiler says, in a process of its own: here kernels are interpreted."""
    numbers = [architecture, str(shared_memory * 1024)]
    done = subprocess.run(
        [sys.executable, "-m", COMPILE, *numbers, which],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check_compiled(capability: int, shared_memory: int, which: str) -> None:
    table = ask_compiler(str(capability), shared_memory, which)
    assert {row["kernel"] for row in table} == {"attend_split", "unite_splits"}
    for row in table:
        assert row["shared"] <= shared_memory * 1024, row
        if row["kernel"] == "attend_split":
            assert row["loads_ahead"] > 0, row
            assert row["products"] > 0, row
        if row["dtype"] == "torch.bfloat16":
            assert row["stack"] <= 256, row  # bytes of spilled registers


COMPILED = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64" or find_spec("triton") is None,
    reason="Triton's compiler for NVIDIA GPUs comes with Triton for x86-64 Linux",
)


@COMPILED
def test_the_kernels_compile_for_an_h100() -> None:
    check_compiled(90, 227, "one")


@COMPILED
def test_the_kernels_compile_for_an_amd_gpu_too() -> None:
    """Which has no tf32x3."""
    table = ask_compiler("gfx942", 64, "one")
    assert {row["kernel"] for row in table} == {"attend_split", "unite_splits"}
    assert all(row["shared"] <= 64 * 1024 for row in table)


@COMPILED
def test_levels_and_trees_that_share_their_blocks_share_their_binaries() -> None:
    assert ask_compiler("90", 227, "sizes") == {"attend_split": 1, "unite_splits": 1}


@COMPILED
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("capability", "shared_memory"), [(80, 163), (86, 99), (90, 227), (100, 227), (120, 99)]
)
def test_every_plan_compiles_for_every_card(capability: int, shared_memory: int) -> None:
    check_compiled(capability, shared_memory, "all")
