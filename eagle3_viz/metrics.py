"""What a trace amounts to, as MATH.md 4 defines it: tau, speed, waste, acceptance by depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from eagle3_viz.records import Cycle, Origin
from eagle3_viz.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

PHASES = ("draft", "tree", "verify", "accept", "commit")


@dataclass(frozen=True)
class Phase:
    """Time of one phase over all cycles."""

    name: str
    ms: float
    share: float | None  # of the cycles' time without recording; None when that is zero


@dataclass(frozen=True)
class Summary:
    """The numbers of a whole run. None where the run has nothing to compute one from.

    Decode only: prefill's time is in none of them and its token only in `tokens`. Times are wall
    milliseconds without recording, except `record_ms` itself.
    """

    tokens: int  # every generated token kept, the one prefill decided included
    cycles: int
    uncut: int  # of them, those that no end cut short
    tau: float | None  # tokens per cycle over the uncut ones
    tokens_per_second: float | None  # tokens kept from cycles / time of all cycles
    ms_per_token: float | None
    ar_ms_per_token: float | None  # the header's baseline
    speedup: float | None  # ar_ms_per_token / ms_per_token
    cycle_ms: float | None  # mean, so that tau / cycle_ms is the speed where no cycle was cut
    wasted: float | None  # share of the verified drafted nodes that were not accepted
    phases: tuple[Phase, ...]  # in the order of `PHASES`
    overhead_ms: float  # tree, accept and commit: the time outside both models' forwards
    overhead_share: float | None
    record_ms: float
    record_share: float | None  # of the time with recording


def summary(trace: Trace) -> Summary:
    """The numbers of `trace`, of a live one so far."""
    cycles = tuple(trace.cycles)
    spent = sum(c.timing.total for c in cycles)
    kept = sum(len(c.tokens) for c in cycles)
    uncut = [len(c.tokens) for c in cycles if not c.cut]
    drafted = sum(c.verified - 1 for c in cycles)
    record = sum(c.timing.record for c in cycles)
    phases = tuple(_phase(name, cycles, spent) for name in PHASES)
    overhead = sum(p.ms for p in phases if p.name not in ("draft", "verify"))
    ms_per_token = _ratio(spent, kept)
    ar = None if trace.header.baseline is None else trace.header.baseline.ms_per_token
    return Summary(
        tokens=kept + (trace.prefill is not None),
        cycles=len(cycles),
        uncut=len(uncut),
        tau=fmean(uncut) if uncut else None,
        tokens_per_second=_ratio(1000.0 * kept, spent),
        ms_per_token=ms_per_token,
        ar_ms_per_token=ar,
        speedup=None if ar is None or ms_per_token is None else _ratio(ar, ms_per_token),
        cycle_ms=_ratio(spent, len(cycles)),
        wasted=1.0 - sum(c.accepted for c in cycles) / drafted if drafted else None,
        phases=phases,
        overhead_ms=overhead,
        overhead_share=_ratio(overhead, spent),
        record_ms=record,
        record_share=_ratio(record, spent + record),
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _phase(name: str, cycles: Sequence[Cycle], spent: float) -> Phase:
    ms = sum(float(getattr(c.timing, name)) for c in cycles)
    return Phase(name, ms, _ratio(ms, spent))


def acceptance_by_depth(trace: Trace) -> pd.DataFrame:
    """Acceptance at every drafted depth, one row a depth from 1 on.

    Columns: `depth`; `accepted`, cycles that accepted a node there; `tested`, cycles whose node
    one level up was accepted (or is the root) and had children; `cycles`, all of them;
    `conditional` = accepted / tested; `unconditional` = accepted / cycles, what serving engines
    publish as per-position acceptance. A cut cycle counts with what it accepted before the cut.
    Where such a cycle recorded no nodes, whether its last node had children is unknown, and
    `tested` leaves that out.
    """
    import pandas as pd  # here, for its import takes longer than all that needs no table

    cycles = tuple(trace.cycles)
    tested_to = [c.accepted + _had_children(c) for c in cycles]
    rows = []
    for depth in range(1, max(tested_to, default=0) + 1):
        accepted = sum(c.accepted >= depth for c in cycles)
        tested = sum(deepest >= depth for deepest in tested_to)
        rows.append(
            (depth, accepted, tested, len(cycles), accepted / tested, accepted / len(cycles))
        )
    columns = ["depth", "accepted", "tested", "cycles", "conditional", "unconditional"]
    kinds = {name: "float64" if name.endswith("conditional") else "int64" for name in columns}
    return pd.DataFrame(rows, columns=columns).astype(kinds)


def _had_children(cycle: Cycle) -> bool:
    """Whether the node the walk stopped at had children, so that they were all refused."""
    if cycle.nodes is not None:
        return bool((cycle.nodes.parent == cycle.path[-1]).any())
    return not cycle.cut and cycle.origins[-1] == Origin.RECOVERED


def has_loop(tokens: Sequence[int], period: int = 40, repeats: int = 3) -> bool:
    """Whether `tokens` end in a loop: some block of at most `period` tokens, `repeats` times."""
    return any(
        len(tokens) >= size * repeats
        and all(tokens[-i] == tokens[-i - size] for i in range(1, size * (repeats - 1) + 1))
        for size in range(1, period + 1)
    )
