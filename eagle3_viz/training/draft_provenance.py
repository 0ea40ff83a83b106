"""What made a draft: stored beside its weights, and what its model card is written from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from eagle3_viz.provenance import git_commit, versions

PROVENANCE = "provenance.json"  # beside the weights of every published draft
MAX_BYTES = 1 << 20
Objective = Literal["eagle1", "eagle3", "eagle3-no-ttt", "independent"]


@dataclass(frozen=True)
class Provenance:
    """What made a draft, so that it can be made again.

    objective              what was trained; "eagle3-no-ttt" is one step without unrolling.
    target, revision       name of the target, and its revision or the SHA-256 of its weights.
    chat_template_sha256   of the template the text was rendered with.
    boundaries             tapped residual streams of the target; empty where none are read.
    data_sha256            `conversations.fingerprint` of the training text.
    conversations          of the training text.
    response_tokens        of the training text, the ones that were trained on.
    training               settings of the run, plain JSON values.
    steps                  optimizer steps.
    token_passes           response tokens passed, every repetition counted.
    seconds                wall-clock time of the training.
    accuracy               held-out share of positions where draft and target have the same most
                           likely token, one by draft step; empty where it was not measured.
    coverage               share of response tokens inside the draft vocabulary, by domain.
    started_from           name of the draft whose weights were the start; None: from scratch.
    started_token_passes   response tokens that one had been passed before.
    versions, commit       of the program that trained; commit "" outside a checkout.
    """

    objective: Objective
    target: str
    revision: str
    chat_template_sha256: str
    boundaries: tuple[int, ...]
    data_sha256: str
    conversations: int
    response_tokens: int
    training: Mapping[str, Any]
    steps: int
    token_passes: int
    seconds: float
    accuracy: tuple[float, ...] = ()
    coverage: Mapping[str, float] = field(default_factory=dict)
    started_from: str | None = None
    started_token_passes: int = 0
    versions: Mapping[str, str] = field(default_factory=versions)
    commit: str = field(default_factory=git_commit)

    def __post_init__(self) -> None:
        """Raises ValueError for an objective that nothing here trains."""
        if self.objective not in get_args(Objective):
            known = ", ".join(get_args(Objective))
            raise ValueError(f"unknown objective {self.objective!r}; known are {known}")

    def to_json(self) -> str:
        """Raises ValueError or TypeError for a value that JSON has no form for, such as NaN."""
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"


def passes_of(folder: Path) -> int:
    """Response tokens that a draft and what it was started from have been passed; 0 if unknown."""
    passed, before = (_count(folder, name) for name in ("token_passes", "started_token_passes"))
    return 0 if passed is None or before is None else passed + before


def steps_of(folder: Path) -> int | None:
    """Optimizer steps that the draft in `folder` was trained for; None if unknown."""
    return _count(folder, "steps")


def _count(folder: Path, name: str) -> int | None:
    try:
        with (folder / PROVENANCE).open("rb") as file:
            return int(json.loads(file.read(MAX_BYTES))[name])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
