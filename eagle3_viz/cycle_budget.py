"""Where the milliseconds of a cycle go, and the least each part could take.

The phases are what the engine's own clock says of a run. Attention and LM head are parts of the
verification: they are measured once more alone, behind the text that the run left in the cache. A
floor is the matrix products of a part and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from eagle3_viz.attention import additive_mask, grouped_attention
from eagle3_viz.chat import encode_chat
from eagle3_viz.config import DecodeConfig
from eagle3_viz.decode import decode
from eagle3_viz.drafts.feature_draft import FeatureDraft
from eagle3_viz.floor import draft_products, forward_products, median_ms, products_ms
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


def run_cycles(pair: LoadedPair, prompt: str, config: DecodeConfig) -> list[Cycle]:
    """The cycles of one run but the first few. Raises ValueError when none is left."""
    ids = encode_chat(pair.tokenizer, prompt)
    records = list(decode(pair.target, pair.draft(config.method), ids, config))
    cycles = [record for record in records if isinstance(record, Cycle)][WARM_UP:]
    if not cycles:
        raise ValueError(
            f"the text ended after {len(records) - 1} cycles, and the first {WARM_UP} only warm "
            "up: ask for more tokens, or something that takes a longer answer"
        )
    return cycles


@torch.inference_mode()
def budget(pair: LoadedPair, config: DecodeConfig, cycles: Sequence[Cycle]) -> list[Part]:
    """The budget of cycles that `run_cycles` just ran on this pair."""
    target = pair.target
    rows = int(median(cycle.verified for cycle in cycles))
    verify = median(cycle.timing.verify for cycle in cycles)
    floor = products_ms(forward_products(target, rows), target.dtype, target.device)
    head = products_ms([(target.head_projection, rows)], target.dtype, target.device)
    attention = median_ms(_attention(target, rows), target.device)
    of_draft = _draft_parts(pair, config, cycles)
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
        Part("everything else", 2, max(0.0, verify - head - attention), floor - head),
        Part("accept", 1, _phase(cycles, "accept")),
        Part("commit", 1, _phase(cycles, "commit")),
        Part("record, not in the cycle", 0, _phase(cycles, "record")),
    ]


def _draft_parts(pair: LoadedPair, config: DecodeConfig, cycles: Sequence[Cycle]) -> list[Part]:
    """The draft as a whole, then its passes: verified positions, and each level of the tree."""
    draft = pair.draft(config.method)
    levels = max(len(cycle.timing.draft_levels) for cycle in cycles)
    if draft is None or not levels:
        return []
    floor = None
    if isinstance(draft, FeatureDraft) and config.method != "eagle1":
        committed = round(sum(len(cycle.tokens) for cycle in cycles) / len(cycles))
        products = draft_products(draft, config.shape, committed)
        floor = products_ms(products, pair.target.dtype, pair.target.device)
    whole = Part("draft", 1, median(cycle.timing.draft for cycle in cycles), floor)
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
