"""Drafts with a distribution: their trees come from the builders."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from eagle3_viz.config import Sampling, TreeShape
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.sampling import Draws
from eagle3_viz.tree import DraftTree, Mark, Stepper
from eagle3_viz.tree_dynamic import build_dynamic
from eagle3_viz.tree_fixed import build_fixed
from eagle3_viz.tree_sampled import build_sampled, build_sampled_fixed


class SteppedDraft(ABC):
    """The proposing half of `Draft`, for a draft that is a `Stepper` itself."""

    target_ids: torch.Tensor  # int64 [DV]

    @torch.inference_mode()
    def propose(self, root: int, tree: TreeShape | FixedTree, mark: Mark) -> DraftTree:
        """The draft's most likely tokens; as `Draft.propose`."""
        return likely_tree(root, self, tree, mark)

    @torch.inference_mode()
    def propose_sampled(
        self,
        root: int,
        tree: TreeShape | FixedTree,
        sampling: Sampling,
        draws: Draws,
        mark: Mark,
    ) -> DraftTree:
        """Tokens drawn from q; as `Draft.propose_sampled`."""
        if isinstance(tree, FixedTree):
            return build_sampled_fixed(root, self, tree, sampling, draws, mark)
        return build_sampled(root, self, tree, sampling, draws, mark)

    @abstractmethod
    def root_logits(self) -> torch.Tensor:
        """As `Stepper.root_logits`; starts a new tree."""

    @abstractmethod
    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        """As `Stepper.step`."""


def likely_tree(root: int, stepper: Stepper, tree: TreeShape | FixedTree, mark: Mark) -> DraftTree:
    """The stepper's most likely tokens below `root`; as `Draft.propose`."""
    if isinstance(tree, FixedTree):
        return build_fixed(root, stepper, tree, mark)
    return build_dynamic(root, stepper, tree, mark)
