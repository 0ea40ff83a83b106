"""The smallest pair that has everything: two layers, shared key/value heads, seven tokens.

So few tokens that a random draft is right often enough for paths of every length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagle3_viz.drafts.eagle1 import Eagle1Draft
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.endings import Endings
from eagle3_viz.loop import Loop
from eagle3_viz.records import Cycle, Prefill
from eagle3_viz.target import TargetModel
from tests.tiny_models import random_ids, tiny_draft, tiny_eagle1_weights, tiny_target

TOKENS = 7
PROMPT = random_ids(9, 1, TOKENS)


def small_target(family: str = "llama", **changes: Any) -> TargetModel:
    """Two layers."""
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    if changes.get("layer_types") is None and family.endswith("sliding"):
        sizes["max_window_layers"] = 1
    return tiny_target(family, vocab_size=TOKENS, **(sizes | changes))


def small_draft(target: TargetModel, **switches: Any) -> Eagle3Draft:
    """Reads three of its taps; knows five of the seven tokens."""
    sizes = {"draft_vocab_size": 5, "boundaries": (0, 1, 2), "num_heads": 2, "num_kv_heads": 1}
    return tiny_draft(target, **(sizes | switches))


def small_eagle1(target: TargetModel) -> Eagle1Draft:
    """An EAGLE-1 head for it, of random weights."""
    return Eagle1Draft(tiny_eagle1_weights(target, num_heads=2, num_kv_heads=1), target)


def run(loop: Loop, prompt: Sequence[int] = PROMPT) -> tuple[Prefill, list[Cycle]]:
    """Every record of one run."""
    target = loop.target
    endings = Endings(target.end_of_sequence, target.context_limit, loop.config, ())
    prefill = loop.prefill(list(prompt), endings)
    return prefill, list(loop.cycles(endings))


def texts(loop: Loop) -> list[tuple[int, ...]]:
    """The tokens of every cycle."""
    return [cycle.tokens for cycle in run(loop)[1]]
