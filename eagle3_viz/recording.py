"""From device tensors to the host record of a cycle. Observation never changes a decision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from eagle3_viz.acceptance import Decision, Verdict
from eagle3_viz.config import DecodeConfig
from eagle3_viz.distributions import observe_distributions
from eagle3_viz.drafts.base import Draft
from eagle3_viz.host_tree import HostTree, on_host
from eagle3_viz.ranks import ranks
from eagle3_viz.records import Distributions, Miss, Nodes, NodeState, Origin, Pool
from eagle3_viz.sampling import precise
from eagle3_viz.tree import DraftTree


@dataclass(frozen=True)
class Observation:
    """The optional parts of a `Cycle`."""

    nodes: Nodes | None = None
    pool: Pool | None = None
    distributions: tuple[Distributions, ...] = ()
    miss: Miss | None = None


def observe(
    config: DecodeConfig,
    tree: DraftTree,
    logits: torch.Tensor,  # [T, V], the target's
    decision: Decision,
    draft: Draft | None,
) -> Observation:
    """What `config.record` asks for: nothing, the nodes and their fate, or everything."""
    if config.record == "off":
        return Observation()
    host = on_host(tree)
    logits = precise(logits)
    last = max(*host.parent.tolist(), *decision.verdict.path)  # behind it: leaves off the path
    log_p = logits[: last + 1].log_softmax(-1).float()
    best = None if decision.best is None else decision.best.tolist()
    nodes = _nodes(host, logits, log_p, decision, best)
    if config.record == "outcomes":
        return Observation(nodes)
    return Observation(
        nodes,
        host.pool,
        observe_distributions(config, host, nodes.p_raw, log_p, decision, best, draft),
        None if draft is None else _miss(host, decision.verdict, draft),
    )


def _nodes(
    tree: HostTree,
    logits: torch.Tensor,  # [T, V]
    log_p: torch.Tensor,  # float32 [n, V], log p_raw up to the last parent
    decision: Decision,
    best: list[int] | None,  # of the decision
) -> Nodes:
    parents, tokens = tree.parent[1:].tolist(), tree.token[1:].tolist()
    p_raw, p, logprob = np.full((3, len(tree)), np.nan, np.float32)
    q_rank, p_rank = np.full((2, len(tree)), -1, np.int32)
    score = np.zeros(len(tree), np.float32)
    p_raw[1:] = log_p[parents, tokens].exp().cpu().numpy()
    if decision.p is not None:
        p[1:] = decision.p[parents, tokens].float().cpu().numpy()
    else:
        assert best is not None
        p[1:] = [best[parent] == token for parent, token in zip(parents, tokens, strict=True)]
    p_rank[1:] = ranks(logits, parents, tokens)
    if tree.pool is not None:
        kept = tree.pool_index[1:]
        logprob[1:], score[1:] = tree.pool.draft_logprob[kept], tree.pool.score[kept]
        q_rank[1:] = tree.pool_rank[kept]
    tested, probability, uniform, state = _fates(tree, decision.verdict)
    return Nodes(
        token=tree.token,
        parent=tree.parent,
        depth=tree.depth,
        draft_logprob=logprob,
        score=score,
        q_rank=q_rank,
        p_raw=p_raw,
        p=p,
        p_rank=p_rank,
        p_tested=tested,
        accept_probability=probability,
        uniform=uniform,
        state=state,
        expanded=np.array([index in tree.expanded for index in tree.pool_index.tolist()]),
        pool_index=tree.pool_index,
    )


def _fates(
    tree: HostTree, verdict: Verdict
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """p when tested, acceptance probability, uniform, and state of every node."""
    tested, probability, uniform = np.full((3, len(tree)), np.nan, np.float32)
    state = np.full(len(tree), int(NodeState.UNREACHED), dtype=np.int8)
    state[0] = NodeState.ROOT
    for test in verdict.tests:
        tested[test.node], probability[test.node] = test.p_tested, test.accept_probability
        uniform[test.node] = test.uniform
        state[test.node] = NodeState.ACCEPTED if test.accepted else NodeState.REJECTED
    return tested, probability, uniform, state


def _miss(tree: HostTree, verdict: Verdict, draft: Draft) -> Miss | None:
    """Why the decided token was no child of the node where the walk stopped."""
    if verdict.origin == Origin.PLAIN and tree.pool is None:
        return None
    node, token = verdict.path[-1], verdict.token
    draft_id = _draft_id(draft, token)
    row = tree.q_row_of(node)
    q, q_rank = float("nan"), -1
    if row is not None and draft_id >= 0:
        q = math.exp(row[draft_id])
        q_rank = int(ranks(row[None], [0], [draft_id])[0])
    elif row is not None:
        q = 0.0
    return Miss(
        node=node,
        token=token,
        q=q,
        q_rank=q_rank,
        in_draft_vocabulary=draft_id >= 0,
        expanded=row is not None,
        beyond_depth=int(tree.depth[node]) >= tree.levels,
        pruned=_was_pruned(tree, node, token),
    )


def _draft_id(draft: Draft, token: int) -> int:
    """The draft's id of a target token, -1 outside its vocabulary."""
    ids = draft.target_ids.cpu().numpy()
    place = int(np.searchsorted(ids, token))
    return place if place < len(ids) and ids[place] == token else -1


def _was_pruned(tree: HostTree, node: int, token: int) -> bool:
    """Among the candidates below `node`, and not among its children. A child that was verified and
    refused is no such token: typical may draw it all the same."""
    if tree.pool is None or token not in tree.pool.token:
        return False
    siblings = tree.pool.parent == tree.pool_index[node]
    return token in tree.pool.token[siblings] and token not in tree.token[tree.children(node)]
