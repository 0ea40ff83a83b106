"""The wait of OpenMP's threads is set where the user has not set it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eagle3_viz.spinning import SPINS, spin_briefly

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, SPINS),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, None),
    ],
)
def test_what_the_user_set_stays(
    given: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    spin_briefly()
    assert os.environ.get("GOMP_SPINCOUNT") == expected
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)


def test_the_command_line_sets_it_before_torch_is_there() -> None:
    code = (
        "import os, runpy, sys\n"
        "sys.argv = ['eagle3_viz', 'pairs']\n"
        "try:\n    runpy.run_module('eagle3_viz', run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        "print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP", "OMP"))}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == f"{SPINS} False", done.stderr
