"""EAGLE-1 checkpoints in the published layout: read exactly, or refused in one sentence.

The tiny checkpoints are written here, tensor by tensor, as the published code saves them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from eagle3_viz.drafts.draft_folder import CheckpointError
from eagle3_viz.drafts.eagle1_checkpoint import read_eagle1

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden" / "formats"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="no golden checkpoints here")

V, H, HEADS, KV, FF = 61, 32, 4, 2, 40
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": H,
    "intermediate_size": FF,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-5,
    "vocab_size": V,
}


def layer(index: int) -> dict[str, tuple[int, ...]]:
    head = H // HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (HEADS * head, H),
        "self_attn.k_proj.weight": (KV * head, H),
        "self_attn.v_proj.weight": (KV * head, H),
        "self_attn.o_proj.weight": (H, HEADS * head),
        "mlp.gate_proj.weight": (FF, H),
        "mlp.up_proj.weight": (FF, H),
        "mlp.down_proj.weight": (H, FF),
        "post_attention_layernorm.weight": (H,),
    }
    if index:
        shapes["input_layernorm.weight"] = (H,)
    return {f"layers.{index}.{name}": shape for name, shape in shapes.items()}


def published(layers: int = 1) -> dict[str, torch.Tensor]:
    shapes: dict[str, tuple[int, ...]] = {"fc.weight": (H, 2 * H), "fc.bias": (H,)}
    for index in range(layers):
        shapes |= layer(index)
    shapes["embed_tokens.weight"] = (V, H)
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator).half() for name, shape in shapes.items()}


def write(
    folder: Path, tensors: dict[str, torch.Tensor], config: Any = None, name: str = ""
) -> Path:
    (folder / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    if name.endswith(".bin"):
        torch.save(tensors, folder / name)
    else:
        save_file(tensors, folder / "model.safetensors")
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_eagle1(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(folder.name)
    return message


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_published_checkpoint_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    tensors = published()
    weights = read_eagle1(write(tmp_path, tensors, name=name))
    arch = weights.architecture
    assert (arch.hidden_size, arch.intermediate_size, arch.vocab_size) == (H, FF, V)
    assert (arch.num_layers, arch.num_heads, arch.num_kv_heads, arch.head_dim) == (1, 4, 2, 8)
    assert (arch.rms_norm_eps, arch.rope_theta) == (1e-5, 10000.0)
    assert arch.fc_bias
    assert arch.own_embedding
    assert weights.tensors.keys() == tensors.keys()
    assert all(torch.equal(tensor, tensors[key]) for key, tensor in weights.tensors.items())


def test_an_embedding_that_is_not_in_the_file_is_the_targets(tmp_path: Path) -> None:
    tensors = published()
    del tensors["embed_tokens.weight"]
    assert not read_eagle1(write(tmp_path, tensors)).architecture.own_embedding


def test_biases_are_those_that_the_config_names(tmp_path: Path) -> None:
    tensors = published()
    bias = tensors.pop("fc.bias")
    assert "missing fc.bias [32]" in refusal(write(tmp_path, tensors))  # the published default
    without = CONFIG | {"bias": False}
    assert not read_eagle1(write(tmp_path, tensors, without)).architecture.fc_bias
    assert "unused fc.bias" in refusal(write(tmp_path, tensors | {"fc.bias": bias}, without))

    rows = {"q_proj": 32, "k_proj": 16, "v_proj": 16}
    biases = {f"layers.0.self_attn.{name}.bias": torch.ones(n) for name, n in rows.items()}
    with_biases = without | {"qkv_bias": True}
    weights = read_eagle1(write(tmp_path, tensors | biases, with_biases))
    assert weights.architecture.attention_bias
    assert "unused layers.0.self_attn.k_proj.bias" in refusal(
        write(tmp_path, tensors | biases, without)
    )


def test_later_layers_own_a_norm_that_the_first_has_not(tmp_path: Path) -> None:
    tensors = published(layers=2)
    weights = read_eagle1(write(tmp_path, tensors))
    assert weights.architecture.num_layers == 2
    assert weights.tensors.keys() == tensors.keys()
    del tensors["layers.1.input_layernorm.weight"]
    assert "missing layers.1.input_layernorm.weight" in refusal(write(tmp_path, tensors))


# Sizes are read from these; a row too many shows in the one that no longer fits.
SIZES_FROM = {
    "layers.0.self_attn.q_proj.weight": "q_proj",
    "layers.0.self_attn.o_proj.weight": "q_proj",
    "layers.0.mlp.gate_proj.weight": "layers.0.mlp.up_proj.weight",
}
NEEDED = sorted(published().keys() - {"embed_tokens.weight"})


@pytest.mark.parametrize("key", NEEDED)
def test_each_missing_tensor_is_named(tmp_path: Path, key: str) -> None:
    tensors = published()
    del tensors[key]
    assert key in refusal(write(tmp_path, tensors))


@pytest.mark.parametrize("key", sorted(published()))
def test_each_misshapen_tensor_is_named(tmp_path: Path, key: str) -> None:
    tensors = published()
    tensors[key] = torch.cat([tensors[key], tensors[key][:1]])
    assert SIZES_FROM.get(key, key) in refusal(write(tmp_path, tensors))


@pytest.mark.parametrize("key", sorted(published()))
def test_each_tensor_that_is_not_finite_is_named(tmp_path: Path, key: str) -> None:
    tensors = published()
    tensors[key].view(-1)[-1] = float("nan")
    assert f"non-finite values in {key}" in refusal(write(tmp_path, tensors))


@pytest.mark.parametrize(
    "extra", ["layers.0.input_layernorm.weight", "norm.weight", "lm_head.weight", "d2t"]
)
def test_a_tensor_that_this_layout_does_not_have_is_named(tmp_path: Path, extra: str) -> None:
    message = refusal(write(tmp_path, published() | {extra: torch.ones(H)}))
    assert f"does not fit the EAGLE-1 layout: unused {extra} [32]" in message


def test_a_layer_that_leaves_a_gap_is_refused(tmp_path: Path) -> None:
    tensors = published() | {"layers.7.mlp.up_proj.weight": torch.ones(FF, H)}
    message = refusal(write(tmp_path, tensors))
    assert "missing layers.1.mlp.up_proj.weight" in message
    assert "unused layers.7.mlp.up_proj.weight" in message


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"num_attention_heads": 5}, "does not divide"),
        ({"num_key_value_heads": 4}, "k_proj"),
        ({"vocab_size": 60}, "embed_tokens.weight"),
        ({"bias": "yes"}, "true or false for bias"),
        ({"rope_theta": 0}, "rope_theta"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "linear"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"draft_vocab_size": 23}, "draft_vocab_size"),
        ({"hot_vocab_size": 23}, "hot_vocab_size"),
        ({"add_para_norm": True}, "add_para_norm"),
    ],
    ids=str,
)
def test_a_config_that_cannot_be_followed_is_refused(
    tmp_path: Path, changes: dict, told: str
) -> None:
    assert told in refusal(write(tmp_path, published(), CONFIG | changes))


def test_an_eagle3_draft_is_told_from_its_tensors(tmp_path: Path) -> None:
    wide = published() | {"layers.0.self_attn.q_proj.weight": torch.ones(H, 2 * H)}
    assert "reads 64 values; an EAGLE-1 draft" in refusal(write(tmp_path, wide))
    other = {"midlayer.self_attn.q_proj.weight": torch.ones(H, 2 * H)}
    assert "not a draft in the published EAGLE-1 layout" in refusal(write(tmp_path, other))


@needs_golden
def test_the_golden_checkpoint_gets_the_reading_it_must_get() -> None:
    folder = GOLDEN / "safeailab_eagle1_bias"
    weights = read_eagle1(folder)
    arch, expected = weights.architecture, json.loads((folder / "expected.json").read_text())
    for field in (
        *("hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim"),
        *("intermediate_size", "vocab_size", "fc_bias", "attention_bias", "rope_theta"),
    ):
        assert getattr(arch, field) == expected[field], field
    assert arch.own_embedding == (expected["embed"] == "own")
    assert {key: list(tensor.shape) for key, tensor in weights.tensors.items()} == {
        key: shape for key, (shape, _) in expected["keys"].items()
    }


@needs_golden
@pytest.mark.parametrize("name", ["safeailab_eagle3", "speculators_converted", "refuse_dflash"])
def test_golden_checkpoints_of_other_kinds_are_refused(name: str) -> None:
    refusal(GOLDEN / name)
