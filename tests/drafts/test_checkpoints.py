"""Draft checkpoints in the published layout: read exactly, or refused in one sentence.

The tiny checkpoints are written here, tensor by tensor, as the published code saves them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from eagle3_viz.drafts.checkpoints import read_eagle3
from eagle3_viz.drafts.draft_folder import MAX_CONFIG_BYTES, CheckpointError
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from tests.tiny_models import shared_target

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden" / "formats"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="no golden checkpoints here")

V, DV, H, HEADS, KV, FF = 61, 23, 32, 4, 2, 40
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
    "draft_vocab_size": DV,
}
IDS = torch.arange(DV) * 2 + 5  # rising target ids


def published() -> dict[str, torch.Tensor]:
    head = H // HEADS
    shapes = {
        "fc.weight": (H, 3 * H),
        "midlayer.input_layernorm.weight": (H,),
        "midlayer.hidden_norm.weight": (H,),
        "midlayer.post_attention_layernorm.weight": (H,),
        "midlayer.self_attn.q_proj.weight": (HEADS * head, 2 * H),
        "midlayer.self_attn.k_proj.weight": (KV * head, 2 * H),
        "midlayer.self_attn.v_proj.weight": (KV * head, 2 * H),
        "midlayer.self_attn.o_proj.weight": (H, HEADS * head),
        "midlayer.mlp.gate_proj.weight": (FF, H),
        "midlayer.mlp.up_proj.weight": (FF, H),
        "midlayer.mlp.down_proj.weight": (H, FF),
        "norm.weight": (H,),
        "lm_head.weight": (DV, H),
    }
    generator = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.randn(shape, generator=generator).half() for name, shape in shapes.items()
    }
    t2d = torch.zeros(V, dtype=torch.bool)
    t2d[IDS] = True
    return tensors | {"d2t": IDS - torch.arange(DV), "t2d": t2d}


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
        read_eagle3(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(folder.name)
    return message


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_published_checkpoint_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    tensors = published()
    weights = read_eagle3(write(tmp_path, tensors, name=name))
    arch = weights.architecture
    assert (arch.hidden_size, arch.target_hidden_size, arch.intermediate_size) == (H, H, FF)
    assert (arch.num_layers, arch.num_heads, arch.num_kv_heads, arch.head_dim) == (1, 4, 2, 8)
    assert (arch.vocab_size, arch.draft_vocab_size, arch.num_taps) == (V, DV, 3)
    assert (arch.rms_norm_eps, arch.rope_theta, arch.vocab_map) == (1e-5, 10000.0, "offset")
    assert not arch.own_embedding
    assert weights.tensors.keys() == {
        key.replace("midlayer.", "layers.0.") for key in tensors.keys() - {"d2t", "t2d"}
    }
    for key, tensor in weights.tensors.items():
        assert torch.equal(tensor, tensors[key.replace("layers.0.", "midlayer.")])
    assert torch.equal(torch.arange(DV) + weights.d2t, IDS)
    draft = Eagle3Draft(weights, shared_target())
    assert draft.target_ids.tolist() == IDS.tolist()


def test_the_norm_of_the_embedding_and_that_of_the_feature_are_not_swapped(tmp_path: Path) -> None:
    tensors = published()
    weights = read_eagle3(write(tmp_path, tensors))
    for norm in ("input_layernorm", "hidden_norm"):
        read = weights.tensors[f"layers.0.{norm}.weight"]
        assert torch.equal(read, tensors[f"midlayer.{norm}.weight"])


def test_safetensors_win_over_a_bin_file_beside_them(tmp_path: Path) -> None:
    write(tmp_path, {"other": torch.zeros(1)}, name="pytorch_model.bin")
    assert read_eagle3(write(tmp_path, published())).architecture.hidden_size == H


def test_a_draft_with_the_whole_vocabulary_needs_no_map(tmp_path: Path) -> None:
    tensors = published() | {"lm_head.weight": torch.ones(V, H)}
    del tensors["d2t"], tensors["t2d"]
    weights = read_eagle3(write(tmp_path, tensors))
    assert weights.architecture.vocab_map == "identity"
    assert not weights.d2t.any()
    assert len(weights.d2t) == V


@pytest.mark.parametrize(
    ("changes", "theta"),
    [
        ({}, 10000.0),
        ({"rope_theta": 500000.0}, 500000.0),
        ({"rope_theta": None, "rope_parameters": {"rope_theta": 7.0}}, 7.0),
        ({"rope_parameters": {"rope_theta": 3e5, "rope_type": "default"}}, 3e5),
        ({"rope_scaling": {"rope_type": "default"}}, 10000.0),
    ],
)
def test_the_rope_base_is_found_where_configs_keep_it(
    tmp_path: Path, changes: dict, theta: float
) -> None:
    weights = read_eagle3(write(tmp_path, published(), CONFIG | changes))
    assert weights.architecture.rope_theta == theta


MISSING = sorted(published().keys() - {"d2t", "t2d"})
# Sizes are read from these; a row too many shows in the one that no longer fits.
SIZES_FROM = {
    "lm_head.weight": "d2t",
    "midlayer.self_attn.q_proj.weight": "q_proj",
    "midlayer.self_attn.o_proj.weight": "q_proj",
    "midlayer.mlp.gate_proj.weight": "midlayer.mlp.up_proj.weight",
}


@pytest.mark.parametrize("key", MISSING)
def test_each_missing_tensor_is_named(tmp_path: Path, key: str) -> None:
    tensors = published()
    del tensors[key]
    assert key in refusal(write(tmp_path, tensors))


@pytest.mark.parametrize("key", MISSING)
def test_each_misshapen_tensor_is_named(tmp_path: Path, key: str) -> None:
    tensors = published()
    tensors[key] = torch.cat([tensors[key], tensors[key][:1]])
    message = refusal(write(tmp_path, tensors))
    assert SIZES_FROM.get(key, key) in message


@pytest.mark.parametrize("key", MISSING)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_each_tensor_that_is_not_finite_is_named(tmp_path: Path, key: str, value: float) -> None:
    tensors = published()
    tensors[key].view(-1)[-1] = value
    assert f"non-finite values in {key}" in refusal(write(tmp_path, tensors))


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.bool])
def test_weights_in_a_quantized_format_are_refused(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = published()
    tensors["fc.weight"] = torch.zeros(H, 3 * H).to(dtype)
    assert f"fc.weight is {dtype}" in refusal(write(tmp_path, tensors))


@pytest.mark.parametrize(
    "extra",
    [
        "midlayer.self_attn.q_proj.bias",
        "midlayer.self_attn.q_norm.weight",
        "fc.bias",
        "input_norm.weight",
        "fc_norm.0.weight",
        "layers.1.mlp.up_proj.weight",
        "mask_hidden",
    ],
)
def test_a_tensor_that_would_go_unused_is_named(tmp_path: Path, extra: str) -> None:
    message = refusal(write(tmp_path, published() | {extra: torch.ones(H)}))
    assert f"unused {extra} [32]" in message


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    tensors = published() | {"surprise": torch.ones(2)}
    del tensors["norm.weight"]
    tensors["midlayer.hidden_norm.weight"] = torch.full((H,), float("nan")).half()
    message = refusal(write(tmp_path, tensors))
    assert "missing norm.weight" in message
    assert "unused surprise" in message
    assert "non-finite values in midlayer.hidden_norm.weight" in message


OFFSETS, MASK = published()["d2t"], published()["t2d"]
BROKEN_MAPS: dict[str, tuple[dict[str, torch.Tensor | None], str]] = {
    "missing": ({"d2t": None, "t2d": None}, "no d2t"),
    "absolute": ({"d2t": IDS}, "absolute ids|disagree"),
    "absolute, no mask": ({"d2t": IDS, "t2d": None}, "absolute ids"),
    "never saved": ({"d2t": torch.zeros_like(OFFSETS), "t2d": None}, "all zero"),
    "stale mask": ({"t2d": MASK.roll(1)}, "t2d and d2t disagree"),
    "short mask": ({"t2d": MASK[:-1]}, "t2d and d2t disagree"),
    "wrong format": ({"d2t": OFFSETS.float()}, "must be int64.*float32"),
    "wrong length": ({"d2t": OFFSETS[:-1]}, r"\[23\].*\[22\]"),
    "negative": ({"d2t": OFFSETS - 6}, "rising target ids"),
    "not rising": ({"d2t": OFFSETS.flip(0)}, "rising target ids"),
}


@pytest.mark.parametrize("case", BROKEN_MAPS)
def test_a_vocabulary_map_that_cannot_be_right_is_refused(tmp_path: Path, case: str) -> None:
    changes, told = BROKEN_MAPS[case]
    tensors = {k: t.clone() for k, t in (published() | changes).items() if t is not None}
    assert re.search(told, refusal(write(tmp_path, tensors)))


def test_a_draft_with_the_first_tokens_is_believed_when_the_mask_says_so(tmp_path: Path) -> None:
    tensors = published() | {"d2t": torch.zeros(DV, dtype=torch.int64), "t2d": torch.arange(V) < DV}
    assert not read_eagle3(write(tmp_path, tensors)).d2t.any()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"num_attention_heads": True}, "num_attention_heads"),
        ({"num_attention_heads": 5}, "does not divide"),
        ({"num_key_value_heads": 3}, "does not divide"),
        ({"num_key_value_heads": 4}, "k_proj"),
        ({"vocab_size": -1}, "vocab_size"),
        ({"vocab_size": "61"}, "vocab_size"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"rms_norm_eps": -1e-5}, "rms_norm_eps"),
        ({"rope_theta": [1]}, "rope_theta"),
        ({"rope_theta": 0}, "rope_theta"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "linear"),
        ({"rope_scaling": 3}, "rotary"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "yarn"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"norm_before_residual": True}, "norm_before_residual"),
        ({"norm_output": True}, "norm_output"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 5]}}, "eagle_config"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4, 6]}, "eagle_aux_hidden_state_layer_ids"),
        ({"target_hidden_size": 30}, "fc.weight"),
    ],
    ids=str,
)
def test_a_config_that_cannot_be_followed_is_refused(
    tmp_path: Path, changes: dict, told: str
) -> None:
    assert told in refusal(write(tmp_path, published(), CONFIG | changes))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no config.json"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[1]", "must hold an object"),
        (b"[" * 200_000, "not valid JSON"),
        (b" " * (MAX_CONFIG_BYTES + 1), "larger than"),
    ],
    ids=["none", "broken", "not-utf8", "list", "nested", "huge"],
)
def test_a_broken_config_is_refused(tmp_path: Path, content: bytes | None, told: str) -> None:
    write(tmp_path, published())
    (tmp_path / "config.json").unlink()
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    assert told in refusal(tmp_path)


def test_a_folder_without_weights_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    write(tmp_path, published())
    safe = tmp_path / "model.safetensors"
    safe.write_bytes(safe.read_bytes()[:-100])
    assert "model.safetensors is damaged" in refusal(tmp_path)
    safe.unlink()
    assert "neither model.safetensors nor pytorch_model.bin" in refusal(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80")
    assert "not a plain tensor file" in refusal(tmp_path)


class Trap:
    """Unpickling it makes the folder named below."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_code_in_a_bin_file_does_not_run(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    write(tmp_path, published() | {"trap": Trap(sprung)}, name="pytorch_model.bin")  # type: ignore[dict-item]
    assert "not a plain tensor file" in refusal(tmp_path)
    assert not sprung.exists()


