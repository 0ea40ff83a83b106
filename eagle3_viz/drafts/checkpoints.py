"""Reading draft checkpoints from disk, strictly, into the canonical form.

Every tensor the architecture needs must be there in its shape, and no tensor may be left over:
engines that skip unknown names draft with random weights and say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from eagle3_viz.drafts.architecture import Eagle3Architecture, Eagle3Weights

MAX_CONFIG_BYTES = 1 << 20
NUMBER_FORMATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
# Settings of other layouts that leave no trace in the weights: ignoring one drafts wrongly.
FOREIGN_SWITCHES = (
    "norm_before_residual",
    "norm_output",
    "eagle_config",
    "eagle_aux_hidden_state_layer_ids",
)


class CheckpointError(ValueError):
    """The folder holds no draft that can be read; the message says why in one sentence."""


def read_eagle3(folder: Path) -> Eagle3Weights:
    """Read a draft in the published EAGLE-3 layout (FORMATS.md 3B).

    Raises CheckpointError naming each missing, misshapen or unused tensor.
    """
    config, tensors = read_config(folder), read_tensors(folder)
    midlayer = "midlayer."
    if "midlayer.self_attn.q_proj.weight" not in tensors:
        raise CheckpointError(
            f"{folder.name}: no tensor midlayer.self_attn.q_proj.weight; "
            "this is not a draft in the published EAGLE-3 layout"
        )
    named = {
        "layers.0." + name.removeprefix(midlayer) if name.startswith(midlayer) else name: tensor
        for name, tensor in tensors.items()
    }
    d2t, t2d = named.pop("d2t", None), named.pop("t2d", None)
    architecture = _architecture(folder.name, config, named)
    _check_tensors(folder.name, architecture, named)
    offsets = _vocabulary_map(folder.name, architecture, d2t, t2d)
    return Eagle3Weights(architecture, named, offsets)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json as a dict; CheckpointError when missing, too large or not JSON."""
    path = folder / "config.json"
    if not path.is_file():
        raise CheckpointError(f"{folder.name}: there is no config.json; is this a draft folder?")
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise CheckpointError(f"{folder.name}: config.json is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested without end
        raise CheckpointError(f"{folder.name}: config.json is not valid JSON ({error})") from None
    if not isinstance(config, dict):
        raise CheckpointError(f"{folder.name}: config.json must hold an object")
    return config


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of model.safetensors, else of pytorch_model.bin (never unpickling code)."""
    safe, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    if safe.is_file():
        try:
            return load_file(safe)
        except SafetensorError as error:
            raise CheckpointError(f"{folder.name}: {safe.name} is damaged ({error})") from None
    if not pickled.is_file():
        raise CheckpointError(f"{folder.name}: neither {safe.name} nor {pickled.name} is there")
    try:
        loaded = torch.load(pickled, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CheckpointError(
            f"{folder.name}: {pickled.name} is not a plain tensor file ({type(error).__name__}); "
            "convert it to safetensors"
        ) from error
    if not isinstance(loaded, dict) or not all(
        isinstance(name, str) and isinstance(t, torch.Tensor) for name, t in loaded.items()
    ):
        raise CheckpointError(f"{folder.name}: {pickled.name} holds no table of named tensors")
    return loaded


def _architecture(
    name: str, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
) -> Eagle3Architecture:
    """Sizes from the tensors where they show, from the config where they leave no trace."""
    query = _matrix(name, tensors, "layers.0.self_attn.q_proj.weight")
    output = _matrix(name, tensors, "layers.0.self_attn.o_proj.weight")
    fc = _matrix(name, tensors, "fc.weight")
    head = _matrix(name, tensors, "lm_head.weight")
    hidden, heads = output[0], _integer(name, config, "num_attention_heads")
    kv_heads = _integer(name, config, "num_key_value_heads", heads)
    target_hidden = _integer(name, config, "target_hidden_size", hidden)
    if query[0] % heads or heads % kv_heads:
        raise CheckpointError(
            f"{name}: q_proj has {query[0]} rows; config.json says {heads} heads "
            f"and {kv_heads} key/value heads, which does not divide"
        )
    if query[1] != 2 * hidden:
        raise CheckpointError(
            f"{name}: q_proj reads {query[1]} values; an EAGLE-3 draft of width {hidden} "
            f"reads {2 * hidden} (embedding and feature)"
        )
    _refuse_foreign_config(name, config)
    return Eagle3Architecture(
        hidden_size=hidden,
        target_hidden_size=target_hidden,
        intermediate_size=_matrix(name, tensors, "layers.0.mlp.gate_proj.weight")[0],
        num_layers=1,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=query[0] // heads,
        vocab_size=_integer(name, config, "vocab_size"),
        draft_vocab_size=head[0],
        num_taps=fc[1] // target_hidden,
        rms_norm_eps=_positive(name, config, "rms_norm_eps", 1e-6),
        rope_theta=_rope_theta(name, config),
        own_embedding="embed_tokens.weight" in tensors,
    )


def _refuse_foreign_config(name: str, config: Mapping[str, Any]) -> None:
    """Raise CheckpointError for settings that this forward would not follow."""
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise CheckpointError(
            f"{name}: config.json asks for hidden_act {activation!r}; EAGLE-3 drafts use 'silu'"
        )
    for switch in FOREIGN_SWITCHES:
        if config.get(switch):
            raise CheckpointError(
                f"{name}: config.json sets {switch}, which the published EAGLE-3 layout does not "
                "have and this reader does not follow"
            )


def _rope_theta(name: str, config: Mapping[str, Any]) -> float:
    """The base of the rotary embedding (FORMATS.md 7). Raises CheckpointError on a scaled one."""
    nested = config.get("rope_parameters")
    nested = nested if isinstance(nested, dict) else {}
    for scaling in (config.get("rope_scaling"), nested):
        if not scaling:
            continue
        kind = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, dict) else "?"
        if kind not in (None, "default"):
            raise CheckpointError(
                f"{name}: config.json scales the rotary embedding ({str(kind)[:20]}), which is "
                "not supported here"
            )
    source = config if config.get("rope_theta") is not None else nested
    return _positive(name, source, "rope_theta", 10000.0)


def _check_tensors(
    name: str, architecture: Eagle3Architecture, tensors: Mapping[str, torch.Tensor]
) -> None:
    wanted = architecture.tensor_shapes()
    problems = [f"missing {key} {list(wanted[key])}" for key in sorted(wanted.keys() - tensors)]
    problems += [
        f"unused {key} {list(tensors[key].shape)}" for key in sorted(tensors.keys() - wanted)
    ]
    problems += [
        f"misshapen {key}: expected {list(shape)}, found {list(tensors[key].shape)}"
        for key, shape in wanted.items()
        if key in tensors and tuple(tensors[key].shape) != shape
    ]
    problems += [
        f"{key} is {tensor.dtype}, not one of 16 to 64 bit floating point"
        for key, tensor in tensors.items()
        if tensor.dtype not in NUMBER_FORMATS
    ]
    problems += [
        f"non-finite values in {key}"
        for key, tensor in tensors.items()
        if tensor.dtype in NUMBER_FORMATS and not bool(torch.isfinite(tensor).all())
    ]
    if problems:
        listed = "; ".join(problems).replace("layers.0.", "midlayer.")
        raise CheckpointError(f"{name}: the checkpoint does not fit the EAGLE-3 layout: {listed}")


def _vocabulary_map(
    name: str,
    architecture: Eagle3Architecture,
    d2t: torch.Tensor | None,
    t2d: torch.Tensor | None,
) -> torch.Tensor:
    """Offsets [DV], int64 (FORMATS.md 6); zeros where the draft has the whole vocabulary."""
    size, vocab = architecture.draft_vocab_size, architecture.vocab_size
    if size == vocab:
        return torch.zeros(size, dtype=torch.int64)
    if d2t is None:
        raise CheckpointError(
            f"{name}: the draft has {size} of {vocab} tokens but no d2t table, so its tokens "
            "cannot be told apart"
        )
    if d2t.shape != (size,) or d2t.dtype != torch.int64:
        raise CheckpointError(
            f"{name}: d2t must be int64 [{size}]; found {d2t.dtype} {list(d2t.shape)}"
        )
    if t2d is None and not bool(d2t.any()):
        raise CheckpointError(
            f"{name}: d2t is all zero and there is no t2d to confirm that the draft has the first "
            f"{size} tokens: the vocabulary map was probably never saved"
        )
    ids = torch.arange(size) + d2t
    if int(ids.min()) < 0 or int(ids.max()) >= vocab or bool((ids[1:] <= ids[:-1]).any()):
        raise CheckpointError(
            f"{name}: d2t must hold offsets that give rising target ids below {vocab}; "
            "found ids that do not (are they absolute ids?)"
        )
    if t2d is not None:
        inside = torch.zeros(vocab, dtype=torch.bool)
        inside[ids] = True
        if t2d.shape != (vocab,) or not torch.equal(t2d.bool(), inside):
            raise CheckpointError(f"{name}: t2d and d2t disagree on which tokens the draft has")
    return d2t


def _matrix(name: str, tensors: Mapping[str, torch.Tensor], key: str) -> tuple[int, int]:
    if key not in tensors or tensors[key].ndim != 2:
        shown = key.replace("layers.0.", "midlayer.")
        raise CheckpointError(f"{name}: the matrix {shown} is missing or not two-dimensional")
    rows, columns = tensors[key].shape
    return rows, columns


def _integer(name: str, config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError(
            f"{name}: config.json needs a positive integer {key}; found {str(value)[:40]!r}"
        )
    return value


def _positive(name: str, config: Mapping[str, Any], key: str, default: float) -> float:
    value = config.get(key)
    value = default if value is None else value
    if not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise CheckpointError(
            f"{name}: config.json needs a positive number {key}; found {str(value)[:40]!r}"
        )
    return float(value)
