"""The server of the pages: `streamlit run app.py`."""

from __future__ import annotations

import os

import streamlit as st

from eagle3_viz.ui import start

# The browser often shares the processor with the engine. OpenMP threads that spin while they wait
# then block each other for whole time slices (measured on two cores: a step 20 times as long), so
# here they sleep instead. Set before torch is imported; benchmarks keep the faster default.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = st.App("shell.py", lifespan=start.serving)
