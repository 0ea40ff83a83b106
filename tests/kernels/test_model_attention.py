"""Tree attention as every family's attention function."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AttentionInterface

from eagle3_viz import attention
from kernels.ancestor_bits import TreeMask
from kernels.model_attention import attend_tree
from tests.kernels.attention_problems import answer, error, problem
from tests.tiny_models import FAMILIES, random_ids, shared_target, tree_of

NAME = "attend_tree_under_test"
PARENTS = [-1, 0, 0, 1, 1, 2, 3, 3, 6, 8]  # five levels: deeper than the families' window


ON_THE_CPU = pytest.mark.skipif(
    torch.cuda.is_available(), reason="the tiny models are on the CPU, where nothing is interpreted"
)


@pytest.mark.parametrize("form", ["torch", pytest.param("triton", marks=ON_THE_CPU)])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_verified_tree_has_the_logits_of_the_masked_attention(
    monkeypatch: pytest.MonkeyPatch, family: str, form: str
) -> None:
    AttentionInterface.register(NAME, attend_tree)
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", form)
    target = shared_target(family)
    target.prefill(random_ids(9, seed=1))
    tree = tree_of(random_ids(10, seed=2), PARENTS)
    expected = target.verify(tree).logits
    mask = TreeMask.pack(tree.visible, torch.tensor([9]), tree.depth)
    parameters = inspect.signature(target.model.forward).parameters
    cache = {"cache" if "cache" in parameters else "past_key_values": target.cache}
    target.model.set_attn_implementation(NAME)
    try:
        with torch.inference_mode():
            found = target.model(
                input_ids=tree.token[None],
                position_ids=9 + tree.depth[None],
                use_cache=True,
                tree=mask,
                **cache,
            ).logits[0]
    finally:
        target.cache.roll_back()
        target.model.set_attn_implementation(attention.NAME)
    assert error(found, expected.double()) < 1e-5


def test_the_layers_own_window_and_cap_reach_the_scores() -> None:
    case = problem(prefixes=[20], nodes=5)
    found, weights = attend_tree(
        SimpleNamespace(), *case.states, None, tree=case.mask, scaling=0.4, softcap=1.5,
        sliding_window=6, dropout=0.0, position_ids=torch.arange(5), use_cache=True,
    )  # fmt: skip
    assert weights is None
    assert found.is_contiguous()
    expected = answer(case, scale=0.4, softcap=1.5, window=6)
    assert error(found, expected.transpose(1, 2)) < 1e-5


def test_a_workspace_that_is_given_is_the_one_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE3_VIZ_KERNELS", "triton")
    case = problem(prefixes=[70], nodes=4)
    with pytest.raises(ValueError, match="workspace must hold"):
        attend_tree(
            SimpleNamespace(), *case.states, None, tree=case.mask, workspace=case.query.new_empty(1)
        )


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"attention_mask": torch.zeros(1, 1, 5, 25)}, "both an attention mask and a tree"),
        ({"dropout": 0.1}, "SimpleNamespace asks for dropout, which"),
        ({"s_aux": torch.zeros(4), "position_bias": torch.zeros(4)}, "position_bias, s_aux"),
        ({"output_attentions": True}, "asks for output_attentions"),
    ],
)
def test_what_would_change_the_scores_is_refused(others: dict[str, Any], message: str) -> None:
    case = problem(prefixes=[20], nodes=5)
    arguments = {"attention_mask": None, "tree": case.mask} | others
    with pytest.raises(ValueError, match=message):
        attend_tree(SimpleNamespace(), *case.states, **arguments)
