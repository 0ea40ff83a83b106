"""Prints, as JSON, the resources of tree attention's kernels on a GPU that is not there.

python -m tests.kernels.compile_tree_attention ARCHITECTURE SHARED_MEMORY [one | all | sizes]

"sizes": how many binaries of each kernel the levels of a draft and trees of 17 to 32 nodes need.
ARCHITECTURE may be AMD's (gfx942); resources are told of NVIDIA's only.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from itertools import product

import torch

from kernels import tree_attention_triton
from tests.kernels.attention_problems import problem
from tests.kernels.gpu_compiler import compiled, resources

ONE = [(128, 60, torch.bfloat16, {"window": 100, "softcap": 30.0})]
ALL = [
    *ONE,
    *product((64, 80, 128, 256), (1, 60), (torch.bfloat16, torch.float32), ({},)),
]


def binaries(architecture: str) -> dict[str, int]:
    """Binaries by kernel: queries and rows of a tree differ, what a block holds does not."""
    found: dict[str, set[int]] = {}
    for nodes, rows in ((17, 17), (24, 24), (32, 32), (20, 33), (20, 48), (32, 64)):
        case = problem(prefixes=[500], nodes=nodes, rows=rows, heads=(8, 2)).to(torch.bfloat16)
        call = partial(tree_attention_triton.tree_attention_triton, *case.states, case.mask)
        for kernel in compiled(call, architecture):
            found.setdefault(kernel.name, set()).add(id(kernel))
    return {name: len(kernels) for name, kernels in found.items()}


def resources_of(architecture: str, which: str) -> list[dict[str, object]]:
    table = []
    for head_dim, nodes, dtype, options in ONE if which == "one" else ALL:
        case = problem(prefixes=[500], nodes=nodes, heads=(8, 2), head_dim=head_dim).to(dtype)
        attend = tree_attention_triton.tree_attention_triton
        call = partial(attend, *case.states, case.mask, **options)
        for kernel in compiled(call, architecture):
            shape = {"head_dim": head_dim, "nodes": nodes, "dtype": str(dtype), **options}
            amd = architecture.startswith("gfx")
            used = {"shared": kernel.metadata.shared} if amd else resources(kernel)
            table.append({"kernel": kernel.name, **shape, **used})
    return table


def main(architecture: str, shared_memory: int, which: str) -> None:
    card = tree_attention_triton.Card(multiprocessors=40, shared_memory=shared_memory)
    tree_attention_triton._card = lambda device: card
    if architecture.startswith("gfx"):
        torch.version.hip = "as in PyTorch for AMD"
    if which == "sizes":
        print(json.dumps(binaries(architecture)))
    else:
        print(json.dumps(resources_of(architecture, which)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
