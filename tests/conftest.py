"""Settings for every test: no model hub is asked, and without a GPU kernels are interpreted."""

from __future__ import annotations

import os

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
if not torch.cuda.is_available():
    # Here and not beside the kernels' tests: Triton reads it once, when anything imports Triton.
    os.environ.setdefault("TRITON_INTERPRET", "1")
