"""An upload is read in a process of its own first: what breaks the reader breaks no server.

A few bytes of Parquet can stand for gigabytes of numbers, and a footer made for it can abort the
library that reads it. The process has little memory and little time, and only one runs at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from eagle3_viz.library.content import trace_in
from eagle3_viz.trace_file import TraceFileError

MEMORY_BYTES = 2 * 2**30
SECONDS = 60
_REFUSED = 3  # exit status with the sentence on standard output
_ROOT = Path(__file__).resolve().parents[2]
_one_at_a_time = threading.Lock()


def examine(data: bytes) -> None:
    """Return when `data` is a trace; raises TraceFileError with what is wrong."""
    command = [sys.executable, "-m", "eagle3_viz.library.examine", str(MEMORY_BYTES)]
    # Pools of threads reserve memory that the limit would count.
    calm = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with _one_at_a_time:
        try:
            done = subprocess.run(
                command,
                input=data,
                capture_output=True,
                timeout=SECONDS,
                env=os.environ | calm,
                cwd=_ROOT,
            )
        except subprocess.TimeoutExpired:
            raise TraceFileError(
                f"the file takes longer than {SECONDS} s to read; choose a smaller trace"
            ) from None
    if done.returncode == _REFUSED:
        raise TraceFileError(done.stdout.decode("utf-8", "replace"))
    if done.returncode != 0:
        raise TraceFileError(
            "the file stops its reader: it is damaged or was made to; choose a file this program "
            "saved"
        )


def main(memory_bytes: int) -> int:
    """Read a file from standard input; its refusal goes to standard output."""
    _limit_memory(memory_bytes)
    try:
        trace_in(sys.stdin.buffer.read())
    except TraceFileError as error:
        sys.stdout.buffer.write(str(error).encode("utf-8", "replace"))
        return _REFUSED
    return 0


def _limit_memory(memory_bytes: int) -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
