"""A cycle's launches can be replayed: nothing is allocated or waited for, no address changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.draft_topk import DraftTop, draft_topk_triton
from kernels.kv_commit import kv_commit_triton
from kernels.verify_triton import (
    score_nodes_triton,
    verify_greedy_triton,
    verify_sample_triton,
    verify_topk_triton,
)
from tests.kernels.verify_problems import DEVICE, buffers, problem

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

KERNELS = {
    "verify_kernels": ("row_parts", "unite_rows", "walk"),
    "residual_kernels": ("refuse_children", "drawn_chances", "left_parts", "draw_token"),
    "kv_commit_kernels": ("move_rows",),
    "draft_topk_kernels": ("best_of_chunk", "best_of_row"),
}


class Operations(TorchDispatchMode):
    """Notes every operation of PyTorch that is carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def addresses(arguments: Any) -> Iterator[int]:
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument.data_ptr()
        elif isinstance(argument, tuple):
            yield from addresses(argument)


class Launched:
    """Stands in for a kernel and notes what it is launched with."""

    def __init__(self, name: str, log: list[Any]) -> None:
        self.name, self.log = name, log

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **options: Any) -> None:
            self.log.append((self.name, grid, list(addresses(arguments))))

        return launch


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The launches: (name, grid, addresses); none is carried out."""
    log: list[Any] = []
    for module, names in KERNELS.items():
        for name in names:
            monkeypatch.setattr(f"kernels.{module}.{name}", Launched(name, log))
    return log


CASE = problem(20, 700, 1)
OUT = buffers(CASE)
TREE, PROPOSAL, UNIFORMS = CASE.arguments, CASE.proposal(), CASE.given
ROWS = torch.zeros(4, 2, 1, 6, 30, 16, device=DEVICE)
NUMBERS = torch.zeros(6, dtype=torch.int64, device=DEVICE)
TOP = DraftTop.allocate(4, 700, 5, DEVICE)
LOGITS, SCORES = torch.zeros(4, 700, device=DEVICE), torch.zeros(4, device=DEVICE)
ROUNDS = PROPOSAL.most_children
CALLS = {
    "score": (lambda: score_nodes_triton(*TREE, OUT), 2),
    "greedy": (lambda: verify_greedy_triton(*TREE, OUT), 3),
    "topk": (lambda: verify_topk_triton(*TREE, UNIFORMS, OUT), 5),
    "sample": (lambda: verify_sample_triton(*TREE, UNIFORMS, PROPOSAL, OUT), 6 + ROUNDS),
    "commit": (lambda: kv_commit_triton(ROWS, NUMBERS[:4], NUMBERS[4:5], NUMBERS[5:]), 1),
    "level": (lambda: draft_topk_triton(LOGITS, SCORES, TOP), 2),
}


@pytest.mark.parametrize("operation", CALLS)
def test_launches_read_and_write_what_is_there(operation: str, log: list[Any]) -> None:
    call, launches = CALLS[operation]
    with Operations() as operations:
        call()
    assert len(log) == launches
    assert all(op.is_view for op in operations.seen), operations.seen
    first = list(log)
    call()
    assert log == first * 2
