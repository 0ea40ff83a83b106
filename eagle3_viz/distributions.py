"""p, q and the residual at the visited nodes: their heads, and scalars over the vocabulary."""

from __future__ import annotations

import torch

from eagle3_viz.acceptance import Verdict
from eagle3_viz.config import DecodeConfig
from eagle3_viz.drafts.base import Draft
from eagle3_viz.records import Distributions, Top
from eagle3_viz.sampling import arg_max
from eagle3_viz.tree import DraftTree

HEAD = 20


def q_row_of(tree: DraftTree, node: int) -> torch.Tensor | None:
    """log q [DV] after `node`, or None where the draft did not expand it."""
    hits = (tree.expanded == tree.pool_index[node]).nonzero()
    if len(hits) == 0:
        return None
    row = int(hits[0, 0])
    for level in tree.q_logprobs:
        if row < len(level):
            return level[row]
        row -= len(level)
    raise IndexError(f"node {node} is marked expanded but its q was not kept")


def observe_distributions(
    config: DecodeConfig,
    tree: DraftTree,
    logits: torch.Tensor,  # [T, V] float32
    log_z: torch.Tensor,  # [T]
    verdict: Verdict,
    draft: Draft | None,
    p: torch.Tensor | None,  # [T, V] warped, None under greedy
    q: torch.Tensor | None,  # [T - 1, V] under sample
) -> tuple[Distributions, ...]:
    """One entry per visited node, root first."""
    ids, best = None, arg_max(logits)
    if draft is not None:
        ids = draft.target_ids
    return tuple(
        _at_node(config, tree, node, logits[node] - log_z[node], best[node], ids, p, q)
        for node in verdict.path
    )


def _at_node(
    config: DecodeConfig,
    tree: DraftTree,
    node: int,
    log_p: torch.Tensor,  # [V], log p_raw
    best: torch.Tensor,  # arg-max of the logits; log_p may round two of them to a tie
    ids: torch.Tensor | None,  # [DV], target ids of the draft's tokens
    p: torch.Tensor | None,
    q: torch.Tensor | None,
) -> Distributions:
    p_raw = log_p.exp()
    children = (tree.parent == node).nonzero()[:, 0]
    child_tokens = tree.token[children]
    log_q = q_row_of(tree, node)
    residual, residual_mass, expected = _rule(node, child_tokens, best, p, q)
    overlap = kl = entropy_q = float("nan")
    q_top = None
    if log_q is not None and ids is not None:
        q_here = log_q.exp()
        q_top = _top(q_here, ids)
        overlap = float(torch.minimum(p_raw[ids], q_here).sum())
        kl = float(torch.xlogy(q_here, q_here).sum() - (q_here * log_p[ids]).sum())
        entropy_q = float(-torch.xlogy(q_here, q_here).sum())
    return Distributions(
        node=node,
        p_raw=_top(p_raw),
        p=_warped_top(config, node, log_p, best, p),
        q=q_top,
        residual=residual,
        overlap=overlap,
        children_mass=float(p_raw[child_tokens].sum()),
        kl=kl,
        entropy_p=float(-(p_raw * log_p).sum()),
        entropy_q=entropy_q,
        residual_mass=residual_mass,
        expected_acceptance=expected,
    )


def _rule(
    node: int,
    child_tokens: torch.Tensor,
    best: torch.Tensor,
    p: torch.Tensor | None,
    q: torch.Tensor | None,
) -> tuple[Top | None, float, float]:
    """Residual, its mass, and the probability that some child is accepted (MATH.md 4)."""
    if len(child_tokens) == 0:
        return None, 1.0, 0.0
    if p is None:
        hit = float((child_tokens == best).any())
        return None, 1.0 - hit, hit
    if q is not None:
        left = (p[node] - q[node]).clamp(min=0.0)
        expected = float(torch.minimum(p[node], q[node]).sum())
    else:
        left = p[node].clone()
        left[child_tokens] = 0.0
        expected = float(p[node][child_tokens].sum())
    return _normalized_top(left), max(0.0, 1.0 - expected), expected


def _warped_top(
    config: DecodeConfig,
    node: int,
    log_p: torch.Tensor,
    best: torch.Tensor,
    p: torch.Tensor | None,
) -> Top | None:
    """p at `node` where it differs from p_raw; one token of probability one under greedy."""
    if p is None:
        return _top(torch.zeros_like(log_p).scatter_(0, best, 1.0))
    return None if config.sampling.is_identity else _top(p[node])


def _normalized_top(weights: torch.Tensor) -> Top | None:
    """The head of weights [V] made a distribution; None when nothing is left to draw."""
    total = weights.sum()
    return _top(weights / total) if float(total) > 0 else None


def _top(probabilities: torch.Tensor, ids: torch.Tensor | None = None) -> Top:
    """The HEAD most likely tokens of a distribution; zero-probability tokens are left out."""
    values, places = probabilities.topk(min(HEAD, len(probabilities)))
    tokens = places if ids is None else ids[places]
    listed = values > 0
    values, tokens = values[listed], tokens[listed]
    tail = max(0.0, float(1.0 - values.double().sum()))
    return Top(tokens.int().cpu().numpy(), values.float().cpu().numpy(), tail)
