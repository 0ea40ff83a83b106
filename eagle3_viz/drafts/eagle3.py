"""The EAGLE-3 draft: one forward, with every switch of the layouts in the wild (FORMATS.md 1)."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch.nn.functional import embedding

from eagle3_viz.config import Method
from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.drafts.checkpoints import CheckpointError, read_eagle3
from eagle3_viz.drafts.feature_draft import FeatureDraft, blocks_of, fc_of, stack_of
from eagle3_viz.layer_memory import Memory
from eagle3_viz.llama_block import Angles, norms_of
from eagle3_viz.llama_stack import Entering
from eagle3_viz.projection import Projection
from eagle3_viz.target import TargetModel


class Eagle3Draft(FeatureDraft):
    """Reads the target's taps through fc, has a head of its own over the draft vocabulary."""

    methods: tuple[Method, ...] = ("eagle3",)

    def __init__(self, weights: Eagle3Weights, target: TargetModel) -> None:
        boundaries = weights.architecture.boundaries or target.default_boundaries
        refuse_other_target(weights.architecture, target, boundaries)
        self.architecture = arch = weights.architecture
        offsets = weights.d2t.to(target.device)
        ids = torch.arange(len(offsets), device=target.device) + offsets
        super().__init__(arch, target, boundaries, ids, arch.sliding_window)
        tensors = {
            name: tensor.to(self.device, self.dtype) for name, tensor in weights.tensors.items()
        }
        self._embedding = tensors.pop("embed_tokens.weight", target.embedding.detach())
        self._head = Projection([tensors.pop("lm_head.weight", target.head.detach())])
        self._fc = fc_of(tensors)
        self._blocks = blocks_of(arch, tensors)
        self._stack = stack_of(self._blocks)
        self._norms = norms_of(tensors, arch.rms_norm_eps)

    @classmethod
    def load(cls, folder: Path, target: TargetModel) -> Eagle3Draft:
        """Read a draft folder for `target`. Raises CheckpointError when it does not fit."""
        return cls(read_eagle3(folder), target)

    @property
    def parameters(self) -> int:
        """Trained parameters, without an embedding or head that belongs to the target."""
        return sum(math.prod(shape) for shape in self.architecture.tensor_shapes().values())

    @property
    def projections(self) -> list[Projection]:
        """fc, and those of a level."""
        return [self._fc, *self.level_projections]

    @property
    def level_projections(self) -> list[Projection]:
        """Those of the layers and the head: a level reads states that went through fc before."""
        own = [product for block in self._blocks for product in block.projections]
        return [*own, self._head]

    def read(self, features: torch.Tensor) -> torch.Tensor:
        """g [m, H] from taps [m, K * d]."""
        arch, x = self.architecture, features
        if arch.norm_before_fc:
            x = self._norms["input_norm"](x)
        if arch.fc_norm:
            parts = x.chunk(arch.num_taps, dim=-1)
            normed = [self._norms[f"fc_norm.{tap}"](part) for tap, part in enumerate(parts)]
            x = torch.cat(normed, dim=-1)
        return self._fc(x)

    def forward(
        self,
        stream: torch.Tensor,
        ids: torch.Tensor,
        angles: Angles,
        memory: Memory,
    ) -> torch.Tensor:
        """Output of the last layer before the final norm [m, H]; as `FeatureDraft.forward`."""
        arch, g, x = self.architecture, stream[None], embedding(ids, self._embedding)[None]
        norms = self._blocks[0].norms
        normed = norms["hidden_norm"](g)
        residual = normed if arch.norm_before_residual else g
        inputs = torch.cat([norms["input_layernorm"](x), normed], dim=-1)
        g, _ = memory.over(self._stack, Entering(residual, inputs, angles))
        if arch.norm_output:
            # Feedback and head both read the normed state: the head's own norm is this one.
            return self._norms["norm"](g)[0]
        return g[0]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [m, DV], float32, of outputs [m, H]."""
        arch = self.architecture
        if arch.final_norm and not arch.norm_output:
            hidden = self._norms["norm"](hidden)
        return self._head(hidden).float()


def refuse_other_target(
    arch: Eagle3Architecture, target: TargetModel, boundaries: tuple[int, ...]
) -> None:
    """Raise CheckpointError when the draft was made for another target than `target`."""
    if arch.target_hidden_size != target.hidden_size:
        raise CheckpointError(
            f"the draft reads features of width {arch.target_hidden_size}, this target has "
            f"{target.hidden_size}: it was trained for another target"
        )
    if arch.vocab_size != target.vocab_size:
        raise CheckpointError(
            f"the draft's target has {arch.vocab_size} tokens, this target has "
            f"{target.vocab_size}: it was trained for another target"
        )
    if arch.hidden_size != target.hidden_size and not arch.own_embedding:
        raise CheckpointError(
            f"the draft is {arch.hidden_size} wide, its target {target.hidden_size}, and it has "
            "no embedding of its own"
        )
    if len(set(boundaries)) != arch.num_taps:
        raise CheckpointError(
            f"the draft reads {arch.num_taps} taps; this target gives {len(set(boundaries))} "
            f"distinct ones (boundaries {boundaries}); EAGLE-3 needs a target of 7 layers or more"
        )
