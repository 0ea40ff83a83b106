"""Where the milliseconds of a cycle go, and the least each part could take.

The phases are what the engine's own clock says of a run. Attention and LM head are parts of the
verification: they are measured once more alone. A floor is the matrix products of a part and
nothing else, multiplied behind every cycle in the order that the cycle has them: on the same
machine in the same state, with weights in the caches that are there in a cycle too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from eagle3_viz.attention import additive_mask, grouped_attention
from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig
from eagle3_viz.decode import decode
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.floor import (
    Products,
    draft_products,
    forward_products,
    median_ms,
    products_once_ms,
)
from eagle3_viz.pairs import LoadedPair
from eagle3_viz.records import Cycle
from eagle3_viz.target import TargetModel

WARM_UP = 2  # cycles that pay for cold caches, and for the prompt's features


@dataclass(frozen=True)
class Part:
    """One line of the budget: median milliseconds a cycle.

    level  0 for the cycle, 1 for a phase, 2 for a part of a phase.
    floor  of its matrix products alone; None where it has none, or they were not measured.
    """

    name: str
    level: int
    ms: float
    floor: float | None = None


@dataclass(frozen=True)
class Measured:
    """A cycle, and the milliseconds that its matrix products took alone right behind it.

    draft  None where there are none, or they are not known.
    body   of the verification, but for its LM head.
    """

    cycle: Cycle
    draft: float | None
    body: float
    head: float


def run_cycles(pair: LoadedPair, prompt: str, config: DecodeConfig) -> list[Measured]:
    """The cycles of one run but the first few. Raises ValueError when none is left."""
    ids = encode_chat(pair.tokenizer, prompt)
    measured = list(_measured(pair, ids, config))
    if len(measured) <= WARM_UP:
        raise ValueError(
            f"the text ended after {len(measured)} cycles, and the first {WARM_UP} only warm "
            "up: ask for more tokens, or something that takes a longer answer"
        )
    return measured[WARM_UP:]


def _measured(pair: LoadedPair, ids: Sequence[int], config: DecodeConfig) -> Iterator[Measured]:
    target, draft = pair.target, pair.draft(config.method)
    known = draft if isinstance(draft, FeatureDraft) and config.method != "eagle1" else None
    taken_over = 1  # by the draft: what the cycle before committed

    def once(products: Products) -> float:
        return products_once_ms(products, target.dtype, target.device)

    for cycle in decode(target, draft, ids, config):
        if isinstance(cycle, Cycle):
            *body, head = forward_products(target, cycle.verified)
            of_draft = once(draft_products(known, config.shape, taken_over)) if known else None
            yield Measured(cycle, of_draft, once(body), once([head]))
            taken_over = len(cycle.tokens)


@torch.inference_mode()
def budget(target: TargetModel, measured: Sequence[Measured]) -> list[Part]:
    """The budget of what `run_cycles` just ran on this target."""
    cycles = [one.cycle for one in measured]
    rows = int(median(cycle.verified for cycle in cycles))
    verify = median(cycle.timing.verify for cycle in cycles)
    floor = median(one.body + one.head for one in measured)
    head = median(one.head for one in measured)
    attention = median_ms(_attention(target, rows), target.device)
    of_draft = _draft_parts(measured)
    total = median(cycle.timing.total for cycle in cycles)
    known = [part.floor for part in of_draft[:1] if part.floor is not None]
    whole = None if of_draft and not known else floor + sum(known)
    return [
        Part("cycle", 0, total, whole),
        *of_draft,
        Part("tree", 1, _phase(cycles, "tree")),
        Part("verify", 1, verify, floor),
        Part("LM head", 2, head, head),
        Part("attention", 2, attention),
        Part(
            "everything else",
            2,
            max(0.0, verify - head - attention),
            median(one.body for one in measured),
        ),
        Part("accept", 1, _phase(cycles, "accept")),
        Part("commit", 1, _phase(cycles, "commit")),
        Part("record, not in the cycle", 0, _phase(cycles, "record")),
    ]


def _draft_parts(measured: Sequence[Measured]) -> list[Part]:
    """The draft as a whole, then its passes: verified positions, and each level of the tree."""
    cycles = [one.cycle for one in measured]
    levels = max(len(cycle.timing.draft_levels) for cycle in cycles)
    if not levels:
        return []
    floors = [one.draft for one in measured if one.draft is not None]
    whole = Part(
        "draft", 1, median(c.timing.draft for c in cycles), median(floors) if floors else None
    )
    names = ["verified positions", *(f"level {level}" for level in range(2, levels + 1))]
    passes = [
        [c.timing.draft_levels[i] for c in cycles if i < len(c.timing.draft_levels)]
        for i in range(levels)
    ]
    return [whole, *(Part(n, 2, median(took)) for n, took in zip(names, passes, strict=True))]


def _attention(target: TargetModel, rows: int) -> Callable[[], None]:
    """Attention of `rows` tree nodes over the committed tokens and themselves, in every layer."""
    seen = target.cache.length + rows
    target.cache.reserve(seen)
    heads, kv_heads = target.config.num_attention_heads, target.config.num_key_value_heads
    visible = torch.ones(rows, seen, dtype=torch.bool, device=target.device)
    mask = additive_mask(visible, heads // kv_heads, target.dtype) if rows > 1 else None
    layers = target.cache.by_layer
    size = layers[0][0].shape[-1]
    query = torch.ones(1, heads, rows, size, dtype=target.dtype, device=target.device)

    def run() -> None:
        for keys, values in layers:
            grouped_attention(query, keys[:, :, :seen], values[:, :, :seen], mask)

    return run


def _phase(cycles: Sequence[Cycle], name: str) -> float:
    return median(getattr(cycle.timing, name) for cycle in cycles)
