"""Drafts that are bad on purpose: they must change the speed and nothing else (MATH.md 5.4)."""

from __future__ import annotations

import torch

from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.stepped import SteppedDraft

NOISE_STREAM = 1 << 32  # apart from the seeds of `Draws`: proposals must not know the uniforms


class _TurnedDraft(SteppedDraft):
    """A real draft whose logits are turned into others before anything is proposed."""

    def __init__(self, draft: Draft) -> None:
        if not isinstance(draft, SteppedDraft):
            raise ValueError("a draft without a distribution has nothing to turn around")
        self._draft: Draft = draft
        self._stepper: SteppedDraft = draft
        self.vocabulary_size = draft.vocabulary_size
        self.target_ids = draft.target_ids
        self.boundaries, self.methods = draft.boundaries, draft.methods

    def turn(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits to propose from, [..., DV] float32."""
        raise NotImplementedError

    def start(self, first: int) -> None:
        """A new text begins."""
        self._draft.start(first)

    def extend(self, features: torch.Tensor, tokens: list[int]) -> None:
        """Take over verified positions; as `Draft.extend`."""
        self._draft.extend(features, tokens)

    def root_logits(self) -> torch.Tensor:
        """Turned logits [DV] after the root."""
        return self.turn(self._stepper.root_logits())

    def step(self, draft_ids: torch.Tensor, parents: torch.Tensor, level: int) -> torch.Tensor:
        """Turned logits [m, DV]; as `Stepper.step`."""
        return self.turn(self._stepper.step(draft_ids, parents, level))


class LeastLikelyDraft(_TurnedDraft):
    """Always proposes what the real draft believes in least."""

    def turn(self, logits: torch.Tensor) -> torch.Tensor:
        """The order of the tokens reversed."""
        return -logits


class RandomDraft(_TurnedDraft):
    """Knows nothing: every distribution is noise from a seeded generator."""

    def __init__(self, draft: Draft, seed: int = 0) -> None:
        super().__init__(draft)
        self._generator = torch.Generator().manual_seed(seed + NOISE_STREAM)

    def turn(self, logits: torch.Tensor) -> torch.Tensor:
        """Gaussian noise, spread like logits."""
        noise = torch.randn(logits.shape, generator=self._generator)
        return 3.0 * noise.to(logits.device)
