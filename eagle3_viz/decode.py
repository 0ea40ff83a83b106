"""Decoding one text: its records, cycle after cycle, on whatever device the target is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagle3_viz.config import DecodeConfig
from eagle3_viz.drafts.base import Draft
from eagle3_viz.endings import Endings
from eagle3_viz.loop import Loop
from eagle3_viz.records import Cycle, Prefill
from eagle3_viz.static.loop import StaticLoop, runs_static
from eagle3_viz.target import TargetModel


def decode(
    target: TargetModel,
    draft: Draft | None,
    prompt_ids: Sequence[int],
    config: DecodeConfig,
    token_bytes: Sequence[bytes] = (),
) -> Iterator[Prefill | Cycle]:
    """Decode one text; yields the `Prefill`, then one `Cycle` per draft-and-verify round.

    draft None, or method "ar", verifies a lone root each time: autoregression through the same
    forward. token_bytes (bytes of every token id) is needed for stop strings only. The last
    record carries `finish`. Raises ValueError for a prompt that does not fit the context.
    """
    loop = loop_for(target, draft, config)
    endings = Endings(target.end_of_sequence, target.context_limit, config, token_bytes)
    record = loop.prefill(list(prompt_ids), endings)
    yield record
    if record.finish is None:
        yield from loop.cycles(endings)


def loop_for(target: TargetModel, draft: Draft | None, config: DecodeConfig) -> Loop:
    """The loop that runs this fastest here; draft and config as `decode` takes them."""
    drafting = None if config.method == "ar" else draft
    kind = StaticLoop if runs_static(target, drafting, config) else Loop
    return kind(target, drafting, config)
