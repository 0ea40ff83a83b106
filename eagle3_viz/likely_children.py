"""The draft's most likely tokens after each node of a level, and how likely their paths are."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernels import implementation
from kernels.draft_topk import DraftTop, draft_topk, largest


class Children(NamedTuple):
    """k children of each of m nodes, by falling likelihood.

    log_q           float32 [m, DV], of all tokens.
    ids             int64 [m, k], draft ids.
    logprob, score  float32 [m, k], of the token, and summed along its path.
    """

    log_q: torch.Tensor
    ids: torch.Tensor
    logprob: torch.Tensor
    score: torch.Tensor


def likely_children(
    logits: torch.Tensor,  # float32 [m, DV]
    above: torch.Tensor,  # float32 [m], scores of the nodes, 0 of the root
    k: int,
) -> Children:
    """Ties go to the lower id."""
    if implementation(logits.device.type) == "triton":
        top = DraftTop.allocate(logits.shape[0], logits.shape[1], k, logits.device)
        draft_topk(logits, above, top)
        return Children(logits - top.log_z[:, None], top.ids, top.logprob, top.score)
    log_q = logits.log_softmax(-1)
    ids = largest(log_q, k)
    logprob = log_q.gather(-1, ids)
    return Children(log_q, ids, logprob, above[:, None] + logprob)
