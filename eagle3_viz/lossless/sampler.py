"""Texts drawn with the engine from one prefix, many times over.

What runs is the engine's `Loop`: the draft's tree builder with its draws, verification in one
forward with the tree mask, the rule with its draws, and the commit that keeps a path in the cache
and feeds it to the draft. Only forwards that were made before are not made again (`memo`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch

from eagle3_viz.config import DecodeConfig
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.stepped import SteppedDraft
from eagle3_viz.endings import Endings
from eagle3_viz.loop import Loop
from eagle3_viz.lossless.chi_square import Text
from eagle3_viz.lossless.exact import Prefix
from eagle3_viz.lossless.memo import MemoDraft, MemoTarget, RestartedDraft
from eagle3_viz.records import Origin
from eagle3_viz.target import TargetModel


@dataclass(frozen=True)
class Drawn:
    """One text and where its tokens came from."""

    text: Text
    origins: tuple[Origin, ...]


class Sampler:
    """Draws texts after one prefix with one draft, under any rule; None for autoregression."""

    def __init__(self, target: TargetModel, draft: Draft | None, prefix: Prefix) -> None:
        self.target = MemoTarget(target)
        self.draft: Any = draft and (
            MemoDraft(draft) if isinstance(draft, SteppedDraft) else RestartedDraft(draft)
        )
        self.prefix = prefix

    def draws(self, kind: type[Loop], config: DecodeConfig) -> Iterator[Drawn]:
        """Texts of config.max_new_tokens tokens, without end, from one seeded generator.

        The target serves one iterator at a time: each begins with a prefill.
        """
        target = cast(TargetModel, self.target)
        self._prefill()
        loop = kind(target, self.draft, config)
        while True:
            self.target.rewind()
            if self.draft is not None:
                self.draft.rewind()
            loop.root, loop.unseen = self.prefix.root, None
            endings = Endings(target.end_of_sequence, target.context_limit, config, ())
            cycles = list(loop.cycles(endings))
            yield Drawn(
                tuple(token for cycle in cycles for token in cycle.tokens),
                tuple(origin for cycle in cycles for origin in cycle.origins),
            )

    @torch.inference_mode()
    def _prefill(self) -> None:
        """As `Loop.prefill`, but the root is given."""
        ids = list(self.prefix.ids)
        self.target.taps.select(() if self.draft is None else self.draft.boundaries)
        step = self.target.prefill(ids)
        if self.draft is not None:
            self.draft.start(ids[0])
            self.draft.extend(step.features, [*ids[1:], self.prefix.root])
