"""What one browser tab of the Trace page looks at, and the callbacks that change it.

The browser sends the values of all widgets with every move. When it moves fast, those of the others
are older than what the page showed last, and so is its address. So callbacks note what moved, and
the next script run lets one move win.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import streamlit as st

from eagle3_viz.trace import Trace
from eagle3_viz.ui.trace_choice import Place, keep_place, place_in

START = Place(0)
COMPONENT, CYCLE, NODE = "trace_component", "trace_cycle", "trace_node"  # keys of widgets
_STATE = "trace_page"


@dataclass
class Moves:
    """Where the view, the number input and the select box moved since the last script run."""

    view: Place | None = None
    typed: Place | None = None
    picked: Place | None = None


@dataclass
class View:
    """What this tab looks at. A node of None is the token that the cycle ended with.

    wished is what the page asked the component to show last, asked counts how often: the reader
    moves on in the component, and what is sent to it stays the same.
    """

    trace: str = ""
    run: str = ""  # which run the trace is of
    place: Place = START
    wished: Place = START
    asked: int = 0
    cycles: int = 0  # of a run that goes on, what is shown until it is refreshed
    moves: Moves = field(default_factory=Moves)

    def still(self, trace_id: str, whole: Trace, *, growing: bool) -> Trace:
        """`whole`, or as much of a growing run as there was when it was opened or refreshed."""
        run = f"{trace_id}/{whole.header.started_at}#{whole.header.seed}"
        if run != self.run or not growing or not self.cycles:
            self.run, self.cycles = run, len(whole.cycles)
        return replace(whole, cycles=whole.cycles[: self.cycles])

    def follow(self, trace_id: str, trace: Trace) -> None:
        """Look where the reader moved, or where the address says: when the page is opened, on
        another trace, and when the browser goes through its history."""
        moves, self.moves = self.moves, Moves()
        named = place_in(trace_id, trace)
        if named.cycle is None:
            named = START
        if COMPONENT not in st.session_state or trace_id != self.trace:
            self.trace = trace_id
            self._wish(named)
        elif moves.view is not None:
            self.place = moves.view
            keep_place(trace_id, self.place)
        elif (widget := moves.typed or moves.picked) is not None:
            self._wish(widget)
            keep_place(trace_id, self.place)
        elif named != self.place:
            self._wish(named)

    def _wish(self, place: Place) -> None:
        """Have the component show a place."""
        self.place = self.wished = place
        self.asked += 1


def view() -> View:
    """The state of the tab this script runs for."""
    return st.session_state.setdefault(_STATE, View())


def component_selected() -> None:
    """The reader moved in the component."""
    chosen = st.session_state[COMPONENT].get("selection")
    if chosen:
        view().moves.view = Place(chosen["cycle"], chosen["node"])


def cycle_typed() -> None:
    """The number input, which counts from 1, moved to another cycle."""
    view().moves.typed = Place(int(st.session_state[CYCLE]) - 1)


def node_picked(verified: int) -> None:
    """The select box moved to another node; the one after the `verified` is the cycle's end.

    A pick from a list that has changed meanwhile arrives as its old text: it names no node of now.
    """
    now, node = view(), st.session_state[NODE]
    if isinstance(node, int):
        now.moves.picked = Place(now.place.cycle, None if node == verified else node)


def refresh() -> None:
    """Show what a run that goes on has done since."""
    view().cycles = 0
