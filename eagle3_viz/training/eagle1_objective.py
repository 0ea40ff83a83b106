"""EAGLE-1's objective: the target's next final state and, through its LM head, its next token."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict

import torch
from torch.nn.functional import smooth_l1_loss

from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture, Eagle1Weights
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.batches import Batch, Source
from eagle3_viz.training.eagle1_unroll import unroll_eagle1
from eagle3_viz.training.losses import TargetDistribution, soft_cross_entropy
from eagle3_viz.training.objective import Outcome
from eagle3_viz.training.vocabulary import DraftVocabulary

FEATURE_WEIGHT, TOKEN_WEIGHT = 1.0, 0.1  # of the two losses (REFERENCE.md g)
NOISE, NOISE_LENGTH = 0.2, 512  # width of the noise on the features of a text of NOISE_LENGTH


class Eagle1Objective:
    """Trains a draft of the published EAGLE-1 layout with the published loss (REFERENCE.md c, g).

    Anchors, batches and optimizer are those of all objectives here, so that a comparison of two
    changes nothing else.

    The loss of an anchor is FEATURE_WEIGHT times the smooth L1 distance, mean over dimensions, to
    the target's state at the token fed, plus TOKEN_WEIGHT times the cross-entropy of q against p.
    The LM head is the target's and stays as it is. `vocabulary` restricts p, q and the arg-max as
    `Eagle3Objective` does, so that two heads can be compared over the same tokens; it is no part
    of the draft.
    """

    steps, evaluation_steps = 1, 2
    source: Source = "hidden"

    def __init__(
        self,
        weights: Eagle1Weights,
        embeddings: torch.Tensor,  # [V, d], the target's, in the compute format
        target_head: torch.Tensor,  # [V, d], the target's
        vocabulary: DraftVocabulary | None = None,
    ) -> None:
        """Raises DataError for an architecture that is not trained here."""
        self.architecture = arch = weights.architecture
        if arch.num_layers != 1 or arch.attention_bias or arch.own_embedding:
            raise DataError(
                "an EAGLE-1 draft is trained with one layer, without attention biases and with the "
                f"target's embedding; found {arch}"
            )
        self.vocabulary = vocabulary
        self._embeddings, device = embeddings, embeddings.device
        kept = vocabulary or DraftVocabulary.full(arch.vocab_size)
        self._head = target_head[kept.ids].contiguous() if vocabulary else target_head
        self._head = self._head.detach().to(embeddings)
        self._draft_ids = kept.draft_ids.to(device)
        self._parameters = {
            name: tensor.to(device, torch.float32, copy=True)
            for name, tensor in weights.tensors.items()
        }

    def parameters(self) -> dict[str, torch.Tensor]:
        """Trained tensors by their canonical name, float32."""
        return self._parameters

    def rate(self, name: str) -> float:
        """Factor on the learning rate: all move alike."""
        return 1.0

    def identity(self) -> dict[str, object]:
        """Objective, sizes of the draft and the tokens it is trained over."""
        ids = None if self.vocabulary is None else self.vocabulary.ids.numpy().tobytes()
        return {
            "objective": "eagle1",
            "unroll": self.steps,
            "source": self.source,
            "architecture": asdict(self.architecture),
            "vocabulary": "all" if ids is None else hashlib.sha256(ids).hexdigest(),
        }

    def outcome(
        self,
        tensors: Mapping[str, torch.Tensor],
        batch: Batch,
        generator: torch.Generator | None,
    ) -> Outcome:
        """The loss of `batch`, unrolled for as many steps as it was packed for."""
        features = batch.features.to(self._embeddings)
        if generator is not None:
            features = features + feature_noise(batch, generator).to(features)
        steps = len(batch.valid)
        outputs = unroll_eagle1(
            self.architecture, tensors, self._embeddings, features, batch, steps
        )
        read = torch.cat(outputs)
        hidden, targets = batch.hidden.to(read), batch.targets.flatten()
        wanted = self._draft_ids[batch.top][batch.targets]
        counted = batch.valid & (wanted >= 0)
        wide = torch.promote_types(read.dtype, torch.float32)
        p = TargetDistribution(hidden, self._head)
        weights = counted.flatten().to(wide)
        token_loss, _, tops = soft_cross_entropy(read, self._head, p, targets, weights)
        distance = smooth_l1_loss(read.to(wide), hidden[targets].to(wide), reduction="none").mean(1)
        feature_loss = (distance * batch.valid.flatten()).sum()
        loss = FEATURE_WEIGHT * feature_loss + TOKEN_WEIGHT * token_loss
        correct = counted & (tops.view_as(wanted) == wanted)
        return Outcome(loss, float(loss.detach()) / wanted.shape[1], correct, batch.valid)

    def weights(self) -> Eagle1Weights:
        """The trained draft, float32 on the CPU."""
        tensors = {name: tensor.detach().cpu().clone() for name, tensor in self._parameters.items()}
        return Eagle1Weights(self.architecture, tensors)


def feature_noise(batch: Batch, generator: torch.Generator) -> torch.Tensor:
    """Uniform noise [N, d], float32: narrower the longer the conversation (REFERENCE.md g)."""
    noise = torch.rand(batch.features.shape, generator=generator, device=generator.device) - 0.5
    for span in batch.spans:
        tokens = span.length + 2  # the last two are no positions
        noise[span.first : span.first + span.length] *= NOISE * NOISE_LENGTH / tokens
    return noise


def fresh_eagle1(architecture: Eagle1Architecture, seed: int) -> Eagle1Weights:
    """Random weights to start from; norms are 1, biases 0."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in architecture.tensor_shapes().items():
        if len(shape) == 2:
            tensors[name] = torch.randn(shape, generator=generator) * shape[1] ** -0.5
        else:
            tensors[name] = torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)
    return Eagle1Weights(architecture, tensors)
