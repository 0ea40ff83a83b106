"""The launch of `kernels.kv_commit`. Imported only where Triton is."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def move_rows(
    buffer: tl.tensor,  # [L, 2, B, H, capacity, D]
    path: tl.tensor,  # int64 [P]
    kept: tl.tensor,  # int64 [1]
    length: tl.tensor,  # int64 [1]
    sides: tl.tensor,
    heads: tl.tensor,
    head_dim: tl.tensor,
    strides: tl.tensor,
    BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """One program: the rows of BLOCK_H heads of the keys, or of the values, of one layer.

    Row after row, because one row's destination may be an earlier row's source. A thread stores
    the very elements it loaded and the next row's are stored by the same thread, so that program
    order is order enough.
    """
    layer, side = tl.program_id(0) // sides, tl.program_id(0) % sides
    head = tl.program_id(2) * BLOCK_H + tl.arange(0, BLOCK_H)[:, None]
    dim = tl.arange(0, BLOCK_D)[None, :]
    wanted = (head < heads) & (dim < head_dim)
    base = buffer + layer.to(tl.int64) * strides[0] + side * strides[1]
    base += tl.program_id(1).to(tl.int64) * strides[2]
    at = base + head.to(tl.int64) * strides[3] + dim * strides[5]
    end = tl.load(length)
    for place in range(0, tl.load(kept).to(tl.int32)):
        source = tl.load(path + place)
        if source != place:
            row = tl.load(at + (end + source) * strides[4], mask=wanted)
            tl.store(at + (end + place) * strides[4], row, mask=wanted)
