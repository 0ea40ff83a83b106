"""Which drafted tokens stay, decided beside the logits (MATH.md 1.2, 1.3, 1.5).

What a verification decides stands in `VerifyBuffers.result`, which the host reads once a cycle
(`read_walk`). Under Triton nothing here waits for the device or allocates: a CUDA graph can
replay it, and neither p nor q is stored for all nodes; float64 logits raise TypeError. PyTorch
looks at the rows that the walk comes to.

A tree of fewer than T nodes is filled up behind its last one with nodes of parent -1, whose tokens
and logits do not matter: they are never tested.
"""

from __future__ import annotations

import torch

from kernels import implementation
from kernels.verify_buffers import Proposal, VerifyBuffers
from kernels.verify_torch import (
    score_nodes_torch,
    verify_greedy_torch,
    verify_sample_torch,
    verify_topk_torch,
)


def score_nodes(
    logits: torch.Tensor,  # [T, V], floating, any strides
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root
    out: VerifyBuffers,
    *,
    temperature: float = 1.0,
    least: torch.Tensor | None = None,  # float32 [T]
) -> None:
    """Arg-max and log-sum-exp after every node, and p of its token: `best`, `log_z`, `p` of `out`.

    p as in `verify_topk`. A row with NaN, with +inf or without a finite logit has NaN for both.
    Raises ValueError for arguments that do not fit together, and what `implementation` raises.
    """
    if implementation(logits.device.type) == "torch":
        return score_nodes_torch(logits, token, parent, out, temperature=temperature, least=least)
    from kernels.verify_triton import score_nodes_triton

    return score_nodes_triton(logits, token, parent, out, temperature=temperature, least=least)


def verify_greedy(
    logits: torch.Tensor,  # [T, V], floating, any strides
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root; parents stand before their children
    out: VerifyBuffers,
) -> None:
    """Descend while a child is the arg-max of its parent's logits (MATH.md 1.5).

    Raises ValueError for arguments that do not fit together, and what `implementation` raises.
    """
    if implementation(logits.device.type) == "torch":
        return verify_greedy_torch(logits, token, parent, out)
    from kernels.verify_triton import verify_greedy_triton

    return verify_greedy_triton(logits, token, parent, out)


def verify_topk(
    logits: torch.Tensor,  # [T, V], floating, any strides
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root; parents stand before their children
    uniforms: torch.Tensor,  # float64 [at least T], in [0, 1), in the order of their use
    out: VerifyBuffers,
    *,
    temperature: float = 1.0,
    least: torch.Tensor | None = None,  # float32 [T]
) -> None:
    """Children that were chosen, not drawn: each is tested with its p (MATH.md 1.2).

    p is the softmax of logits / temperature over the tokens whose logit is `least` or more (all,
    where it is not given): a top-k or top-p filter is such a threshold for each row. Raises
    ValueError for arguments that do not fit together, and what `implementation` raises.
    """
    if implementation(logits.device.type) == "torch":
        return verify_topk_torch(
            logits, token, parent, uniforms, out, temperature=temperature, least=least
        )
    from kernels.verify_triton import verify_topk_triton

    return verify_topk_triton(
        logits, token, parent, uniforms, out, temperature=temperature, least=least
    )


def verify_sample(
    logits: torch.Tensor,  # [T, V], floating, any strides
    token: torch.Tensor,  # int64 [T]
    parent: torch.Tensor,  # int64 [T], -1 at the root; parents stand before their children
    uniforms: torch.Tensor,  # float64 [at least T], in [0, 1), in the order of their use
    proposal: Proposal,
    out: VerifyBuffers,
    *,
    temperature: float = 1.0,
    least: torch.Tensor | None = None,  # float32 [T]
) -> None:
    """Children drawn from q without replacement, tested as drawn (MATH.md 1.1, 1.3).

    A child stays with min(1, p / q); after a refusal p becomes norm(max(0, p - q)) and q loses
    the child. p is that of `verify_topk`. Raises ValueError for arguments that do not fit
    together, and what `implementation` raises.
    """
    if implementation(logits.device.type) == "torch":
        return verify_sample_torch(
            logits, token, parent, uniforms, proposal, out, temperature=temperature, least=least
        )
    from kernels.verify_triton import verify_sample_triton

    return verify_sample_triton(
        logits, token, parent, uniforms, proposal, out, temperature=temperature, least=least
    )
