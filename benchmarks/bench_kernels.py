"""Kernels around a verification against their PyTorch forms and the memory's limit, on a GPU.

    python -m benchmarks.bench_kernels [--csv FILE]

The sizes are an 8B Llama's with its EAGLE-3 draft. Medians in ms, launches and host included for
"torch" and "triton", replays of a CUDA graph for "triton graph"; the floor is the bytes that must
be moved over the bandwidth of a large copy, measured first. Needs an NVIDIA GPU and Triton.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from kernels import triton_installed
from kernels.draft_topk import DraftTop, draft_topk_torch, draft_topk_triton
from kernels.kv_commit import kv_commit_torch, kv_commit_triton
from kernels.verify_buffers import Proposal, VerifyBuffers
from kernels.verify_torch import verify_greedy_torch, verify_sample_torch, verify_topk_torch
from kernels.verify_triton import verify_greedy_triton, verify_sample_triton, verify_topk_triton

RESULTS = Path(__file__).resolve().parent.parent / ".work" / "bench_kernels.csv"
VOCABULARY, DRAFTED, TOP_K = 128256, 32000, 10
TREES = (1, 8, 16, 32, 60)
GREEDY = (verify_greedy_torch, verify_greedy_triton)
TOPK = (verify_topk_torch, verify_topk_triton)
SAMPLE = (verify_sample_torch, verify_sample_triton)
COMMIT = (kv_commit_torch, kv_commit_triton)
LEVEL = (draft_topk_torch, draft_topk_triton)


@dataclass(frozen=True)
class Case:
    """An operation on given tensors: the bytes it must move, and its two forms."""

    name: str
    size: int
    by_torch: Callable[[], None]
    by_triton: Callable[[], None]


def case_of(name: str, size: int, forms: tuple[Any, Any], *arguments: Any) -> Case:
    """Both forms on the same arguments."""
    by_torch, by_triton = (partial(form, *arguments) for form in forms)
    return Case(name, size, by_torch, by_triton)


def verifications(nodes: int) -> Iterator[Case]:
    """The three rules on a chain of likely tokens, so that walks are long."""
    logits = torch.randn(nodes, VOCABULARY, device="cuda", dtype=torch.bfloat16)
    best = logits.argmax(-1)
    token = torch.cat([best[:1] * 0, best[:-1]])
    parent = torch.arange(-1, nodes - 1, device="cuda")
    uniforms = torch.full((nodes,), 1e-9, dtype=torch.float64, device="cuda")
    out = VerifyBuffers.allocate(nodes, VOCABULARY, logits.device)
    tree, size, name = (logits, token, parent), logits.nbytes, f"{nodes} nodes"
    yield case_of(f"greedy, {name}", size, GREEDY, *tree, out)
    yield case_of(f"topk, {name}", size, TOPK, *tree, uniforms, out)
    draft_id = torch.arange(VOCABULARY, device="cuda")
    draft_id[DRAFTED:] = -1
    log_q = torch.randn(nodes, DRAFTED, device="cuda").log_softmax(-1)
    proposal = Proposal(log_q, parent + 1, draft_id, 1)
    yield case_of(f"sample, {name}", size + log_q.nbytes, SAMPLE, *tree, uniforms, proposal, out)


def around() -> Iterator[Case]:
    """A commit of five nodes of which four move, and a draft level."""
    rows = torch.randn(32, 2, 1, 8, 9216, 128, device="cuda", dtype=torch.bfloat16)
    path = torch.tensor([0, 2, 7, 20, 41], device="cuda")
    kept, length = (torch.tensor([n], device="cuda") for n in (5, 8192))
    moved = 2 * 4 * rows[..., 0, :].nbytes
    yield case_of("commit", moved, COMMIT, rows, path, kept, length)
    logits = torch.randn(TOP_K, DRAFTED, device="cuda")
    out = DraftTop.allocate(TOP_K, DRAFTED, TOP_K, logits.device)
    above = torch.zeros(TOP_K, device="cuda")
    yield case_of("draft level", logits.nbytes, LEVEL, logits, above, out)


def copy_bandwidth() -> float:
    """Bytes a ms that a device-to-device copy of 1 GiB reads and writes."""
    from triton.testing import do_bench

    source = torch.ones(2**30, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * source.nbytes / do_bench(lambda: target.copy_(source), return_mode="median")


def measure(case: Case, bytes_a_ms: float) -> dict[str, object]:
    """One row of the table."""
    from triton.testing import do_bench, do_bench_cudagraph

    return {
        "operation": case.name,
        "MB": case.size / 1e6,
        "floor": case.size / bytes_a_ms,
        "torch": do_bench(case.by_torch, return_mode="median"),
        "triton": do_bench(case.by_triton, return_mode="median"),
        "triton graph": do_bench_cudagraph(case.by_triton, return_mode="median"),
    }


def main() -> None:
    """Measure, print the table, write the CSV."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if not torch.cuda.is_available() or not triton_installed():
        sys.exit("bench_kernels needs an NVIDIA GPU and Triton; this machine lacks one of them.")
    bytes_a_ms = copy_bandwidth()
    cases = [case for nodes in TREES for case in verifications(nodes)]
    table = pd.DataFrame([measure(case, bytes_a_ms) for case in (*cases, *around())])
    card = torch.cuda.get_device_name()
    print(f"{card}, copy {bytes_a_ms / 1e6:.0f} GB/s; times in ms")
    print(table.to_string(index=False, float_format=lambda value: f"{value:.4f}"))
    arguments.csv.parent.mkdir(parents=True, exist_ok=True)
    versions = f"torch={torch.__version__}"
    table.assign(card=card, versions=versions).to_csv(arguments.csv, index=False)
    print(f"written to {arguments.csv}")


if __name__ == "__main__":
    main()
