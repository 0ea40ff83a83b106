"""Prints, as JSON, the resources of tree attention's kernels on a GPU that is not there.

python -m tests.kernels.compile_tree_attention CAPABILITY SHARED_MEMORY [one | all]
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


def main(capability: int, shared_memory: int, which: str) -> None:
    card = tree_attention_triton.Card(multiprocessors=40, shared_memory=shared_memory)
    tree_attention_triton._card = lambda device: card
    table = []
    for head_dim, nodes, dtype, options in ONE if which == "one" else ALL:
        case = problem(prefixes=[500], nodes=nodes, heads=(8, 2), head_dim=head_dim).to(dtype)
        attend = tree_attention_triton.tree_attention_triton
        call = partial(attend, *case.states, case.mask, **options)
        for kernel in compiled(call, capability):
            shape = {"head_dim": head_dim, "nodes": nodes, "dtype": str(dtype), **options}
            table.append({"kernel": kernel.name, **shape, **resources(kernel)})
    print(json.dumps(table))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