@pytest.mark.parametrize("content", [[torch.zeros(2)], {"a": 3}, {1: torch.zeros(2)}], ids=str)
def test_a_bin_file_that_holds_no_named_tensors_is_refused(tmp_path: Path, content: Any) -> None:
    assert "no table of named tensors" in refusal(
        write(tmp_path, content, name="pytorch_model.bin")
    )


def test_a_checkpoint_of_another_kind_is_told_from_its_tensors(tmp_path: Path) -> None:
    other = {"layers.0.self_attn.q_proj.weight": torch.zeros(H, 2 * H)}
    assert "not a draft in the published EAGLE-3 layout" in refusal(write(tmp_path, other))
    eagle1_wide = published() | {"midlayer.self_attn.q_proj.weight": torch.ones(H, H)}
    assert "reads 64" in refusal(write(tmp_path, eagle1_wide))


@needs_golden
@pytest.mark.parametrize("name", ["safeailab_eagle3", "safeailab_eagle3_narrow"])
def test_golden_checkpoints_get_the_reading_they_must_get(name: str) -> None:
    weights = read_eagle3(GOLDEN / name)
    arch, expected = weights.architecture, json.loads((GOLDEN / name / "expected.json").read_text())
    for field in (
        *("hidden_size", "target_hidden_size", "num_layers", "num_heads", "num_kv_heads"),
        *("head_dim", "intermediate_size", "vocab_size", "draft_vocab_size", "fc_bias"),
        *("norm_before_residual", "norm_before_fc", "fc_norm", "final_norm", "qk_norm"),
        *("attention_bias", "sliding_window", "rope_theta", "vocab_map"),
    ):
        assert getattr(arch, field) == expected[field], field
    assert arch.num_taps == expected["num_aux"]
    assert arch.own_embedding == (expected["embed"] == "own")
    assert arch.norm_output == (expected["feedback"] == "post_norm")


@needs_golden
@pytest.mark.parametrize(
    "name",
    [
        "safeailab_eagle1_bias",
        "refuse_dflash",
        "broken_d2t_absolute",
        "broken_d2t_missing",
        "broken_nan_lm_head",
        "broken_normflag_without_weight",
        "broken_t2d_stale",
    ],
)
def test_golden_checkpoints_that_would_draft_wrongly_are_refused(name: str) -> None:
    refusal(GOLDEN / name)
