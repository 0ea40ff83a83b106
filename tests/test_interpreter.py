"""A command that is shown can be typed as it stands where the program runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eagle3_viz.cli.going_on import going_on
from eagle3_viz.interpreter import interpreter, typed


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The interpreter of this test, linked to as a virtual environment links to it."""
    link = tmp_path / "my project" / ".venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(link))
    return link


def test_an_interpreter_below_the_current_folder_is_named_from_there(
    python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(python.parents[2])
    assert interpreter() == ".venv/bin/python"


def test_an_interpreter_elsewhere_is_named_in_full_and_fit_for_a_shell(python: Path) -> None:
    assert interpreter() == str(python)
    shown = typed(["json.tool", "--help"])
    assert subprocess.run(shown, shell=True, capture_output=True).returncode == 0


def test_the_hint_to_go_on_names_the_interpreter_that_ran(
    python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(python.parents[2])
    said = going_on(["eagle3_viz", "suite", "--out", "a b"])
    assert said.endswith("from there: .venv/bin/python -m eagle3_viz suite --out 'a b'")
