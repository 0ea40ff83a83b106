"""Tree attention on a GPU: Triton, PyTorch and SDPA against what the card allows.

    python -m benchmarks.bench_tree_attention [--nodes 1 8 60] [--prefixes 512 8192] [--batch 1]

One layer of an 8B Llama (32 query heads, 8 key/value heads of 128) unless told otherwise. The
floor of a case is the longer of two times: its bytes at the bandwidth, its operations at the rate
of matrix products, both measured on the same card first. Every repetition begins with an empty
L2 cache, as in a model whose weights do not fit it. Results go to a CSV, one row a case and
provider, with the card, versions and command.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import pandas as pd
import torch
from rich.console import Console
from torch.nn.functional import scaled_dot_product_attention

from eagle3_viz.provenance import command_line, git_commit, machine, versions
from kernels.ancestor_bits import TreeMask
from kernels.tree_attention import tree_attention_torch, visible_keys
from kernels.tree_attention_triton import tree_attention_triton, workspace_size

RESULTS = Path(__file__).resolve().parent.parent / ".work" / "bench_tree_attention.csv"


@dataclass(frozen=True)
class Limits:
    """Measured on the card: bytes copied (read and written) and operations multiplied, a ms."""

    bytes_per_ms: float
    operations_per_ms: float


@dataclass(frozen=True)
class Case:
    """query [B, H, T, D]; key, value [B, KV, n + T, D]; one tree for all texts."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    tree: TreeMask

    @property
    def bytes(self) -> int:
        """Every key and value once, queries and outputs once; masks and partial sums are less."""
        states = self.query.nbytes * 2 + self.key.nbytes + self.value.nbytes
        return states + self.tree.words.nbytes

    @property
    def operations(self) -> int:
        """Two products of T queries by n + T keys for each head, a multiply-add being two."""
        return 4 * self.query.numel() * self.key.shape[2]

    def floor_ms(self, limits: Limits) -> float:
        """No launch can be faster than this."""
        return max(self.bytes / limits.bytes_per_ms, self.operations / limits.operations_per_ms)


def median_ms(call: Callable[[], object]) -> float:
    """Median over repetitions, each with an empty L2 cache, by events on the device."""
    from triton.testing import do_bench

    return float(do_bench(call, warmup=20, rep=100, return_mode="median"))


def card_limits(device: torch.device, dtype: torch.dtype) -> Limits:
    """Bandwidth of a copy of 1 GiB, rate of a product of matrices of 8192 x 8192."""
    source = torch.empty(2**30, dtype=torch.uint8, device=device)
    copied = torch.empty_like(source)
    matrix = torch.randn(8192, 8192, dtype=dtype, device=device)
    return Limits(
        2 * source.nbytes / median_ms(partial(copied.copy_, source)),
        2 * 8192**3 / median_ms(partial(torch.matmul, matrix, matrix)),
    )


def make_case(nodes: int, prefix: int, arguments: argparse.Namespace, device: torch.device) -> Case:
    """Random states and a random tree, the same for the same sizes."""
    generator = torch.Generator().manual_seed(nodes + prefix)
    visible = torch.eye(nodes, dtype=torch.bool)
    for node in range(1, nodes):
        visible[node] |= visible[int(torch.randint(node, (1,), generator=generator))]
    batch, dtype = arguments.batch, getattr(torch, arguments.dtype)
    lengths = torch.full((batch,), prefix, dtype=torch.int32, device=device)
    keys = (batch, arguments.kv_heads, prefix + nodes, arguments.head_dim)
    shapes = ((batch, arguments.heads, nodes, arguments.head_dim), keys, keys)
    query, key, value = (
        torch.randn(shape, generator=generator).to(device, dtype) for shape in shapes
    )
    return Case(query, key, value, TreeMask.pack(visible.to(device), lengths))


def providers(case: Case) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """The kernel, its PyTorch form, and SDPA as a decoder without the kernel would call it."""
    query, key, value, tree = case.query, case.key, case.value, case.tree
    out = torch.empty_like(query)
    workspace = torch.empty(workspace_size(query, key), device=query.device)
    yield (
        "triton",
        partial(tree_attention_triton, query, key, value, tree, out=out, workspace=workspace),
    )
    yield "torch", partial(tree_attention_torch, query, key, value, tree)
    folded = query.reshape(len(query), key.shape[1], -1, query.shape[3])
    groups = query.shape[1] // key.shape[1]
    mask = None
    if query.shape[2] > 1:
        mask = visible_keys(tree, key.shape[2]).repeat(1, groups, 1)[:, None]
    yield "sdpa", partial(scaled_dot_product_attention, folded, key, value, attn_mask=mask)


def measure(case: Case, limits: Limits) -> Iterator[dict[str, object]]:
    """One row a provider: ms, share of the floor, error against float64."""
    query, key, value = (x.double() for x in (case.query, case.key, case.value))
    exact = tree_attention_torch(query, key, value, case.tree)
    for name, call in providers(case):
        difference = call().reshape(exact.shape).double() - exact
        ms = median_ms(call)
        yield {
            "nodes": case.query.shape[2],
            "prefix": case.key.shape[2] - case.query.shape[2],
            "provider": name,
            "us": 1e3 * ms,
            "floor_us": 1e3 * case.floor_ms(limits),
            "share_of_floor": case.floor_ms(limits) / ms,
            "bound": "memory" if _memory_bound(case, limits) else "arithmetic",
            "error": float(difference.abs().max() / exact.abs().max()),
        }


def _memory_bound(case: Case, limits: Limits) -> bool:
    return case.bytes / limits.bytes_per_ms >= case.operations / limits.operations_per_ms


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 8, 16, 32, 60])
    parser.add_argument("--prefixes", type=int, nargs="+", default=[512, 8192])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], default="bfloat16")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> None:
    """Measure, print the table, write the CSV; without a GPU say so and stop."""
    arguments, console = parsed(), Console(width=150)
    if not torch.cuda.is_available():
        raise SystemExit(
            "No CUDA GPU was found, and the speed of an interpreted kernel means nothing. "
            "Whether the kernel is right can be checked here: pytest tests/kernels"
        )
    device = torch.device("cuda", 0)
    limits = card_limits(device, getattr(torch, arguments.dtype))
    console.print(
        f"{machine(device)}: {limits.bytes_per_ms / 1e9:.2f} TB/s, "
        f"{limits.operations_per_ms / 1e9:.0f} TFLOP/s {arguments.dtype}"
    )
    cases = product(arguments.nodes, arguments.prefixes)
    rows = [row for n, p in cases for row in measure(make_case(n, p, arguments, device), limits)]
    frame = pd.DataFrame(rows)
    with pd.option_context("display.width", 150, "display.max_columns", 20):
        console.print(frame.round(7).to_string(index=False))
    frame = frame.assign(
        machine=machine(device),
        bytes_per_ms=limits.bytes_per_ms,
        operations_per_ms=limits.operations_per_ms,
        versions=" ".join(f"{name}={value}" for name, value in versions().items()),
        commit=git_commit(),
        command=" ".join(command_line()),
    )
    arguments.csv.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(arguments.csv, index=False)
    console.print(f"written to {arguments.csv}")


if __name__ == "__main__":
    main()
