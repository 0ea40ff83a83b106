"""Trained drafts as folders that this program and other engines read.

Each is written beside its place, read back strictly and compared, and only then takes its name: a
draft that a layout cannot hold, or that was damaged on the way, is never published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

from eagle3_viz.dequantize import without_progress_bars
from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights
from eagle3_viz.drafts.checkpoints import published_name, read_eagle3
from eagle3_viz.drafts.draft_folder import CheckpointError
from eagle3_viz.drafts.eagle1_checkpoint import Eagle1Architecture, Eagle1Weights, read_eagle1
from eagle3_viz.files import tensors_written
from eagle3_viz.training.draft_provenance import PROVENANCE, Objective, Provenance
from eagle3_viz.training.model_card import model_card
from eagle3_viz.training.publishing import PublishError, published
from eagle3_viz.training.vocabulary import DraftVocabulary

WEIGHTS = "model.safetensors"
_NOTHING: Mapping[str, Any] = MappingProxyType({})

Tensors = dict[str, torch.Tensor]


def export_eagle3(
    weights: Eagle3Weights,
    folder: Path,
    provenance: Provenance,
    *,
    licence: str,
    dtype: torch.dtype = torch.bfloat16,
    config: Mapping[str, Any] = _NOTHING,
    overwrite: bool = False,
) -> None:
    """Publish `weights` as `folder` in the published EAGLE-3 layout (FORMATS.md 3B).

    licence: SPDX identifier for the card. config: further keys of config.json, such as
    bos_token_id, eos_token_id, pad_token_id and max_position_embeddings. Raises PublishError when
    the layout cannot hold the draft or the name is taken, OSError when the disk refuses.
    """
    _refuse_objective(provenance, "eagle3", "eagle3-no-ttt")
    arch = weights.architecture
    own = {"draft_vocab_size": arch.draft_vocab_size}
    if arch.target_hidden_size != arch.hidden_size:
        own["target_hidden_size"] = arch.target_hidden_size
    settings = _settings(arch, dtype, own, config)
    saved = _in_format(weights.tensors, dtype)
    tables: Tensors = {}
    if arch.vocab_map == "offset":
        vocabulary = DraftVocabulary.from_d2t(weights.d2t, arch.vocab_size)
        tables = {"d2t": vocabulary.d2t, "t2d": vocabulary.t2d}
    tensors = {published_name(name): tensor for name, tensor in saved.items()} | tables
    with published(folder, overwrite=overwrite) as partial:
        _write(partial, settings, tensors)
        try:
            found = read_eagle3(partial)
        except CheckpointError as error:
            raise PublishError(f"the EAGLE-3 layout cannot hold this draft: {error}") from error
        _refuse_changed(arch, found.architecture, saved, found.tensors)
        if not torch.equal(found.d2t, weights.d2t.cpu()):
            raise PublishError("the vocabulary map was not read back as it was written")
        _describe(partial, provenance, tensors, folder.name, licence)


def export_eagle1(
    weights: Eagle1Weights,
    folder: Path,
    provenance: Provenance,
    *,
    licence: str,
    dtype: torch.dtype = torch.bfloat16,
    config: Mapping[str, Any] = _NOTHING,
    overwrite: bool = False,
) -> None:
    """Publish `weights` as `folder` in the published EAGLE-1 layout (FORMATS.md 3A).

    An embedding that is the target's stays out of the file: readers of this layout take the
    target's then. Parameters and errors as `export_eagle3`.
    """
    _refuse_objective(provenance, "eagle1")
    arch = weights.architecture
    own = {"bias": arch.fc_bias, "qkv_bias": arch.attention_bias}
    settings = _settings(arch, dtype, own, config)
    saved = _in_format(weights.tensors, dtype)
    with published(folder, overwrite=overwrite) as partial:
        _write(partial, settings, saved)
        try:
            found = read_eagle1(partial)
        except CheckpointError as error:
            raise PublishError(f"the EAGLE-1 layout cannot hold this draft: {error}") from error
        _refuse_changed(arch, found.architecture, saved, found.tensors)
        _describe(partial, provenance, saved, folder.name, licence)


def export_independent(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerBase | None,
    folder: Path,
    provenance: Provenance,
    *,
    licence: str,
    dtype: torch.dtype = torch.bfloat16,
    overwrite: bool = False,
) -> None:
    """Publish a language model as `folder`, as transformers saves it; `model` stays as it is.

    Without a tokenizer the reader takes the target's. Errors as `export_eagle3`.
    """
    _refuse_objective(provenance, "independent")
    with published(folder, overwrite=overwrite) as partial, without_progress_bars():
        with tensors_written(partial / WEIGHTS):
            deepcopy(model).to("cpu", dtype).save_pretrained(partial)
        if tokenizer is not None:
            tokenizer.save_pretrained(partial)
        tensors = load_file(partial / WEIGHTS)
        broken = sorted(name for name, t in tensors.items() if not bool(torch.isfinite(t).all()))
        if broken:
            raise PublishError(f"the draft has non-finite values in {', '.join(broken)}")
        _describe(partial, provenance, tensors, folder.name, licence)


def _refuse_objective(provenance: Provenance, *expected: Objective) -> None:
    if provenance.objective not in expected:
        raise PublishError(
            f"the provenance is that of objective {provenance.objective!r}; a draft of this kind "
            f"has {' or '.join(map(repr, expected))}"
        )


def _settings(
    arch: Eagle3Architecture | Eagle1Architecture,
    dtype: torch.dtype,
    own: Mapping[str, Any],
    further: Mapping[str, Any],
) -> dict[str, Any]:
    """config.json of either layout: a flat Llama config, the layout's own keys, the caller's."""
    settings: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": arch.hidden_size,
        "intermediate_size": arch.intermediate_size,
        "num_attention_heads": arch.num_heads,
        "num_key_value_heads": arch.num_kv_heads,
        "num_hidden_layers": arch.num_layers,
        "rms_norm_eps": arch.rms_norm_eps,
        "rope_theta": arch.rope_theta,
        "tie_word_embeddings": False,
        "torch_dtype": str(dtype).removeprefix("torch."),
        "vocab_size": arch.vocab_size,
    } | dict(own)
    if arch.head_dim * arch.num_heads != arch.hidden_size:
        settings["head_dim"] = arch.head_dim
    if decided := sorted(settings.keys() & further):
        raise PublishError(f"the weights decide {', '.join(decided)} of config.json")
    return settings | dict(further)


def _in_format(tensors: Mapping[str, torch.Tensor], dtype: torch.dtype) -> Tensors:
    """Copies on the CPU, each with a memory of its own."""
    return {
        name: tensor.detach().to("cpu", dtype, copy=True).contiguous()
        for name, tensor in tensors.items()
    }


def _write(folder: Path, settings: dict[str, Any], tensors: Tensors) -> None:
    (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    with tensors_written(folder / WEIGHTS):
        save_file(tensors, folder / WEIGHTS, {"format": "pt"})


def _refuse_changed(
    arch: Eagle3Architecture | Eagle1Architecture,
    found: Eagle3Architecture | Eagle1Architecture,
    saved: Tensors,
    read: Tensors,
) -> None:
    """Raise PublishError where a reader of the layout would run another draft than was trained."""
    read_as = asdict(found)
    differing = [
        f"{name} {value} would be read as {read_as[name]}"
        for name, value in asdict(arch).items()
        if read_as[name] != value
    ]
    if differing:
        raise PublishError(f"the published layout cannot hold this draft: {'; '.join(differing)}")
    changed = sorted(name for name, tensor in saved.items() if not torch.equal(tensor, read[name]))
    if changed:
        raise PublishError(f"{', '.join(changed)} were not read back as they were written")


def _describe(
    folder: Path, provenance: Provenance, tensors: Tensors, name: str, licence: str
) -> None:
    card = model_card(provenance, tensors, name, licence)
    (folder / "README.md").write_text(card, encoding="utf-8")
    (folder / PROVENANCE).write_text(provenance.to_json(), encoding="utf-8")
