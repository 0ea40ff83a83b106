"""From a recipe to a draft in training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture, Eagle1Weights, read_eagle1
from eagle3_viz.target import TargetModel
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.conversations import Conversation
from eagle3_viz.training.draft_provenance import Provenance
from eagle3_viz.training.eagle1_objective import Eagle1Objective, fresh_eagle1
from eagle3_viz.training.eagle3_product import eagle3_product
from eagle3_viz.training.export import export_eagle1, export_independent
from eagle3_viz.training.features import FeatureStore
from eagle3_viz.training.independent_objective import (
    IndependentObjective,
    Sizes,
    fresh_independent,
)
from eagle3_viz.training.recipe import Product, Recipe
from eagle3_viz.training.sizes import head_dim, rope_theta, token_settings
from eagle3_viz.training.vocabulary import DraftVocabulary, choose_vocabulary

HEAD_SIZE = 64  # of the independent model


def make_product(
    recipe: Recipe,
    target: TargetModel,
    conversations: Sequence[Conversation],
    store: FeatureStore,
) -> Product:
    """What `recipe` trains. Raises DataError or CheckpointError where the start does not fit."""
    if getattr(target.config, "final_logit_softcapping", None):
        raise DataError(
            "this target squashes its logits (final_logit_softcapping), which training does not "
            "follow: the draft would imitate a sharper distribution"
        )
    compute = torch.bfloat16 if target.dtype == torch.bfloat16 else torch.float32
    if recipe.objective == "independent":
        return _independent(recipe, target, compute)
    vocabulary = _vocabulary(recipe, target, conversations)
    if recipe.objective == "eagle1":
        return _eagle1(recipe, target, vocabulary, compute)
    return eagle3_product(recipe, target, vocabulary, store, compute)


def _vocabulary(
    recipe: Recipe, target: TargetModel, conversations: Sequence[Conversation]
) -> DraftVocabulary:
    if recipe.vocabulary is None or recipe.vocabulary >= target.vocab_size:
        return DraftVocabulary.full(target.vocab_size)
    return choose_vocabulary(
        conversations, recipe.vocabulary, target.vocab_size, always=target.end_of_sequence
    )


def _eagle1(
    recipe: Recipe, target: TargetModel, vocabulary: DraftVocabulary, compute: torch.dtype
) -> Product:
    if recipe.taps == "three":
        raise DataError("an EAGLE-1 draft reads the target's final state: use --taps top")
    weights = _eagle1_start(recipe, target)
    objective = Eagle1Objective(
        weights,
        target.embedding.detach().to(compute),
        target.head.detach().to(compute),
        None if len(vocabulary) == target.vocab_size else vocabulary,
    )

    settings = token_settings(target)

    def publish(folder: Path, provenance: Provenance) -> None:
        export_eagle1(
            objective.weights(),
            folder,
            provenance,
            licence=recipe.licence,
            config=settings,
            overwrite=True,
        )

    return Product(objective, vocabulary, (), compute, publish)


def _eagle1_start(recipe: Recipe, target: TargetModel) -> Eagle1Weights:
    config = target.config
    architecture = Eagle1Architecture(
        hidden_size=target.hidden_size,
        intermediate_size=config.intermediate_size,
        num_layers=1,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=head_dim(target),
        vocab_size=target.vocab_size,
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=rope_theta(target),
    )
    if recipe.start is None:
        return fresh_eagle1(architecture, recipe.seed)
    weights = read_eagle1(recipe.start)
    if weights.architecture != architecture:
        raise DataError(
            f"the start draft is {weights.architecture}, this target's would be {architecture}"
        )
    return weights


def _independent(recipe: Recipe, target: TargetModel, compute: torch.dtype) -> Product:
    if recipe.start is not None:
        raise DataError("an independent draft starts fresh: leave --start out")
    if recipe.width > target.hidden_size:
        raise DataError(
            f"an independent draft is at most as wide as the target, {target.hidden_size}; found "
            f"{recipe.width}"
        )
    heads = max(1, recipe.width // HEAD_SIZE)
    sizes = Sizes(
        hidden_size=recipe.width,
        intermediate_size=-(-recipe.width * 8 // (3 * 64)) * 64,
        num_hidden_layers=recipe.layers,
        num_attention_heads=heads,
        num_key_value_heads=1,
    )
    model = fresh_independent(target.config, target.embedding, recipe.seed, sizes)
    objective = IndependentObjective(model, target.head.detach().to(compute))

    def publish(folder: Path, provenance: Provenance) -> None:
        export_independent(
            objective.model(), None, folder, provenance, licence=recipe.licence, overwrite=True
        )

    return Product(objective, DraftVocabulary.full(target.vocab_size), (), compute, publish)
