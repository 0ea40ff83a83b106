"""A trace that an address names is opened and packed from the moment the address is asked for.

A browser takes a second to load Streamlit's own scripts before it connects and the script of the
page runs; the server would only wait.
"""

from __future__ import annotations

import logging
import threading
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)


DRAWN = 1.5  # s after which the browser has drawn what was prepared

idle = threading.Event()
"""Cleared while a visitor waits: threads of one interpreter only delay each other."""
idle.set()


class Ahead:
    """ASGI middleware in front of the pages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._busy = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; a request for the Trace page starts the work."""
        if scope["type"] == "http" and scope["path"].rstrip("/").endswith("/trace"):
            named = parse_qs(scope["query_string"].decode("latin-1")).get("trace")
            if named:
                threading.Thread(target=self._prepare, args=named[-1:], daemon=True).start()
        await self._app(scope, receive, send)

    def _prepare(self, trace_id: str) -> None:
        """One at a time: whoever comes meanwhile is served as without this."""
        if not self._busy.acquire(blocking=False):
            return
        idle.clear()
        try:
            _open(trace_id)
        finally:
            self._busy.release()
            drawn = threading.Timer(DRAWN, idle.set)
            drawn.daemon = True
            drawn.start()


def _open(trace_id: str) -> None:
    # Here, because the server answers before this code is loaded.
    from eagle3_viz.library.store import LibraryError
    from eagle3_viz.ui import trace_page

    try:
        trace_page.prepare(trace_id)
    except LibraryError as error:
        log.info("not prepared: %s", error)  # the page says so as well
