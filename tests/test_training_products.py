"""What a recipe trains starts as it says, and what is published drafts as it was trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from eagle3_viz.config import TreeShape
from eagle3_viz.drafts.architecture import Eagle3Weights
from eagle3_viz.drafts.eagle1_checkpoint import read_eagle1
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.draft_provenance import Provenance
from eagle3_viz.training.eagle3_objective import FC, HEAD, Eagle3Objective
from eagle3_viz.training.eagle3_product import with_vocabulary
from eagle3_viz.training.features import FeatureStore, extract
from eagle3_viz.training.products import make_product
from eagle3_viz.training.recipe import Recipe
from eagle3_viz.training.vocabulary import DraftVocabulary
from tests.tiny_models import (
    random_ids,
    shared_target,
    tiny_architecture,
    tiny_target,
    tiny_weights,
)
from tests.tiny_training import random_conversations

CONVERSATIONS = random_conversations(12, seed=3)
EAGLE3 = Recipe("eagle3", 24, 3, "three", None, 0, "apache-2.0")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    folder = tmp_path_factory.mktemp("features")
    extract(shared_target(), CONVERSATIONS, folder, target_name="tiny")
    return FeatureStore(folder)


def provenance(objective: str) -> Provenance:
    return Provenance(
        objective=objective,  # type: ignore[arg-type]
        target="tiny",
        revision="1",
        chat_template_sha256="",
        boundaries=(),
        data_sha256="",
        conversations=12,
        response_tokens=1,
        training={},
        steps=1,
        token_passes=1,
        seconds=1,
    )


def eagle3(recipe: Recipe, store: FeatureStore) -> Eagle3Objective:
    objective = make_product(recipe, shared_target(), CONVERSATIONS, store).objective
    assert isinstance(objective, Eagle3Objective)
    return objective


def test_a_published_draft_drafts_what_the_trained_weights_draft(
    store: FeatureStore, tmp_path: Path
) -> None:
    target = shared_target()
    product = make_product(EAGLE3, target, CONVERSATIONS, store)
    objective = product.objective
    assert isinstance(objective, Eagle3Objective) and product.publish is not None
    with torch.no_grad():
        for tensor in objective.parameters().values():
            tensor += 0.05 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1))
    product.publish(tmp_path / "draft", provenance("eagle3"))
    trained = objective.weights()
    rounded = {name: t.bfloat16().float() for name, t in trained.tensors.items()}
    ids = random_ids(9, seed=4)
    features = target.prefill(ids).features
    trees = []
    for draft in (
        Eagle3Draft(replace(trained, tensors=rounded), target),
        Eagle3Draft.load(tmp_path / "draft", target),
    ):
        draft.extend(features, [*ids[1:], 5])
        trees.append(draft.propose(5, TreeShape(6, 2, 3), lambda name: None))
    assert torch.equal(trees[0].token, trees[1].token)
    assert torch.equal(trees[0].parent, trees[1].parent)


def test_training_weights_fold_back_to_raw_taps(store: FeatureStore, tmp_path: Path) -> None:
    product = make_product(EAGLE3, shared_target(), CONVERSATIONS, store)
    assert product.publish is not None
    product.publish(tmp_path / "draft", provenance("eagle3"))
    again = eagle3(replace(EAGLE3, start=tmp_path / "draft"), store)
    first = eagle3(EAGLE3, store)
    for name, tensor in again.parameters().items():
        torch.testing.assert_close(tensor, first.parameters()[name], rtol=2**-7, atol=1e-6)


def test_without_the_training_time_test_one_step_is_trained(store: FeatureStore) -> None:
    plain = eagle3(replace(EAGLE3, objective="eagle3-no-ttt", unroll=1), store)
    assert (plain.steps, plain.identity()["objective"]) == (1, "eagle3-no-ttt")
    assert eagle3(EAGLE3, store).steps == 3


def test_the_top_state_in_place_of_every_tap_changes_no_shape_and_is_not_published(
    store: FeatureStore,
) -> None:
    product = make_product(replace(EAGLE3, taps="top"), shared_target(), CONVERSATIONS, store)
    three, top = eagle3(EAGLE3, store).parameters(), product.objective.parameters()
    assert {n: t.shape for n, t in three.items()} == {n: t.shape for n, t in top.items()}
    assert product.objective.source == "hidden" and product.publish is None


def test_a_start_with_another_vocabulary_keeps_shared_rows_and_continues_their_map() -> None:
    target = shared_target()
    width, tokens = target.hidden_size, target.vocab_size
    generator = torch.Generator().manual_seed(0)
    head = torch.randn(tokens, width, generator=generator)
    learned = torch.randn(width, width, generator=generator)
    old = DraftVocabulary(torch.arange(0, width + 10), tokens)
    arch = replace(tiny_architecture(target), draft_vocab_size=len(old))
    weights = tiny_weights(arch)
    noise = torch.randn(len(old), width, generator=generator)
    trained = head[old.ids] @ learned
    trained[:3] += noise[:3]  # rows that no map explains, of tokens that go
    weights = Eagle3Weights(arch, {**weights.tensors, HEAD: trained}, old.d2t)
    new = DraftVocabulary(torch.arange(3, tokens), tokens)
    moved = with_vocabulary(weights, new, head)
    shared = len(old) - 3
    assert torch.equal(moved.tensors[HEAD][:shared], trained[3:])
    expected = head[new.ids[shared:]] @ learned
    torch.testing.assert_close(moved.tensors[HEAD][shared:], expected, rtol=1e-3, atol=1e-3)
    assert torch.equal(moved.tensors[FC], weights.tensors[FC])
    assert moved.architecture.draft_vocab_size == len(new)
    assert torch.equal(moved.d2t, new.d2t)


def test_an_eagle1_draft_is_published_in_its_layout(store: FeatureStore, tmp_path: Path) -> None:
    recipe = Recipe("eagle1", None, 1, "top", None, 0, "apache-2.0")
    product = make_product(recipe, shared_target(), CONVERSATIONS, store)
    assert product.publish is not None
    product.publish(tmp_path / "draft", provenance("eagle1"))
    found = read_eagle1(tmp_path / "draft").tensors
    for name, tensor in product.objective.parameters().items():
        assert torch.equal(found[name], tensor.bfloat16())


def test_eagle1_refuses_three_taps(store: FeatureStore) -> None:
    recipe = Recipe("eagle1", None, 1, "three", None, 0, "apache-2.0")
    with pytest.raises(DataError, match="--taps top"):
        make_product(recipe, shared_target(), CONVERSATIONS, store)


def test_an_independent_model_is_a_transformers_model_of_the_size_asked_for(
    store: FeatureStore, tmp_path: Path
) -> None:
    recipe = Recipe("independent", None, 1, "top", None, 0, "apache-2.0", width=16, layers=2)
    product = make_product(recipe, shared_target(), CONVERSATIONS, store)
    assert product.publish is not None
    product.publish(tmp_path / "draft", provenance("independent"))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "draft")
    assert (model.config.hidden_size, model.config.num_hidden_layers) == (16, 2)
    assert model.config.tie_word_embeddings
    saved = load_file(tmp_path / "draft" / "model.safetensors")
    for name, tensor in product.objective.parameters().items():
        assert torch.equal(saved[name], tensor.bfloat16())


def test_the_vocabulary_is_chosen_from_the_text_and_ends_of_text_are_in_it(
    store: FeatureStore, tmp_path: Path
) -> None:
    product = make_product(EAGLE3, shared_target(), CONVERSATIONS, store)
    counts = torch.bincount(
        torch.tensor([i for c in CONVERSATIONS for i in c.ids[c.response_start :]]),
        minlength=shared_target().vocab_size,
    )
    inside = product.vocabulary.t2d
    assert len(product.vocabulary) == 24
    assert all(bool(inside[i]) for i in shared_target().end_of_sequence)
    assert int(counts[inside].min()) >= 0 and int(counts[~inside].max()) <= int(
        counts[inside].sort().values[len(shared_target().end_of_sequence)]
    )


def test_a_start_of_another_target_is_refused(store: FeatureStore, tmp_path: Path) -> None:
    product = make_product(EAGLE3, shared_target(), CONVERSATIONS, store)
    assert product.publish is not None
    product.publish(tmp_path / "draft", provenance("eagle3"))
    other = tiny_target(vocab_size=shared_target().vocab_size + 1)
    with pytest.raises(DataError, match=r"the start draft reads .* this target gives"):
        make_product(replace(EAGLE3, start=tmp_path / "draft"), other, CONVERSATIONS, store)


def test_an_independent_model_wider_than_the_target_is_refused(store: FeatureStore) -> None:
    recipe = Recipe("independent", None, 1, "top", None, 0, "apache-2.0", width=64)
    with pytest.raises(DataError, match="at most as wide as the target"):
        make_product(recipe, shared_target(), CONVERSATIONS, store)
