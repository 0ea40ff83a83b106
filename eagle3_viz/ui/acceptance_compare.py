"""Two settings or drafts side by side, with the difference and its interval."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from eagle3_viz.analysis.domains import compare_by_domain
from eagle3_viz.suite.compare import Comparison
from eagle3_viz.suite.results import Results
from eagle3_viz.text_lines import DataError
from eagle3_viz.ui.acceptance_source import Source, drafting, with_interval
from eagle3_viz.wording import counted

ABOUT = (
    "Difference: B minus A. Speed: ms a token of A over that of B, above 1 where B is faster. In "
    "brackets: 95 % bootstrap intervals over the prompts that both have, each prompt drawn with "
    "both sides; an interval that holds 0 (or 1 for a ratio) leaves open which is better."
)


def draw(a: Source, other: Source | None) -> None:
    """The choice of A and B, the latter from `other` where it is given, and their comparison."""
    st.subheader("Two side by side")
    b = a if other is None else other
    left, right = drafting(a.results), drafting(b.results)
    if other is None and len(left) < 2:
        st.text("There is one setting that drafts: nothing to compare it with.")
        return
    with st.container(horizontal=True):
        first = st.selectbox("A", left, key="acceptance_a", width=320)
        place = 1 if other is None else 0
        second = st.selectbox("B", right, index=place, key="acceptance_b", width=320)
    if other is None and first == second:
        st.text("A and B are the same setting.")
        return
    try:
        _show(_compared(a.key, first, b.key, second, a.results, b.results))
    except DataError as error:
        st.text(str(error))


@st.cache_resource(max_entries=16, show_spinner=False)
def _compared(
    key_a: str, setting_a: str, key_b: str, setting_b: str, _a: Results, _b: Results
) -> Comparison:
    """Once for each pair: the bootstrap of hundreds of prompts takes a while."""
    return compare_by_domain(_a, setting_a, _b, setting_b)


def _show(found: Comparison) -> None:
    if not found.table.prompts.any():
        st.text("A and B have no prompt in common.")
        return
    st.dataframe(
        comparison_frame(found),
        hide_index=True,
        width="stretch",
        height="content",
        key="acceptance_comparison",
        alt="Settings A and B by domain with their difference.",
    )
    st.caption(ABOUT)
    for what, prompts in (
        ("only A has", found.only_a),
        ("only B has", found.only_b),
        ("ask something else in B", found.changed),
    ):
        if prompts:
            st.text(f"Left out: {counted(len(prompts), 'prompt')} that {what}.")


def comparison_frame(found: Comparison) -> pd.DataFrame:
    """A row a domain as text; the speed-up's ratio only where autoregression was run."""
    table = found.table
    columns = {
        "domain": table.set,
        "prompts": table.prompts,
        "tau of A": table.tau_a.map("{:.2f}".format),
        "tau of B": table.tau_b.map("{:.2f}".format),
        "difference": _bounded(table, "tau_difference"),
        "speed B / A": _bounded(table, "speed_ratio"),
    }
    if table.speedup_ratio.notna().any():
        columns["speed-up B / A"] = _bounded(table, "speedup_ratio")
    return pd.DataFrame(columns)


def _bounded(table: pd.DataFrame, name: str) -> list[str]:
    bounds = zip(table[name], table[f"{name}_low"], table[f"{name}_high"], strict=True)
    return [with_interval(*row) for row in bounds]
