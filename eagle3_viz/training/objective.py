"""What a trainer asks of an objective: parameters, and the loss of a packed batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from eagle3_viz.training.batches import Batch, Source


@dataclass(frozen=True)
class Outcome:
    """Loss and accuracy of one micro-batch with R anchors at S steps.

    loss      scalar with gradient: the sum over anchors and steps, weighted.
    mean      the same, per anchor; a number to plot.
    correct   bool [S, R], draft arg-max = target arg-max (False for tokens the draft lacks).
    valid     bool [S, R], what is counted.
    """

    loss: torch.Tensor
    mean: float
    correct: torch.Tensor
    valid: torch.Tensor


class Objective(Protocol):
    """A draft in training. Tensors are held in float32 and handed back in the compute format."""

    steps: int  # unroll steps of a training batch
    evaluation_steps: int  # of held-out text: one more where the draft can go on from its outputs
    source: Source  # what batches hold as features

    def parameters(self) -> dict[str, torch.Tensor]:
        """Trained tensors by name, float32."""

    def rate(self, name: str) -> float:
        """Factor on the learning rate of a parameter."""

    def identity(self) -> dict[str, object]:
        """What a checkpoint of this objective must agree on, plain JSON values."""

    def outcome(
        self, tensors: Mapping[str, torch.Tensor], batch: Batch, generator: torch.Generator | None
    ) -> Outcome:
        """Loss of a batch under `tensors`, the parameters in the compute format.

        `generator` draws whatever noise the objective adds; None adds none (evaluation).
        """
