"""What TorchScript compiles may be asked for by several threads at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STACKS = """
from threading import Thread
import torch
from tests.tiny_models import tiny_target
from eagle3_viz.llama_stack import LlamaStack
import eagle3_viz.llama_stack as stacks

compile, stacks.fastest_module = stacks.fastest_module, lambda module, device: module
blocks = tiny_target().decoder.blocks
stacks.fastest_module = compile
made = []

def make(scale):
    for _ in range(10):
        made.append(LlamaStack(blocks, [None] * len(blocks), scale))

threads = [Thread(target=make, args=(scale,)) for scale in (None, 0.3) * 3]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(made) == 60, len(made)
"""


def test_threads_that_load_models_at_the_same_time_do_not_meet_in_the_compiler() -> None:
    """In a process of its own: what was compiled before is not compiled again."""
    done = subprocess.run(
        [sys.executable, "-c", STACKS], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
