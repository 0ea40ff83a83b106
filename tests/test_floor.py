"""The products that a floor is made of are those that the engine really multiplies."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from eagle3_viz import llama_block, llama_stack, projection, rms_norm
from eagle3_viz.config import TreeShape
from eagle3_viz.drafts.eagle1 import Eagle1Draft
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.floor import REPEATS, draft_products, forward_products, products_ms
from tests.tiny_models import random_ids, tiny_draft, tiny_target, tree_of
from tests.training_heads import eagle1_weights

SHAPE = TreeShape(8, 2, 4)


class Spy:
    """Notes every product: which weight, how many rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[int, int]] = []
        plain = projection.product

        def product(x: torch.Tensor, weight: projection.Weight) -> torch.Tensor:
            self.seen.append((id(weight), x.shape[-2]))
            return plain(x, weight)

        for module in (projection, llama_block):
            monkeypatch.setattr(module, "product", product)
        for module in (llama_block, rms_norm):
            monkeypatch.setattr(module, "fastest", lambda function, x: function)
        monkeypatch.setattr(llama_stack, "fastest_module", lambda module, device: module)

    def take(self) -> list[tuple[int, int]]:
        seen, self.seen = self.seen, []
        return sorted(seen)


def named(products: Any) -> list[tuple[int, int]]:
    return sorted((id(product.weight), rows) for product, rows in products)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_verification_multiplies_what_its_floor_says(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy, target = Spy(monkeypatch), tiny_target(family)
    target.prefill(random_ids(9, 1))
    spy.take()
    target.verify(tree_of([1, 2, 3, 4, 5], [-1, 0, 0, 1, 1]))
    assert spy.take() == named(forward_products(target, 5))


def test_a_family_that_is_not_fused_has_the_products_of_its_linear_layers() -> None:
    target = tiny_target("gemma")
    products = forward_products(target, 3)
    assert len(products) == 8 * 7 + 1
    assert products_ms(products, target.dtype, target.device) > 0


@pytest.mark.parametrize("method", ["eagle1", "eagle3"])
def test_a_draft_multiplies_what_its_floor_says(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy, target = Spy(monkeypatch), tiny_target()
    draft: FeatureDraft = (
        tiny_draft(target) if method == "eagle3" else Eagle1Draft(eagle1_weights(), target)
    )
    target.taps.select(draft.boundaries)
    prompt = random_ids(9, 2)
    step = target.prefill(prompt)
    draft.start(prompt[0])
    draft.extend(step.features[:-3], prompt[1:-2])
    spy.take()
    draft.extend(step.features[-3:], [*prompt[-2:], 5])
    draft.propose(5, SHAPE, lambda name: None)
    assert spy.take() == named(draft_products(draft, SHAPE, 3))


def test_a_floor_is_timed_by_multiplying_with_each_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    spy, target = Spy(monkeypatch), tiny_target()
    products = list(forward_products(target, 4))
    products_ms(products, target.dtype, target.device)
    assert spy.take() == named(products * (1 + REPEATS))
