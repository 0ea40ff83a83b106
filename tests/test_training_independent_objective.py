"""A language model in training: packed as alone, its loss by definition, published as trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import linear
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from eagle3_viz.target import TargetModel
from eagle3_viz.training.batches import Batch, pack
from eagle3_viz.training.eagle1_objective import Eagle1Objective
from eagle3_viz.training.export import export_independent
from eagle3_viz.training.features import Example
from eagle3_viz.training.independent_objective import (
    IndependentObjective,
    Sizes,
    fresh_independent,
)
from eagle3_viz.training.objective import Outcome
from tests.target_text import train
from tests.test_training_eagle1_objective import objective as eagle1
from tests.test_training_eagle1_unroll import EXAMPLES
from tests.test_training_export import LICENCE, provenance
from tests.tiny_models import VOCABULARY, random_ids, shared_target, tiny_target

TINY = Sizes(
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)


PACKED = [e for e in EXAMPLES if len(e.ids) - 1 > e.response_start]  # those with a prediction


def fresh(target: TargetModel | None = None, seed: int = 1) -> LlamaForCausalLM:
    target = target or shared_target()
    return fresh_independent(target.config, target.embedding, seed, TINY)


def sharp() -> LlamaForCausalLM:
    """Weights at which layers matter: the ones of a start are nearly zero."""
    model = fresh()
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.randn(weight.shape, generator=generator)
            weight.copy_(noise * weight.shape[-1] ** -0.5 if weight.ndim == 2 else 1 + 0.2 * noise)
    return model.eval()


def head() -> torch.Tensor:
    return shared_target().head.detach()


def batch_of(examples: list[Example], steps: int = 1) -> Batch:
    return pack(examples, steps, "hidden")


@torch.no_grad()
def test_packed_conversations_do_not_see_each_other() -> None:
    model = sharp()
    trained = IndependentObjective(model, head())
    states = trained.states(trained.parameters(), batch_of(PACKED))
    found = linear(states, model.get_input_embeddings().weight)
    alone = torch.cat([model(e.ids[None], use_cache=False).logits[0] for e in PACKED])
    torch.testing.assert_close(found, alone, rtol=1e-5, atol=1e-5)


def test_another_neighbour_changes_no_bit_of_a_conversation() -> None:
    trained = IndependentObjective(sharp(), head())
    first, second, *rest = PACKED
    changed = replace(second, ids=(second.ids + 1) % VOCABULARY)
    with torch.no_grad():
        before, after = (
            trained.states(trained.parameters(), batch_of([first, neighbour, *rest]))
            for neighbour in (second, changed)
        )
    end = len(first.ids) + len(second.ids)
    differs = (before != after).any(dim=1)
    assert differs[len(first.ids) : end].all()
    assert not differs[: len(first.ids)].any() and not differs[end:].any()


def definition(model: LlamaForCausalLM) -> tuple[torch.Tensor, int]:
    """Sum of cross-entropies over PACKED, each alone, and how many arg-maxima agree."""
    loss, correct = torch.zeros(()), 0
    for e in PACKED:
        logits = model(e.ids[None], use_cache=False).logits[0]
        for token in range(e.response_start, len(e.ids) - 1):
            p = (head() @ e.hidden[token]).softmax(-1)
            loss = loss - (p * logits[token].log_softmax(-1)).sum()
            correct += int(logits[token].argmax() == p.argmax())
    return loss, correct


def outcome(trained: IndependentObjective, batch: Batch) -> tuple[Outcome, dict[str, torch.Tensor]]:
    copies = {name: t.clone().requires_grad_() for name, t in trained.parameters().items()}
    found = trained.outcome(copies, batch, None)
    found.loss.backward()
    return found, copies


def test_loss_and_gradients_are_those_of_the_definition() -> None:
    model = sharp()
    loss, correct = definition(model)
    loss.backward()
    wanted_loss = float(loss.detach())
    found, copies = outcome(IndependentObjective(model, head()), batch_of(PACKED))
    positions = sum(len(e.ids) - 1 - e.response_start for e in PACKED)
    assert found.valid.shape == found.correct.shape == (1, positions)
    assert found.valid.all()
    assert float(found.loss.detach()) == pytest.approx(wanted_loss, rel=1e-5)
    assert found.mean == pytest.approx(wanted_loss / positions, rel=1e-5)
    assert int(found.correct.sum()) == correct
    wanted = dict(model.named_parameters())
    assert copies.keys() == wanted.keys()
    for name, copy in copies.items():
        torch.testing.assert_close(copy.grad, wanted[name].grad, rtol=1e-4, atol=1e-5)


def test_the_tied_table_is_trained_once_as_embedding_and_as_head() -> None:
    trained = IndependentObjective(sharp(), head())
    assert "lm_head.weight" not in trained.parameters()
    _, copies = outcome(trained, batch_of([PACKED[0]]))
    rows = copies["model.embed_tokens.weight"].grad
    assert rows is not None and rows.any(dim=1).all()  # the head reaches every token


def test_its_rows_are_step_0_of_the_drafts_that_read_the_target() -> None:
    model = IndependentObjective(sharp(), head())
    other: Eagle1Objective = eagle1()
    batch = batch_of(PACKED, 3)
    found = model.outcome(model.parameters(), batch, None)
    reference = other.outcome(other.parameters(), batch, None)
    assert torch.equal(found.valid[0], reference.valid[0])
    for span, e in zip(batch.spans, PACKED, strict=True):
        assert span.anchors == len(e.ids) - 1 - e.response_start
    for row in range(found.correct.shape[1]):
        spoilt = batch.top.clone()
        spoilt[batch.targets[0, row]] = -1
        marks = model.outcome(model.parameters(), replace(batch, top=spoilt), None).correct
        assert not marks[0, row] and int((marks != found.correct).sum()) == found.correct[0, row]


def test_training_on_the_targets_own_text_raises_accuracy(tmp_path: Path) -> None:
    target = tiny_target(num_hidden_layers=2, boundaries=(0, 1, 2))
    trained = IndependentObjective(fresh(target), target.head.detach())
    before, after = train(trained, target, tmp_path, tokens=20000, rate=1e-2)
    assert len(before) == len(after) == trained.evaluation_steps == 1
    assert after[0] > before[0] + 0.1


def test_the_trained_model_is_published_as_it_computes(tmp_path: Path) -> None:
    model = sharp()
    trained = IndependentObjective(model, head())
    with torch.no_grad():
        for tensor in trained.parameters().values():
            tensor *= 1.01
    back = trained.model().eval()
    made = provenance(objective="independent")
    export_independent(back, None, tmp_path / "draft", made, licence=LICENCE, dtype=torch.float32)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "draft")
    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    prompt = torch.tensor([random_ids(5, 1)])
    texts = [m.generate(prompt, **options).tolist() for m in (back, loaded)]
    assert texts[0] == texts[1]
    states = trained.states(trained.parameters(), batch_of(PACKED[:1]))
    ids = PACKED[0].ids[None]
    with torch.no_grad():
        torch.testing.assert_close(
            loaded(ids).logits[0], linear(states, loaded.get_output_embeddings().weight)
        )
        assert not torch.equal(loaded(ids).logits, model(ids).logits)


def test_a_fresh_model_keeps_the_geometry_of_the_targets_embedding() -> None:
    target = shared_target()
    table = fresh().get_input_embeddings().weight.detach()
    rows = target.embedding.detach()
    _, values, _ = torch.linalg.svd(rows)
    kept = float((values[:16] ** 2).sum() / (values**2).sum())
    products, wanted = (t @ t.T for t in (table, rows))
    similarity = float((products * wanted).sum() / (products.norm() * wanted.norm()))
    best = float((values[:16] ** 4).sum().sqrt() / (values**4).sum().sqrt())
    assert similarity == pytest.approx(best, rel=1e-4)  # no table of this width is closer
    assert kept < 0.9  # and the test is one: the narrow table had to leave something out
    assert float(table.std()) == pytest.approx(0.02, rel=1e-4)


def test_the_same_seed_gives_the_same_start_and_leaves_the_global_one_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (dict(fresh(seed=seed).named_parameters()) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    name = "model.layers.0.mlp.up_proj.weight"
    assert not torch.equal(first[name], other[name])


def test_the_default_for_the_embedded_target_fits_into_25_megabytes() -> None:
    with torch.device("meta"):
        config = LlamaConfig(**vars(Sizes()), vocab_size=49152, tie_word_embeddings=True)
        model = LlamaForCausalLM(config)
    assert 20e6 < 2 * sum(p.numel() for p in model.parameters()) < 25e6


def test_identity_tells_sizes_apart() -> None:
    target = shared_target()
    deep = replace(TINY, num_hidden_layers=3)
    other = fresh_independent(target.config, target.embedding, 1, deep)
    found = [IndependentObjective(model, head()).identity() for model in (fresh(), sharp(), other)]
    assert found[0] == found[1] != found[2]
