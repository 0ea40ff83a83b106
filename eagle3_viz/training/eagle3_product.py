"""EAGLE-3 as a product: sizes from the target, start, vocabulary, export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.drafts.checkpoints import read_eagle3
from eagle3_viz.target import TargetModel
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.batches import Source
from eagle3_viz.training.draft_provenance import Provenance
from eagle3_viz.training.eagle3_objective import HEAD, Eagle3Objective, fresh_eagle3
from eagle3_viz.training.export import export_eagle3
from eagle3_viz.training.features import FeatureStore
from eagle3_viz.training.recipe import Product, Recipe
from eagle3_viz.training.sizes import head_dim, rope_theta, token_settings
from eagle3_viz.training.standardisation import feature_scale
from eagle3_viz.training.vocabulary import DraftVocabulary


def eagle3_product(
    recipe: Recipe,
    target: TargetModel,
    vocabulary: DraftVocabulary,
    store: FeatureStore,
    compute: torch.dtype,
) -> Product:
    """An EAGLE-3 draft. Raises DataError or CheckpointError for a start that does not fit."""
    top = recipe.taps == "top"
    source: Source = "hidden" if top else "taps"
    scale = feature_scale(store, source).repeat(len(target.taps.boundaries) if top else 1)
    objective = Eagle3Objective(
        _start(recipe, target, vocabulary, scale),
        target.embedding.detach().to(compute),
        target.head.detach().to(compute),
        scale.to(target.device),
        recipe.unroll,
        source,
    )

    settings = token_settings(target)

    def publish(folder: Path, provenance: Provenance) -> None:
        export_eagle3(
            objective.weights(),
            folder,
            provenance,
            licence=recipe.licence,
            config=settings,
            overwrite=True,
        )

    # The layout has no way to say that the top state stands for every tap.
    boundaries = () if top else target.taps.boundaries
    return Product(objective, vocabulary, boundaries, compute, None if top else publish)


def _start(
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


def architecture_for(target: TargetModel, vocabulary: int) -> Eagle3Architecture:
    """One layer of the target's own sizes."""
    config = target.config
    return Eagle3Architecture(
        hidden_size=target.hidden_size,
        target_hidden_size=target.hidden_size,
        intermediate_size=config.intermediate_size,
        num_layers=1,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=head_dim(target),
        vocab_size=target.vocab_size,
        draft_vocab_size=vocabulary,
        num_taps=len(target.taps.boundaries),
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=rope_theta(target),
    )


def with_vocabulary(
    weights: Eagle3Weights,
    vocabulary: DraftVocabulary,
    target_head: torch.Tensor,  # [V, H]
) -> Eagle3Weights:
    """The same draft with another vocabulary; tokens of both keep their head row.

    A new row is what the linear map that best turns the target's rows into the trained ones, by
    least squares over the shared tokens, makes of the target's row. The target's row itself would
    not do: the draft's states have another scale and basis, and untrained rows would win.
    """
    old = DraftVocabulary.from_d2t(weights.d2t, weights.architecture.vocab_size)
    rows = target_head[vocabulary.ids].float().cpu()
    places = old.draft_ids[vocabulary.ids]
    shared = places >= 0
    trained = weights.tensors[HEAD].float()[places[shared]]
    head = rows @ torch.linalg.lstsq(rows[shared], trained, driver="gelsd").solution
    head[shared] = trained
    architecture = replace(weights.architecture, draft_vocab_size=len(vocabulary))
    return Eagle3Weights(architecture, {**weights.tensors, HEAD: head}, vocabulary.d2t)


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
