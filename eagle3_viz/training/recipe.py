"""What to train: objective, features, sizes and start, turned into an objective for the trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.drafts.checkpoints import read_eagle3
from eagle3_viz.target import TargetModel
from eagle3_viz.training.batches import Source
from eagle3_viz.training.conversations import Conversation, DataError
from eagle3_viz.training.draft_provenance import Objective as ObjectiveName
from eagle3_viz.training.draft_provenance import Provenance
from eagle3_viz.training.eagle3_objective import HEAD, Eagle3Objective, fresh_eagle3
from eagle3_viz.training.export import export_eagle3
from eagle3_viz.training.features import FeatureStore
from eagle3_viz.training.objective import Objective
from eagle3_viz.training.standardisation import feature_scale
from eagle3_viz.training.vocabulary import DraftVocabulary, choose_vocabulary

Taps = Literal["three", "top"]
Publish = Callable[[Path, Provenance], None]


@dataclass(frozen=True)
class Recipe:
    """A draft to train.

    vocabulary  tokens an EAGLE-3 draft can propose.
    unroll      steps of the training-time test; "eagle3-no-ttt" has one.
    taps        "three" is EAGLE-3; "top" puts the target's final state in place of each tap, so
                that nothing else changes, the number of parameters included.
    start       folder of a draft whose weights are the start; None starts fresh.
    licence     SPDX identifier for the card.
    """

    objective: ObjectiveName
    vocabulary: int
    unroll: int
    taps: Taps
    start: Path | None
    seed: int
    licence: str

    def settings(self) -> dict[str, Any]:
        """What a person needs to train the same again, plain JSON values."""
        steps = 1 if self.objective == "eagle3-no-ttt" else self.unroll
        return {"unroll": steps, "taps": self.taps, "vocabulary": self.vocabulary}


@dataclass(frozen=True)
class Product:
    """A draft in the making.

    vocabulary  tokens it can propose.
    boundaries  taps of the target that it reads.
    compute     format of forward and backward.
    publish     writes it as it is into a folder; None where no layout can hold it.
    """

    objective: Objective
    vocabulary: DraftVocabulary
    boundaries: tuple[int, ...]
    compute: torch.dtype
    publish: Publish | None


def make_product(
    recipe: Recipe,
    target: TargetModel,
    conversations: Sequence[Conversation],
    store: FeatureStore,
) -> Product:
    """What `recipe` trains. Raises DataError or CheckpointError where the start does not fit."""
    compute = torch.bfloat16 if target.dtype == torch.bfloat16 else torch.float32
    return _eagle3(recipe, target, conversations, store, compute)


def _eagle3(
    recipe: Recipe,
    target: TargetModel,
    conversations: Sequence[Conversation],
    store: FeatureStore,
    compute: torch.dtype,
) -> Product:
    vocabulary = choose_vocabulary(
        conversations, recipe.vocabulary, target.vocab_size, always=target.end_of_sequence
    )
    top = recipe.taps == "top"
    source: Source = "hidden" if top else "taps"
    scale = feature_scale(store, source).repeat(len(target.taps.boundaries) if top else 1)
    objective = Eagle3Objective(
        _eagle3_start(recipe, target, vocabulary, scale),
        target.embedding.detach().to(compute),
        target.head.detach().to(compute),
        scale.to(target.device),
        recipe.settings()["unroll"],
        source,
    )

    def publish(folder: Path, provenance: Provenance) -> None:
        export_eagle3(
            objective.weights(),
            folder,
            provenance,
            licence=recipe.licence,
            config=_token_settings(target),
            overwrite=True,
        )

    # The layout has no way to say that the top state stands for every tap.
    boundaries = () if top else target.taps.boundaries
    return Product(objective, vocabulary, boundaries, compute, None if top else publish)


def _eagle3_start(
    recipe: Recipe,
    target: TargetModel,
    vocabulary: DraftVocabulary,
    scale: torch.Tensor,
) -> Eagle3Weights:
    head = target.head.detach()
    if recipe.start is None:
        architecture = architecture_for(target, len(vocabulary))
        return fresh_eagle3(architecture, vocabulary, head, scale, recipe.seed)
    weights = read_eagle3(recipe.start)
    _refuse_other_shape(weights.architecture, target)
    return with_vocabulary(weights, vocabulary, head)


def _token_settings(target: TargetModel) -> dict[str, Any]:
    """Keys of config.json that the weights do not decide."""
    config = target.config
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "max_position_embeddings")
    found = {name: getattr(config, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def architecture_for(target: TargetModel, vocabulary: int) -> Eagle3Architecture:
    """One layer of the target's own sizes."""
    config = target.config
    heads = config.num_attention_heads
    return Eagle3Architecture(
        hidden_size=target.hidden_size,
        target_hidden_size=target.hidden_size,
        intermediate_size=config.intermediate_size,
        num_layers=1,
        num_heads=heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or target.hidden_size // heads,
        vocab_size=target.vocab_size,
        draft_vocab_size=vocabulary,
        num_taps=len(target.taps.boundaries),
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=_rope_theta(config),
    )


def with_vocabulary(
    weights: Eagle3Weights,
    vocabulary: DraftVocabulary,
    target_head: torch.Tensor,  # [V, H]
) -> Eagle3Weights:
    """The same draft with another vocabulary: shared tokens keep their head row, new ones take the
    target's."""
    old = DraftVocabulary.from_d2t(weights.d2t, weights.architecture.vocab_size)
    head = target_head[vocabulary.ids].float().cpu()
    kept = old.draft_ids[vocabulary.ids]
    head[kept >= 0] = weights.tensors[HEAD].float()[kept[kept >= 0]]
    architecture = replace(weights.architecture, draft_vocab_size=len(vocabulary))
    return Eagle3Weights(architecture, {**weights.tensors, HEAD: head}, vocabulary.d2t)


def _rope_theta(config: Any) -> float:
    """The target's base, so that positions mean the same to both."""
    parameters = getattr(config, "rope_parameters", None) or {}
    return float(parameters.get("rope_theta") or getattr(config, "rope_theta", None) or 10000.0)


def _refuse_other_shape(found: Eagle3Architecture, target: TargetModel) -> None:
    taps = len(target.taps.boundaries)
    if (found.target_hidden_size, found.vocab_size, found.num_taps) != (
        target.hidden_size,
        target.vocab_size,
        taps,
    ):
        raise DataError(
            f"the start draft reads {found.num_taps} taps of width {found.target_hidden_size} and "
            f"{found.vocab_size} tokens; this target gives {taps} of width {target.hidden_size} "
            f"and {target.vocab_size} tokens"
        )
    if found.own_embedding or found.hidden_size != target.hidden_size:
        raise DataError("a start draft with an embedding of its own cannot be trained on here")
