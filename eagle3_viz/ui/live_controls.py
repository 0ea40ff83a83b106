"""The controls of the Live page: prompt, method, pair, rule, tree, and the run buttons."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from eagle3_viz.backend import PairChoice
from eagle3_viz.presets import DOMAINS, Preset, load_presets
from eagle3_viz.service import Engine, Phase, Status
from eagle3_viz.settings import (
    LEVELS,
    MAX_NEW_TOKENS,
    MAX_PROMPT_CHARS,
    MAX_TEMPERATURE,
    METHOD_TITLES,
    RULE_TITLES,
    rules_for,
)
from eagle3_viz.ui import live_state as state
from eagle3_viz.ui.live_tree import tree_control

NO_PROMPT = "Write a prompt first."
OPENING_DOMAIN = "code"  # what a small draft is best at is what a visitor should see first


@st.cache_resource(show_spinner=False)
def _presets() -> dict[str, tuple[Preset, ...]]:
    return load_presets()


def prompt_controls() -> DeltaGenerator:
    """Presets by domain and the prompt box they fill; returns the place beside it for buttons."""
    view, choices = state.view(), _presets()
    with st.container(horizontal=True, vertical_alignment="center"):
        domain = st.pills(
            "Domain",
            DOMAINS,
            default=OPENING_DOMAIN,
            required=True,
            key="live_domain",
            label_visibility="collapsed",
            bind="query-params",
            width="content",
        )
        by_id = {preset.id: preset for preset in choices[domain or OPENING_DOMAIN]}
        chosen = st.selectbox(
            "Preset",
            list(by_id),
            format_func=lambda name: by_id[name].title if name in by_id else name,
            key="live_preset",
            label_visibility="collapsed",
            bind="query-params",
        )
    if chosen != view.filled:
        st.session_state.live_prompt = by_id[chosen].prompt
        st.session_state.live_system = by_id[chosen].system or ""
        view.filled = chosen
    state.restore_texts()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text_area(
            "Prompt",
            key="live_prompt",
            on_change=state.keep_texts,
            height=68,
            max_chars=MAX_PROMPT_CHARS,
            label_visibility="collapsed",
            placeholder="Write a prompt, or pick one above",
        )
        return st.container(horizontal=True, width="content")


def run_buttons(engine: Engine, status: Status) -> None:
    """Enabled as far as the job's `status` gives the button a meaning.

    Drawn after every other control: a click may interrupt the very first script run, and the
    callbacks read what the controls hold.
    """
    active, held = not status.ended, status.pausing or status.phase is Phase.PAUSED
    empty = _no_prompt()
    st.button(
        "Run",
        key="live_run",
        type="primary",
        icon=":material/play_arrow:",
        on_click=state.run,
        args=(engine,),
        disabled=active or empty,
    )
    st.button(
        "Resume" if active and held else "Pause",
        key="live_pause",
        icon=":material/resume:" if active and held else ":material/pause:",
        on_click=state.hold,
        args=(engine,),
        disabled=not active or status.stopping,
    )
    st.button(
        "Step",
        key="live_step",
        icon=":material/skip_next:",
        on_click=state.run,
        args=(engine,),
        kwargs={"step": True},
        disabled=empty or (active and status.phase is not Phase.PAUSED),
        help="One cycle, then pause.",
    )
    st.button(
        "Stop",
        key="live_stop",
        icon=":material/stop:",
        on_click=state.stop,
        args=(engine,),
        disabled=not active or status.stopping,
    )


def prompt_hint(status: Status) -> None:
    """Why nothing can be run, where that is for want of a prompt."""
    if status.ended and _no_prompt():
        st.caption(NO_PROMPT)


def _no_prompt() -> bool:
    return not st.session_state.live_prompt.strip()


def run_controls(engine: Engine, choices: tuple[PairChoice, ...]) -> None:
    """One row: what runs, how it draws, how large the tree is."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        method = st.selectbox(
            "Method",
            list(METHOD_TITLES),
            format_func=lambda name: METHOD_TITLES[name],
            key="live_method",
            width=160,
            bind="query-params",
        )
        _pair_control(choices)
        temperature = st.number_input(
            "Temperature",
            0.0,
            MAX_TEMPERATURE,
            0.0,
            0.1,
            key="live_temperature",
            width=130,
            bind="query-params",
            help="0 is greedy decoding.",
        )
        st.selectbox(
            "Acceptance rule",
            rules_for(temperature, method),
            format_func=lambda name: RULE_TITLES[name],
            key="live_rule",
            width=280 if st.session_state.get("live_rule") == "typical" else 160,
            disabled=method == "ar" or temperature == 0,
            bind="query-params",
            help="At temperature 0 the rule is greedy. Otherwise the tree holds the draft's most "
            "likely tokens (topk) or tokens drawn from it (sample); both keep the target's "
            "distribution. typical keeps every token that is likely enough: it does not.",
        )
        st.number_input(
            "Max tokens",
            1,
            MAX_NEW_TOKENS,
            128,
            16,
            key="live_max_tokens",
            width=130,
            bind="query-params",
        )
        tree_control(engine, method)
        _more_controls(greedy=temperature == 0)


def _pair_control(choices: tuple[PairChoice, ...]) -> None:
    titles = {choice.name: choice.title for choice in choices if not choice.obstacle}
    others = [f"- {choice.title}: {choice.obstacle}" for choice in choices if choice.obstacle]
    st.selectbox(
        "Pair",
        list(titles),
        format_func=lambda name: titles.get(name, name),
        key="live_pair",
        bind="query-params",
        help="\n".join(["Not selectable on this machine:", "", *others]) if others else None,
    )


def _more_controls(*, greedy: bool) -> None:
    """`greedy`: the arg-max is the same whatever is cut off around it, and nothing is drawn."""
    with st.popover("More", icon=":material/tune:", key="live_more"):
        st.slider(
            "Target top-p",
            0.05,
            1.0,
            1.0,
            0.05,
            key="live_target_top_p",
            disabled=greedy,
            bind="query-params",
            help="Keeps the target's most likely tokens up to this mass; 1 is off.",
        )
        st.number_input(
            "Target top-k",
            0,
            1000,
            0,
            key="live_target_top_k",
            disabled=greedy,
            bind="query-params",
            help="Keeps this many of the target's tokens; 0 is off.",
        )
        st.number_input(
            "Seed",
            0,
            2**31 - 1,
            0,
            key="live_seed",
            disabled=greedy,
            bind="query-params",
            help="Of the draws at a positive temperature.",
        )
        st.selectbox(
            "Record",
            LEVELS,
            key="live_record",
            bind="query-params",
            help="full: tree, distributions and pruned candidates. outcomes: tree and verdicts. "
            "off: text and timings.",
        )
        st.text_area(
            "System prompt",
            key="live_system",
            on_change=state.keep_texts,
            height=80,
            max_chars=MAX_PROMPT_CHARS,
        )
