"""Settings for every test: no model hub is asked, threads share a busy machine, and without a GPU
kernels are interpreted."""

from __future__ import annotations

import os

from eagle3_viz.spinning import spin_briefly

spin_briefly()  # before torch is imported

import torch  # noqa: E402

os.environ.setdefault("HF_HUB_OFFLINE", "1")
if not torch.cuda.is_available():
    # Here and not beside the kernels' tests: Triton reads it once, when anything imports Triton.
    os.environ.setdefault("TRITON_INTERPRET", "1")
