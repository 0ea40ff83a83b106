"""Held-out accuracy against counting one conversation after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from accelerate import Accelerator

from eagle3_viz.prompt_records import ALL
from eagle3_viz.training import evaluation
from eagle3_viz.training.batches import pack
from eagle3_viz.training.evaluation import accuracy_by_domain
from tests.tiny_training import STEPS, tiny_features, tiny_objective


@pytest.mark.parametrize("batch_tokens", [1, 50, 10_000])
@torch.no_grad()
def test_accuracy_is_counted_over_tokens_by_domain_and_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_tokens: int
) -> None:
    monkeypatch.setattr(evaluation, "BATCH_TOKENS", batch_tokens)
    store = tiny_features(tmp_path, count=9)
    trained = tiny_objective(store)
    right = {domain: torch.zeros(STEPS + 1) for domain in ("a", "b", ALL)}
    counted = {domain: torch.zeros(STEPS + 1) for domain in right}
    for index in range(len(store)):
        outcome = trained.outcome(trained.parameters(), pack([store[index]], STEPS + 1), None)
        for domain in (store.domain(index), ALL):
            right[domain] += outcome.correct.sum(1)
            counted[domain] += outcome.valid.sum(1)
    found = accuracy_by_domain(trained, trained.parameters(), store, Accelerator(cpu=True))
    assert found.keys() == right.keys()
    for domain, accuracy in found.items():
        assert accuracy == pytest.approx((right[domain] / counted[domain]).tolist())
    assert 0 < found[ALL][0] < 1
