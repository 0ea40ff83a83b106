"""The metrics of this program, of the EAGLE papers and of Spec-Bench.

Read from the papers (arXiv 2401.15077, 2406.16858, 2503.01840, 2401.07851), EAGLE's
evaluation/alpha.py, alpha_length.py and gen_ea_answer scripts, and Spec-Bench's
evaluation/speed.py.
"""

from __future__ import annotations

from eagle3_viz.analysis.ledger.counts import Counts
from eagle3_viz.analysis.ledger.entry import CYCLES, TIME, LedgerEntry, ratio, ratios, worked


def own(c: Counts) -> tuple[LedgerEntry, ...]:
    """tau as every page of this program shows it."""
    return (
        LedgerEntry(
            "this program",
            "tokens per cycle (tau)",
            ratio(c.uncut_kept, c.uncut),
            "tokens of uncut cycles / uncut cycles",
            f"{c.uncut_kept} / {c.uncut}",
            True,
            CYCLES,
            "A last cycle cut by the end of the run is left out. Prefill is no cycle.",
        ),
    )


def eagle(c: Counts) -> tuple[LedgerEntry, ...]:
    """Average acceptance length and n-alpha of the EAGLE papers."""
    return (
        LedgerEntry(
            "EAGLE papers",
            "average acceptance length (tau)",
            ratio(c.committed, c.cycles),
            "(accepted + cycles) / cycles",
            f"({c.accepted} + {c.cycles}) / {c.cycles}",
            True,
            CYCLES,
            "The last cycle counts in full, with what lies behind the end of the answer.",
        ),
        LedgerEntry(
            "EAGLE papers",
            "tau as their script prints it",
            ratio(c.committed, c.cycles - 1),
            "new tokens / index of the last cycle",
            f"{c.committed} / {c.cycles - 1}",
            True,
            "cycles - 1",
            "The index starts at 0, so one cycle is missing: a short answer reads high.",
        ),
        LedgerEntry(
            "EAGLE papers",
            "n-alpha, n = 0, 1, ...",
            ratios(c.at_depth, c.tested_at),
            "accepted at depth n + 1 / tested there",
            worked(c.at_depth, c.tested_at),
            False,
            "cycles that got there",
            "Conditional: the n drafts before were accepted. The papers measure it on chains; in "
            "a tree any of several children counts, so it reads higher.",
        ),
    )


def spec_bench(c: Counts) -> tuple[LedgerEntry, ...]:
    """#MAT and speedup of Spec-Bench."""
    return (
        LedgerEntry(
            "Spec-Bench",
            "#Mean accepted tokens (#MAT)",
            ratio(c.committed, c.cycles),
            "mean over cycles of the tokens that each appends",
            f"{c.committed} / {c.cycles}",
            True,
            CYCLES,
            "Called accepted, yet the target's own token of each cycle is in it.",
        ),
        LedgerEntry(
            "Spec-Bench",
            "speedup",
            () if c.ar_ms is None else ratio(_ar_ms(c, c.ar_ms), _own_ms(c)),
            "(tokens / wall time) / (tokens / wall time of AR)",
            _speedup_worked(c),
            True,
            TIME,
            "Its clock includes prefill, that of this program's speed-up does not, so ours lies "
            "further from 1. AR's time here: prefill and its measured ms a token.",
        ),
    )


def _own_ms(c: Counts) -> float:
    return c.prefill_ms + c.draft_prefill_ms + c.decode_ms


def _ar_ms(c: Counts, ms_per_token: float) -> float:
    return c.prefill_ms + c.committed * ms_per_token


def _speedup_worked(c: Counts) -> str:
    if c.ar_ms is None:
        return "autoregression was not measured"
    own, ar = _own_ms(c) / 1000, _ar_ms(c, c.ar_ms) / 1000
    return f"({c.committed} / {own:.2f} s) / ({c.committed} / {ar:.2f} s)"
