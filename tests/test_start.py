"""When the server starts: pages are loaded ahead, and the browser opens once it is answered."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from streamlit.runtime.pages_manager import PagesManager
from streamlit.watcher import local_sources_watcher
from streamlit.watcher.local_sources_watcher import LocalSourcesWatcher

from eagle3_viz.ui import start
from tests.own_loop import finished

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """A free one, which the options name."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    options = {
        "server.headless": False,
        "server.address": "127.0.0.1",
        "server.port": number,
        "server.fileWatcherType": "none",
    }
    monkeypatch.setattr(start.st, "get_option", options.__getitem__)
    monkeypatch.setattr(start, "get_url", lambda host: f"http://{host}:{number}")
    monkeypatch.setattr(PagesManager, "uses_pages_directory", None)
    looks = LocalSourcesWatcher.update_watched_modules
    monkeypatch.setattr(LocalSourcesWatcher, "update_watched_modules", looks)
    monkeypatch.setattr(start, "PAGES", ())
    return number


async def serve_for_a_while(port: int, opened: list[str]) -> bool:
    """Whether nothing was opened before the port answered; returns once something was."""
    async with start.serving(None):
        await asyncio.sleep(4 * start.LOOK_AGAIN)
        waited = opened == []
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port):
            while not opened:
                await asyncio.sleep(start.LOOK_AGAIN)
    return waited


async def started() -> None:
    async with start.serving(None):
        pass


def test_the_browser_opens_once_the_server_answers(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(start, "open_browser", opened.append)
    assert finished(asyncio.wait_for(serve_for_a_while(port, opened), 20))
    assert opened == [f"http://127.0.0.1:{port}"]


def test_a_page_opened_by_its_own_address_is_not_taken_for_an_app_of_its_own(port: int) -> None:
    finished(started())
    assert PagesManager.uses_pages_directory is False


@pytest.mark.parametrize(("watcher", "searched"), [("none", False), ("poll", True)])
def test_modules_are_searched_in_the_event_loop_only_where_files_are_watched(
    watcher: str, searched: bool, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"server.headless": True, "server.fileWatcherType": watcher}
    monkeypatch.setattr(start.st, "get_option", options.__getitem__)
    finished(started())
    seen: list[object] = []

    def paths(module: object) -> set[str]:
        seen.append(module)
        return set()

    monkeypatch.setattr(local_sources_watcher, "get_module_paths", paths)
    pages = PagesManager(str(ROOT / "shell.py"))
    LocalSourcesWatcher(pages).update_watched_modules()
    assert bool(seen) == searched


def test_the_pages_are_loaded_ahead_and_no_model_with_them() -> None:
    script = (
        "import sys; from eagle3_viz.ui import start; start._warm_up(); "
        "print(*(m in sys.modules for m in ('eagle3_viz.ui.trace_page', 'plotly', 'torch')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "False"]
