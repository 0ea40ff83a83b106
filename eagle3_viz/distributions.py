"""p, q and the residual at the visited nodes: their heads, and scalars over the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from eagle3_viz.acceptance import Decision, residual_chain, typical_threshold
from eagle3_viz.config import DecodeConfig, Rule
from eagle3_viz.drafts.base import Draft
from eagle3_viz.host_tree import HostTree
from eagle3_viz.records import Distributions, Top
from eagle3_viz.tree_path import rows_along

HEAD = 20


def observe_distributions(
    config: DecodeConfig,
    tree: HostTree,
    p_of_nodes: np.ndarray,  # float32 [T], p_raw of each node's token under its parent
    log_p: torch.Tensor,  # float32 [n, V], log p_raw of the first nodes, the path's among them
    decision: Decision,
    best: list[int] | None,  # of the decision
    draft: Draft | None,
) -> tuple[Distributions, ...]:
    """One entry per visited node, root first."""
    path = list(decision.verdict.path)
    log_p = rows_along(log_p, path)
    p_raw = log_p.exp()
    entropies = (-(p_raw * log_p).sum(-1)).tolist()
    compared = {} if draft is None else _compared(tree, path, log_p, draft.target_ids)
    return tuple(
        _at_node(
            config,
            tree,
            node,
            p_of_nodes,
            head,
            entropy,
            compared.get(node, NO_Q),
            None if best is None else best[node],
            decision,
        )
        for node, head, entropy in zip(path, _heads(p_raw), entropies, strict=True)
    )


@dataclass(frozen=True)
class _OfDraft:
    """q after a node, and p_raw against it; NaN where the draft has no q there."""

    q: Top | None = None
    overlap: float = float("nan")
    kl: float = float("nan")
    entropy: float = float("nan")


NO_Q = _OfDraft()
LEAST = torch.finfo(torch.float32).min


def _compared(
    tree: HostTree,
    path: list[int],
    log_p: torch.Tensor,  # [m, V], log p_raw of the nodes on the path
    ids: torch.Tensor,  # int64 [DV], target ids of the draft's tokens
) -> dict[int, _OfDraft]:
    """What the draft said after each node that it expanded: all but the last, or all."""
    expanded = [row for node in path if (row := tree.q_row_of(node)) is not None]
    if not expanded:
        return {}
    log_q, log_p = torch.stack(expanded), log_p[: len(expanded)].index_select(1, ids)
    q, p = log_q.exp(), log_p.exp()
    negentropy = (q * log_q.clamp(min=LEAST)).sum(-1)  # 0 where q is 0
    overlap, kl = torch.minimum(p, q).sum(-1), negentropy - (q * log_p).sum(-1)
    scalars = torch.stack([overlap, kl, -negentropy], dim=-1).tolist()
    return {
        node: _OfDraft(top, *of_node)
        for node, top, of_node in zip(path, _heads(q, ids), scalars, strict=False)
    }


def _at_node(
    config: DecodeConfig,
    tree: HostTree,
    node: int,
    p_of_nodes: np.ndarray,  # [T]
    head: Top,
    entropy: float,
    of_draft: _OfDraft,
    best: int | None,  # the arg-max, under greedy
    decision: Decision,
) -> Distributions:
    children = tree.children(node)
    p = None if decision.p is None else decision.p[node]
    place = None if decision.q is None else tree.place_of(node)
    q_drawn = None if decision.q is None or place is None else decision.q[place]
    tokens = tree.token[children].tolist()
    residual, residual_mass, expected = _rule(config.rule, tokens, best, p, q_drawn)
    return Distributions(
        node=node,
        p_raw=head,
        p=_warped_top(config, best, p),
        q=of_draft.q,
        residual=residual,
        overlap=of_draft.overlap,
        children_mass=float(p_of_nodes[children].sum()),
        kl=of_draft.kl,
        entropy_p=entropy,
        entropy_q=of_draft.entropy,
        residual_mass=residual_mass,
        expected_acceptance=expected,
    )


def _rule(
    rule: Rule | None,
    children: list[int],  # their tokens, in the order tested
    best: int | None,
    p: torch.Tensor | None,  # [V]
    q: torch.Tensor | None,  # [V]
) -> tuple[Top | None, float, float]:
    """Residual, its mass, and the probability that some child is accepted (MATH.md 4)."""
    if not children:
        return None, 1.0, 0.0
    if p is None:
        hit = float(best in children)
        return None, 1.0 - hit, hit
    child_tokens = torch.tensor(children, device=p.device)
    if rule == "typical":
        hit = float((p[child_tokens] > typical_threshold(p)).any())
        return _normalized_top(p), 1.0 - hit, hit
    if q is None:
        left = p.clone()
        left[child_tokens] = 0.0
        expected = float(p[child_tokens].sum())
        return _normalized_top(left), max(0.0, 1.0 - expected), expected
    _, chances, left = residual_chain(p, q, child_tokens)
    if len(children) == 1:  # whatever was drawn
        expected = float(torch.minimum(p, q).sum())
    else:
        expected = float(1.0 - (1.0 - chances).prod())
    return _normalized_top(left), max(0.0, 1.0 - expected), expected


def _warped_top(config: DecodeConfig, best: int | None, p: torch.Tensor | None) -> Top | None:
    """p [V] where it differs from p_raw; one token of probability one under greedy."""
    if p is None:
        return Top(np.array([best], np.int32), np.ones(1, np.float32), 0.0)
    return None if config.sampling.is_identity else _head(p)


def _normalized_top(weights: torch.Tensor) -> Top | None:
    """The head of weights [V] made a distribution; None when nothing is left to draw."""
    total = weights.sum()
    return _head(weights / total) if float(total) > 0 else None


def _head(probabilities: torch.Tensor) -> Top:
    """The head of one distribution [V]."""
    return _heads(probabilities[None])[0]


def _heads(rows: torch.Tensor, ids: torch.Tensor | None = None) -> list[Top]:
    """The HEAD most likely tokens of distributions [m, V]; those of no probability are left out.

    ids: int64 [V], what the columns are called.
    """
    values, places = rows.topk(min(HEAD, rows.shape[-1]), dim=-1)
    tokens = (places if ids is None else ids[places]).cpu().numpy().astype(np.int32)
    shares = values.float().cpu().numpy()
    return [
        Top(token[: len(likely)], share[: len(likely)], max(0.0, 1.0 - sum(likely)))
        for token, share, row in zip(tokens, shares, values.tolist(), strict=True)
        for likely in [[value for value in row if value > 0]]  # the first so many, as they fall
    ]
