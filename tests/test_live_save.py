"""A run of the Live page is kept in the library at the press of a button."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz import service, trace_file
from eagle3_viz.library import place, store
from eagle3_viz.library.store import Library
from eagle3_viz.service import Engine
from tests.fake_backend import SyntheticBackend

PAGE = Path(__file__).resolve().parent.parent / "pages" / "live.py"
WAIT = 10.0


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library(tmp_path / "own")
    monkeypatch.setattr(place, "shared", lambda: library)
    return library


@pytest.fixture
def page(library: Library, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    engine = Engine(SyntheticBackend(cycles=3))
    monkeypatch.setattr(service, "shared_engine", lambda: engine)
    yield AppTest.from_file(str(PAGE), default_timeout=30).run()
    engine.close()


def finish(page: AppTest) -> None:
    page.button(key="live_run").click().run()
    job = page.session_state["live_state"].job
    deadline = time.monotonic() + WAIT
    while not job.status.ended:
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)
    page.run()
    assert not page.exception


def press_save(page: AppTest) -> None:
    page.button(key="live_save").click().run()
    assert not page.exception


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


def test_a_run_is_kept_once_under_its_method_and_prompt(page: AppTest, library: Library) -> None:
    finish(page)
    press_save(page)
    (entry,) = library.entries()
    prompt = page.text_area(key="live_prompt").value
    assert entry.name.startswith("EAGLE-3: ") and entry.name[9:30] == " ".join(prompt.split())[:21]
    assert (entry.domain, entry.cycles) == ("code", 3)
    trace = page.session_state["live_state"].job.trace
    assert library.read(entry.id) == trace_file.to_bytes(trace)
    assert f"Saved to the library as {entry.name}" in texts(page)
    assert page.button(key="live_save").disabled


def test_a_prompt_of_ones_own_is_of_no_domain(page: AppTest, library: Library) -> None:
    page.text_area(key="live_prompt").set_value("my own <b>\nprompt").run()
    finish(page)
    press_save(page)
    (entry,) = library.entries()
    assert (entry.name, entry.domain) == ("EAGLE-3: my own <b> prompt", "")


def test_a_library_that_is_full_says_so_and_the_run_can_be_saved_later(
    page: AppTest, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(page)
    with monkeypatch.context() as full:
        full.setattr(store, "MAX_TRACES", 0)
        press_save(page)
    assert "Not saved: the library is full" in texts(page)
    assert library.entries() == () and not page.button(key="live_save").disabled
    press_save(page)
    assert len(library.entries()) == 1
