"""EAGLE-1's loss as published, its noise, and that it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from eagle3_viz.text_lines import DataError
from eagle3_viz.training.batches import Batch, pack
from eagle3_viz.training.eagle1_objective import Eagle1Objective, feature_noise, fresh_eagle1
from eagle3_viz.training.vocabulary import DraftVocabulary
from tests.target_text import train
from tests.test_training_eagle1_unroll import EXAMPLES, STEPS, anchors, chain, example
from tests.tiny_models import VOCABULARY, shared_target, tiny_target
from tests.training_heads import EAGLE1, SlowDraft, eagle1_weights

VOCABULARY_OF_DRAFT = DraftVocabulary(torch.arange(0, VOCABULARY, 3), VOCABULARY)


def objective(
    vocabulary: DraftVocabulary | None = None, dtype: torch.dtype = torch.float32
) -> Eagle1Objective:
    target = shared_target()
    embeddings, head = target.embedding.detach().to(dtype), target.head.detach().to(dtype)
    return Eagle1Objective(eagle1_weights(), embeddings, head, vocabulary)


def expected_outcome(steps: int, vocabulary: DraftVocabulary | None) -> tuple[float, int]:
    """Loss and number of correct guesses as REFERENCE.md g defines them, in float64."""
    slow, head = SlowDraft(eagle1_weights()), shared_target().head.detach().double()
    kept = list(range(VOCABULARY)) if vocabulary is None else vocabulary.ids.tolist()
    loss, correct = 0.0, 0
    for e, anchor in anchors():
        for step, out in enumerate(chain(slow, e, anchor, steps)):
            place = anchor + 1 + step
            apart = (out - e.hidden[place]).double().abs()
            loss += float(torch.where(apart < 1, apart.square() / 2, apart - 0.5).mean())
            p = (head @ e.hidden[place].double())[kept].softmax(-1)
            log_q = (head @ out.double())[kept].log_softmax(-1)
            wanted = int(e.top[place])
            if wanted in kept:
                loss += 0.1 * float(-(p * log_q).sum())
                correct += kept[int(log_q.argmax())] == wanted
    return loss, correct


@pytest.mark.parametrize("vocabulary", [None, VOCABULARY_OF_DRAFT], ids=["whole", "restricted"])
@pytest.mark.parametrize("steps", [1, STEPS])
def test_the_loss_is_the_published_one(steps: int, vocabulary: DraftVocabulary | None) -> None:
    trained, batch = objective(vocabulary), pack(EXAMPLES, steps, "hidden")
    found = trained.outcome(trained.parameters(), batch, None)
    loss, correct = expected_outcome(steps, vocabulary)
    assert float(found.loss) == pytest.approx(loss, rel=1e-5)
    assert found.mean == pytest.approx(loss / len(batch.anchors), rel=1e-5)
    assert int(found.correct.sum()) == correct
    assert torch.equal(found.valid, batch.valid)


@pytest.mark.parametrize("vocabulary", [None, VOCABULARY_OF_DRAFT], ids=["whole", "restricted"])
def test_gradients_are_those_of_finite_differences(vocabulary: DraftVocabulary | None) -> None:
    trained = objective(vocabulary, torch.float64)
    names = list(trained.parameters())
    copies = [t.double().requires_grad_() for t in trained.parameters().values()]
    batch = pack([replace(e, hidden=e.hidden.double()) for e in EXAMPLES], 2, "hidden")

    def loss(*tensors: torch.Tensor) -> torch.Tensor:
        return trained.outcome(dict(zip(names, tensors, strict=True)), batch, None).loss

    assert loss(*copies).dtype == torch.float64
    assert torch.autograd.gradcheck(loss, copies, fast_mode=True, rtol=1e-6, atol=1e-7)


def test_the_head_and_the_embedding_stay_as_they_are() -> None:
    trained, batch = objective(), pack(EXAMPLES, 1, "hidden")
    copies = {name: t.clone().requires_grad_() for name, t in trained.parameters().items()}
    trained.outcome(copies, batch, None).loss.backward()
    assert copies.keys() == EAGLE1.tensor_shapes().keys()
    assert all(bool(t.grad.any()) for t in copies.values() if t.grad is not None)
    assert all(t.grad is not None for t in copies.values())
    target = shared_target()
    assert target.head.grad is None and target.embedding.grad is None


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_training_reads_noisy_features_and_keeps_clean_targets() -> None:
    trained, batch = objective(), pack(EXAMPLES, 1, "hidden")
    tensors = trained.parameters()
    found = trained.outcome(tensors, batch, seeded(1)).loss
    noisy = replace(batch, features=batch.features + feature_noise(batch, seeded(1)))
    assert torch.equal(found, trained.outcome(tensors, noisy, None).loss)
    assert torch.equal(found, trained.outcome(tensors, batch, seeded(1)).loss)
    clean = trained.outcome(tensors, batch, None).loss
    assert torch.equal(clean, trained.outcome(tensors, batch, None).loss)
    assert (
        len({float(clean), float(found), float(trained.outcome(tensors, batch, seeded(2)).loss)})
        == 3
    )


def test_noise_is_uniform_and_narrower_in_longer_conversations() -> None:
    batch: Batch = pack([example(12, 2, 1), example(130, 2, 2)], 1, "hidden")
    noise = feature_noise(batch, seeded(0))
    for span, tokens in zip(batch.spans, (12, 130), strict=True):
        rows = noise[span.first : span.first + span.length]
        width = 0.2 * 512 / tokens
        assert rows.abs().max() <= width / 2
        assert rows.abs().max() > 0.95 * width / 2
        assert abs(float(rows.mean())) < 0.1 * width
        assert float(rows.std()) == pytest.approx(width / 12**0.5, rel=0.1)


def test_training_on_the_targets_own_text_raises_accuracy(tmp_path: Path) -> None:
    target = tiny_target(num_hidden_layers=2, boundaries=(0, 1, 2))
    made = fresh_eagle1(EAGLE1, seed=0)
    trained = Eagle1Objective(made, target.embedding.detach(), target.head.detach())
    before, after = train(trained, target, tmp_path, tokens=20000, rate=1e-2)
    assert len(before) == len(after) == trained.evaluation_steps == 2
    assert all(late > early + 0.1 for early, late in zip(before, after, strict=True))


def test_the_trained_weights_are_handed_back_in_float32() -> None:
    trained = objective(dtype=torch.bfloat16)
    with torch.no_grad():
        trained.parameters()["fc.bias"] += 1
    back = trained.weights()
    assert back.architecture == EAGLE1
    for name, tensor in eagle1_weights().tensors.items():
        assert back.tensors[name].dtype == torch.float32
        assert torch.equal(back.tensors[name], tensor + (name == "fc.bias"))


def test_identity_tells_vocabularies_and_sizes_apart() -> None:
    other = Eagle1Objective(
        fresh_eagle1(replace(EAGLE1, intermediate_size=48), 0),
        shared_target().embedding.detach(),
        shared_target().head.detach(),
    )
    found = [objective(), objective(VOCABULARY_OF_DRAFT), other]
    assert objective().identity() == objective().identity()
    assert len({str(o.identity()) for o in found}) == 3


@pytest.mark.parametrize("switch", ["attention_bias", "own_embedding"])
def test_a_head_that_is_not_trained_here_is_refused(switch: str) -> None:
    with pytest.raises(DataError, match=f"{switch}=True"):
        Eagle1Objective(
            eagle1_weights(**{switch: True}),
            shared_target().embedding.detach(),
            shared_target().head.detach(),
        )


def test_the_same_seed_gives_the_same_start() -> None:
    first, again, other = (fresh_eagle1(EAGLE1, seed).tensors for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["fc.weight"], other["fc.weight"])
