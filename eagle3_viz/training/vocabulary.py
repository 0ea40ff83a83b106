"""The draft vocabulary: the target tokens a draft can propose, chosen from training text.

The head over it is the largest part of a draft, and a token outside it is never proposed: the share
of the target's own tokens inside bounds the acceptance that can be reached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from eagle3_viz.prompt_records import ALL
from eagle3_viz.text_lines import DataError
from eagle3_viz.training.conversations import Conversation


@dataclass(frozen=True, eq=False)
class DraftVocabulary:
    """DV of the target's V tokens; draft id i stands for target id ids[i].

    ids         int64 [DV], rising target ids.
    vocab_size  V.
    """

    ids: torch.Tensor
    vocab_size: int

    def __post_init__(self) -> None:
        """Raises DataError for ids that do not rise within the target's vocabulary."""
        ids = self.ids
        if ids.ndim != 1 or ids.dtype != torch.int64 or not len(ids):
            raise DataError(
                f"a draft vocabulary is a list of int64 ids; found {ids.dtype} {list(ids.shape)}"
            )
        rising = bool((ids[1:] > ids[:-1]).all())
        if not rising or int(ids[0]) < 0 or int(ids[-1]) >= self.vocab_size:
            raise DataError(
                f"the ids of a draft vocabulary must rise and lie from 0 to {self.vocab_size - 1}; "
                f"found {'rising' if rising else 'unordered'} ids from {int(ids.min())} to "
                f"{int(ids.max())}"
            )

    @classmethod
    def from_d2t(cls, d2t: torch.Tensor, vocab_size: int) -> DraftVocabulary:
        """From the offsets of a checkpoint, int64 [DV] (FORMATS.md 6). Raises DataError."""
        return cls(torch.arange(len(d2t)) + d2t.cpu(), vocab_size)

    @classmethod
    def full(cls, vocab_size: int) -> DraftVocabulary:
        """Every token of the target: draft ids are target ids."""
        return cls(torch.arange(vocab_size), vocab_size)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def d2t(self) -> torch.Tensor:
        """int64 [DV], offsets: target id = draft id + d2t[draft id]."""
        return self.ids - torch.arange(len(self.ids))

    @cached_property
    def t2d(self) -> torch.Tensor:
        """bool [V], true at the tokens the draft has."""
        inside = torch.zeros(self.vocab_size, dtype=torch.bool)
        inside[self.ids] = True
        return inside

    @cached_property
    def draft_ids(self) -> torch.Tensor:
        """int64 [V], the draft id of each target token; -1 outside."""
        draft_ids = torch.full((self.vocab_size,), -1, dtype=torch.int64)
        draft_ids[self.ids] = torch.arange(len(self.ids))
        return draft_ids


def choose_vocabulary(
    conversations: Sequence[Conversation],
    size: int,
    vocab_size: int,
    *,
    always: Collection[int] = (),
) -> DraftVocabulary:
    """The `size` most frequent response tokens, ties by lower id.

    always: ids that are in whatever their count, such as those that end a text. Where fewer
    distinct tokens occur, the lowest ids that never do fill up: published heads have exactly `size`
    rows. Raises DataError when there is nothing to count or `size` cannot be met.
    """
    if not max(1, len(set(always))) <= size <= vocab_size:
        raise DataError(
            f"a draft vocabulary of {size} tokens cannot be made: it needs at least the "
            f"{len(set(always))} that are always in and at most the target's {vocab_size}"
        )
    if not all(0 <= i < vocab_size for i in always):
        raise DataError(f"the ids that are always in must lie below {vocab_size}: {sorted(always)}")
    counts = torch.bincount(_response_ids(conversations, vocab_size), minlength=vocab_size)
    counts[list(always)] = int(counts.sum()) + 1
    # A stable sort keeps equal counts, also those of zero, in the order of their ids.
    ranked = torch.sort(counts, descending=True, stable=True).indices
    return DraftVocabulary(ranked[:size].sort().values, vocab_size)


def coverage_by_domain(
    vocabulary: DraftVocabulary, conversations: Sequence[Conversation]
) -> dict[str, float]:
    """Share of the response tokens that lie inside, by domain in order of name, then over ALL.

    Raises DataError without a response token.
    """
    groups = {
        domain: [c for c in conversations if c.domain == domain]
        for domain in sorted({c.domain for c in conversations})
    }
    return {
        domain: float(vocabulary.t2d[_response_ids(chosen, vocabulary.vocab_size)].double().mean())
        for domain, chosen in (groups | {ALL: list(conversations)}).items()
    }


def _response_ids(conversations: Iterable[Conversation], vocab_size: int) -> torch.Tensor:
    """All response tokens [n], int64."""
    ids = torch.tensor(
        [i for c in conversations for i in c.ids[c.response_start :]], dtype=torch.int64
    )
    if not len(ids):
        raise DataError("there are no response tokens to count")
    if int(ids.max()) >= vocab_size:
        raise DataError(
            f"the text has token {int(ids.max())}, the target only {vocab_size} tokens: it was "
            "made with another tokenizer"
        )
    return ids
