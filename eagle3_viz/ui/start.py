"""What the server does by itself when it starts, before anybody visits."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

import streamlit as st
from streamlit.cli_util import open_browser
from streamlit.runtime.pages_manager import PagesManager
from streamlit.watcher.local_sources_watcher import LocalSourcesWatcher
from streamlit.web.server.server_util import get_display_address, get_url

from eagle3_viz.ui import ahead

PAGES = ("trace_page", "acceptance_page", "live_run", "lossless_pair", "library_entry")
LOOK_AGAIN = 0.05  # s between looks whether the server answers


@asynccontextmanager
async def serving(_app: object) -> AsyncIterator[None]:
    """Around the time that the server runs."""
    # Until shell.py has run once, Streamlit takes `pages/` for its older kind of pages, and one
    # that is opened by its own address would come without navigation and style.
    PagesManager.uses_pages_directory = False
    if st.get_option("server.fileWatcherType") == "none":
        LocalSourcesWatcher.update_watched_modules = _watch_nothing
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    opening = None if st.get_option("server.headless") else asyncio.create_task(_open_browser())
    yield
    if opening is not None:
        opening.cancel()


def _watch_nothing(_watcher: LocalSourcesWatcher) -> None:
    """In place of a search through all loaded modules for files to watch, which Streamlit makes in
    its event loop after scripts even where it watches none: some 60,000 system calls, each of which
    hands the interpreter to the decoder. Meanwhile nobody is answered, for seconds."""


def _warm_up() -> None:
    """Load the code of the pages, for which the first visitor would wait.

    Beside the server, since a browser is busy with Streamlit's own scripts when it comes.
    """
    for name in PAGES:
        ahead.idle.wait()
        import_module(f"eagle3_viz.ui.{name}")
        gc.freeze()  # what was loaded stays: the collector need not look through it again


async def _open_browser() -> None:
    """Show the pages to who started the server, once it answers. Streamlit does it by itself only
    where it runs a script without an `App`."""
    host = get_display_address(st.get_option("server.address") or "localhost")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, st.get_option("server.port"))
        except OSError:
            await asyncio.sleep(LOOK_AGAIN)
        else:
            writer.close()
            break
    await asyncio.to_thread(open_browser, get_url(host))
