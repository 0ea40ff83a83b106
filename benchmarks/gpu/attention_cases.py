"""Random tree attention problems on a device, with their answer in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from kernels.ancestor_bits import TreeMask
from kernels.tree_attention import tree_attention_torch


@dataclass(frozen=True)
class Shape:
    """prefixes: keys in front of each text's tree; heads: of queries and of keys."""

    prefixes: tuple[int, ...]
    nodes: int
    heads: tuple[int, int] = (32, 8)
    head_dim: int = 128
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        prefixes = "/".join(str(n) for n in sorted(set(self.prefixes), reverse=True))
        texts = f"{len(self.prefixes)} x " if len(self.prefixes) > 1 else ""
        options = "".join(f", {name} {value:g}" for name, value in self.options.items())
        heads = f"{self.heads[0]}/{self.heads[1]} heads of {self.head_dim}"
        return f"{texts}{self.nodes} nodes behind {prefixes}, {heads}{options}"


@dataclass(frozen=True)
class Problem:
    """query [B, H, T, D]; key and value [B, KV, N, D], of which each text uses its first rows."""

    shape: Shape
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    tree: TreeMask

    @property
    def arguments(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, TreeMask]:
        """What an attention takes by position."""
        return self.query, self.key, self.value, self.tree

    @property
    def used(self) -> list[int]:
        """Rows of the cache that each text uses."""
        return [prefix + self.shape.nodes for prefix in self.shape.prefixes]

    @property
    def bytes(self) -> int:
        """Keys and values in use once, queries and outputs once; all else is less."""
        row = 2 * self.key.shape[1] * self.key.shape[3] * self.key.itemsize
        return 2 * self.query.nbytes + sum(self.used) * row

    @property
    def operations(self) -> int:
        """Two products of every query with every key, a multiply-add being two operations."""
        return 4 * self.query[0].numel() * sum(self.used)

    def exact(self) -> torch.Tensor:
        """The answer in float64, [B, H, T, D], of the states as they are rounded."""
        query, key, value = (x.double() for x in (self.query, self.key, self.value))
        return tree_attention_torch(query, key, value, self.tree, **self.shape.options)

    def error(self, found: torch.Tensor, exact: torch.Tensor) -> float:
        """Largest difference, relative to the largest entry of the answer."""
        difference = (found.reshape(exact.shape).double() - exact).abs().max()
        return float(difference / exact.abs().max())


def problem(shape: Shape, dtype: torch.dtype, device: torch.device) -> Problem:
    """Random states and a random tree of each text, in a cache of whole blocks of 64 rows."""
    generator = torch.Generator().manual_seed(sum(shape.prefixes) + shape.nodes)
    trees = [random_tree(shape.nodes, generator) for _ in shape.prefixes]
    keys = -(-(max(shape.prefixes) + shape.nodes) // 64) * 64
    by_text = [(len(shape.prefixes), heads) for heads in (*shape.heads, shape.heads[1])]
    query, key, value = (
        torch.randn(*size, rows, shape.head_dim, generator=generator).to(device, dtype)
        for size, rows in zip(by_text, (shape.nodes, keys, keys), strict=True)
    )
    visible, depth = (torch.stack(tensors).to(device) for tensors in zip(*trees, strict=True))
    lengths = torch.tensor(shape.prefixes, dtype=torch.int32, device=device)
    tree = TreeMask.pack(visible, lengths, depth)
    return Problem(shape, query, key, value, tree)


def random_tree(nodes: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Who sees whom, bool [T, T], and depth, int64 [T], of a tree of any shape."""
    visible, depth = torch.eye(nodes, dtype=torch.bool), torch.zeros(nodes, dtype=torch.int64)
    for node in range(1, nodes):
        parent = int(torch.randint(node, (1,), generator=generator))
        visible[node] |= visible[parent]
        depth[node] = depth[parent] + 1
    return visible, depth
