"""The document of a page that is opened by its own address.

Streamlit's scripts look for the server below the address first, `trace/_stcore/health`, and only
after two answers of 404, errors in the browser's console, where it is. So it is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from streamlit import file_util

from eagle3_viz.ui.addresses import rooted

PLACE = "<head>"
TELLS = (
    f'{PLACE}<script>window.__streamlit = {{ BACKEND_BASE_URL: new URL("./", location).href }}'
    "</script>"
)
NO_CACHE = {"Cache-Control": "no-cache"}  # as Streamlit serves the document of its main page


def routes(pages: Iterable[str]) -> list[Route]:
    """One a page, named as it is in its address; for the server of the pages.

    Raises ValueError when Streamlit's document is not made as it was.
    """
    document = (Path(file_util.get_static_dir()) / "index.html").read_text(encoding="utf-8")
    if document.count(PLACE) != 1:
        raise ValueError(
            f"Streamlit's index.html must hold {PLACE} once, to tell pages where the server is; "
            f"got {document.count(PLACE)}: use the version that requirements.txt names"
        )
    told = document.replace(PLACE, TELLS)

    def answer(_: Request) -> HTMLResponse:
        return HTMLResponse(told, headers=NO_CACHE)

    return [Route(rooted(page), answer, methods=["GET"]) for page in pages]
