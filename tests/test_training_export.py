"""Exported drafts are read back bit for bit, draft the same, and are whole or not there."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from eagle3_viz.drafts.architecture import Eagle3Weights
from eagle3_viz.drafts.checkpoints import read_eagle3
from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Weights, read_eagle1
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.training.draft_provenance import Provenance
from eagle3_viz.training.export import export_eagle1, export_eagle3, export_independent
from eagle3_viz.training.publishing import PublishError
from tests.tiny_models import (
    decode_all,
    random_ids,
    shared_target,
    tiny_architecture,
    tiny_config,
    tiny_eagle1_weights,
    tiny_weights,
)

GOLDEN = Path(__file__).parents[1].parent / "shared" / "golden" / "formats"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="no golden checkpoints here")
FILES = ["README.md", "config.json", "model.safetensors", "provenance.json"]
LICENCE = "apache-2.0"


def provenance(**changes: Any) -> Provenance:
    usual = Provenance(
        objective="eagle3",
        target="tiny",
        revision="r1",
        chat_template_sha256="c" * 64,
        boundaries=(2, 4, 5),
        data_sha256="d" * 64,
        conversations=10,
        response_tokens=100,
        training={"learning_rate": 0.002, "betas": [0.9, 0.95], "scheduler": None},
        steps=5,
        token_passes=200,
        seconds=1.5,
        accuracy=(0.5, 0.4),
        coverage={"all": 0.9},
    )
    return replace(usual, **changes)


def eagle3_weights(**switches: Any) -> Eagle3Weights:
    return tiny_weights(tiny_architecture(shared_target(), **switches))


def eagle1_weights(**switches: Any) -> Eagle1Weights:
    return tiny_eagle1_weights(shared_target(), **switches)


def llama(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    return LlamaForCausalLM(tiny_config(num_hidden_layers=2, tie_word_embeddings=True))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def export3(weights: Eagle3Weights, folder: Path, **options: Any) -> Path:
    export_eagle3(weights, folder, provenance(), licence=LICENCE, **options)
    return folder


def export1(weights: Eagle1Weights, folder: Path, **options: Any) -> Path:
    export_eagle1(weights, folder, provenance(objective="eagle1"), licence=LICENCE, **options)
    return folder


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_an_eagle3_draft_is_read_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    weights = eagle3_weights()
    read = read_eagle3(export3(weights, tmp_path / "draft", dtype=dtype))
    assert read.architecture == weights.architecture
    assert torch.equal(read.d2t, weights.d2t)
    assert read.tensors.keys() == weights.tensors.keys()
    for name, tensor in read.tensors.items():
        assert tensor.dtype == dtype
        assert torch.equal(tensor, weights.tensors[name].to(dtype)), name
    assert names(tmp_path / "draft") == FILES


def test_an_eagle3_file_has_the_published_names_and_tables(tmp_path: Path) -> None:
    weights = eagle3_weights()
    tensors = load_file(export3(weights, tmp_path / "draft") / "model.safetensors")
    layer = {"input_layernorm", "hidden_norm", "post_attention_layernorm"}
    layer |= {f"self_attn.{name}_proj" for name in "qkvo"}
    layer |= {f"mlp.{name}_proj" for name in ("gate", "up", "down")}
    expected = {f"midlayer.{name}.weight" for name in layer}
    assert tensors.keys() == expected | {"fc.weight", "norm.weight", "lm_head.weight", "d2t", "t2d"}
    ids = torch.arange(23) + weights.d2t
    assert tensors["d2t"].dtype == torch.int64
    assert tensors["t2d"].dtype == torch.bool
    assert tensors["t2d"].nonzero().flatten().tolist() == ids.tolist()


def test_an_exported_draft_drafts_the_same(tmp_path: Path) -> None:
    target, weights = shared_target(), eagle3_weights(rope_theta=500.0)
    rounded = {n: t.to(torch.bfloat16).to(t.dtype) for n, t in weights.tensors.items()}
    before = Eagle3Draft(replace(weights, tensors=rounded), target)
    after = Eagle3Draft.load(export3(weights, tmp_path / "draft"), target)
    trees = []
    for draft in (before, after):
        _, cycles = decode_all(target, draft, random_ids(9, 4), record="full", max_new_tokens=30)
        trees.append(
            [(c.tokens, c.pool.token.tolist(), c.pool.draft_logprob.tolist()) for c in cycles]
        )
    assert trees[0] == trees[1]
    assert len(trees[0]) > 1


def test_a_draft_with_the_whole_vocabulary_has_no_tables(tmp_path: Path) -> None:
    weights = eagle3_weights(draft_vocab_size=shared_target().vocab_size)
    folder = export3(weights, tmp_path / "draft")
    assert not load_file(folder / "model.safetensors").keys() & {"d2t", "t2d"}
    assert read_eagle3(folder).architecture.vocab_map == "identity"


def test_a_narrow_draft_keeps_its_own_embedding(tmp_path: Path) -> None:
    weights = eagle3_weights(hidden_size=24, head_dim=6, own_embedding=True)
    assert read_eagle3(export3(weights, tmp_path / "draft")).architecture == weights.architecture


@pytest.mark.parametrize(
    "switches",
    [
        {},
        {"fc_bias": False},
        {"attention_bias": True},
        {"own_embedding": True},
        {"num_layers": 2},
        {"head_dim": 16},
    ],
    ids=str,
)
def test_an_eagle1_draft_is_read_back_bit_for_bit(tmp_path: Path, switches: Any) -> None:
    weights = eagle1_weights(**switches)
    read = read_eagle1(export1(weights, tmp_path / "draft"))
    assert read.architecture == weights.architecture
    assert read.tensors.keys() == weights.tensors.keys()
    for name, tensor in read.tensors.items():
        assert torch.equal(tensor, weights.tensors[name].to(torch.bfloat16)), name
    assert names(tmp_path / "draft") == FILES


@needs_golden
@pytest.mark.parametrize(
    "name", ["safeailab_eagle3", "safeailab_eagle3_narrow", "safeailab_eagle1_bias"]
)
def test_a_published_checkpoint_is_written_as_it_was_read(tmp_path: Path, name: str) -> None:
    original = torch.load(GOLDEN / name / "pytorch_model.bin", weights_only=True)
    folder = tmp_path / "draft"
    if "eagle1" in name:
        export1(read_eagle1(GOLDEN / name), folder, dtype=torch.float16)
    else:
        export3(read_eagle3(GOLDEN / name), folder, dtype=torch.float16)
    written = load_file(folder / "model.safetensors")
    assert written.keys() == original.keys()
    for key, tensor in written.items():
        assert tensor.dtype == original[key].dtype
        assert torch.equal(tensor, original[key]), key
    config, usual = (json.loads((f / "config.json").read_text()) for f in (folder, GOLDEN / name))
    assert {key: config[key] for key in usual.keys() & config} == {
        key: usual[key] for key in usual.keys() & config
    }


def test_further_settings_go_into_the_config_but_not_over_the_weights(tmp_path: Path) -> None:
    folder = tmp_path / "draft"
    export3(eagle3_weights(), folder, config={"eos_token_id": 2, "max_position_embeddings": 330})
    config = json.loads((folder / "config.json").read_text())
    assert (config["eos_token_id"], config["max_position_embeddings"]) == (2, 330)
    with pytest.raises(PublishError, match="decide draft_vocab_size, hidden_size"):
        export3(eagle3_weights(), folder, config={"hidden_size": 1, "draft_vocab_size": 2})


UNHOLDABLE: dict[str, tuple[dict[str, Any], str]] = {
    "normed residual": ({"norm_before_residual": True}, "norm_before_residual True .* as False"),
    "normed feedback": ({"norm_output": True}, "norm_output True"),
    "window": ({"sliding_window": 5}, "sliding_window 5 would be read as None"),
    "own taps": ({"boundaries": (1, 2, 3)}, r"boundaries \(1, 2, 3\)"),
    "norm before fc": ({"norm_before_fc": True}, "unused input_norm.weight"),
    "norms before fc": ({"fc_norm": True}, "unused fc_norm.0.weight"),
    "head norms": ({"qk_norm": True}, "unused midlayer.self_attn.k_norm.weight"),
    "bias": ({"fc_bias": True}, "unused fc.bias"),
    "two layers": ({"num_layers": 2}, "unused layers.1.mlp"),
}


@pytest.mark.parametrize("case", UNHOLDABLE)
def test_a_draft_that_the_layout_cannot_hold_is_not_published(tmp_path: Path, case: str) -> None:
    switches, told = UNHOLDABLE[case]
    with pytest.raises(PublishError, match=told):
        export3(eagle3_weights(**switches), tmp_path / "draft")
    assert names(tmp_path) == []


def test_weights_that_are_no_numbers_are_not_published(tmp_path: Path) -> None:
    three, one, model = eagle3_weights(), eagle1_weights(), llama()
    three.tensors["fc.weight"][0, 0] = 1e6  # beyond float16
    one.tensors["fc.bias"][0] = float("nan")
    with torch.no_grad():
        model.model.norm.weight[0] = float("inf")
    with pytest.raises(PublishError, match=r"non-finite values in fc\.weight"):
        export3(three, tmp_path / "draft", dtype=torch.float16)
    with pytest.raises(PublishError, match=r"non-finite values in fc\.bias"):
        export1(one, tmp_path / "draft")
    with pytest.raises(PublishError, match=r"non-finite values in model\.norm\.weight"):
        export_independent(
            model, None, tmp_path / "draft", provenance(objective="independent"), licence=LICENCE
        )
    assert names(tmp_path) == []


def test_an_independent_draft_computes_the_same_when_it_is_loaded(tmp_path: Path) -> None:
    model, folder = llama(), tmp_path / "draft"
    made = provenance(objective="independent")
    export_independent(model, None, folder, made, licence=LICENCE, dtype=torch.float32)
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.tensor([random_ids(12, 5)])
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert names(folder) == sorted([*FILES, "generation_config.json"])


def test_an_independent_draft_is_saved_in_bf16_with_one_table_for_embedding_and_head(
    tmp_path: Path,
) -> None:
    model, folder = llama(), tmp_path / "draft"
    made = provenance(objective="independent")
    export_independent(model, None, folder, made, licence=LICENCE)
    saved, own = load_file(folder / "model.safetensors"), model.state_dict()
    assert saved.keys() == own.keys() - {"lm_head.weight"}
    assert all(torch.equal(tensor, own[name].bfloat16()) for name, tensor in saved.items())
    assert model.dtype == torch.float32
    assert AutoModelForCausalLM.from_pretrained(folder).dtype == torch.bfloat16


class SavedTokenizer:
    """Stands for a tokenizer: what matters is that it is asked to save itself."""

    def save_pretrained(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text("{}")


def test_a_tokenizer_is_saved_beside_an_independent_draft(tmp_path: Path) -> None:
    folder = tmp_path / "draft"
    made = provenance(objective="independent")
    export_independent(llama(), SavedTokenizer(), folder, made, licence=LICENCE)
    assert "tokenizer.json" in names(folder)


def test_the_provenance_is_stored_beside_the_weights(tmp_path: Path) -> None:
    stored = json.loads((export3(eagle3_weights(), tmp_path / "a") / "provenance.json").read_text())
    assert stored["objective"] == "eagle3"
    assert stored["boundaries"] == [2, 4, 5]
    assert stored["training"] == {"learning_rate": 0.002, "betas": [0.9, 0.95], "scheduler": None}
    assert stored["accuracy"] == [0.5, 0.4]
    assert {"python", "torch", "transformers", "eagle3_viz"} <= stored["versions"].keys()
    card = (tmp_path / "a" / "README.md").read_text()
    assert "EAGLE-3 draft for `tiny`" in card
    assert "--draft a" in card


@pytest.mark.parametrize("value", [float("nan"), torch.float32, {1, 2}], ids=str)
def test_a_provenance_that_json_cannot_hold_is_not_published(tmp_path: Path, value: Any) -> None:
    made = provenance(training={"setting": value})
    with pytest.raises((ValueError, TypeError), match="JSON"):
        export_eagle3(eagle3_weights(), tmp_path / "draft", made, licence=LICENCE)
    assert names(tmp_path) == []


def export(kind: str, folder: Path, made: Provenance, overwrite: bool = False) -> None:
    if kind == "eagle3":
        export_eagle3(eagle3_weights(), folder, made, licence=LICENCE, overwrite=overwrite)
    elif kind == "eagle1":
        export_eagle1(eagle1_weights(), folder, made, licence=LICENCE, overwrite=overwrite)
    else:
        export_independent(llama(), None, folder, made, licence=LICENCE, overwrite=overwrite)


KINDS = ("eagle3", "eagle1", "independent")


@pytest.mark.parametrize("kind", KINDS)
def test_a_provenance_of_another_objective_is_refused(tmp_path: Path, kind: str) -> None:
    other: Any = "eagle1" if kind == "eagle3" else "eagle3"
    with pytest.raises(PublishError, match=f"objective '{other}'"):
        export(kind, tmp_path / "draft", provenance(objective=other))
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_that_fails_half_way_leaves_the_old_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder, made = tmp_path / "draft", provenance(objective=kind)
    export(kind, folder, made)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(PublishError, match="holds a draft already"):
        export(kind, folder, made)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space left"):
        export(kind, folder, made, overwrite=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert names(tmp_path) == ["draft"]


def test_an_eagle1_draft_for_the_embedded_target_stays_small_without_the_embedding() -> None:
    sizes = {"hidden_size": 576, "intermediate_size": 1536, "num_heads": 9, "num_kv_heads": 3}
    arch = replace(eagle1_weights().architecture, **sizes, head_dim=64, vocab_size=49152)
    assert 2 * sum(map(prod, arch.tensor_shapes().values())) < 25_000_000
    own = replace(arch, own_embedding=True)
    assert 2 * sum(map(prod, own.tensor_shapes().values())) > 25_000_000
