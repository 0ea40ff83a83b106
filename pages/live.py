"""Live: run the pair on a prompt and watch every cycle."""

from __future__ import annotations

import streamlit as st

from eagle3_viz import service
from eagle3_viz.backend import PairChoice
from eagle3_viz.service import Engine
from eagle3_viz.ui import live_controls, live_details, live_run, live_state
from eagle3_viz.ui.connection import connected


@st.cache_resource(show_spinner="Starting the engine…")
def pairs(_engine: Engine) -> tuple[PairChoice, ...]:
    return _engine.pairs()


engine = service.shared_engine()
state = live_state.view()
connected(engine, state.session)
live_state.look()
choices = pairs(engine)
beside_prompt = live_controls.prompt_controls()
live_controls.run_controls(engine, choices)
with beside_prompt:
    live_controls.run_buttons(engine, state.drawn)
live_controls.prompt_hint(state.drawn)
live_run.draw(engine)
if state.job is not None and state.job.trace is not None and state.drawn.still:
    live_details.draw(state.job.trace, state)
