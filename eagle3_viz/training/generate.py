"""Many texts decoded side by side by the target, a finished one replaced at once.

Every text has a slot of one cache. Shapes never change while a job runs and the draws of a text
come from its own seed, so that a text depends on its request alone: not on its neighbours, not on
its slot, not on the order in which others finish.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch

from eagle3_viz.config import Sampling
from eagle3_viz.sampling import arg_max, inverse_transform, warp
from eagle3_viz.slot_cache import SlotCache
from eagle3_viz.target import TargetModel
from eagle3_viz.training.filters import loop_cut

Finish = Literal["eos", "len", "loop"]
FINISHES = get_args(Finish)

ROW_MULTIPLE = 8  # a float32 product of 5 rows on a CPU rounds the fifth another way than the first
LOOP_INTERVAL = 8  # tokens between two looks for a loop; at every token they cost 4 % of a step
MAX_PREFIXES = 64  # shared beginnings whose keys and values are kept


@dataclass(frozen=True)
class Request:
    """One text to continue.

    ids         token ids fed first, at least one.
    sampling    how tokens are drawn.
    seed        of the draws of this text.
    shared      how many of the leading ids other requests begin with too; computed once.
    """

    index: int
    ids: tuple[int, ...]
    max_new_tokens: int
    sampling: Sampling
    seed: str
    shared: int = 0


@dataclass(frozen=True)
class Completion:
    """What the target wrote: tokens with the end-of-sequence id, if it came; a loop is cut."""

    index: int
    tokens: tuple[int, ...]
    finish: Finish


@dataclass
class _Text:
    """A request at work. All its tokens but the last are in the cache; `next_id` is fed next."""

    request: Request
    draws: random.Random = field(init=False)
    tokens: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draws = random.Random(self.request.seed)

    @property
    def next_id(self) -> int:
        return self.tokens[-1] if self.tokens else self.request.ids[-1]

    @property
    def position(self) -> int:
        return len(self.request.ids) - 1 + len(self.tokens)

    def add(self, token: int, ends: frozenset[int]) -> Completion | None:
        """The completion, if `token` ends the text."""
        self.tokens.append(token)
        if token in ends:
            return self._completion(len(self.tokens), "eos")
        full = len(self.tokens) == self.request.max_new_tokens
        if full or len(self.tokens) % LOOP_INTERVAL == 0:
            cut = loop_cut(self.tokens)
            if cut is not None:
                return self._completion(cut, "loop")
        return self._completion(len(self.tokens), "len") if full else None

    def _completion(self, kept: int, finish: Finish) -> Completion:
        return Completion(self.request.index, tuple(self.tokens[:kept]), finish)


def generate(
    target: TargetModel,
    requests: Iterable[Request],
    *,
    slots: int,
    capacity: int,
    ends: frozenset[int],
) -> Iterator[Completion]:
    """Completions in the order in which they finish.

    capacity: tokens the longest text of the job may have, its answer included; with `slots` it
    fixes the shapes, so a job that is taken up again must pass what it passed before.
    ends: ids that end a text. Raises ValueError for a request that does not fit.
    """
    waiting = iter(requests)
    rows = -(-slots // ROW_MULTIPLE) * ROW_MULTIPLE
    cache = target.slot_cache(rows, capacity)
    filler = _Filler(target, cache)
    texts: list[_Text | None] = [filler.next_text(slot, waiting) for slot in range(slots)]
    texts += [None] * (rows - slots)
    while any(texts):
        ids = torch.tensor([text.next_id if text else 0 for text in texts])
        positions = torch.tensor([text.position if text else 0 for text in texts])
        chosen = _choose(target.step_slots(cache, ids, positions), texts)
        for slot, token in enumerate(chosen):
            text = texts[slot]
            done = text.add(token, ends) if text else None
            if done:
                yield done
                texts[slot] = filler.next_text(slot, waiting)


class _Filler:
    """Puts texts into slots: all but their last id, which the next step feeds."""

    def __init__(self, target: TargetModel, cache: SlotCache) -> None:
        self._target, self._cache = target, cache
        self._prefixes: dict[tuple[int, ...], list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def next_text(self, slot: int, waiting: Iterator[Request]) -> _Text | None:
        request = next(waiting, None)
        if request is None:
            return None
        longest = len(request.ids) + request.max_new_tokens
        if not request.ids or longest > self._cache.capacity:
            raise ValueError(
                f"request {request.index} may reach {longest} tokens; slots hold 1 to "
                f"{self._cache.capacity}"
            )
        start = min(request.shared, len(request.ids) - 1)
        if start:
            self._begin(slot, request.ids[:start])
        rest = request.ids[start:-1]
        if rest:
            self._target.fill_slot(self._cache, slot, rest, start)
        return _Text(request)

    def _begin(self, slot: int, prefix: tuple[int, ...]) -> None:
        known = self._prefixes.get(prefix)
        if known is not None:
            self._cache.restore(slot, known)
            return
        self._target.fill_slot(self._cache, slot, prefix)
        if len(self._prefixes) < MAX_PREFIXES:
            self._prefixes[prefix] = self._cache.prefix(slot, len(prefix))


@torch.inference_mode()
def _choose(logits: torch.Tensor, texts: Sequence[_Text | None]) -> list[int]:
    """The next token of each text from logits [rows, V]; rows without a text give any."""
    rows_by_sampling: dict[Sampling, list[int]] = {}
    for row, text in enumerate(texts):
        if text and text.request.sampling.temperature > 0:
            rows_by_sampling.setdefault(text.request.sampling, []).append(row)
    chosen = arg_max(logits)
    for sampling, rows in rows_by_sampling.items():
        index = torch.tensor(rows, device=logits.device)
        drawn = [text.draws.random() for row in rows if (text := texts[row])]
        uniform = torch.tensor(drawn, dtype=torch.float64, device=logits.device)
        chosen[index] = inverse_transform(warp(logits[index], sampling), uniform)
    return chosen.tolist()


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading ids two texts share."""
    pairs = enumerate(zip(first, second, strict=False))
    shortest = min(len(first), len(second))
    return next((i for i, (left, right) in pairs if left != right), shortest)
