"""`tree_attention` as two Triton launches.

The keys are split (flash-decoding): each program of the first launch attends to one split with an
online softmax, the second launch weights their results. Importable without Triton; only a call
needs it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from kernels.ancestor_bits import TreeMask
from kernels.attention_sizes import AttentionSizes, attention_sizes
from kernels.launch import on_device, power_of_two, refuse_double

MAX_SPLITS = 64  # the second launch holds one row of all splits in registers
NO_WINDOW = 2**30  # tokens, more than any text has
_LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class Card:
    """What a launch is planned by: multiprocessors, and bytes of shared memory each has."""

    multiprocessors: int
    shared_memory: int


INTERPRETER = Card(multiprocessors=8, shared_memory=2**16)  # splits keys as a small card would


@dataclass(frozen=True)
class LaunchPlan:
    """Block sizes in queries (m), keys (n) and head dimensions (d); splits of the keys."""

    block_m: int
    block_n: int
    block_d: int
    splits: int
    warps: int
    stages: int


def plan_launch(sizes: AttentionSizes, itemsize: int, card: Card) -> LaunchPlan:
    """Blocks that fit the card, and as many splits as fill it.

    Depends on shapes alone (keys counts the rows of the cache, not those in use), so that it is
    the same in every replay of a graph: the kernel divides the keys in use among the splits.
    """
    block_d = max(16, power_of_two(sizes.head_dim))
    widest, block_n = _largest_blocks(block_d, itemsize, card.shared_memory)
    block_m = min(max(16, power_of_two(sizes.rows)), widest)
    accumulators = block_m * (block_d + block_n)
    warps = 4 if accumulators <= 4 * 32 * 96 else 8  # at most 96 of a thread's 255 registers
    stages = [
        _stages(card.shared_memory // side_by_side, block_m, block_n, block_d * itemsize)
        for side_by_side in (1, 2)
    ]
    # Two programs hide each other's waiting, if both can load ahead.
    side_by_side = 2 if warps == 4 and stages[1] > 1 else 1
    programs = sizes.batch * sizes.kv_heads * -(-sizes.rows // block_m)
    wanted = card.multiprocessors * side_by_side // programs
    splits = max(1, min(wanted, -(-sizes.keys // block_n), MAX_SPLITS))
    return LaunchPlan(block_m, block_n, block_d, splits, warps, max(stages[side_by_side - 1], 1))


def _largest_blocks(block_d: int, itemsize: int, shared_memory: int) -> tuple[int, int]:
    """Queries and keys of a block: as many as registers and two blocks of keys ahead allow."""
    if itemsize == 4:  # three products for each one (tf32x3) need that many more registers
        return max(16, min(32, 4096 // block_d)), 32 if block_d <= 128 else 16
    widest, block_n = (128, 64) if block_d <= 128 else (64, 32)
    return (
        widest if shared_memory >= 96 * 1024 else widest // 2,
        block_n if shared_memory >= 136 * 1024 else block_n // 2,
    )


def _stages(shared_memory: int, block_m: int, block_n: int, row_bytes: int) -> int:
    """How many blocks of keys and values fit beside the queries, three at most; 0: none."""
    return min((shared_memory - block_m * row_bytes) // (2 * block_n * row_bytes), 3)


def workspace_size(
    query: torch.Tensor,  # [B, H, T, D]
    key: torch.Tensor,  # [B, KV, N, D]
) -> int:
    """Numbers of float32 that a call with these shapes needs between its two launches."""
    batch, heads, nodes, head_dim = query.shape
    kv_heads, keys = key.shape[1:3]
    sizes = AttentionSizes(batch, kv_heads, heads // kv_heads, nodes, nodes, keys, head_dim)
    return _scratch(sizes, plan_launch(sizes, query.element_size(), _card(query.device)))


def tree_attention_triton(
    query: torch.Tensor,  # [B, H, T, D], float32, bfloat16 or float16, any strides
    key: torch.Tensor,  # [B, KV, N, D], the query's dtype, any strides
    value: torch.Tensor,  # [B, KV, N, D], the query's dtype, any strides
    tree: TreeMask,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    window: int | None = None,
    out: torch.Tensor | None = None,  # [B, H, T, D], any dtype and strides
    workspace: torch.Tensor | None = None,  # float32 [at least workspace_size()]
) -> torch.Tensor:
    """`tree_attention` on a GPU, or interpreted. Raises TypeError for float64."""
    sizes = attention_sizes(query, key, value, tree, softcap=softcap, window=window, out=out)
    refuse_double(query, "tree_attention_torch")
    plan = plan_launch(sizes, query.element_size(), _card(query.device))
    if out is None:
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    if workspace is None:
        workspace = torch.empty(_scratch(sizes, plan), dtype=torch.float32, device=query.device)
    parts, levels = _parts(workspace, sizes, plan)
    scale = sizes.head_dim**-0.5 if scale is None else scale
    with on_device(query):
        if plan.splits == 1:
            result = out[..., None, :]
            _attend(query, key, value, tree, result, levels, sizes, plan, scale, softcap, window)
        else:
            _attend(query, key, value, tree, parts, levels, sizes, plan, scale, softcap, window)
            _unite(parts, levels, out, sizes, plan)
    return out


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    tree: TreeMask,
    result: torch.Tensor,  # [B, H, T, splits, D]
    levels: torch.Tensor,  # float32 [B, H, T, splits], not written by a single split
    sizes: AttentionSizes,
    plan: LaunchPlan,
    scale: float,
    softcap: float | None,
    window: int | None,
) -> None:
    """Every split's own attention, and the base-2 logarithm of its sum of weights."""
    from kernels.tree_attention_kernels import attend_split

    words, lengths = tree.words, tree.prefix_lengths
    depth = words[..., 0] if tree.depth is None else tree.depth
    row_blocks = -(-sizes.rows // plan.block_m)
    attend_split[(sizes.batch * sizes.kv_heads, row_blocks, plan.splits)](
        query, key, value, words, depth, lengths, lengths.stride(0), result, levels,
        scale * _LOG2_E if softcap is None else scale / softcap,
        1.0 if softcap is None else softcap * _LOG2_E,
        NO_WINDOW if window is None else window,
        sizes.kv_heads, sizes.groups, sizes.nodes, sizes.tree_rows,
        query.stride(), key.stride(), value.stride(), _strides(words), _strides(depth),
        result.stride(),
        HEAD_DIM=sizes.head_dim, BLOCK_M=plan.block_m, BLOCK_N=plan.block_n, BLOCK_D=plan.block_d,
        WINDOW=window is not None, SOFTCAP=softcap is not None, PARTIAL=plan.splits > 1,
        PRODUCT=_product_dtype(query), PRECISION=_precision(),
        num_warps=plan.warps, num_stages=plan.stages,
    )  # fmt: skip


def _strides(shared: torch.Tensor) -> tuple[int, ...]:
    """Strides of a tensor [1 or B, ...] read by text.

    What all texts share has a stride of 0 instead of its size, which would be compiled anew.
    """
    return (0 if len(shared) == 1 else shared.stride(0), *shared.stride()[1:])


def _unite(
    parts: torch.Tensor,  # float32 [B, H, T, splits, D]
    levels: torch.Tensor,  # float32 [B, H, T, splits]
    out: torch.Tensor,  # [B, H, T, D]
    sizes: AttentionSizes,
    plan: LaunchPlan,
) -> None:
    """The splits' results, each weighted by its share of the softmax."""
    from kernels.tree_attention_kernels import unite_splits

    heads = sizes.kv_heads * sizes.groups
    unite_splits[(sizes.batch * heads * sizes.nodes,)](
        parts, levels, out, heads, sizes.nodes, plan.splits, out.stride(),
        HEAD_DIM=sizes.head_dim, BLOCK_D=plan.block_d, BLOCK_S=power_of_two(plan.splits),
    )  # fmt: skip


def _scratch(sizes: AttentionSizes, plan: LaunchPlan) -> int:
    """float32 numbers between the two launches: results and levels by split."""
    if plan.splits == 1:
        return 0
    return sizes.batch * sizes.kv_heads * sizes.rows * plan.splits * (sizes.head_dim + 1)


def _parts(
    workspace: torch.Tensor, sizes: AttentionSizes, plan: LaunchPlan
) -> tuple[torch.Tensor, torch.Tensor]:
    """The workspace as results [B, H, T, splits, D] and levels [B, H, T, splits].

    Raises ValueError when it is too small or no float32.
    """
    needed = _scratch(sizes, plan)
    if workspace.dtype != torch.float32 or workspace.numel() < needed:
        raise ValueError(
            f"workspace must hold {needed} float32 numbers (workspace_size), found "
            f"{workspace.numel()} of {workspace.dtype}"
        )
    heads = sizes.kv_heads * sizes.groups
    shape = (sizes.batch, heads, sizes.nodes, plan.splits if needed else 0)
    results, levels = workspace.view(-1)[:needed].split(
        [math.prod(shape) * sizes.head_dim, math.prod(shape)]
    )
    return results.view(*shape, sizes.head_dim), levels.view(shape)


def _product_dtype(query: torch.Tensor) -> Any:
    """What tl.dot multiplies in."""
    import triton
    import triton.language as tl

    if query.dtype == torch.float16:
        return tl.float16
    # The interpreter would multiply the bits of bfloat16 as integers; float32 is exact here.
    if query.dtype == torch.bfloat16 and not triton.knobs.runtime.interpret:
        return tl.bfloat16
    return tl.float32


def _precision() -> str:
    """How float32 is multiplied: three products on an NVIDIA tensor core are as good as one in
    float32, and faster; there is no such thing on an AMD GPU."""
    return "ieee" if torch.version.hip else "tf32x3"


@lru_cache(maxsize=16)
def _card(device: torch.device) -> Card:
    if device.type != "cuda":
        return INTERPRETER
    found = torch.cuda.get_device_properties(device)
    reserved = 1024  # bytes that the driver keeps for itself
    return Card(found.multi_processor_count, found.shared_memory_per_multiprocessor - reserved)
