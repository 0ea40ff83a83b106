"""The two launches of `tree_attention`: attention over one split of the keys, and their union.

Imported only where Triton is; `kernels.tree_attention` launches them and tells what they compute.
Scores are in base 2: log2(e) is multiplied into the scale. Sizes that change from level to level
of a draft are not specialized on, or each would be compiled anew.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _load_rows(
    first: tl.tensor,  # pointer to the first row
    live: tl.tensor,  # bool [BLOCK_N], rows that exist
    strides: tl.tensor,  # of [B, KV, N, D]
    HEAD_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> tl.tensor:
    """BLOCK_N rows of keys or values, [BLOCK_N, BLOCK_D], zero outside."""
    row = tl.arange(0, BLOCK_N)[:, None]
    dim = tl.arange(0, BLOCK_D)[None, :]
    wanted = live[:, None] & (dim < HEAD_DIM)
    return tl.load(first + row * strides[2] + dim * strides[3], mask=wanted, other=0.0)


@triton.jit
def _tanh(x: tl.tensor) -> tl.tensor:
    """tanh in float32, by its series near zero: a soft cap leaves most scores there, and multiplies
    what the difference of two exponentials would lose."""
    square = x * x
    series = x * (1.0 + square * (-1.0 / 3.0 + square * (2.0 / 15.0 - square * (17.0 / 315.0))))
    decay = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - decay) / (1.0 + decay)
    return tl.where(square < 0.0625, series, tl.where(x < 0.0, -far, far))


@triton.jit
def _absorb(
    total: tl.tensor,  # float32 [BLOCK_M], sum of the weights so far
    peak: tl.tensor,  # float32 [BLOCK_M], largest score so far
    mixed: tl.tensor,  # float32 [BLOCK_M, BLOCK_D], weighted sum of the values so far
    q: tl.tensor,  # [BLOCK_M, BLOCK_D]
    k: tl.tensor,  # [BLOCK_N, BLOCK_D]
    v: tl.tensor,  # [BLOCK_N, BLOCK_D]
    seen: tl.tensor,  # bool [1 or BLOCK_M, BLOCK_N]
    scale: tl.tensor,
    cap: tl.tensor,
    SOFTCAP: tl.constexpr,
    PRODUCT: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """One block of keys enters the online softmax."""
    scores = tl.dot(q, tl.trans(k.to(PRODUCT)), input_precision=PRECISION) * scale
    if SOFTCAP:
        scores = cap * _tanh(scores)
    scores = tl.where(seen, scores, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(scores, 1))
    anchor = tl.where(new_peak == float("-inf"), 0.0, new_peak)  # nothing seen yet: no inf - inf
    weights = tl.exp2(scores - anchor[:, None])
    shrink = tl.exp2(peak - anchor)
    mixed = mixed * shrink[:, None]
    mixed = tl.dot(weights.to(PRODUCT), v.to(PRODUCT), mixed, input_precision=PRECISION)
    return total * shrink + tl.sum(weights, 1), new_peak, mixed


@triton.jit
def _attend_blocks(
    total: tl.tensor,
    peak: tl.tensor,
    mixed: tl.tensor,
    q: tl.tensor,
    key: tl.tensor,  # pointer to row 0
    value: tl.tensor,
    words: tl.tensor,  # pointers [BLOCK_M] to the first word of each query
    depth: tl.tensor,  # pointer to the depth of the first tree row
    rows: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    oldest: tl.tensor,  # int32 [BLOCK_M], oldest position a query sees, counted from the root's
    scale: tl.tensor,
    cap: tl.tensor,
    key_strides: tl.tensor,
    value_strides: tl.tensor,
    words_strides: tl.tensor,
    depth_strides: tl.tensor,
    HEAD_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    TREE: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
    PRODUCT: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Blocks begin to end of `rows` rows: the tree, or the prefix that ends where it begins.

    64 is a multiple of BLOCK_N, so that one word masks a block of the tree.
    """
    for block in range(begin, end):
        start = block * BLOCK_N
        row = start + tl.arange(0, BLOCK_N)
        live = row < rows
        seen = live[None, :]
        position = row - rows
        if TREE:
            word = tl.load(words + start // 64 * words_strides[2])
            bit = (word[:, None] >> (row % 64).to(tl.int64)[None, :]) & 1
            seen = live[None, :] & (bit != 0)
        if WINDOW:
            if TREE:
                position = tl.load(depth + row * depth_strides[1], mask=live, other=0).to(tl.int32)
            seen &= position[None, :] >= oldest[:, None]
        first = tl.cast(start, tl.int64)
        k = _load_rows(key + first * key_strides[2], live, key_strides, HEAD_DIM, BLOCK_N, BLOCK_D)
        v = _load_rows(
            value + first * value_strides[2], live, value_strides, HEAD_DIM, BLOCK_N, BLOCK_D
        )
        total, peak, mixed = _absorb(
            total, peak, mixed, q, k, v, seen, scale, cap, SOFTCAP, PRODUCT, PRECISION
        )
    return total, peak, mixed


@triton.jit(
    do_not_specialize=["window", "kv_heads", "groups", "nodes", "tree_rows", "lengths_stride"]
)
def attend_split(
    query: tl.tensor,  # [B, H, T, D]
    key: tl.tensor,  # [B, KV, N, D]
    value: tl.tensor,  # [B, KV, N, D]
    words: tl.tensor,  # int64 [B, T, W]
    depth: tl.tensor,  # int [B, S]
    prefix_lengths: tl.tensor,  # int [B]
    lengths_stride: tl.tensor,
    result: tl.tensor,  # [B, H, T, splits, D]; one split: the output, else float32
    levels: tl.tensor,  # float32 [B, H, T, splits], log2 of the sum of weights; if PARTIAL
    scale: tl.tensor,
    cap: tl.tensor,
    window: tl.tensor,  # longer than any text where there is none
    kv_heads: tl.tensor,
    groups: tl.tensor,
    nodes: tl.tensor,
    tree_rows: tl.tensor,
    query_strides: tl.tensor,
    key_strides: tl.tensor,
    value_strides: tl.tensor,
    words_strides: tl.tensor,
    depth_strides: tl.tensor,
    result_strides: tl.tensor,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
    PARTIAL: tl.constexpr,
    PRODUCT: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """One program: BLOCK_M queries of one key/value head against one split of its keys.

    Row r of a key/value head is node r % T of its query head r // T: the query heads that share
    keys read them once. Blocks of the prefix come first, then the tree's; every split takes the
    same number of them.
    """
    text = (tl.program_id(0) // kv_heads).to(tl.int64)
    head = (tl.program_id(0) % kv_heads).to(tl.int64)
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    node, query_head = row % nodes, head * groups + row // nodes
    dim = tl.arange(0, BLOCK_D)[None, :]
    used = row < groups * nodes
    wanted = used[:, None] & (dim < HEAD_DIM)
    at = query_head[:, None] * query_strides[1] + node[:, None] * query_strides[2]
    query += text * query_strides[0] + at + dim * query_strides[3]
    q = tl.load(query, mask=wanted, other=0.0).to(PRODUCT)
    words += text * words_strides[0] + node * words_strides[1]
    depth += text * depth_strides[0]
    oldest = tl.zeros([BLOCK_M], tl.int32)
    if WINDOW:
        own = tl.load(depth + (tree_rows - nodes + node) * depth_strides[1])
        oldest = own.to(tl.int32) - window + 1

    prefix = tl.load(prefix_lengths + text * lengths_stride).to(tl.int32)
    # No query stands before the root, so none sees a key that the root's window leaves out.
    first = tl.maximum(prefix - window + 1, 0)
    in_prefix = tl.cdiv(prefix - first, BLOCK_N)
    share = tl.cdiv(in_prefix + tl.cdiv(tree_rows, BLOCK_N), tl.num_programs(2))
    begin = tl.program_id(2) * share
    end = begin + share
    key += text * key_strides[0] + head * key_strides[1]
    value += text * value_strides[0] + head * value_strides[1]
    total = tl.zeros([BLOCK_M], tl.float32)
    peak = tl.full([BLOCK_M], float("-inf"), tl.float32)
    mixed = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    total, peak, mixed = _attend_blocks(
        total, peak, mixed, q,
        key + first.to(tl.int64) * key_strides[2], value + first.to(tl.int64) * value_strides[2],
        words, depth, prefix - first, begin, tl.minimum(end, in_prefix), oldest, scale, cap,
        key_strides, value_strides, words_strides, depth_strides,
        HEAD_DIM, BLOCK_N, BLOCK_D, False, WINDOW, SOFTCAP, PRODUCT, PRECISION,
    )  # fmt: skip
    total, peak, mixed = _attend_blocks(
        total, peak, mixed, q,
        key + prefix.to(tl.int64) * key_strides[2], value + prefix.to(tl.int64) * value_strides[2],
        words, depth, tree_rows, tl.maximum(begin - in_prefix, 0),
        tl.minimum(end - in_prefix, tl.cdiv(tree_rows, BLOCK_N)), oldest, scale, cap,
        key_strides, value_strides, words_strides, depth_strides,
        HEAD_DIM, BLOCK_N, BLOCK_D, True, WINDOW, SOFTCAP, PRODUCT, PRECISION,
    )  # fmt: skip

    safe = tl.where(total == 0.0, 1.0, total)  # a query that sees nothing gets zeros
    split = tl.program_id(2)
    at = query_head[:, None] * result_strides[1] + node[:, None] * result_strides[2]
    result += text * result_strides[0] + at + split * result_strides[3] + dim * result_strides[4]
    tl.store(result, (mixed / safe[:, None]).to(result.dtype.element_ty), mask=wanted)
    if PARTIAL:
        level = tl.where(total == 0.0, float("-inf"), peak + tl.log2(safe))
        at = (text * kv_heads * groups + query_head) * nodes + node
        tl.store(levels + at * tl.num_programs(2) + split, level, mask=used)


@triton.jit(do_not_specialize=["heads", "nodes", "splits"])
def unite_splits(
    partial: tl.tensor,  # float32 [B, H, T, splits, D]
    levels: tl.tensor,  # float32 [B, H, T, splits]
    out: tl.tensor,  # [B, H, T, D]
    heads: tl.tensor,
    nodes: tl.tensor,
    splits: tl.tensor,
    out_strides: tl.tensor,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> None:
    """One program: one query of one head, its splits weighted by their share of the softmax."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, BLOCK_S)
    dim = tl.arange(0, BLOCK_D)
    level = tl.load(levels + row * splits + split, mask=split < splits, other=float("-inf"))
    peak = tl.max(level, 0)
    weights = tl.exp2(level - tl.where(peak == float("-inf"), 0.0, peak))
    parts = tl.load(
        partial + (row * splits + split)[:, None] * HEAD_DIM + dim[None, :],
        mask=(weights > 0.0)[:, None] & (dim < HEAD_DIM)[None, :],
        other=0.0,
    )
    total = tl.sum(weights, 0)
    mixed = tl.sum(weights[:, None] * parts, 0) / tl.where(total == 0.0, 1.0, total)
    text, head, node = row // nodes // heads, row // nodes % heads, row % nodes
    out += text * out_strides[0] + head * out_strides[1] + node * out_strides[2]
    tl.store(out + dim * out_strides[3], mixed.to(out.dtype.element_ty), mask=dim < HEAD_DIM)
