"""p, q and the residual at the visited nodes: their heads, and scalars over the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

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
    path = list(decision.verdict.path)
    log_p = log_p[path]
    p_raw = log_p.exp()
    entropies = (-(p_raw * log_p).sum(-1)).tolist()
    compared = {} if draft is None else _compared(tree, path, log_p, draft.target_ids)
    return tuple(
        _at_node(config, tree, node, row, head, entropy, compared.get(node, NO_Q), decision)
        for node, row, head, entropy in zip(path, p_raw, _tops(p_raw), entropies, strict=True)
    )


@dataclass(frozen=True)
class _OfDraft:
    """q after a node, and p_raw against it; NaN where the draft has no q there."""

    q: Top | None = None
    overlap: float = float("nan")
    kl: float = float("nan")
    entropy: float = float("nan")


NO_Q = _OfDraft()


def _compared(
    tree: DraftTree,
    path: list[int],
    log_p: torch.Tensor,  # [m, V], log p_raw of the nodes on the path
    ids: torch.Tensor,  # int64 [DV], target ids of the draft's tokens
) -> dict[int, _OfDraft]:
    """What the draft said after each node that it expanded."""
    rows = {
        place: row for place, node in enumerate(path) if (row := q_row_of(tree, node)) is not None
    }
    if not rows:
        return {}
    places, log_q = list(rows), torch.stack(list(rows.values()))
    q = log_q.exp()
    log_p = log_p[places].index_select(1, ids)
    p = log_p.exp()
    negentropy = torch.xlogy(q, q).sum(-1)
    overlap, kl = torch.minimum(p, q).sum(-1), negentropy - (q * log_p).sum(-1)
    scalars = torch.stack([overlap, kl, -negentropy], dim=-1).tolist()
    return {
        path[place]: _OfDraft(top, *of_row)
        for place, top, of_row in zip(places, _tops(q, ids), scalars, strict=True)
    }


def _at_node(
    config: DecodeConfig,
    tree: DraftTree,
    node: int,
    p_raw: torch.Tensor,  # [V]
    head: Top,
    entropy: float,
    of_draft: _OfDraft,
    decision: Decision,
) -> Distributions:
    child_tokens = tree.token[(tree.parent == node).nonzero()[:, 0]]
    best = None if decision.best is None else int(decision.best[node])
    p = None if decision.p is None else decision.p[node]
    place = None if decision.q is None else place_of(tree, node)
    q_drawn = None if decision.q is None or place is None else decision.q[place]
    residual, residual_mass, expected = _rule(config.rule, child_tokens, best, p, q_drawn)
    return Distributions(
        node=node,
        p_raw=head,
        p=_warped_top(config, best, p),
        q=of_draft.q,
        residual=residual,
        overlap=of_draft.overlap,
        children_mass=float(p_raw[child_tokens].sum()),
        kl=of_draft.kl,
        entropy_p=entropy,
        entropy_q=of_draft.entropy,
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


def _top(probabilities: torch.Tensor) -> Top:
    """The head of one distribution [V]."""
    return _tops(probabilities[None])[0]


def _tops(rows: torch.Tensor, ids: torch.Tensor | None = None) -> list[Top]:
    """The HEAD most likely tokens of distributions [m, V]; those of no probability are left out.

    ids: int64 [V], what the columns are called.
    """
    values, places = rows.topk(min(HEAD, rows.shape[-1]), dim=-1)
    tokens = (places if ids is None else ids[places]).int().cpu().numpy()
    tails = (1.0 - values.double().sum(-1)).clamp(min=0.0).tolist()
    shares = values.float().cpu().numpy()
    return [
        Top(token[share > 0], share[share > 0], tail)
        for token, share, tail in zip(tokens, shares, tails, strict=True)
    ]
