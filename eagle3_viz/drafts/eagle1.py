"""The EAGLE-1 head, which EAGLE-2 drafts with as well (REFERENCE.md c, FORMATS.md 3A)."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch.nn.functional import embedding

from eagle3_viz.config import Method
from eagle3_viz.drafts.draft_folder import CheckpointError
from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture, Eagle1Weights, read_eagle1
from eagle3_viz.drafts.feature_draft import FeatureDraft, blocks_of, fc_of, stack_of
from eagle3_viz.layer_memory import Memory
from eagle3_viz.llama_block import Angles
from eagle3_viz.llama_stack import Entering
from eagle3_viz.projection import Projection
from eagle3_viz.target import TargetModel


class Eagle1Draft(FeatureDraft):
    """Predicts the target's next final state; the target's own LM head turns it into tokens.

    fc joins embedding and feature, layer 0 has no norm before its attention, and there is no norm
    behind the last layer: the output stands for a state that was normed already.
    """

    methods: tuple[Method, ...] = ("eagle1", "eagle2")

    def __init__(self, weights: Eagle1Weights, target: TargetModel) -> None:
        refuse_other_target(weights.architecture, target)
        self.architecture = arch = weights.architecture
        ids = torch.arange(target.vocab_size, device=target.device)
        super().__init__(arch, target, (target.final_boundary,), ids)
        tensors = {
            name: tensor.to(self.device, self.dtype) for name, tensor in weights.tensors.items()
        }
        self._embedding = tensors.pop("embed_tokens.weight", target.embedding.detach())
        self._target = target
        self._fc = fc_of(tensors)
        self._blocks = blocks_of(arch, tensors)
        self._stack = stack_of(self._blocks)

    @classmethod
    def load(cls, folder: Path, target: TargetModel) -> Eagle1Draft:
        """Read a draft folder for `target`. Raises CheckpointError when it does not fit."""
        return cls(read_eagle1(folder), target)

    @property
    def parameters(self) -> int:
        """Trained parameters, without embedding and head of the target."""
        return sum(math.prod(shape) for shape in self.architecture.tensor_shapes().values())

    @property
    def projections(self) -> list[Projection]:
        """fc, those of the layers, and the target's head."""
        own = [product for block in self._blocks for product in block.projections]
        return [self._fc, *own, self._target.head_projection]

    def read(self, features: torch.Tensor) -> torch.Tensor:
        """The final states [m, d] as they are."""
        return features

    def forward(
        self,
        stream: torch.Tensor,
        ids: torch.Tensor,
        angles: Angles,
        memory: Memory,
    ) -> torch.Tensor:
        """The predicted final states [m, d]; as `FeatureDraft.forward`."""
        joined = torch.cat([embedding(ids, self._embedding), stream], dim=-1)
        x = self._fc(joined)[None]
        behind, _ = memory.over(self._stack, Entering(x, x, angles))
        return behind[0]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [m, V], float32, of predicted states [m, d]."""
        return self._target.logits(hidden).float()


def refuse_other_target(arch: Eagle1Architecture, target: TargetModel) -> None:
    """Raise CheckpointError when the draft was made for another target than `target`."""
    for what, found, expected in (
        ("states of width", arch.hidden_size, target.hidden_size),
        ("a vocabulary of", arch.vocab_size, target.vocab_size),
    ):
        if found != expected:
            raise CheckpointError(
                f"the draft reads {what} {found}, this target has {expected}: it was trained for "
                "another target"
            )
