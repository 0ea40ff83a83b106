"""Everything that a GPU must show, in less than four minutes: errors, times, limits.

    python -m benchmarks.gpu_check [--sections NAME ...] [--out FOLDER]
    python -m benchmarks.gpu_check --device cpu --tiny

Each section runs in a process of its own and within its own time: one that fails or hangs takes
nothing of the others along. Prints a table a section and writes JSON and CSV. Ends with status 0
if everything passed, 1 if something did not, 2 if there is no GPU to check. With --device cpu
every step is taken on small shapes with interpreted kernels: that shows that the check works, and
nothing of any GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch

from benchmarks.gpu.limits import SECTION as LIMITS
from benchmarks.gpu.limits import limits_of
from benchmarks.gpu.process import START_SECONDS, run_apart, setup_on
from benchmarks.gpu.report import Result, table, write
from benchmarks.gpu.section import Section, run_section
from benchmarks.gpu.sections import SECTIONS
from benchmarks.gpu.timing import Limits
from eagle3_viz.provenance import measured_on
from kernels import INTERPRETER, OVERRIDE, triton_installed

OUT = Path(__file__).resolve().parent.parent / ".work"
TOTAL_SECONDS = 235.0


def check(sections: list[Section], device: str, tiny: bool) -> list[Result]:
    """Run the sections in turn and print each one's table."""
    results: list[Result] = []
    limits: Limits | None = None
    end = time.monotonic() + TOTAL_SECONDS
    for section in sections:
        begin = time.monotonic()
        if device == "cuda":
            seconds = min(section.seconds + START_SECONDS, max(end - begin, 1.0))
            rows = run_apart(section, device, tiny, limits, seconds)
        else:
            rows = list(run_section(section, setup_on(device, tiny, limits)))
        results.append(Result(section.name, time.monotonic() - begin, rows))
        print(table(results[-1]), flush=True)
        if section.name == LIMITS.name:
            limits = limits_of(rows)
    return results


def facts_of(device: str) -> dict[str, str]:
    """What a reader of the results needs to know, as text."""
    import triton  # not before the check has asked for the interpreter

    return {
        "card": torch.cuda.get_device_name() if device == "cuda" else "interpreted, no GPU",
        **measured_on(torch.device(device)),
        "triton": triton.__version__,
        "cuda": str(torch.version.cuda),
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def parsed() -> argparse.Namespace:
    """The command line."""
    names = [section.name for section in SECTIONS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sections", nargs="+", choices=names, default=names, metavar="NAME",
                        help=f"some of: {', '.join(names)}")  # fmt: skip
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small shapes, to try the check itself")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    return parser.parse_args()


def refuse_without_a_device(given: argparse.Namespace) -> None:
    """End with status 2 and a sentence where nothing can be checked."""
    missing = ""
    if os.environ.get(OVERRIDE) == "torch":
        missing = f"It is Triton's kernels that are checked: unset {OVERRIDE}, which is torch here."
    elif not triton_installed():
        missing = "Triton is not installed, and it is Triton's kernels that are checked."
    elif given.device == "cuda" and not torch.cuda.is_available():
        missing = (
            "PyTorch sees no CUDA GPU here. What can be tried without one: "
            "python -m benchmarks.gpu_check --device cpu --tiny"
        )
    elif given.device == "cpu" and not given.tiny:
        missing = (
            "--device cpu interprets the kernels, which takes hours on real shapes: add --tiny"
        )
    if missing:
        print(missing, file=sys.stderr)
        raise SystemExit(2)


def main() -> None:
    """Check, write what was found, end with a status that says whether all passed."""
    given = parsed()
    refuse_without_a_device(given)
    if given.device == "cpu":
        os.environ[INTERPRETER] = "1"  # before anything imports Triton
    facts = facts_of(given.device)
    print(f"{facts['machine']}\n{facts['versions']} triton={facts['triton']} cuda={facts['cuda']}")
    chosen = [section for section in SECTIONS if section.name in {LIMITS.name, *given.sections}]
    results = check(chosen, given.device, given.tiny)
    for path in write(given.out, facts, results):
        print(f"written to {path}")
    failed = [result.section for result in results if not result.passed]
    print(f"FAILED: {', '.join(failed)}" if failed else "everything passed")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
