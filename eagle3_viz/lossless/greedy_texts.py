"""Greedy texts with the logits that decided them, in the shape of a tree or of one token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from eagle3_viz.config import DecodeConfig
from eagle3_viz.decode import decode
from eagle3_viz.drafts.base import Draft
from eagle3_viz.records import Prefill
from eagle3_viz.target import Step, TargetModel
from eagle3_viz.tree import DraftTree, make_tree, root_only


@dataclass(frozen=True)
class Decided:
    """A greedy text, the root first, and what decided each token after it.

    logits [m - 1, V], float32 on the CPU: row i is what tokens[i + 1] was chosen from.
    """

    tokens: tuple[int, ...]
    logits: torch.Tensor


class _WatchedTarget:
    """Stands in for `TargetModel` in `decode` and keeps the logits of the newest verification."""

    def __init__(self, target: TargetModel) -> None:
        self._target = target
        self.logits = torch.empty(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def verify(self, tree: DraftTree) -> Step:
        step = self._target.verify(tree)
        self.logits = step.logits
        return step


class PaddedTarget:
    """Stands in for `TargetModel`: a lone root is verified in the shape of a tree of `nodes`.

    The root computes what it computes alone, but in matrices of as many rows as when a tree is
    verified. The other nodes are copies of the root, below it, and are dropped.
    """

    def __init__(self, target: TargetModel, nodes: int) -> None:
        self._target, self._nodes = target, nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def verify(self, tree: DraftTree) -> Step:
        """As `TargetModel.verify`, for a root alone."""
        step = self._target.verify(padded(tree, self._nodes))
        return Step(step.logits[:1], step.features[:1])


def padded(root: DraftTree, nodes: int) -> DraftTree:
    """A tree of `nodes` nodes: the root, and copies of it as its children."""
    index = torch.arange(nodes, device=root.token.device)
    return make_tree(
        token=root.token.expand(nodes),
        parent=torch.where(index > 0, 0, -1),
        depth=(index > 0).long(),
        pool_index=index - 1,
        pool=None,
        expanded=root.expanded,
        q_logprobs=(),
        levels=1,
    )


def decided(
    target: TargetModel, draft: Draft | None, prompt_ids: Sequence[int], config: DecodeConfig
) -> Decided:
    """Decode with the engine, and keep the logits that decided."""
    watched = _WatchedTarget(target)
    tokens: list[int] = []
    rows: list[torch.Tensor] = []
    for record in decode(cast(TargetModel, watched), draft, prompt_ids, config):
        if isinstance(record, Prefill):
            tokens.append(record.token)
        else:
            tokens += record.tokens
            path = list(record.path[: len(record.tokens)])
            rows.append(watched.logits[path].float().cpu())
    return Decided(tuple(tokens), torch.cat(rows) if rows else torch.empty(0, target.vocab_size))


@torch.inference_mode()
def along(target: TargetModel, prompt_ids: Sequence[int], tokens: Sequence[int]) -> Decided:
    """What one-token forwards make of every token of a given text."""
    target.prefill(prompt_ids)
    rows: list[torch.Tensor] = []
    for token in tokens[:-1]:
        step = target.verify(root_only(token, target.device))
        target.commit((0,), step.features)
        rows.append(step.logits.float().cpu())
    return Decided(tuple(tokens), torch.cat(rows) if rows else torch.empty(0, target.vocab_size))
