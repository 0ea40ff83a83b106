"""One command, several processes: the first starts the others as copies of itself.

They find each other through the variables that torch and accelerate read, so a launcher that sets
these (`accelerate launch`, `torchrun`) works as well and is left alone.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ENDING_SECONDS = 60.0  # for the others to end after the first has
DYING_SECONDS = 1.0  # from a lost connection to the end of the process that was behind it
LOST_SECONDS = 30.0  # for this process to notice by itself that another one is gone
FIRST = "EAGLE3_VIZ_FIRST_PROCESS"  # variable with the process id of the one that started us
GOOD_ENDS = (0, 130)  # finished, or stopped together with the first by Ctrl-C


def launched() -> bool:
    """Whether this process already is one of several, or was started by a launcher."""
    return "RANK" in os.environ


def processes() -> int:
    """How many processes a launcher has made of this job; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this process speaks and writes for its job."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def several(count: int, program: Sequence[str], logs: Path) -> Iterator[None]:
    """Make this process the first of `count` for as long as the block runs.

    The others run Python with `program` ("-m", module, options); what they print goes to
    `logs`/process-N.log. Every process gets its share of the cores. Raises ChildFailed when another
    process ends badly, also when that is what ended the block.
    """
    if count == 1 or launched():
        _end_with_the_first()
        yield
        return
    logs.mkdir(parents=True, exist_ok=True)
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, cores() // count))),
    }
    others = [_start(rank, shared, program, logs) for rank in range(1, count)]
    own = {**shared, "RANK": "0", "LOCAL_RANK": "0"}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    if torch := sys.modules.get("torch"):  # it read the variable when it was imported
        torch.set_num_threads(int(shared["OMP_NUM_THREADS"]))
    try:
        with _watched(others, logs):
            yield
        _expect_success(others, logs)
    except ChildFailed:
        raise
    except Exception as error:
        _expect_no_earlier_end(others, logs, error)
        raise
    finally:
        for process in others:
            process.kill()
            process.wait()
        _restore(before)


class ChildFailed(RuntimeError):
    """One of the processes ended with an error; the message names its log."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(
    rank: int, shared: dict[str, str], program: Sequence[str], logs: Path
) -> subprocess.Popen[bytes]:
    own = {"RANK": str(rank), "LOCAL_RANK": str(rank), FIRST: str(os.getpid())}
    with _log(logs, rank).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *program],
            env={**os.environ, **shared, **own},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _restore(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _watched(others: Sequence[subprocess.Popen[bytes]], logs: Path) -> Iterator[None]:
    """End this process when another one ended badly and the block does not come to an end.

    Processes on a CPU see a lost connection; on GPUs they would wait for the lost one for ever.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            bad = [
                (rank, process.returncode)
                for rank, process in enumerate(others, start=1)
                if process.poll() not in (None, *GOOD_ENDS)
            ]
            if bad and not over.wait(LOST_SECONDS):
                rank, status = bad[0]
                said = f"process {rank} ended with status {status}; see {_log(logs, rank)}"
                print(f"error: {said}", file=sys.stderr, flush=True)
                for process in others:
                    process.kill()
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _end_with_the_first() -> None:
    """In a process that `several` started: end when the one that started it is gone."""
    if (first := os.environ.get(FIRST)) is None:
        return

    def watch() -> None:
        while os.getppid() == int(first):
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _expect_success(others: Sequence[subprocess.Popen[bytes]], logs: Path) -> None:
    for rank, process in enumerate(others, start=1):
        try:
            status = process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            raise ChildFailed(f"process {rank} did not end; see {_log(logs, rank)}") from None
        if status not in GOOD_ENDS:
            raise ChildFailed(f"process {rank} ended with status {status}; see {_log(logs, rank)}")


def _expect_no_earlier_end(
    others: Sequence[subprocess.Popen[bytes]], logs: Path, error: Exception
) -> None:
    """Name the process that ended before `error`: all the first knows of it is a lost connection.

    Where all processes met the same error, it is the one to show.
    """
    deadline = time.monotonic() + DYING_SECONDS
    while all(process.poll() is None for process in others) and time.monotonic() < deadline:
        time.sleep(0.05)
    for rank, process in enumerate(others, start=1):
        status, log = process.poll(), _log(logs, rank)
        if status is None or status in GOOD_ENDS or str(error) in log.read_text(errors="replace"):
            continue
        raise ChildFailed(
            f"process {rank} ended with status {status}; see {log}. What followed here: {error}"
        ) from error


def _log(logs: Path, rank: int) -> Path:
    return logs / f"process-{rank}.log"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
