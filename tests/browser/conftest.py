"""A Streamlit server and a Chromium for tests that look at the real page.

Set SCREENSHOTS to a folder to have the pictures written there.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
STARTUP = 60.0  # seconds
expect.set_options(timeout=20_000)  # ms; a busy machine draws late
TROUBLE = re.compile(r"Traceback|deprecat", re.IGNORECASE)


@dataclass
class Tab:
    """One browser tab; widgets are addressed by their Streamlit key."""

    page: Page

    def key(self, name: str) -> Locator:
        """Not what an earlier drawing left on the page until the next one is whole."""
        return self.page.locator(f".st-key-{name}:not([data-retained])")

    def button(self, name: str) -> Locator:
        return self.key(name).locator("button").first

    def picture(self, name: str) -> None:
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=Path(folder) / f"{name}.png")


@contextmanager
def serving(script: Path, log: Path) -> Iterator[str]:
    """The URL of a server for `script`; its log must hold no trouble when it ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_healthy(url, server, log)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=10)
    assert not TROUBLE.search(log.read_text()), log.read_text()


def _wait_until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTUP
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"no answer from {url} within {STARTUP:.0f} s: {log.read_text()}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Opens tabs at 1280 x 800; afterwards none may have written an error to its console."""
    errors: list[str] = []
    contexts = []

    def opened(url: str, *, theme: str = "light") -> Tab:
        context = browser.new_context(
            viewport={"width": 1280, "height": 800},
            color_scheme=theme,  # type: ignore[arg-type]
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}"))
        page.goto(url)
        tab = Tab(page)
        tab.key("live_run").locator("button:enabled").wait_for(timeout=60_000)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture(scope="module")
def hostile_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("hostile") / "server.log"
    with serving(ROOT / "tests" / "browser" / "hostile_app.py", log) as url:
        yield url


@pytest.fixture(scope="module")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("app") / "server.log"
    with serving(ROOT / "app.py", log) as url:
        yield url
