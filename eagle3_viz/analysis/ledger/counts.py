"""The counts of a run from which every project computes its metrics."""

from __future__ import annotations

from dataclasses import dataclass

from eagle3_viz.metrics import acceptance_by_depth
from eagle3_viz.records import Cycle
from eagle3_viz.trace import Trace


@dataclass(frozen=True)
class Counts:
    """Sums over the cycles of a run.

    cycles       verifications, forwards of the target after prefill.
    drafts       cycles that verified a draft; lookup finds none in some.
    drafted      drafted nodes verified, roots not counted.
    accepted     drafted tokens accepted, those that the end of the run cut off included.
    kept         tokens that the cycles kept; uncut_kept and uncut: those of uncut cycles, and how
                 many these are.
    output       tokens of the answer: kept, and the one that prefill decided.
    widest       nodes of the largest verified tree, its root included.
    levels       deepest drafted level, summed over cycles; None where no nodes were recorded.
    at_depth     cycles that accepted a node at depth 1, 2, ...
    tested_at    cycles whose walk came to children at depth 1, 2, ...
    prefill_ms   the target's prefill; decode_ms: all cycles, without recording.
    draft_prefill_ms  the draft's.
    ar_ms        autoregression's ms a token, None where it was not measured.
    """

    cycles: int
    drafts: int
    drafted: int
    accepted: int
    kept: int
    uncut_kept: int
    uncut: int
    output: int
    widest: int
    levels: int | None
    at_depth: tuple[int, ...]
    tested_at: tuple[int, ...]
    prefill_ms: float
    draft_prefill_ms: float
    decode_ms: float
    ar_ms: float | None

    @property
    def committed(self) -> int:
        """Accepted drafts and one token of the target's own from every cycle."""
        return self.accepted + self.cycles


def counts_of(trace: Trace) -> Counts:
    """The counts of `trace`, of a live one so far."""
    cycles = tuple(trace.cycles)
    uncut = [cycle for cycle in cycles if not cycle.cut]
    kept = sum(len(cycle.tokens) for cycle in cycles)
    depths = acceptance_by_depth(trace)
    prefill, baseline = trace.prefill, trace.header.baseline
    return Counts(
        cycles=len(cycles),
        drafts=sum(cycle.verified > 1 for cycle in cycles),
        drafted=sum(cycle.verified - 1 for cycle in cycles),
        accepted=sum(cycle.accepted for cycle in cycles),
        kept=kept,
        uncut_kept=sum(len(cycle.tokens) for cycle in uncut),
        uncut=len(uncut),
        output=kept + (prefill is not None),
        widest=max((cycle.verified for cycle in cycles), default=0),
        levels=_levels(cycles),
        at_depth=tuple(depths.accepted.tolist()),
        tested_at=tuple(depths.tested.tolist()),
        prefill_ms=0.0 if prefill is None else prefill.target_ms,
        draft_prefill_ms=0.0 if prefill is None else prefill.draft_ms,
        decode_ms=sum(cycle.timing.total for cycle in cycles),
        ar_ms=None if baseline is None else baseline.ms_per_token,
    )


def _levels(cycles: tuple[Cycle, ...]) -> int | None:
    """Of the pool where there is one: the budget may have dropped the deepest candidates."""
    total = 0
    for cycle in cycles:
        table = cycle.nodes if cycle.pool is None else cycle.pool
        if table is None:
            return None
        total += int(table.depth.max(initial=0))
    return total
