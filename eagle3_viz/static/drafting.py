"""A draft over fixed buffers: taking over a path, and the levels of a tree.

Positions come from the `Inbox`. The trees are built by the same builders as everywhere: to them
this is a `Stepper`.
"""

from __future__ import annotations

import torch

from eagle3_viz.config import TreeShape
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.drafts.fed_tree import FedTree
from eagle3_viz.drafts.stepped import likely_tree
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.static.mailbox import Inbox
from eagle3_viz.static.placed import Placed, first_rows
from eagle3_viz.static.tree_buffers import TreeBuffers
from eagle3_viz.tree import DraftTree, Mark
from kernels.ancestor_bits import TreeMask, pack_visible


class Drafting:
    """One shape of tree, drafted at the place in the text that the inbox names.

    rows      of the draft's cache that attention looks at.
    features  [T, K * d], of the tree that was verified last.
    root_state  [1, H], what the draft feeds back at the root; outlives this object.
    """

    def __init__(
        self,
        draft: FeatureDraft,
        inbox: Inbox,
        rows: int,
        features: torch.Tensor,
        root_state: torch.Tensor,
    ) -> None:
        self._draft, self._inbox = draft, inbox
        self._layers = first_rows(draft.by_layer, rows)
        self._windows = [draft.window] * len(self._layers)
        self._features, self._root_state = features, root_state
        self.target_ids = draft.target_ids
        self._start_tree()

    def tree(
        self, shape: TreeShape | FixedTree, into: TreeBuffers, mark: Mark, *, take_over: bool
    ) -> DraftTree:
        """Draft a tree, after taking over the path of the last verdict if there is one."""
        if take_over:
            self._take_over(1 + shape.levels)
        tree = likely_tree(0, self, shape, mark)
        tree.token[:1].copy_(self._inbox.root)
        into.take(tree)
        mark("tree")
        return tree

    def _take_over(self, count: int) -> None:
        """Run `count` positions: those of the path, and behind them some that are overwritten."""
        draft, inbox = self._draft, self._inbox
        steps = torch.arange(count, device=draft.device)
        places = inbox.before + steps
        causal = pack_visible(steps[None] <= steps[:, None])[None]
        memory = self._memory(places, TreeMask(causal, inbox.before, count, steps[None]))
        features = self._features.index_select(0, inbox.path[:count])
        stream = draft.read(features.to(draft.dtype))
        hidden = draft.forward(stream, inbox.tokens[:count], draft.rope.rows(places), memory)
        self._root_state.copy_(hidden.index_select(0, inbox.last))

    def _start_tree(self) -> None:
        self._hidden = self._root_state
        self._fed = FedTree(self._draft.device)
        self._depths: list[torch.Tensor] = []

    def root_logits(self) -> torch.Tensor:
        """As `Stepper.root_logits`."""
        self._start_tree()
        return self._draft.logits(self._root_state)[0]

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        """As `Stepper.step`."""
        draft, length, fed = self._draft, self._inbox.length, len(self._fed)
        rows = torch.arange(fed, fed + len(draft_ids), device=draft.device)
        seen = pack_visible(self._fed.add(parents, level, 0))[None]
        self._depths.append(torch.full_like(rows, level - 1))
        tree = TreeMask(seen, length, len(self._fed), torch.cat(self._depths)[None])
        hidden = draft.forward(
            self._hidden[parents],
            self.target_ids[draft_ids],
            draft.rope.rows(length + level - 1),
            self._memory(length + rows, tree),
        )
        self._hidden = torch.cat([self._hidden, hidden])
        return draft.logits(hidden)

    def _memory(self, places: torch.Tensor, tree: TreeMask) -> Placed:
        return Placed(self._layers, places, tree, self._windows)
