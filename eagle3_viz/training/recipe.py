"""What to train, in the words of a person, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from eagle3_viz.training.draft_provenance import Objective as ObjectiveName
from eagle3_viz.training.draft_provenance import Provenance
from eagle3_viz.training.objective import Objective
from eagle3_viz.training.vocabulary import DraftVocabulary

Taps = Literal["three", "top"]
Publish = Callable[[Path, Provenance], None]


@dataclass(frozen=True)
class Recipe:
    """A draft to train.

    vocabulary  tokens an EAGLE-3 draft can propose; None is every token of the target. A draft with
                the target's head can propose all of them; there it bounds what is trained and
                scored.
    unroll      steps of the training-time test.
    taps        "three" is EAGLE-3; "top" puts the target's final state in place of each tap, so
                that nothing else changes, the number of parameters included.
    start       folder of a draft whose weights are the start; None starts fresh.
    licence     SPDX identifier for the card.
    width, layers  of an independent language model.
    """

    objective: ObjectiveName
    vocabulary: int | None
    unroll: int
    taps: Taps
    start: Path | None
    seed: int
    licence: str
    width: int = 192
    layers: int = 4

    def settings(self) -> dict[str, Any]:
        """What a person needs to train the same again, plain JSON values."""
        if self.objective == "independent":
            return {"width": self.width, "layers": self.layers}
        return {"unroll": self.unroll, "taps": self.taps, "vocabulary": self.vocabulary}


@dataclass(frozen=True)
class Product:
    """A draft in the making.

    vocabulary  tokens it can propose.
    boundaries  taps of the target that it reads.
    compute     format of forward and backward.
    publish     writes it as it is into a folder; None where no layout can hold it.
    """

    objective: Objective
    vocabulary: DraftVocabulary
    boundaries: tuple[int, ...]
    compute: torch.dtype
    publish: Publish | None
