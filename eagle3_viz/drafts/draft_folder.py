"""One draft folder on disk, and the checks that the reader of every layout makes.

Every tensor the architecture needs must be there in its shape, and no tensor may be left over:
engines that skip unknown names draft with random weights and say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

MAX_CONFIG_BYTES = 1 << 20
NUMBER_FORMATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class CheckpointError(ValueError):
    """The folder holds no draft that can be read; the message says why in one sentence."""


@dataclass(frozen=True)
class DraftFolder:
    """Config and tensors as they stand on disk; every method raises CheckpointError.

    layout: what the errors call the layout that is being read, for instance "EAGLE-3".
    """

    name: str
    layout: str
    config: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]

    @classmethod
    def read(cls, folder: Path, layout: str) -> DraftFolder:
        """Raises when config or weights are missing, damaged or not plain data."""
        return cls(folder.name, layout, _read_config(folder), _read_tensors(folder))

    def matrix(self, key: str) -> tuple[int, int]:
        """Rows and columns of a tensor that sizes are taken from."""
        if key not in self.tensors or self.tensors[key].ndim != 2:
            raise CheckpointError(
                f"{self.name}: the matrix {key} is missing or not two-dimensional"
            )
        rows, columns = self.tensors[key].shape
        return rows, columns

    def integer(self, key: str, default: int | None = None) -> int:
        """A positive integer of the config; `default` where it is absent or null."""
        value = self.config.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CheckpointError(
                f"{self.name}: config.json needs a positive integer {key}; "
                f"found {str(value)[:40]!r}"
            )
        return value

    def boolean(self, key: str, default: bool) -> bool:
        """A switch of the config; `default` where it is absent or null."""
        value = self.config.get(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise CheckpointError(
                f"{self.name}: config.json needs true or false for {key}; found {str(value)[:40]!r}"
            )
        return value

    def heads(self, query_rows: int) -> tuple[int, int]:
        """Attention heads and key/value heads, which must divide the rows of q_proj."""
        heads = self.integer("num_attention_heads")
        kv_heads = self.integer("num_key_value_heads", heads)
        if query_rows % heads or heads % kv_heads:
            raise CheckpointError(
                f"{self.name}: q_proj has {query_rows} rows; config.json says {heads} heads "
                f"and {kv_heads} key/value heads, which does not divide"
            )
        return heads, kv_heads

    def rms_norm_eps(self) -> float:
        """The epsilon of the norms, 1e-6 where the config has none."""
        return self._positive(self.config, "rms_norm_eps", 1e-6)

    def rope_theta(self) -> float:
        """The base of the rotary embedding (FORMATS.md 7); a scaled embedding is refused."""
        nested = self.config.get("rope_parameters")
        nested = nested if isinstance(nested, dict) else {}
        for scaling in (self.config.get("rope_scaling"), nested):
            if not scaling:
                continue
            known = isinstance(scaling, dict)
            kind = scaling.get("rope_type", scaling.get("type")) if known else "?"
            if kind not in (None, "default"):
                raise CheckpointError(
                    f"{self.name}: config.json scales the rotary embedding ({str(kind)[:20]}), "
                    "which is not supported here"
                )
        source = self.config if self.config.get("rope_theta") is not None else nested
        return self._positive(source, "rope_theta", 10000.0)

    def refuse_settings(self, switches: Iterable[str]) -> None:
        """Refuse what the forward would not follow: other activations, set `switches`."""
        activation = self.config.get("hidden_act", "silu")
        if activation != "silu":
            raise CheckpointError(
                f"{self.name}: config.json asks for hidden_act {activation!r}; {self.layout} "
                "drafts use 'silu'"
            )
        for switch in switches:
            if self.config.get(switch):
                raise CheckpointError(
                    f"{self.name}: config.json sets {switch}, which the published {self.layout} "
                    "layout does not have and this reader does not follow"
                )

    def check_tensors(self, wanted: Mapping[str, tuple[int, ...]]) -> None:
        """All problems at once: missing, unused, misshapen, quantized and non-finite tensors."""
        tensors = self.tensors
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
            raise CheckpointError(
                f"{self.name}: the checkpoint does not fit the {self.layout} layout: "
                + "; ".join(problems)
            )

    def _positive(self, source: Mapping[str, Any], key: str, default: float) -> float:
        value = source.get(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise CheckpointError(
                f"{self.name}: config.json needs a positive number {key}; found {str(value)[:40]!r}"
            )
        return float(value)


def _read_config(folder: Path) -> dict[str, Any]:
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


def _read_tensors(folder: Path) -> dict[str, torch.Tensor]:
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
