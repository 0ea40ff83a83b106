"""The rules as `kernels.verify` runs them, and its walk as the rest of the engine knows it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from eagle3_viz.acceptance import Test, Verdict
from eagle3_viz.config import Sampling
from eagle3_viz.records import Origin
from eagle3_viz.tree import DraftTree
from kernels.verify_buffers import Proposal, Walk


class ProposalBuffers:
    """What the nodes of a drawn tree were drawn from, at fixed addresses.

    most_children: that a node of any of these trees has.
    """

    def __init__(
        self,
        nodes: int,
        target_ids: torch.Tensor,  # int64 [DV]
        vocabulary: int,
        most_children: int,
    ) -> None:
        places = torch.arange(len(target_ids), device=target_ids.device)
        draft_id = target_ids.new_full((vocabulary,), -1).index_copy_(0, target_ids, places)
        log_q = torch.zeros(nodes, len(target_ids), device=target_ids.device)
        self.proposal = Proposal(log_q, target_ids.new_full((nodes,), -1), draft_id, most_children)

    def take(self, tree: DraftTree) -> None:
        """Copy the q of a drawn tree here."""
        if not tree.q_logprobs:
            return
        log_q, row = self.proposal.log_q, self.proposal.row
        given = torch.cat(tree.q_logprobs)
        log_q[: len(given)].copy_(given)
        own = tree.pool_index[:, None] == tree.expanded
        row[: len(tree)].copy_(torch.where(own.any(1), own.long().argmax(1), -1))


def least_kept(
    logits: torch.Tensor,  # [T, V]
    sampling: Sampling,
) -> torch.Tensor | None:
    """The smallest logit that top-k and top-p leave after each node, float32 [T]; None: all stay.

    Tokens that tie with it stay as well.
    """
    logits, least = logits.float(), None
    if 0 < sampling.top_k < logits.shape[-1]:
        least = logits.topk(sampling.top_k, dim=-1).values[:, -1]
    if sampling.top_p < 1.0:
        kept = logits if least is None else logits.masked_fill(logits < least[:, None], -torch.inf)
        ordered = kept.sort(dim=-1, descending=True).values
        p = ((ordered - ordered[:, :1]) / sampling.temperature).softmax(-1)
        size = (p.cumsum(-1) - p < sampling.top_p).sum(-1, keepdim=True)
        last = (size - 1).clamp(min=0)  # of NaN none is kept, and no device survives an index of -1
        nucleus = ordered.gather(-1, last)[:, 0]
        least = nucleus if least is None else torch.maximum(nucleus, least)
    return least


def verdict_of(walk: Walk, uniforms: Sequence[float]) -> Verdict:
    """A walk as a verdict; uniforms: one a test, NaN where nothing was drawn."""
    kept = set(walk.path)
    columns = zip(walk.tested, walk.p_tested, walk.chances, uniforms, strict=True)
    tests = tuple(Test(node, p, chance, u, node in kept) for node, p, chance, u in columns)
    refused = bool(tests) and not tests[-1].accepted
    origin = Origin.RECOVERED if refused else Origin.BONUS if tests else Origin.PLAIN
    return Verdict(walk.path, walk.tokens, origin, tests)
