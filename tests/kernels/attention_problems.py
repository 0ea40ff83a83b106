"""Random tree attention problems and their answers, key by key, in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from benchmarks.gpu.attention_cases import random_tree
from kernels.ancestor_bits import TreeMask

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Problem:
    """query [B, H, T, D], key and value [B, KV, N, D], visible bool [B, T, S], depth [B, S]."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    visible: torch.Tensor
    depth: torch.Tensor
    prefixes: list[int]

    @property
    def states(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.query, self.key, self.value

    @property
    def mask(self) -> TreeMask:
        lengths = torch.tensor(self.prefixes, device=DEVICE)
        return TreeMask.pack(self.visible.to(DEVICE), lengths, self.depth.to(DEVICE))

    def to(self, dtype: torch.dtype) -> Problem:
        query, key, value = (x.to(dtype) for x in self.states)
        return replace(self, query=query, key=key, value=value)


def problem(
    *,
    prefixes: list[int],
    nodes: int,
    rows: int | None = None,
    heads: tuple[int, int] = (4, 2),
    head_dim: int = 64,
    spare: int = 3,
    seed: int = 0,
) -> Problem:
    """Float32, a tree of its own for each text; `spare` cache rows behind the longest text."""
    generator = torch.Generator().manual_seed(seed)
    rows = nodes if rows is None else rows
    trees = [random_tree(rows, generator) for _ in prefixes]
    batch, keys = len(prefixes), max(prefixes) + rows + spare
    shapes = [(batch, heads[0], nodes, head_dim), *[(batch, heads[1], keys, head_dim)] * 2]
    query, key, value = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    return Problem(
        query=2.0 * query,
        key=key,
        value=value,
        visible=torch.stack([visible[rows - nodes :] for visible, _ in trees]),
        depth=torch.stack([depth for _, depth in trees]),
        prefixes=prefixes,
    )


def answer(
    case: Problem,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """[B, H, T, D] in float64: for each query the keys it sees are gathered, then weighted."""
    query, key, value = (x.double().cpu() for x in case.states)
    batch, heads, nodes, head_dim = query.shape
    groups, rows = heads // key.shape[1], case.depth.shape[1]
    scale = head_dim**-0.5 if scale is None else scale
    out = torch.zeros_like(query)
    for text in range(batch):
        n = case.prefixes[text]
        position = [*range(n), *(n + d for d in case.depth[text].tolist())]
        for node in range(nodes):
            own = position[n + rows - nodes + node]
            tree_rows = case.visible[text, node].nonzero()[:, 0].tolist()
            seen = [*range(n), *(n + row for row in tree_rows)]
            if window is not None:
                seen = [at for at in seen if position[at] > own - window]
            if not seen:
                continue
            k = key[text][:, seen].repeat_interleave(groups, 0)
            v = value[text][:, seen].repeat_interleave(groups, 0)
            scores = (k @ query[text, :, node, :, None])[..., 0] * scale
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            out[text, :, node] = (scores.softmax(-1)[:, None] @ v)[:, 0]
    return out


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference relative to the largest expected entry."""
    return float((found.double().cpu() - expected).abs().max() / expected.abs().max())
