"""EAGLE-3's objective: soft cross-entropy at every step of the training-time test."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict

import torch
from torch.nn.functional import rms_norm

from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.training.batches import Batch, Source
from eagle3_viz.training.losses import restricted_distribution, soft_cross_entropy
from eagle3_viz.training.objective import Outcome
from eagle3_viz.training.unroll import unroll
from eagle3_viz.training.vocabulary import DraftVocabulary

STEP_DECAY = 0.8  # weight of step k is STEP_DECAY**k (REFERENCE.md g)
HEAD_RATE = 0.3  # the head starts from the target's rows and moves less than the rest
FC, HEAD, NORM = "fc.weight", "lm_head.weight", "norm.weight"


class Eagle3Objective:
    """Trains a draft of the published architecture; one step is "no training-time test".

    The published code unrolls 7 steps from a random head; how many steps, and the head's start
    from the target's rows at HEAD_RATE, are what served a small draft on little text best.

    The loss at step k is STEP_DECAY**k times the cross-entropy of q against p, both over the
    draft vocabulary, at anchors where p's arg-max lies in it (MATH.md 3). `scale` [K * d] is what
    the taps are divided by before fc.
    """

    def __init__(
        self,
        weights: Eagle3Weights,
        embeddings: torch.Tensor,  # [V, H], the target's, in the compute format
        target_head: torch.Tensor,  # [V, H], the target's
        scale: torch.Tensor,  # float32 [K * d]
        steps: int,
        source: Source = "taps",
    ) -> None:
        self.steps, self.evaluation_steps, self.source = steps, steps + 1, source
        self.architecture = weights.architecture
        self.vocabulary = DraftVocabulary.from_d2t(weights.d2t, weights.architecture.vocab_size)
        self._embeddings, self._scale = embeddings, scale.to(embeddings)
        self._target_rows = target_head[self.vocabulary.ids].contiguous()
        self._draft_ids = self.vocabulary.draft_ids.to(embeddings.device)
        # Folding in what the features are divided by, rounding included, keeps the function.
        self._fold = self._scale.float()
        self._parameters = {
            name: tensor.to(embeddings.device, torch.float32, copy=True)
            for name, tensor in weights.tensors.items()
        }
        self._parameters[FC] *= self._fold

    def parameters(self) -> dict[str, torch.Tensor]:
        """Trained tensors by their canonical name, float32; fc reads scaled taps."""
        return self._parameters

    def rate(self, name: str) -> float:
        """Factor on the learning rate: the head moves slower."""
        return HEAD_RATE if name == HEAD else 1.0

    def identity(self) -> dict[str, object]:
        """Objective, unroll steps, sizes and vocabulary of the draft."""
        return {
            "objective": "eagle3" if self.steps > 1 else "eagle3-no-ttt",
            "unroll": self.steps,
            "source": self.source,
            "architecture": asdict(self.architecture),
            "vocabulary": hashlib.sha256(self.vocabulary.ids.numpy().tobytes()).hexdigest(),
        }

    def outcome(
        self,
        tensors: Mapping[str, torch.Tensor],
        batch: Batch,
        generator: torch.Generator | None,
    ) -> Outcome:
        """The weighted loss of `batch`, unrolled for as many steps as it was packed for."""
        arch: Eagle3Architecture = self.architecture
        steps = len(batch.valid)
        copies = len(self._scale) // batch.features.shape[1]  # one tap in place of several
        features = batch.features.repeat(1, copies).to(self._scale) / self._scale
        outputs = unroll(arch, tensors, self._embeddings, features, batch, steps)
        stacked = torch.cat(outputs)
        read = rms_norm(stacked, (arch.hidden_size,), tensors[NORM], arch.rms_norm_eps)
        p = restricted_distribution(batch.hidden.to(self._target_rows), self._target_rows)
        wanted = self._draft_ids[batch.top][batch.targets]
        counted = batch.valid & (wanted >= 0)
        wide = torch.promote_types(read.dtype, torch.float32)
        decay = STEP_DECAY ** torch.arange(steps, device=wanted.device, dtype=wide)
        weights = (counted * decay[:, None]).flatten()
        loss, _, tops = soft_cross_entropy(read, tensors[HEAD], p, batch.targets.flatten(), weights)
        correct = counted & (tops.view_as(wanted) == wanted)
        return Outcome(loss, float(loss.detach()) / wanted.shape[1], correct, batch.valid)

    def weights(self) -> Eagle3Weights:
        """The trained draft, fc folded back to raw taps, float32 on the CPU."""
        tensors = {name: tensor.detach().cpu().clone() for name, tensor in self._parameters.items()}
        tensors[FC] /= self._fold.cpu()
        return Eagle3Weights(self.architecture, tensors, self.vocabulary.d2t)


def fresh_eagle3(
    architecture: Eagle3Architecture,
    vocabulary: DraftVocabulary,
    target_head: torch.Tensor,  # [V, H]
    scale: torch.Tensor,  # [K * d]
    seed: int,
) -> Eagle3Weights:
    """Weights to start from: random, the head from the target's rows where it has their width."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in architecture.tensor_shapes().items():
        if len(shape) == 1:
            tensors[name] = torch.ones(shape)
        else:
            std = shape[-1] ** -0.5
            tensors[name] = torch.randn(shape, generator=generator) * std
    tensors[FC] /= scale.cpu()
    if target_head.shape[1] == architecture.hidden_size:
        tensors[HEAD] = target_head[vocabulary.ids].float().cpu()
    return Eagle3Weights(architecture, tensors, vocabulary.d2t)
