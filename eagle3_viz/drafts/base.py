"""What the decoding loop asks of a draft."""

from __future__ import annotations

from typing import Protocol

import torch

from eagle3_viz.config import Method, Sampling, TreeShape
from eagle3_viz.fixed_tree import FixedTree
from eagle3_viz.sampling import Draws
from eagle3_viz.tree import DraftTree, Mark


class Draft(Protocol):
    """A draft model: keeps the state of verified positions, proposes trees beyond them.

    methods          names of the methods that draft with it.
    vocabulary_size  DV, tokens that it can propose.
    boundaries       states of the target that it reads (`Taps`), in their order; () for none.
    target_ids       int64 [DV], rising: the target token of each row of the draft's head.
    """

    methods: tuple[Method, ...]
    vocabulary_size: int
    boundaries: tuple[int, ...]

    @property
    def target_ids(self) -> torch.Tensor: ...

    def start(self, first: int) -> None:
        """Forget everything: a new text begins, with the token `first`."""

    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        """Take over verified positions.

        features [m, K * d]: the target's states at m consecutive positions; tokens [m]: for each
        the token after it (the last one is the root of the next tree).
        """

    def propose(self, root: int, tree: TreeShape | FixedTree, mark: Mark) -> DraftTree:
        """A tree below `root` of the draft's most likely tokens.

        Its top_k and ranks stay below vocabulary_size (`clipped`). `mark("draft")` is called after
        each forward, `mark("tree")` after the selection that follows it.
        """

    def propose_sampled(
        self,
        root: int,
        tree: TreeShape | FixedTree,
        sampling: Sampling,
        draws: Draws,
        mark: Mark,
    ) -> DraftTree:
        """A tree of tokens drawn from q, warped by `sampling` (MATH.md 1.3)."""
