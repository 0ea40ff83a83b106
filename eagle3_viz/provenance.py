"""What a result needs to be repeated: versions, commit, command line."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from eagle3_viz import __version__

if TYPE_CHECKING:
    import torch

PACKAGES = ("torch", "transformers", "safetensors", "numpy")


@cache
def versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that shape a result."""
    found = {name: version(name) for name in PACKAGES}
    own = {"eagle3_viz": __version__, "python": platform.python_version()}
    return {**own, "platform": platform.platform(), **found}


@cache
def git_commit() -> str:
    """Commit of the running source, "-dirty" when files differ; "" outside a checkout."""
    here = Path(__file__).resolve().parent.parent
    if not (here / ".git").exists():
        return ""
    try:
        head = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("-dirty" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=5,
    )
    return done.stdout.strip()


def command_line() -> tuple[str, ...]:
    """argv with the program's folder removed: traces are shared, paths of a machine are not."""
    return (Path(sys.argv[0]).name, *sys.argv[1:])


def machine(device: torch.device) -> str:
    """The GPU's name where `device` is one, and the CPU's with the number of cores it has."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(errors="replace") if info.exists() else ""
    names = re.findall(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    cpu = f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"
    if device.type != "cuda":
        return cpu
    import torch

    return f"{torch.cuda.get_device_name(device)}; {cpu}"


def measured_on(device: torch.device) -> dict[str, str]:
    """What a table of results says about itself, as columns: where, with what, and by which
    command."""
    import torch

    return {
        "machine": machine(device),
        "threads": str(torch.get_num_threads()),
        "versions": " ".join(f"{name}={found}" for name, found in versions().items()),
        "commit": git_commit(),
        "command": " ".join(command_line()),
    }
