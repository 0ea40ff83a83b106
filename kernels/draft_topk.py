"""The best tokens of each node of a draft level, with their log-probabilities and path scores.

The PyTorch form is here; the Triton form, two launches, is in `draft_topk_kernels`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from kernels import implementation
from kernels.launch import on_device, power_of_two

CHUNK = 2048  # tokens that one program of the first launch reads
FEW = 16  # as many passes of NumPy's arg-max over a vocabulary take less time than one with keys


@dataclass(frozen=True)
class DraftTop:
    """What `draft_topk` writes for m nodes; made once, so that a CUDA graph can replay it.

    ids      int64 [m, k], by falling logit, the lower id first among ties.
    logprob  float32 [m, k], log of the softmax over all DV tokens.
    score    float32 [m, k], sum of the log-probabilities along the path.
    log_z    float32 [m], log-sum-exp of the logits: logits - log_z is log q.

    keys int64 [m, S, k], tops and sums float32 [m, S] hold what each of S chunks found.
    """

    ids: torch.Tensor
    logprob: torch.Tensor
    score: torch.Tensor
    log_z: torch.Tensor
    keys: torch.Tensor
    tops: torch.Tensor
    sums: torch.Tensor
    chunk: int

    @classmethod
    def allocate(
        cls, nodes: int, vocabulary: int, k: int, device: torch.device, chunk: int = CHUNK
    ) -> DraftTop:
        """Buffers for `nodes` rows of logits. Raises ValueError for a k or chunk that cannot be."""
        if not 0 < k <= vocabulary:
            raise ValueError(f"k must be from 1 to the {vocabulary} tokens there are, found {k}")
        if chunk < 1 or chunk & (chunk - 1):
            raise ValueError(f"chunk must be a power of two, found {chunk}")
        chunks = -(-vocabulary // chunk)

        def new(dtype: torch.dtype, *shape: int) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        return cls(
            ids=new(torch.int64, nodes, k),
            logprob=new(torch.float32, nodes, k),
            score=new(torch.float32, nodes, k),
            log_z=new(torch.float32, nodes),
            keys=new(torch.int64, nodes, chunks, k),
            tops=new(torch.float32, nodes, chunks),
            sums=new(torch.float32, nodes, chunks),
            chunk=chunk,
        )


def draft_topk(
    logits: torch.Tensor,  # [m, DV], floating, any strides
    above: torch.Tensor,  # float32 [m], path score of each node; 0 at the root
    out: DraftTop,
) -> None:
    """Top-k of each node, its log-probabilities, and the path scores of its children.

    k is that of `out`. Under Triton the logits are read once, nothing is allocated, and a CUDA
    graph can replay the call. Raises ValueError for arguments that do not fit together, and what
    `implementation` raises.
    """
    _refuse_misfits(logits, above, out)
    if implementation(logits.device.type) == "torch":
        return draft_topk_torch(logits, above, out)
    return draft_topk_triton(logits, above, out)


def draft_topk_torch(
    logits: torch.Tensor,  # [m, DV], floating
    above: torch.Tensor,  # float32 [m]
    out: DraftTop,
) -> None:
    """`draft_topk` in PyTorch's operations."""
    logits = logits.float()
    out.ids.copy_(largest(logits, out.ids.shape[1]))
    out.logprob.copy_(logits.log_softmax(-1).gather(1, out.ids))
    torch.add(above[:, None], out.logprob, out=out.score)
    torch.sub(logits.gather(1, out.ids[:, :1])[:, 0], out.logprob[:, 0], out=out.log_z)


def draft_topk_triton(
    logits: torch.Tensor,  # [m, DV], float32, bfloat16 or float16
    above: torch.Tensor,  # float32 [m]
    out: DraftTop,
) -> None:
    """`draft_topk` as two Triton launches: every chunk's best, then the best of those."""
    from kernels.draft_topk_kernels import best_of_chunk, best_of_row

    (nodes, vocabulary), (_, chunks, k) = logits.shape, out.keys.shape
    with on_device(logits):
        best_of_chunk[(nodes, chunks)](
            logits, out.keys, out.tops, out.sums, vocabulary, k, logits.stride(), CHUNK=out.chunk
        )
        best_of_row[(nodes,)](
            above, out.keys, out.tops, out.sums, out.ids, out.logprob, out.score, out.log_z,
            chunks, k, BLOCK_S=power_of_two(chunks), BLOCK_K=power_of_two(chunks * k),
        )  # fmt: skip


def largest(values: torch.Tensor, k: int) -> torch.Tensor:
    """Places of the k largest of the last axis, float32 [..., n]; the lower one first among ties.

    Returns int64 [..., k]. -0.0 ties with 0.0. Raises TypeError for another number format.
    """
    if values.dtype != torch.float32:
        raise TypeError(f"values must be float32, found {values.dtype}")
    if values.device.type == "cpu" and k <= FEW:
        found = _one_by_one(values.detach().numpy(), k)
        if found is not None:
            return torch.as_tensor(found)
    return largest_by_keys(values, k)


def largest_by_keys(values: torch.Tensor, k: int) -> torch.Tensor:
    """`largest` for any k and device, and any values, without a look at what they are.

    A key holds the order-preserving bits of the float above the complement of its place.
    """
    n = values.shape[-1]
    bits = (values + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
    keys = torch.topk((ordered << 32) | _complement(n, values.device), k, dim=-1).values
    return n - 1 - (keys & 0xFFFFFFFF)


def _one_by_one(values: np.ndarray, k: int) -> np.ndarray | None:
    """`largest` by NumPy's arg-max, k times; None where a row has fewer than k finite values.

    What was found is struck out with -inf, which must not be found again.
    """
    left = values.reshape(-1, values.shape[-1]).copy()
    places = np.empty((len(left), k), dtype=np.int64)
    for row, found in zip(left, places, strict=True):
        last = math.inf
        for turn in range(k):
            found[turn] = best = row.argmax()
            last = row[best]
            row[best] = -np.inf
        if not math.isfinite(last):
            return None
    return places.reshape(*values.shape[:-1], k)


@cache
def _complement(n: int, device: torch.device) -> torch.Tensor:
    """n - 1 .. 0, int64 [n]; kept, since counting to a vocabulary costs more than the top-k, and
    for ever, since a recording may read it."""
    return torch.arange(n - 1, -1, -1, device=device)


def _refuse_misfits(logits: torch.Tensor, above: torch.Tensor, out: DraftTop) -> None:
    nodes, vocabulary = logits.shape
    rows, chunks, _ = out.keys.shape
    if rows != nodes or chunks != -(-vocabulary // out.chunk):
        raise ValueError(
            f"logits are [{nodes}, {vocabulary}], but the buffers are for {rows} nodes and "
            f"{chunks} chunks of {out.chunk} tokens; allocate them for these sizes"
        )
    if above.dtype != torch.float32 or above.shape != (nodes,) or not above.is_contiguous():
        raise ValueError(
            f"above must be contiguous float32 [{nodes}], one a node; found {above.dtype} "
            f"{list(above.shape)}"
        )
