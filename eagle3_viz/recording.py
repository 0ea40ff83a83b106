"""From device tensors to the host record of a cycle. Observation never changes a decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from eagle3_viz.acceptance import Decision, Verdict
from eagle3_viz.config import DecodeConfig
from eagle3_viz.distributions import observe_distributions, q_row_of
from eagle3_viz.drafts.base import Draft
from eagle3_viz.records import Distributions, Miss, Nodes, NodeState, Origin, Pool
from eagle3_viz.tree import DraftTree


@dataclass(frozen=True)
class Observation:
    """The optional parts of a `Cycle`."""

    nodes: Nodes | None = None
    pool: Pool | None = None
    distributions: tuple[Distributions, ...] = ()
    miss: Miss | None = None


@torch.inference_mode()
def observe(
    config: DecodeConfig,
    tree: DraftTree,
    logits: torch.Tensor,  # [T, V], the target's, in its dtype
    decision: Decision,
    draft: Draft | None,
) -> Observation:
    """What `config.record` asks for: nothing, the nodes and their fate, or everything."""
    if config.record == "off":
        return Observation()
    log_p = logits.log_softmax(-1, dtype=torch.float32)
    nodes = _nodes(tree, logits, log_p, decision)
    if config.record == "outcomes":
        return Observation(nodes)
    return Observation(
        nodes,
        None if tree.pool is None else _pool(tree),
        observe_distributions(config, tree, log_p, decision, draft),
        None if draft is None else _miss(tree, decision.verdict, draft),
    )


def _nodes(tree: DraftTree, logits: torch.Tensor, log_p: torch.Tensor, decision: Decision) -> Nodes:
    parent = tree.parent.clamp(min=0)
    p_raw = log_p[parent, tree.token].exp()
    if decision.p is not None:
        p = decision.p[parent, tree.token].float()
    else:
        assert decision.best is not None
        p = (decision.best[parent] == tree.token).float()
    float_rows = torch.stack([p_raw, p]).cpu().numpy()
    int_rows = torch.stack([tree.token, tree.parent, tree.depth, tree.pool_index]).cpu().numpy()
    rank = _ranks(tree, logits).cpu().numpy()
    return _assemble(tree, decision.verdict, float_rows, int_rows, rank)


def _ranks(tree: DraftTree, logits: torch.Tensor) -> torch.Tensor:
    """Tokens with larger logits than each node's own, int64 [T]; -1 for the root.

    Row by row: a table of every node's parent row would be as large as the logits.
    """
    parents, tokens = tree.parent[1:].tolist(), tree.token[1:].tolist()
    above = [
        torch.count_nonzero(logits[parent] > logits[parent, token])
        for parent, token in zip(parents, tokens, strict=True)
    ]
    return torch.stack([tree.parent[0], *above])


def _assemble(
    tree: DraftTree,
    verdict: Verdict,
    floats: np.ndarray,
    ints: np.ndarray,
    rank: np.ndarray,
) -> Nodes:
    size = len(tree)
    token, parent, depth, pool_index = ints.astype(np.int32)
    p_raw, p = floats.astype(np.float32)
    nan = np.full(size, np.nan, dtype=np.float32)
    tested, probability, uniform = nan.copy(), nan.copy(), nan.copy()
    state = np.full(size, NodeState.UNREACHED, dtype=np.int8)
    state[0] = NodeState.ROOT
    for test in verdict.tests:
        tested[test.node], probability[test.node] = test.p_tested, test.accept_probability
        uniform[test.node] = test.uniform
        state[test.node] = NodeState.ACCEPTED if test.accepted else NodeState.REJECTED
    p_raw[0] = p[0] = np.nan
    logprob, score, q_rank = nan.copy(), np.zeros(size, np.float32), np.full(size, -1, np.int32)
    if tree.pool is not None:
        kept = tree.pool_index[1:]
        logprob[1:] = tree.pool.logprob[kept].cpu().numpy()
        score[1:] = tree.pool.score[kept].cpu().numpy()
        q_rank[1:] = tree.pool.rank[kept].cpu().numpy()
    return Nodes(
        token=token,
        parent=parent,
        depth=depth,
        draft_logprob=logprob,
        score=score,
        q_rank=q_rank,
        p_raw=p_raw,
        p=p,
        p_rank=rank.astype(np.int32),
        p_tested=tested,
        accept_probability=probability,
        uniform=uniform,
        state=state,
        expanded=np.isin(pool_index, tree.expanded.cpu().numpy()),
        pool_index=pool_index,
    )


def _pool(tree: DraftTree) -> Pool:
    pool = tree.pool
    assert pool is not None
    token, parent, depth = torch.stack([pool.token, pool.parent, pool.depth]).cpu().numpy()
    logprob, score = torch.stack([pool.logprob, pool.score]).cpu().numpy()
    return Pool(
        token.astype(np.int32),
        parent.astype(np.int32),
        depth.astype(np.int32),
        logprob.astype(np.float32),
        score.astype(np.float32),
    )


def _miss(tree: DraftTree, verdict: Verdict, draft: Draft) -> Miss | None:
    """Why the decided token was no child of the node where the walk stopped."""
    if verdict.origin == Origin.PLAIN and tree.pool is None:
        return None
    node, token = verdict.path[-1], verdict.token
    draft_id = _draft_id(draft, token)
    row = q_row_of(tree, node)
    q, q_rank = float("nan"), -1
    if row is not None and draft_id >= 0:
        q = float(row[draft_id].exp())
        q_rank = int((row > row[draft_id]).sum())
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
    ids = draft.target_ids
    place = int(torch.searchsorted(ids, token))
    return place if place < len(ids) and int(ids[place]) == token else -1


def _was_pruned(tree: DraftTree, node: int, token: int) -> bool:
    if tree.pool is None:
        return False
    if bool(((tree.parent == node) & (tree.token == token)).any()):
        return False  # verified and refused: typical may draw it all the same
    parent = tree.pool_index[node]
    return bool(((tree.pool.parent == parent) & (tree.pool.token == token)).any())
