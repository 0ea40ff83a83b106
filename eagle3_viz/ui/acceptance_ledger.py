"""The metric ledger as a table."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from eagle3_viz.analysis.ledger.entry import LedgerEntry
from eagle3_viz.analysis.ledger.table import ledger
from eagle3_viz.trace import Trace

ROW_HEIGHT = 68  # px: three lines of text
WIDTHS = {  # px of the columns, which fill a window of 1280
    "name": 154,
    "whose": 84,
    "value": 86,
    "formula": 160,
    "with this run's counts": 134,
    "own token": 72,
    "divided by": 94,
    "note": 322,
}
INTRODUCTION = (
    "The same run in the words and formulas of other projects. Two numbers can be compared where "
    "the target's own token of a cycle (recovered or bonus) is in both or in neither, and both are "
    "divided by the same thing. Own token says whether it is counted."
)


def draw(trace: Trace) -> None:
    """Every entry in a row that is high enough for its note."""
    st.subheader("Metric ledger")
    st.caption(INTRODUCTION)
    st.dataframe(
        ledger_frame(ledger(trace)),
        hide_index=True,
        width="stretch",
        height="content",
        row_height=ROW_HEIGHT,
        key="acceptance_ledger",
        alt="Metric ledger: each project's metrics of this run with formula and value.",
        column_config={
            name: st.column_config.TextColumn(name, width=width, pinned=name == "name")
            for name, width in WIDTHS.items()
        },
    )


def ledger_frame(entries: tuple[LedgerEntry, ...]) -> pd.DataFrame:
    """The entries as text, one a row."""
    return pd.DataFrame(
        {
            "name": [entry.name for entry in entries],
            "whose": [entry.project for entry in entries],
            "value": [shown(entry.values) for entry in entries],
            "formula": [entry.formula for entry in entries],
            "with this run's counts": [entry.worked for entry in entries],
            "own token": ["yes" if entry.bonus else "no" for entry in entries],
            "divided by": [entry.per for entry in entries],
            "note": [entry.note for entry in entries],
        }
    )


def shown(values: tuple[float, ...]) -> str:
    """Whole numbers as they are, others with three decimals; a dash for none."""
    return ", ".join(f"{v:.0f}" if v == int(v) and v > 1 else f"{v:.3f}" for v in values) or "–"
