"""The checks of the Lossless page on the real pair: controls, progress, results in words."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from eagle3_viz.backend import Task
from eagle3_viz.config import METHODS, Method, Rule, Sampling
from eagle3_viz.lossless.defaults import SAMPLING_PROMPT
from eagle3_viz.service import Engine, Job, Phase, Status
from eagle3_viz.settings import METHOD_TITLES
from eagle3_viz.ui import lossless_results as results
from eagle3_viz.ui.connection import connected
from eagle3_viz.ui.lossless_tasks import (
    GreedyAsk,
    SamplingAsk,
    Steps,
    contrast_steps,
    greedy_steps,
    sampling_steps,
)

REFRESH = 0.5  # seconds between updates of a check
DRAFTING: tuple[Method, ...] = tuple(method for method in METHODS if method != "ar")
RULES: tuple[Rule, ...] = ("topk", "sample")
FORMATS = ("float32", "bfloat16")
MAX_PROMPT_CHARS = 2000
TOP_P = 0.9

SAMPLING_WORDS = (
    "The next three tokens after a fixed prefix are drawn many times with the engine, and their "
    "joint distribution is compared with the target's own exact one by a chi-square test. The "
    "wrong rules go through the same test: it has to reject them."
)
GREEDY_WORDS = (
    "At temperature 0 the text must be that of autoregression, token for token. In short number "
    "formats a near tie may fall the other way, because a tree and a single token are multiplied "
    "in matrices of different shapes: such a difference counts as numerical only where the "
    "target's margin lies inside the noise measured on the same run."
)
CONTRAST_WORDS = (
    "Lossless means the same distribution, not the same string. With the same seed two methods "
    "write different texts. And a draft that always proposes what it believes in least changes "
    "how long it takes, not what is written."
)


@dataclass
class View:
    """The jobs of this browser tab, by section."""

    session: str = field(default_factory=lambda: secrets.token_hex(8))
    jobs: dict[str, Job] = field(default_factory=dict)


def draw(engine: Engine) -> None:
    """All three sections."""
    connected(engine, _view().session)
    st.header("On the real pair", anchor=False)
    for name, section in SECTIONS.items():
        st.subheader(section.title, anchor=False)
        st.caption(section.words)
        section.controls()
        active = _is_active(name)  # read once: it may end between the buttons and what follows it
        _buttons(engine, name, section, active)
        _found(engine, name, section, active)


def _view() -> View:
    return st.session_state.setdefault("lossless_pair", View())


def _sampling_controls() -> None:
    st.text_input("Prompt", SAMPLING_PROMPT, MAX_PROMPT_CHARS, key="lossless_sampling_prompt")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _methods("lossless_sampling_methods")
        st.pills(
            "Rules", RULES, default=RULES, selection_mode="multi", key="lossless_sampling_rules"
        )
        st.number_input(
            "Temperature", 0.1, 2.0, 1.0, 0.1, key="lossless_sampling_temperature", width=130
        )
        st.number_input("Draws", 100, 20_000, 300, 100, key="lossless_sampling_draws", width=130)
        st.number_input("Seeds", 1, 20, 2, key="lossless_sampling_seeds", width=110)
        st.checkbox("Wrong rules too", True, key="lossless_sampling_wrong")


def _asked_sampling() -> Steps | None:
    at = st.session_state
    prompt, methods = at.lossless_sampling_prompt, at.lossless_sampling_methods
    if not (prompt.strip() and methods and at.lossless_sampling_rules):
        return None
    ask = SamplingAsk(
        prompt,
        tuple(methods),
        tuple(at.lossless_sampling_rules),
        Sampling(at.lossless_sampling_temperature, top_p=TOP_P),
        int(at.lossless_sampling_draws),
        int(at.lossless_sampling_seeds),
        at.lossless_sampling_wrong,
    )
    return sampling_steps(ask)


def _greedy_controls() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _methods("lossless_greedy_methods")
        st.number_input("Prompts", 1, 60, 3, key="lossless_greedy_prompts", width=110)
        st.number_input("Tokens each", 8, 512, 48, 8, key="lossless_greedy_tokens", width=130)
        st.pills(
            "Number formats",
            FORMATS,
            default=FORMATS,
            selection_mode="multi",
            key="lossless_greedy_formats",
        )
        st.checkbox(
            "Autoregression in the shape of the verification too",
            key="lossless_greedy_padded",
            help="A lone token is multiplied with as many rows as a tree has: says which "
            "differences come from the shape alone.",
        )


def _asked_greedy() -> Steps | None:
    at = st.session_state
    if not (at.lossless_greedy_methods and at.lossless_greedy_formats):
        return None
    ask = GreedyAsk(
        tuple(at.lossless_greedy_methods),
        int(at.lossless_greedy_prompts),
        int(at.lossless_greedy_tokens),
        tuple(at.lossless_greedy_formats),
        at.lossless_greedy_padded,
    )
    return greedy_steps(ask)


def _contrast_controls() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Prompt", SAMPLING_PROMPT, MAX_PROMPT_CHARS, key="lossless_contrast_prompt")
        st.number_input("Seed", 0, 2**31 - 1, 0, key="lossless_contrast_seed", width=110)


def _asked_contrast() -> Steps | None:
    at = st.session_state
    prompt = at.lossless_contrast_prompt
    seed = int(at.lossless_contrast_seed)
    return contrast_steps(prompt, "eagle3", seed) if prompt.strip() else None


def _methods(key: str) -> None:
    st.multiselect(
        "Methods",
        DRAFTING,
        default=["eagle3"],
        format_func=lambda name: METHOD_TITLES[name],
        key=key,
    )


@dataclass(frozen=True)
class Section:
    """A check: what it says, its controls, what they ask for, and how its results are shown."""

    title: str
    words: str
    controls: Callable[[], None]
    asked: Callable[[], Steps | None]
    show: Callable[[Any], None]


SECTIONS = {
    "sampling": Section(
        "Sampling test", SAMPLING_WORDS, _sampling_controls, _asked_sampling, results.sampling
    ),
    "greedy": Section(
        "Greedy, token for token", GREEDY_WORDS, _greedy_controls, _asked_greedy, results.greedy
    ),
    "contrast": Section(
        "What a seed and a bad draft change",
        CONTRAST_WORDS,
        _contrast_controls,
        _asked_contrast,
        results.contrast,
    ),
}


def _buttons(engine: Engine, name: str, section: Section, active: bool) -> None:
    with st.container(horizontal=True):
        st.button(
            "Run",
            key=f"lossless_{name}_run",
            type="primary",
            icon=":material/play_arrow:",
            on_click=_run,
            args=(engine, name),
            disabled=active or section.asked() is None,
        )
        st.button(
            "Stop",
            key=f"lossless_{name}_stop",
            icon=":material/stop:",
            on_click=_stop,
            args=(engine, name),
            disabled=not active,
        )


def _is_active(name: str) -> bool:
    job = _view().jobs.get(name)
    return job is not None and not job.status.ended


def _found(engine: Engine, name: str, section: Section, active: bool) -> None:
    """A fragment that follows the job of this section, and what there is of its results."""
    job = _view().jobs.get(name)
    if job is None:
        return
    st.fragment(_follow, run_every=REFRESH if active else None)(engine, name, active)
    if job.result:
        with st.container(key=f"lossless_{name}_found"):
            section.show(job.result)


def _run(engine: Engine, name: str) -> None:
    """Queue what the controls hold now."""
    state, steps = _view(), SECTIONS[name].asked()
    if steps is not None:
        state.jobs[name] = engine.submit(state.session, Task(steps))


def _stop(engine: Engine, name: str) -> None:
    engine.stop(_view().jobs[name])


def _follow(engine: Engine, name: str, was_active: bool) -> None:
    """The status line; the page is drawn anew when the job has ended."""
    job = _view().jobs[name]
    engine.heartbeat(job)
    status = job.status
    with st.container(key=f"lossless_{name}_status"):
        st.text(describe(status, found=bool(job.result)))
        if not status.ended and status.total:
            st.progress(min(1.0, status.done / status.total))
    if was_active and status.ended:
        st.rerun(scope="app")


def describe(status: Status, *, found: bool = False) -> str:
    """One plain sentence about where a check is; `found`: there are results of it."""
    if not status.ended and status.stopping:
        return "Stopping…"
    where = f" ({status.done} of {status.total})" if status.total else ""
    match status.phase:
        case Phase.QUEUED:
            return f"Queued, position {status.position}: one job at a time uses the pair."
        case Phase.STOPPED:
            return (
                "Stopped. What was finished is below." if found else "Stopped: nothing is finished."
            )
        case Phase.FAILED:
            return f"Failed: {status.message}"
        case Phase.FINISHED:
            return "Finished."
        case _:
            return f"{status.message or 'Starting'}{where}"
