"""Prints, as JSON, the resources of the kernels around a verification on a GPU that is not there.

    python -m tests.kernels.compile_verify CAPABILITY [sizes]

For a vocabulary of 128256 tokens: trees of 1 and 60 nodes in bfloat16, of 256 in float32. With
"sizes" instead how many binaries of each kernel trees of 33 to 64 nodes need.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch

from kernels.draft_topk import DraftTop, draft_topk_triton
from kernels.kv_commit import kv_commit_triton
from kernels.verify_buffers import Proposal, VerifyBuffers
from kernels.verify_triton import verify_greedy_triton, verify_sample_triton, verify_topk_triton
from tests.kernels.gpu_compiler import compiled, resources

VOCABULARY, DRAFTED = 128256, 32000
CPU = torch.device("cpu")


def verifications(nodes: int, dtype: torch.dtype) -> Iterator[Callable[[], None]]:
    logits = torch.empty(nodes, VOCABULARY, dtype=dtype)
    node = torch.zeros(nodes, dtype=torch.int64)
    uniforms, least = torch.zeros(nodes, dtype=torch.float64), torch.zeros(nodes)
    out = VerifyBuffers.allocate(nodes, VOCABULARY, CPU)
    draft_id = torch.zeros(VOCABULARY, dtype=torch.int64)
    mapped = Proposal(torch.empty(4, DRAFTED), node, draft_id, 1)
    yield partial(verify_greedy_triton, logits, node, node, out)
    for options in ({}, {"least": least, "temperature": 0.7}):
        yield partial(verify_topk_triton, logits, node, node, uniforms, out, **options)
        yield partial(verify_sample_triton, logits, node, node, uniforms, mapped, out, **options)
    whole = Proposal(torch.empty(4, VOCABULARY), node, None, 1)
    yield partial(verify_sample_triton, logits, node, node, uniforms, whole, out)


def around(dtype: torch.dtype) -> Iterator[Callable[[], None]]:
    numbers = torch.zeros(10, dtype=torch.int64)
    for head_dim in (64, 80, 128, 256):
        rows = torch.empty(2, 2, 1, 8, 16, head_dim, dtype=dtype)
        yield partial(kv_commit_triton, rows, numbers[:8], numbers[8:9], numbers[9:])
    for k in (4, 10, 64):
        out = DraftTop.allocate(k, DRAFTED, k, CPU)
        logits = torch.empty(k, DRAFTED, dtype=dtype)
        yield partial(draft_topk_triton, logits, torch.zeros(k), out)


def binaries(capability: str) -> dict[str, int]:
    """Binaries by kernel, for trees of sizes between two powers of two and uniforms anywhere."""
    found: dict[str, set[int]] = {}
    for nodes in (33, 48, 60, 64):
        logits = torch.empty(nodes, VOCABULARY, dtype=torch.bfloat16)
        node = torch.zeros(nodes, dtype=torch.int64)
        many = torch.zeros(3 * nodes, dtype=torch.float64)
        out = VerifyBuffers.allocate(nodes, VOCABULARY, CPU)
        proposal = Proposal(torch.empty(nodes, VOCABULARY), node, None, 3)
        for start in (0, nodes):
            given = logits, node, node, many[start:]
            for call in (
                partial(verify_topk_triton, *given, out),
                partial(verify_sample_triton, *given, proposal, out),
            ):
                for kernel in compiled(call, capability):
                    found.setdefault(kernel.name, set()).add(id(kernel))
    return {name: len(kernels) for name, kernels in found.items()}


def resources_of_all(capability: str) -> list[dict[str, object]]:
    table = []
    for dtype, sizes in ((torch.bfloat16, (1, 60)), (torch.float32, (256,))):
        calls = [call for nodes in sizes for call in verifications(nodes, dtype)]
        for call in (*calls, *around(dtype)):
            for kernel in compiled(call, capability):
                table.append({"kernel": kernel.name, "dtype": str(dtype), **resources(kernel)})
    return table


if __name__ == "__main__":
    ask = binaries if "sizes" in sys.argv else resources_of_all
    print(json.dumps(ask(sys.argv[1])))
