"""The fused decoder: which models get it, and what it does to their weights.

That it computes what transformers computes is tested for every family in test_target_families.py.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from eagle3_viz import attention, target
from eagle3_viz.fused_decoder import FusedDecoder, StockDecoder, decoder_of
from eagle3_viz.layer_memory import Appended, Updated
from eagle3_viz.llama_stack import Entering, LlamaStack
from eagle3_viz.taps import Taps
from tests.tiny_models import FAMILIES, random_ids, tiny_config, tiny_target


def a_model(family: str = "llama", **changes: Any) -> Any:
    torch.manual_seed(0)
    config = tiny_config(family, **changes)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention.NAME)
    return model.eval()


def taps_of(model: Any) -> Taps:
    return Taps(len(model.get_decoder().layers), (0, 3, 8, 9))


@pytest.mark.parametrize("family", FAMILIES)
def test_all_families_but_gemma_are_fused(family: str) -> None:
    model = a_model(family)
    expected = StockDecoder if family.startswith("gemma") else FusedDecoder
    assert isinstance(decoder_of(model, taps_of(model), reorder=True), expected)


def test_another_activation_is_left_to_transformers() -> None:
    model = a_model(hidden_act="gelu")
    assert isinstance(decoder_of(model, taps_of(model), reorder=True), StockDecoder)


def test_layers_on_several_devices_are_left_to_transformers() -> None:
    model = a_model()
    model.hf_device_map = {"model.layers.0": 0, "model.layers.1": 1}
    assert isinstance(decoder_of(model, taps_of(model), reorder=True), StockDecoder)


@torch.no_grad()
@pytest.mark.parametrize("family", ["llama", "llama-wide-heads", "qwen2", "qwen3", "mistral"])
def test_both_decoders_give_the_same_states_and_the_same_taps(family: str) -> None:
    model = a_model(family)
    stock_taps, fused_taps = taps_of(model), taps_of(model)
    stock = StockDecoder(deepcopy(model), stock_taps)
    fused = FusedDecoder(model, fused_taps, reorder=True)
    ids, positions = torch.tensor([random_ids(12, 1), random_ids(12, 2)]), torch.arange(12)[None]
    expected, found = (decoder(ids, positions, None, None) for decoder in (stock, fused))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    taps = [noted.take() for noted in (fused_taps, stock_taps)]
    torch.testing.assert_close(*taps, rtol=1e-5, atol=1e-5)
    assert taps[0].shape == (2, 12, 4 * 32)


@torch.no_grad()
@pytest.mark.parametrize("reorder", [True, False])
@pytest.mark.parametrize("family", ["llama", "llama-wide-heads", "qwen3"])
def test_fusing_keeps_the_model(family: str, reorder: bool) -> None:
    model = a_model(family)
    ids = torch.tensor([random_ids(7, 3)])
    before, weights = model(input_ids=ids).logits, deepcopy(model.state_dict())
    fused = FusedDecoder(model, taps_of(model), reorder=reorder)
    assert torch.equal(model(input_ids=ids).logits, before)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    positions = torch.arange(7)[None]
    logits = model.lm_head(fused(ids, positions, None, None))
    torch.testing.assert_close(logits, before, rtol=1e-5, atol=1e-5)


def test_of_a_large_model_no_weight_is_held_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "LARGEST_COPY", 0)
    model = a_model()
    large = target.TargetModel(model, tokenizer=None)
    fused = large.decoder
    assert isinstance(fused, FusedDecoder)
    assert large.head_projection.joined is not None
    assert large.head_projection.joined.data_ptr() == model.lm_head.weight.data_ptr()
    for block, layer in zip(fused.blocks, model.get_decoder().layers, strict=True):
        for projection, own in (
            (block.qkv, layer.self_attn.k_proj.weight),
            (block.gate_up, layer.mlp.up_proj.weight),
        ):
            assert projection.joined is not None
            shared = projection.joined.untyped_storage().data_ptr()
            assert own.untyped_storage().data_ptr() == shared


@pytest.mark.parametrize("scale", [None, 0.3])
def test_one_call_gives_what_its_layers_give_one_by_one(scale: float | None) -> None:
    decoder = tiny_target().decoder
    assert isinstance(decoder, FusedDecoder)
    norms = [block.norms["input_layernorm"] for block in decoder.blocks]
    stack = LlamaStack(decoder.blocks, norms, scale)
    layer = decoder.blocks[0].layer
    generator = torch.Generator().manual_seed(0)
    width, head_dim = layer.post_norm.shape[0] // 2, layer.head_dim
    stream = torch.randn(1, 4, width, generator=generator)
    cos, sin = torch.randn(2, 4, head_dim, generator=generator)
    masks, kept = [None] * len(norms), (3, 0)
    entering = Entering(stream, stream, (cos, sin), kept)
    rows = torch.zeros(len(norms), 2, 1, layer.num_kv_heads, 9, head_dim)
    cache = [(keys, values) for keys, values in rows]
    found, streams = Appended(cache, masks, 0).over(stack, entering)
    expected, others = Updated(None, masks).over(stack, entering)
    assert torch.allclose(found, expected, atol=1e-4, rtol=1e-5)
    assert sorted(streams) == sorted(others) == [0, 3]
    assert all(torch.allclose(streams[b], others[b], atol=1e-4, rtol=1e-5) for b in kept)
