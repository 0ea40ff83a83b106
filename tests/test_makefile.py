"""What `make` installs, and when: with a pip that only notes what it was asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON = """#!/bin/sh
if [ "$1 $2" = "-m pip" ]; then echo "$@" >> calls; exit 0; fi
exec {real} "$@"
"""
UNAME = """#!/bin/sh
echo "{system}"
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the Makefile, requirements, and an environment whose pip installs nothing."""
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path)
    script(tmp_path / ".venv" / "bin" / "python", PYTHON.format(real=sys.executable))
    return tmp_path


def made(project: Path, *argv: str, system: str = "Linux x86_64", gpu: bool = False) -> str:
    """What `make` prints on a machine that `uname` calls `system`."""
    script(project / "bin" / "uname", UNAME.format(system=system))
    if gpu:
        script(project / "bin" / "nvidia-smi", "#!/bin/sh\n")
    path = f"{project / 'bin'}:{os.environ['PATH']}"
    unset = {"PIP_ARGS", "MAKEFLAGS", "MAKELEVEL"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        ["make", *argv], cwd=project, env=kept | {"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def calls(project: Path) -> list[str]:
    return (project / "calls").read_text().splitlines()


def test_what_is_installed_is_not_installed_again(project: Path) -> None:
    made(project, "runtime")
    first = calls(project)
    assert ["-r /dev/stdin" in call for call in first] == [True, False]
    assert made(project, "runtime") == ""
    assert calls(project) == first


def test_other_arguments_of_pip_are_another_installation(project: Path) -> None:
    made(project, "runtime")
    made(project, "runtime", "PIP_ARGS=--extra-index-url 'a b'")
    assert ["--extra-index-url a b" in call for call in calls(project)] == [False] * 2 + [True] * 2
    assert made(project, "runtime", "PIP_ARGS=--extra-index-url 'a b'") == ""


def test_no_installation_is_silent(project: Path) -> None:
    made(project, "dev")
    assert not [call for call in calls(project) if "--quiet" in call or "-q" in call.split()]


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="needs a machine without GPU")
def test_who_would_download_gigabytes_for_no_gpu_is_told_before(project: Path) -> None:
    said = made(project, "runtime")
    assert 'make runtime PIP_ARGS="--extra-index-url ADDRESS"' in said
    assert said.index("Ctrl-C") < said.index("other requirements")


@pytest.mark.parametrize(
    ("argv", "system", "gpu"),
    [
        (["PIP_ARGS=--pre"], "Linux x86_64", False),
        ([], "Darwin arm64", False),
        ([], "Linux x86_64", True),
    ],
)
def test_nobody_else_is_told(argv: list[str], system: str, gpu: bool, project: Path) -> None:
    assert "Ctrl-C" not in made(project, "runtime", *argv, system=system, gpu=gpu)
