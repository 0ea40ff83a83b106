"""Does this draft belong to that target? Answered from configs and tensor shapes alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from eagle3_viz.embedded import PairError
from eagle3_viz.wording import json_kind

_CONFIG_LIMIT = 10_000_000  # bytes; a real config.json has a few thousand
_TRAINER_PREFIXES = ("module.", "draft_model.", "model.")
_FLOATING = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a checkpoint, unread."""

    shape: tuple[int, ...]
    floating: bool


def read_config(folder: Path) -> dict[str, Any]:
    """config.json as a dictionary. Raises PairError when it is missing or not a JSON object."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise PairError(f"There is no folder {folder}: check the path.")
    if not path.is_file():
        raise PairError(
            f"The folder {folder} holds no config.json: give the folder that has the model's "
            "config.json and its weights."
        )
    try:
        if path.stat().st_size > _CONFIG_LIMIT:
            raise ValueError("larger than any model's config")
        config = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError(f"a JSON object was expected, found {json_kind(config)}")
    except (OSError, ValueError) as error:
        raise PairError(f"{path} is not a readable model config: {error}.") from error
    return config


def tensor_table(folder: Path) -> dict[str, TensorInfo]:
    """Every tensor of the folder's weight files by name, without reading the values.

    safetensors win over pytorch_model*.bin when both exist. Raises PairError on a damaged file or
    on a folder without weights.
    """
    safe = sorted(folder.glob("*.safetensors"))
    pickled = [] if safe else sorted(folder.glob("pytorch_model*.bin"))
    if not safe and not pickled:
        raise PairError(
            f"The folder {folder} holds no weights: model.safetensors or pytorch_model.bin "
            "(or their shards) was expected."
        )
    table: dict[str, TensorInfo] = {}
    for path in (*safe, *pickled):
        try:
            table |= _safetensors_table(path) if safe else _pickled_table(path)
        except (SafetensorError, UnpicklingError, OSError, RuntimeError, ValueError) as error:
            first = str(error).splitlines()[0][:200].rstrip(".")
            raise PairError(f"{path} is damaged or not a weights file: {first}.") from error
    return table


def _safetensors_table(path: Path) -> dict[str, TensorInfo]:
    with safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {
            name: TensorInfo(tuple(part.get_shape()), part.get_dtype() in _FLOATING)
            for name, part in slices.items()
        }


def _pickled_table(path: Path) -> dict[str, TensorInfo]:
    """Through torch's tensors-only reader, mapped: no code runs and no value is read."""
    tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return {
        name: TensorInfo(tuple(tensor.shape), tensor.is_floating_point())
        for name, tensor in tensors.items()
        if isinstance(tensor, torch.Tensor)
    }


def parameter_count(table: Mapping[str, TensorInfo]) -> int:
    """Numbers in the floating-point tensors; index tables (d2t, t2d) do not count."""
    return sum(prod(info.shape) for info in table.values() if info.floating)


def check_compatible(target_folder: Path, draft_folder: Path) -> str | None:
    """The reason, as a sentence, why the draft cannot serve the target; None when it can.

    Compares the width of the target states the draft reads and the size of the vocabulary it maps
    into. Agreement does not prove that the draft was trained for this target. An independent
    language model reads no states; its tokenizer is compared when it is loaded.
    """
    try:
        target = _language_part(read_config(target_folder))
        draft = _language_part(read_config(draft_folder))
        table = tensor_table(draft_folder)
    except PairError as error:
        return str(error)
    if is_language_model(table):
        return None
    names = f"The draft {draft_folder.name} was made for a target"
    width, wanted = _target_width(draft, table), target.get("hidden_size")
    if width != wanted:
        return (
            f"{names} of hidden size {width:g}, and {target_folder.name} has {wanted}: "
            "choose the draft that belongs to this target."
        )
    vocabulary, wanted = _vocabulary(draft, table), target.get("vocab_size")
    if vocabulary != wanted:
        return (
            f"{names} with {vocabulary} tokens, and {target_folder.name} has {wanted}: "
            "choose the draft that belongs to this target."
        )
    return None


def is_language_model(table: Mapping[str, TensorInfo]) -> bool:
    """Whether the tensors are a whole causal LM of transformers, and no head on another model."""
    return "model.embed_tokens.weight" in table and _shape(table, "fc.weight") is None


def _language_part(config: dict[str, Any]) -> dict[str, Any]:
    """The config with the sizes of a nested language model or draft layer on top."""
    for key in ("text_config", "transformer_layer_config"):
        if isinstance(nested := config.get(key), dict):
            return config | nested
    return config


def _target_width(config: Mapping[str, Any], table: Mapping[str, TensorInfo]) -> float:
    """Hidden size of the target the draft reads: from fc's columns, else from the config."""
    fc = _shape(table, "fc.weight")
    if fc is None:
        return float(config.get("target_hidden_size") or config.get("hidden_size") or 0)
    rows, columns = fc
    if _attention_width(table) == rows:  # EAGLE-1: embedding and one target state, side by side
        return float(columns - rows)
    return columns / _tap_count(config)


def _tap_count(config: Mapping[str, Any]) -> int:
    nested = config.get("eagle_config")
    for source in (config, nested if isinstance(nested, dict) else {}):
        ids = source.get("eagle_aux_hidden_state_layer_ids")
        if isinstance(ids, list) and ids:
            return len(ids)
    count = config.get("num_aux_hidden_states")
    return count if isinstance(count, int) and count > 0 else 3


def _attention_width(table: Mapping[str, TensorInfo]) -> int | None:
    """What layer 0's queries read: H in EAGLE-1, 2H in EAGLE-3."""
    for prefix in ("midlayer", "layers.0", "transformer"):
        if shape := _shape(table, f"{prefix}.self_attn.q_proj.weight"):
            return shape[1]
    return None


def _vocabulary(config: Mapping[str, Any], table: Mapping[str, TensorInfo]) -> object:
    t2d = _shape(table, "t2d")
    return t2d[0] if t2d else config.get("vocab_size")


def _shape(table: Mapping[str, TensorInfo], name: str) -> tuple[int, ...] | None:
    for prefix in ("", *_TRAINER_PREFIXES):
        if info := table.get(prefix + name):
            return info.shape
    return None
