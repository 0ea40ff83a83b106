"""A server of the app for as long as a measurement takes, and the browser to visit it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from playwright.sync_api import Browser, Playwright

ROOT = Path(__file__).resolve().parent.parent
STARTUP = 60.0  # s


@dataclass(frozen=True)
class Server:
    """A running server: where it answers, and its process."""

    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def served(log: int | IO[bytes] = subprocess.DEVNULL) -> Iterator[Server]:
    """A fresh server that answers; what it says goes to `log`."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_healthy(url)
        yield Server(url, process)
    finally:
        process.terminate()
        process.wait(timeout=10)


def _wait_until_healthy(url: str) -> None:
    deadline = time.monotonic() + STARTUP
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"no answer from {url} within {STARTUP:.0f} s")


def chromium(playwright: Playwright) -> Browser:
    """Debian's Chromium, as the browser tests use it."""
    return playwright.chromium.launch(
        executable_path=shutil.which("chromium"), args=["--no-sandbox"]
    )
