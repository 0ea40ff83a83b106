"""The worst cycles of a run as a list, each a click away from the Trace page."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from eagle3_viz.analysis.worst import ORDER, WorstCycle, worst_cycles
from eagle3_viz.component import miss_sentence
from eagle3_viz.trace import Trace
from eagle3_viz.wording import counted, rounded

HEIGHT = 420  # px of the list, which scrolls


def draw(trace: Trace, open_cycle: Callable[[int], None], key: str) -> None:
    """Up to 20 cycles; `open_cycle` is given the index of the one that is clicked."""
    st.caption(f"{ORDER} A button opens its cycle on the Trace page.")
    worst = worst_cycles(trace)
    if not worst:
        st.text("The end of the run cut its only cycle short.")
        return
    with st.container(height=HEIGHT, key=key, gap="xsmall"):
        for cycle in worst:
            with st.container(horizontal=True, vertical_alignment="center"):
                clicked = st.button(
                    f"Cycle {cycle.index + 1}",
                    key=f"{key}_{cycle.index}",
                    width=110,
                )
                with st.container(gap=None):
                    st.text(_numbers(cycle))
                    st.text(miss_sentence(trace, cycle.index))
            if clicked:
                open_cycle(cycle.index)


def _numbers(cycle: WorstCycle) -> str:
    expected = "not recorded" if cycle.expected is None else rounded(cycle.expected)
    tokens = counted(cycle.tokens, "token")
    return f"{tokens}; expected acceptance at the root {expected}; {cycle.ms:.1f} ms"
