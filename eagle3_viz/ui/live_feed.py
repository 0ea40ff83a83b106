"""What a run has become, asked for by the live view itself: `GET feed/KEY?run=R&since=N`.

A run of a script makes Streamlit draw its page anew, which costs the browser ten times as much as
the live view, on cores that the decoder may need. So a run that moves is followed past Streamlit;
scripts run when something is to be decided.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from eagle3_viz.ui.addresses import rooted

NO_STORE = {"Cache-Control": "no-store"}


def address(key: str) -> str:
    """Where a job's feed is, seen from the Live page."""
    return f"feed/{key}"


def route() -> Route:
    """For the server of the pages."""
    return Route(rooted("feed/{key}"), answer, methods=["GET"])


def answer(request: Request) -> JSONResponse:
    """The progress of the job that the key names, and that its page is alive.

    No coroutine: what it packs is packed in a thread, not where every request waits.

    404 where nobody holds such a job any more, 400 where `since` is no count.
    """
    # Here, because the server answers before this code is loaded.
    from eagle3_viz import service
    from eagle3_viz.ui import live_status

    engine = service.shared_engine()
    job = engine.find(request.path_params["key"])
    if job is None:
        return _refused(404, "no run of this key: it is over, or the server was started anew")
    asked = request.query_params
    since = asked.get("since", "0")
    if not (since.isascii() and since.isdigit() and len(since) < 10):
        return _refused(400, f"since counts cycles from 0; got {since[:20]!r}")
    engine.heartbeat(job)
    still = job.status.still  # before the progress, which may be newer but never older
    payload = live_status.progress(
        job, held=engine.paused, run=asked.get("run", ""), since=int(since)
    )
    return JSONResponse({**payload, "still": still}, headers=NO_STORE)


def _refused(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers=NO_STORE)
