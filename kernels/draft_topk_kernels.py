"""The two launches of `kernels.draft_topk`. Imported only where Triton is.

A key is an int64 that orders as logits do, the lower id first among ties: the order-preserving
bits of the float32 above the complement of the id. Both can be read off it again.
"""

from __future__ import annotations

import triton
import triton.language as tl

NO_KEY = tl.constexpr(-(2**63))


@triton.jit
def _key(x: tl.tensor, ids: tl.tensor) -> tl.tensor:
    """Keys, int64, of float32 logits x."""
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)  # -0.0 is no less than 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.to(tl.int64) << 32) | (0xFFFFFFFF - ids.to(tl.int64))


@triton.jit
def _logit(key: tl.tensor) -> tl.tensor:
    """The float32 logit in a key."""
    ordered = (key >> 32).to(tl.int32)
    bits = ordered ^ ((ordered >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def best_of_chunk(
    logits: tl.tensor,  # [m, DV], floating
    keys: tl.tensor,  # int64 [m, S, k], written
    tops: tl.tensor,  # float32 [m, S], written
    sums: tl.tensor,  # float32 [m, S], written
    vocabulary: tl.tensor,
    k: tl.tensor,
    strides: tl.tensor,
    CHUNK: tl.constexpr,
) -> None:
    """One program: one chunk of one row; its k best keys, largest logit, sum of exponentials."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = ids < vocabulary
    at = logits + row * strides[0] + ids.to(tl.int64) * strides[1]
    x = tl.load(at, mask=inside, other=float("-inf")).to(tl.float32)
    top = tl.max(x, 0)
    anchor = tl.where(top == float("-inf"), 0.0, top)  # a chunk without a finite logit weighs 0
    part = row * tl.num_programs(1) + chunk
    tl.store(tops + part, top)
    tl.store(sums + part, tl.sum(tl.exp(x - anchor), 0))
    left = tl.where(inside, _key(x, ids), NO_KEY)
    for rank in range(0, k):
        best = tl.max(left, 0)
        tl.store(keys + part * k + rank, best)
        left = tl.where(left == best, NO_KEY, left)


@triton.jit
def best_of_row(
    above: tl.tensor,  # float32 [m]
    keys: tl.tensor,  # int64 [m, S, k]
    tops: tl.tensor,  # float32 [m, S]
    sums: tl.tensor,  # float32 [m, S]
    ids: tl.tensor,  # int64 [m, k], written
    logprob: tl.tensor,  # float32 [m, k], written
    score: tl.tensor,  # float32 [m, k], written
    log_z: tl.tensor,  # float32 [m], written
    chunks: tl.tensor,
    k: tl.tensor,
    BLOCK_S: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> None:
    """One program: one row; the k best of its chunks' keys, and what they are worth."""
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.arange(0, BLOCK_S)
    parts = tl.load(tops + row * chunks + chunk, mask=chunk < chunks, other=float("-inf"))
    masses = tl.load(sums + row * chunks + chunk, mask=chunk < chunks, other=0.0)
    top = tl.max(parts, 0)
    log_total = tl.log(tl.sum(masses * tl.exp(parts - top), 0))
    tl.store(log_z + row, top + log_total)
    path = tl.load(above + row)
    place = tl.arange(0, BLOCK_K)
    left = tl.load(keys + row * chunks * k + place, mask=place < chunks * k, other=NO_KEY)
    for rank in range(0, k):
        best = tl.max(left, 0)
        own = _logit(best) - top - log_total
        tl.store(ids + row * k + rank, 0xFFFFFFFF - (best & 0xFFFFFFFF))
        tl.store(logprob + row * k + rank, own)
        tl.store(score + row * k + rank, path + own)
        left = tl.where(left == best, NO_KEY, left)
