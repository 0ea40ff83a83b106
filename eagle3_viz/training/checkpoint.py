"""State of an unfinished training job: one file, replaced whole, from which it goes on exactly."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from eagle3_viz.files import flush, tensors_written
from eagle3_viz.text_lines import DataError

FILE = "checkpoint.safetensors"


@dataclass(frozen=True)
class Progress:
    """How far a job is: optimizer steps, response tokens passed, seconds, place in the data.

    planned is the number of tokens that the learning rate was led for; 0 where it is not known.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    epoch: int = 0
    micro_batch: int = 0
    planned: int = 0


def save_checkpoint(
    folder: Path, progress: Progress, job: dict[str, Any], state: dict[str, torch.Tensor]
) -> None:
    """Replace the checkpoint of `folder`; `job` (plain JSON values) says what it belongs to."""
    partial = folder / (FILE + ".partial")
    record = {"progress": json.dumps(asdict(progress)), "job": json.dumps(job, sort_keys=True)}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    with tensors_written(folder / FILE):
        save_file(tensors, partial, record)
    flush(partial)
    partial.replace(folder / FILE)


def load_checkpoint(
    folder: Path, job: dict[str, Any]
) -> tuple[Progress, dict[str, torch.Tensor]] | None:
    """The state to go on from, None where there is none.

    Raises DataError for a damaged file and for one that belongs to another job than `job`.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            record = file.metadata() or {}
            progress = Progress(**json.loads(record["progress"]))
            found = _flat(dict(json.loads(record["job"])))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is damaged or of another version: delete it to begin anew, or train into "
            "another folder"
        ) from error
    wanted = _flat(json.loads(json.dumps(job)))
    differing = [key for key in wanted | found if wanted.get(key) != found.get(key)]
    if differing:
        differing.sort(key=lambda key: ("." in key, key))  # the whole before its parts
        shown = "; ".join(f"{k} was {found.get(k)!r}, now {wanted.get(k)!r}" for k in differing)
        raise DataError(f"{path} belongs to another job: {shown[:400]}. Train into another folder")
    return progress, state


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Nested values by names joined with dots, so that a difference can be named."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": part for inner, part in _flat(value).items()}
        else:
            flat[name] = value
    return flat
