"""The trace that an address names is got ready while the browser loads Streamlit's scripts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send
from streamlit.testing.v1 import AppTest

from eagle3_viz.library.store import Library
from eagle3_viz.ui import ahead, trace_choice, trace_page
from eagle3_viz.ui.ahead import Ahead
from tests.own_loop import finished
from tests.synthetic import make_trace

ROOT = Path(__file__).resolve().parent.parent


def asked(path: str, query: str = "", kind: str = "http") -> list[Scope]:
    """Ask through the middleware; returns what reached the app, once the work ahead is done."""
    reached: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope)

    async def nothing(*_: object) -> None:
        raise AssertionError("the middleware neither reads nor writes")

    scope = {"type": kind, "path": path, "query_string": query.encode()}
    before = set(threading.enumerate())
    finished(Ahead(app)(scope, nothing, nothing))  # type: ignore[arg-type]
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=30)
    return reached


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "DRAWN", 0.0)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(trace_page, "prepare", names.append)
    return names


@pytest.mark.parametrize("path", ["/trace", "/trace/", "/below/a/proxy/trace"])
def test_a_trace_that_an_address_names_is_prepared(path: str, prepared: list[str]) -> None:
    assert len(asked(path, "cycle=3&trace=my-run-1&node=2")) == 1
    assert prepared == ["my-run-1"]


def test_the_event_loop_opens_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[object] = []
    monkeypatch.setattr(trace_page, "prepare", lambda _: loops.append(asyncio._get_running_loop()))
    asked("/trace", "trace=my-run-1")
    assert loops == [None]


@pytest.mark.parametrize(
    ("path", "query", "kind"),
    [
        ("/trace", "", "http"),
        ("/trace", "cycle=3&trace=", "http"),
        ("/acceptance", "trace=my-run-1", "http"),
        ("/trace/_stcore/health", "trace=my-run-1", "http"),
        ("/trace", "trace=my-run-1", "websocket"),
    ],
)
def test_everything_else_is_passed_on_and_nothing_done(
    path: str, query: str, kind: str, prepared: list[str]
) -> None:
    assert len(asked(path, query, kind)) == 1
    assert prepared == []


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setenv("EAGLE3_VIZ_LIBRARY", str(tmp_path))
    return Library(tmp_path)


def count(calls: list[str], of: Callable[..., object], name: str) -> Callable[..., object]:
    def counted(*arguments: object, **named: object) -> object:
        calls.append(name)
        return of(*arguments, **named)

    return counted


def test_the_page_finds_opened_and_packed_what_was_prepared(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    entry = library.save(make_trace(cycles=4), "mine")
    monkeypatch.setattr(trace_page, "packed_trace", count(calls, trace_page.packed_trace, "packed"))
    monkeypatch.setattr(Library, "open", count(calls, Library.open, "opened"))
    asked("/trace", f"trace={entry.id}")
    assert calls == ["opened", "packed"]
    page = AppTest.from_file(str(ROOT / "pages" / "trace.py"), default_timeout=30)
    page.query_params["trace"] = entry.id
    page.run()
    assert not page.exception
    assert calls == ["opened", "packed"]
    assert trace_choice.opened(entry.id) is trace_choice.opened(entry.id)


@pytest.mark.parametrize("trace_id", ["no-such", "live", "../../etc/passwd", "%00", "x" * 500])
def test_an_address_that_names_no_trace_is_the_pages_to_explain(
    trace_id: str, library: Library
) -> None:
    assert len(asked("/trace", f"trace={trace_id}")) == 1
