"""What an EAGLE-3 job starts from, and what makes it another job."""

from __future__ import annotations

import pytest
import torch

from eagle3_viz.drafts.architecture import Eagle3Weights
from eagle3_viz.training.eagle3_objective import HEAD, Eagle3Objective, fresh_eagle3
from eagle3_viz.training.vocabulary import DraftVocabulary
from tests.tiny_models import offsets, shared_target, tiny_architecture, tiny_weights

ARCHITECTURE = tiny_architecture(shared_target())
VOCABULARY = DraftVocabulary.from_d2t(offsets(ARCHITECTURE), ARCHITECTURE.vocab_size)
SCALE = torch.linspace(0.1, 20, 3 * shared_target().hidden_size)


def fresh(seed: int = 0) -> Eagle3Weights:
    head = shared_target().head.detach()
    return fresh_eagle3(ARCHITECTURE, VOCABULARY, head, SCALE, seed)


def objective(weights: Eagle3Weights, steps: int = 3) -> Eagle3Objective:
    target = shared_target()
    return Eagle3Objective(weights, target.embedding.detach(), target.head.detach(), SCALE, steps)


def test_a_fresh_draft_has_every_tensor_and_the_targets_rows_as_its_head() -> None:
    weights = fresh()
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.tensors.items()}
    assert shapes == ARCHITECTURE.tensor_shapes()
    assert torch.equal(weights.tensors[HEAD], shared_target().head.detach()[VOCABULARY.ids])
    assert torch.equal(weights.d2t, VOCABULARY.d2t)


def test_a_fresh_fc_weighs_every_dimension_of_the_taps_alike() -> None:
    generator = torch.Generator().manual_seed(1)
    taps = SCALE * torch.randn(2000, len(SCALE), generator=generator)
    weight = fresh().tensors["fc.weight"]
    small, large = taps.clone(), taps.clone()
    small[:, 48:], large[:, :48] = 0, 0  # the first half is seven times smaller than the second
    spread = [float((part @ weight.T).std()) for part in (small, large)]
    assert spread[0] == pytest.approx(spread[1], rel=0.2)


def test_a_fresh_draft_depends_on_the_seed_alone() -> None:
    same, again, other = fresh(3).tensors, fresh(3).tensors, fresh(4).tensors
    assert all(torch.equal(same[name], again[name]) for name in same)
    assert not torch.equal(same["fc.weight"], other["fc.weight"])


def test_training_never_writes_into_the_weights_it_started_from() -> None:
    weights = tiny_weights(ARCHITECTURE)
    before = {name: tensor.clone() for name, tensor in weights.tensors.items()}
    for tensor in objective(weights).parameters().values():
        tensor.add_(1)
    assert all(torch.equal(weights.tensors[name], before[name]) for name in before)


def test_unroll_sizes_and_vocabulary_make_another_job_and_weights_do_not() -> None:
    first = objective(fresh()).identity()
    assert objective(fresh(seed=9)).identity() == first
    assert objective(fresh(), steps=2).identity() != first
    weights = fresh()
    moved = Eagle3Weights(ARCHITECTURE, weights.tensors, offsets(ARCHITECTURE, seed=5))
    assert objective(moved).identity() != first
    assert objective(fresh(), steps=1).identity()["objective"] == "eagle3-no-ttt"
