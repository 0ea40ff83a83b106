"""What happens around a verification: the commit of its path, and a level of the draft."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.gpu.section import Case, Row, Section, Setup, compared, judged
from kernels.draft_topk import DraftTop, draft_topk_torch, draft_topk_triton
from kernels.kv_commit import kv_commit_torch, kv_commit_triton

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
PATH = [0, 2, 3, 7, 20]  # four rows move, one onto another's source
LAYERS, HEADS, CAPACITY, HEAD_DIM = 32, 8, 4096, 128
DRAFTED, TOP_K = 32000, 10


def _cases(setup: Setup) -> Iterator[Case]:
    for dtype in DTYPES[:1] if setup.tiny else DTYPES:
        name = str(dtype).removeprefix("torch.")
        yield Case(f"commit, {name}", partial(_commit, setup, f"commit, {name}", dtype))
        yield Case(f"draft level, {name}", partial(_level, setup, f"draft level, {name}", dtype))


def _commit(setup: Setup, name: str, dtype: torch.dtype) -> Iterator[Row]:
    """Rows equal to PyTorch's, bit by bit, in a cache of an 8B Llama's shape."""
    sizes = (2, 3, 40, 16) if setup.tiny else (LAYERS, HEADS, CAPACITY, HEAD_DIM)
    layers, heads, capacity, head_dim = sizes
    shape = (layers, 2, 1, heads, capacity, head_dim)
    rows = torch.randn(shape, device=setup.device, dtype=dtype)
    path = torch.tensor([*PATH, -1, -1], device=setup.device)
    kept, length = (
        torch.tensor([number], device=setup.device) for number in (len(PATH), capacity - 30)
    )
    expected = rows.clone()
    kv_commit_torch(expected, path, kept, length)
    moved = 2 * (len(PATH) - 1) * rows[..., 0, :].nbytes
    kv_commit_triton(rows, path, kept, length)
    error = float((rows != expected).any())
    del expected
    numbers = setup.time(partial(kv_commit_triton, rows, path, kept, length), moved)
    yield judged(name, "triton", error, 0.0, numbers)
    call = partial(kv_commit_torch, rows, path, kept, length)
    yield compared(name, "torch", partial(setup.time, call, moved))


def _level(setup: Setup, name: str, dtype: torch.dtype) -> Iterator[Row]:
    """Ten nodes' best tokens; other ids than PyTorch's are an infinite error."""
    vocabulary = 300 if setup.tiny else DRAFTED
    logits = (4.0 * torch.randn(TOP_K, vocabulary, device=setup.device)).to(dtype)
    above = -torch.rand(TOP_K, device=setup.device)
    found, reference = (DraftTop.allocate(TOP_K, vocabulary, TOP_K, setup.device) for _ in range(2))
    draft_topk_torch(logits, above, reference)
    draft_topk_triton(logits, above, found)
    logprob = logits.double().log_softmax(-1).gather(1, reference.ids)
    exact = above.double()[:, None] + logprob
    error = float(((found.score - exact) / exact).abs().max())
    if not torch.equal(found.ids, reference.ids):
        error = float("inf")
    numbers = setup.time(partial(draft_topk_triton, logits, above, found), logits.nbytes)
    yield judged(name, "triton", error, 1e-5, numbers)
    call = partial(draft_topk_torch, logits, above, reference)
    yield compared(name, "torch", partial(setup.time, call, logits.nbytes))


SECTION = Section("commit-draft", 20, _cases)
