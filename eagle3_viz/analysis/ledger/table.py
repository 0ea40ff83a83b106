"""The metric ledger: every project's metrics of one run, side by side."""

from __future__ import annotations

from eagle3_viz.analysis.ledger import engines, papers
from eagle3_viz.analysis.ledger.counts import counts_of
from eagle3_viz.analysis.ledger.entry import LedgerEntry
from eagle3_viz.trace import Trace


def ledger(trace: Trace) -> tuple[LedgerEntry, ...]:
    """Every entry, project by project."""
    counts = counts_of(trace)
    return (
        *papers.own(counts),
        *papers.eagle(counts),
        *engines.vllm(counts),
        *engines.sglang(counts),
        *papers.spec_bench(counts),
        *engines.llama_cpp(counts),
    )
