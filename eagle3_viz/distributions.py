"""p, q and the residual at the visited nodes: their heads, and scalars over the vocabulary."""

from __future__ import annotations

import numpy as np
import torch

from eagle3_viz.acceptance import Decision, residual_chain, typical_threshold
from eagle3_viz.config import DecodeConfig, Rule
from eagle3_viz.drafts.base import Draft
from eagle3_viz.records import Distributions, Top
from eagle3_viz.tree import DraftTree

HEAD = 20


def place_of(tree: DraftTree, node: int) -> int | None:
    """Place of `node` among the expanded ones, or None where the draft did not expand it."""
    hits = (tree.expanded == tree.pool_index[node]).nonzero()
    return int(hits[0, 0]) if len(hits) else None


def q_row_of(tree: DraftTree, node: int) -> torch.Tensor | None:
    """log q [DV] after `node`, or None where the draft did not expand it."""
    row = place_of(tree, node)
    if row is None:
        return None
    for level in tree.q_logprobs:
        if row < len(level):
            return level[row]
        row -= len(level)
    raise IndexError(f"node {node} is marked expanded but its q was not kept")


def observe_distributions(
    config: DecodeConfig,
    tree: DraftTree,
    log_p: torch.Tensor,  # float32 [T, V], log p_raw
    decision: Decision,
    draft: Draft | None,
) -> tuple[Distributions, ...]:
    """One entry per visited node, root first."""
    ids = None if draft is None else draft.target_ids
    return tuple(
        _at_node(config, tree, node, log_p[node], decision, ids) for node in decision.verdict.path
    )


def _at_node(
    config: DecodeConfig,
    tree: DraftTree,
    node: int,
    log_p: torch.Tensor,  # [V]
    decision: Decision,
    ids: torch.Tensor | None,  # [DV], target ids of the draft's tokens
) -> Distributions:
    p_raw = log_p.exp()
    children = (tree.parent == node).nonzero()[:, 0]
    child_tokens = tree.token[children]
    log_q = q_row_of(tree, node)
    best = None if decision.best is None else int(decision.best[node])
    p = None if decision.p is None else decision.p[node]
    place = None if decision.q is None else place_of(tree, node)
    q_drawn = None if decision.q is None or place is None else decision.q[place]
    residual, residual_mass, expected = _rule(config.rule, child_tokens, best, p, q_drawn)
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
        p=_warped_top(config, best, p),
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
    rule: Rule | None,
    child_tokens: torch.Tensor,  # int64 [k], in the order tested
    best: int | None,
    p: torch.Tensor | None,  # [V]
    q: torch.Tensor | None,  # [V]
) -> tuple[Top | None, float, float]:
    """Residual, its mass, and the probability that some child is accepted (MATH.md 4)."""
    if len(child_tokens) == 0:
        return None, 1.0, 0.0
    if p is None:
        hit = float(best in child_tokens.tolist())
        return None, 1.0 - hit, hit
    if rule == "typical":
        hit = float((p[child_tokens] > typical_threshold(p)).any())
        return _normalized_top(p), 1.0 - hit, hit
    if q is None:
        left = p.clone()
        left[child_tokens] = 0.0
        expected = float(p[child_tokens].sum())
        return _normalized_top(left), max(0.0, 1.0 - expected), expected
    _, chances, left = residual_chain(p, q, child_tokens)
    if len(child_tokens) == 1:  # whatever was drawn
        expected = float(torch.minimum(p, q).sum())
    else:
        expected = float(1.0 - (1.0 - chances).prod())
    return _normalized_top(left), max(0.0, 1.0 - expected), expected


def _warped_top(config: DecodeConfig, best: int | None, p: torch.Tensor | None) -> Top | None:
    """p [V] where it differs from p_raw; one token of probability one under greedy."""
    if p is None:
        return Top(np.array([best], np.int32), np.ones(1, np.float32), 0.0)
    return None if config.sampling.is_identity else _top(p)


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
