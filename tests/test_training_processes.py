"""The first process of a job starts the others, and hears of it when one fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle3_viz.training.processes import ChildFailed, several

ROOT = Path(__file__).resolve().parent.parent
VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher around; what `several` sets is taken back after the test."""
    for name in (*VARIABLES, "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # its threads stay as they are


def test_every_process_knows_its_rank_and_the_way_to_the_others(tmp_path: Path) -> None:
    names = repr((*VARIABLES, "OMP_NUM_THREADS"))
    program = ["-c", f"import os; print([os.environ[n] for n in {names}])"]
    with several(3, program, tmp_path):
        own = [os.environ[name] for name in (*VARIABLES, "OMP_NUM_THREADS")]
    for rank in (1, 2):
        found = (tmp_path / f"process-{rank}.log").read_text().strip()
        assert found == str([str(rank), str(rank), *own[2:]])
    assert own[:4] == ["0", "0", "3", "3"]
    assert not any(name in os.environ for name in VARIABLES)


def test_one_process_starts_no_other_and_sets_nothing(tmp_path: Path) -> None:
    with several(1, ["-c", "raise SystemExit(9)"], tmp_path / "logs"):
        assert "RANK" not in os.environ
    assert not (tmp_path / "logs").exists()


def test_a_launcher_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RANK", "1")
    with several(2, ["-c", "raise SystemExit(9)"], tmp_path / "logs"):
        assert "WORLD_SIZE" not in os.environ
    assert not (tmp_path / "logs").exists()


def test_a_process_that_fails_is_named_with_its_log(tmp_path: Path) -> None:
    with (
        pytest.raises(ChildFailed, match=r"process 1 ended with status 9; see .*process-1\.log"),
        several(2, ["-c", "raise SystemExit(9)"], tmp_path),
    ):
        pass


def test_an_error_in_the_first_process_ends_the_others(tmp_path: Path) -> None:
    program = ["-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
    log = tmp_path / "process-1.log"
    with pytest.raises(RuntimeError, match="mine"), several(2, program, tmp_path):
        while not log.read_text().strip():
            pass
        raise RuntimeError("mine")
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text()), 0)


def test_a_lost_process_is_named_in_place_of_the_error_that_it_caused(tmp_path: Path) -> None:
    with (
        pytest.raises(ChildFailed, match=r"process 1 ended with status -9; see .*process-1\.log"),
        several(2, ["-c", "import os; os.kill(os.getpid(), 9)"], tmp_path),
    ):
        raise RuntimeError("connection reset by peer")


def test_an_error_that_all_processes_met_is_shown_as_it_is(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"^no such file$"),
        several(2, ["-c", "raise SystemExit('error: no such file')"], tmp_path),
    ):
        raise ValueError("no such file")


def test_a_lost_process_ends_a_first_one_that_would_wait_for_ever(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from eagle3_viz.training import processes\n"
        "processes.LOST_SECONDS = 0.1\n"
        "with processes.several(2, ['-c', 'raise SystemExit(9)'], pathlib.Path(sys.argv[1])):\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert re.search(r"error: process 1 ended with status 9; see .*process-1\.log", ended.stderr)


def test_a_process_whose_first_one_was_killed_ends_too(tmp_path: Path) -> None:
    waiting = (
        "import os, pathlib, time\n"
        "from eagle3_viz.training.processes import several\n"
        "with several(2, [], pathlib.Path('unused')):\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(600)\n"
    )
    script = (
        "import pathlib, sys, time\n"
        "from eagle3_viz.training.processes import several\n"
        "with several(2, ['-c', sys.argv[2]], pathlib.Path(sys.argv[1])):\n"
        "    time.sleep(600)\n"
    )
    first = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), waiting], cwd=ROOT)
    log = tmp_path / "process-1.log"
    wait_until(lambda: log.exists() and log.read_text().strip().isdigit())
    first.kill()
    first.wait()
    other = int(log.read_text())
    wait_until(lambda: not alive(other))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not collected does not."""
    status = Path(f"/proc/{pid}/stat")
    if status.exists():
        return status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path("/proc/self").exists()
