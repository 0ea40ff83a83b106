"""The Live page over a made-up pair, and what tests do to it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz import service
from eagle3_viz.service import Engine, Job
from eagle3_viz.ui import live_state
from tests.fake_backend import SyntheticBackend

PAGE = Path(__file__).resolve().parent.parent / "pages" / "live.py"
WAIT = 10.0


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)


def opened(backend: SyntheticBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    """The page over an engine of its own."""
    engine = Engine(backend)
    monkeypatch.setattr(service, "shared_engine", lambda: engine)
    yield AppTest.from_file(str(PAGE), default_timeout=30).run()
    engine.close()


def job_of(page: AppTest) -> Job:
    state = page.session_state["live_state"]
    assert isinstance(state, live_state.View) and state.job is not None
    return state.job


def press(page: AppTest, key: str) -> None:
    page.button(key=key).click().run()
    assert not page.exception


def finish(page: AppTest) -> Job:
    press(page, "live_run")
    job = job_of(page)
    eventually(lambda: job.status.ended)
    page.run()
    assert not page.exception
    return job


def sent(page: AppTest) -> dict[str, Any]:
    """The data of the live view."""
    return json.loads(page.get("bidi_component")[0].proto.json)


def texts(page: AppTest) -> list[str]:
    return [element.value for element in page.text]
