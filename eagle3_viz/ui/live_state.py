"""What one browser tab of the Live page looks at, and the callbacks that change it.

Callbacks set flags and return: the worker decodes, the next script run draws.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import streamlit as st

from eagle3_viz.backend import Request
from eagle3_viz.service import Engine, Job, Phase, Status
from eagle3_viz.settings import Settings
from eagle3_viz.tree_choice.choice import CHOOSABLE

IDLE = Status(Phase.STOPPED)  # where no job is


@dataclass
class View:
    """What this browser tab looks at. cycle None follows the newest, node None the walk's end."""

    session: str = field(default_factory=lambda: secrets.token_hex(8))
    job: Job | None = None
    cycle: int | None = None
    node: int | None = None
    filled: str = ""  # id of the preset that the prompt box was filled from
    prompt: str = ""  # what stood in the prompt box, and in the system prompt's, when last drawn
    system: str = ""
    left: bool = False  # another page was shown since
    drawn: Status = IDLE  # of the job, as the whole page was last drawn
    moved: bool = False  # the selection changed inside the fragment


def view() -> View:
    """The state of the tab this script runs for."""
    return st.session_state.setdefault("live_state", View())


def look() -> None:
    """Read once what one drawing of the page is about: the job may end while it is drawn, and a
    button and a view that disagree about that would stay as they are."""
    now = view()
    now.drawn = now.job.status if now.job is not None else IDLE


def leave() -> None:
    """Another page is shown."""
    view().left = True


def restore_texts() -> None:
    """Put back the prompt and the system prompt: Streamlit forgets what a box holds while another
    page is shown, and the browser what it shows, even where that page was left at once. What the
    address carries comes back by itself."""
    now, at = view(), st.session_state
    if now.left:
        at.live_prompt = at.get("live_prompt", now.prompt)
        at.live_system = at.get("live_system", now.system)
        now.left = False
    keep_texts()


def keep_texts() -> None:
    """Remember both for `restore_texts`; called when one changes, too, for then another page may
    be what is drawn next."""
    now, at = view(), st.session_state
    now.prompt = at.get("live_prompt", now.prompt)  # a drawing that was interrupted has not both
    now.system = at.get("live_system", now.system)


def run(engine: Engine, *, step: bool = False) -> None:
    """Queue what the controls say; with `step`, or on a held job, let one cycle through."""
    now = view()
    if step and now.job is not None and not now.job.status.ended:
        engine.step(now.job)
        return
    now.cycle = now.node = None
    now.job = engine.submit(now.session, request(), step=step)


def hold(engine: Engine) -> None:
    """Pause the job, or resume it when it is held already."""
    job = view().job
    if job is not None:
        held = job.status.pausing or job.status.phase is Phase.PAUSED
        (engine.resume if held else engine.pause)(job)


def stop(engine: Engine) -> None:
    """End the job at its next boundary."""
    job = view().job
    if job is not None:
        engine.stop(job)


def component_selected() -> None:
    """The live view's selection moved; None follows the newest cycle."""
    chosen = st.session_state.live_view.get("selection")
    select(chosen and chosen["cycle"], chosen and chosen["node"])


def cycle_typed() -> None:
    """The number input, which counts from 1, moved to another cycle."""
    select(int(st.session_state.live_cycle) - 1, None)


def node_picked() -> None:
    """The select box moved to another node.

    A pick from a list that has changed meanwhile arrives as its old text: it names no node of now.
    """
    node = st.session_state.live_node
    if isinstance(node, int):
        select(int(st.session_state.live_cycle) - 1, node)


def select(cycle: int | None, node: int | None) -> None:
    """Look at a cycle and a node of it."""
    now = view()
    now.cycle, now.node, now.moved = cycle, node, True


def request() -> Request:
    """The run that the controls ask for."""
    at = st.session_state
    return Request(
        prompt=at.live_prompt,
        config=_settings().config(),
        pair=at.live_pair,
        system=at.live_system.strip() or None,
        fastest_tree=at.live_fastest and at.live_method in CHOOSABLE,
    )


def _settings() -> Settings:
    at = st.session_state
    return Settings(
        method=at.live_method,
        rule=at.live_rule,
        temperature=at.live_temperature,
        depth=at.live_depth,
        top_k=at.live_top_k,
        total=at.live_total,
        fixed=at.live_fixed,
        target_top_k=at.live_target_top_k,
        target_top_p=at.live_target_top_p,
        max_new_tokens=at.live_max_tokens,
        seed=at.live_seed,
        record=at.live_record,
    )
