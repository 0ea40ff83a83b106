"""One section in a process of its own: after an illegal access a process can use no GPU again.

    python -m benchmarks.gpu.process SECTION ROWS_FILE [--device cuda] [--tiny] [--limits JSON]

The process writes a line of JSON to ROWS_FILE, the names of the section's cases, and one for every
row as soon as it has it: what ends the process, be it a crash or the time, takes none of the rows
before along, and the report names the cases that are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import torch

from benchmarks.gpu.section import Row, Section, Setup, run_section
from benchmarks.gpu.sections import section_named
from benchmarks.gpu.timing import Limits, Timer

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 15.0  # to import, to open the device, and to end a case that runs over


def run_apart(
    section: Section, device: str, tiny: bool, limits: Limits | None, seconds: float
) -> list[Row]:
    """The rows of a section that runs in another process, which is ended after `seconds`.

    A process that fails or is ended adds a row that did not pass, and one for every case of which
    it left none.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        options = ["--device", device, *(["--tiny"] if tiny else [])]
        if limits is not None:
            options += ["--limits", json.dumps(asdict(limits))]
        command = [sys.executable, "-m", __name__, section.name, str(file), *options]
        trouble = _trouble(command, seconds)
        written = file.read_text("utf-8") if file.exists() else ""
    whole = written.split("\n")[:-1]  # the last line may have been cut off
    cases, *rows = map(json.loads, whole) if whole else ([],)
    return _reported(cases, [Row(**row) for row in rows], trouble)


def _reported(cases: list[str], rows: list[Row], trouble: str) -> list[Row]:
    """The rows of a process, and what is to be told where it had trouble."""
    if not trouble:
        return rows
    begun = {row.case for row in rows}
    ended, note = "the section's process", "not run: the process had ended"
    missing = [Row(case, "", passed=False, note=note) for case in cases if case not in begun]
    return [*rows, Row(ended, "", passed=False, note=trouble), *missing]


def _trouble(command: list[str], seconds: float) -> str:
    """What went wrong with a command, in a sentence; "" where nothing did.

    It is ended with all that it started, compilers among them, and speaks into a file: a pipe stays
    open for as long as any of those lives.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=errors, stderr=errors, start_new_session=True
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"ended after {seconds:.0f} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if status == 0:
        return ""
    return f"ended with status {status}: {said[-1] if said else 'nothing was said'}"


def setup_on(device: str, tiny: bool, limits: Limits | None) -> Setup:
    """For a section that runs in this process."""
    where = torch.device(device)
    return Setup(where, tiny, Timer(where), limits)


def main() -> None:
    """Run one section and append its rows to the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("section", type=section_named)
    parser.add_argument("file", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--limits", type=lambda text: Limits(**json.loads(text)))
    given = parser.parse_args()
    setup = setup_on(given.device, given.tiny, given.limits)
    with given.file.open("a", encoding="utf-8") as file:
        names = [case.name for case in given.section.cases(setup)]
        for line in chain([names], map(asdict, run_section(given.section, setup))):
            file.write(json.dumps(line) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
