"""The Trace page in Streamlit's own test harness: what it shows and what it sends to the view."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz import service, trace_file
from eagle3_viz.backend import Request
from eagle3_viz.config import DecodeConfig
from eagle3_viz.library import place
from eagle3_viz.library.store import Library
from eagle3_viz.service import Engine, Job
from eagle3_viz.trace import Trace
from eagle3_viz.ui import live_state, trace_page, trace_state
from eagle3_viz.ui.trace_choice import Place
from eagle3_viz.ui.trace_state import Moves
from tests.fake_backend import SyntheticBackend
from tests.synthetic import make_trace
from tests.test_component_packed import unpacked

PAGE = Path(__file__).resolve().parent.parent / "pages" / "trace.py"
WAIT = 10.0

Chosen = tuple[str, str, Trace]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setenv("EAGLE3_VIZ_LIBRARY", str(tmp_path / "library"))
    return place.shared()


@pytest.fixture
def opened(library: Library) -> Callable[..., AppTest]:
    """Opens the page on a trace of the library, by its address."""

    def open_trace(trace: Trace, name: str = "a run", **query: str) -> AppTest:
        entry = library.save(trace, name)
        page = AppTest.from_file(str(PAGE), default_timeout=30)
        for key, value in {"trace": entry.id, **query}.items():
            page.query_params[key] = value
        page.run()
        assert not page.exception
        return page

    return open_trace


def sent(page: AppTest) -> dict[str, Any]:
    """The data of the view."""
    return json.loads(page.get("bidi_component")[0].proto.json)


def texts(page: AppTest) -> str:
    return "\n".join(element.value for element in page.text)


def select(page: AppTest, cycle: int, node: int | None, **others: Place) -> None:
    """What a selection in the view does, short of the browser; `others`: values of widgets that
    come along."""
    page.session_state["trace_page"].moves = Moves(view=Place(cycle, node), **others)
    page.run()
    assert not page.exception


def test_the_view_gets_the_whole_trace_and_the_first_cycle(opened: Callable[..., AppTest]) -> None:
    trace = make_trace(cycles=5, rule="topk")
    data = sent(opened(trace, "my run"))
    assert (data["cycle"], data["node"]) == (0, None)
    packed = unpacked(data["packed"])
    assert packed["name"] == "my run" and len(packed["cycles"]) == 5


def test_the_address_opens_a_cycle_and_a_node(opened: Callable[..., AppTest]) -> None:
    page = opened(make_trace(cycles=9), cycle="7", node="3")
    assert (sent(page)["cycle"], sent(page)["node"]) == (6, 3)
    assert page.number_input(key="trace_cycle").value == 7
    assert page.selectbox(key="trace_node").value == 3


@pytest.mark.parametrize("query", [{"cycle": "99"}, {"cycle": "x"}, {"cycle": "0", "node": "1"}])
def test_an_address_that_names_nothing_says_so_and_opens_the_start(
    opened: Callable[..., AppTest], query: dict[str, str]
) -> None:
    page = opened(make_trace(cycles=4), **query)
    assert sent(page)["cycle"] == 0
    assert "The link names cycle" in texts(page)


def test_an_address_that_names_no_node_of_its_cycle_says_so_and_opens_the_cycle(
    opened: Callable[..., AppTest],
) -> None:
    page = opened(make_trace(cycles=4), cycle="3", node="999")
    assert (sent(page)["cycle"], sent(page)["node"]) == (2, None)
    assert "The link names node 999 of cycle 3" in texts(page)


def test_the_facts_name_what_ran_and_the_prompt_is_plain_text(
    opened: Callable[..., AppTest],
) -> None:
    trace = make_trace(cycles=2, rule="topk")
    page = opened(trace)
    facts = page.text[0].value
    assert "EAGLE-3, rule topk" in facts and "temperature 0.7" in facts and "made-up" in facts
    assert trace.header.prompt in [element.value for element in page.text]
    assert not page.markdown
    assert "toy-target" in texts(page) and "0" * 40 in texts(page)


def test_the_cycle_typed_is_sent_to_the_view_and_put_into_the_address(
    opened: Callable[..., AppTest],
) -> None:
    page = opened(make_trace(cycles=6))
    before = sent(page)["asked"]
    page.number_input(key="trace_cycle").set_value(4).run()
    assert not page.exception
    assert (sent(page)["cycle"], sent(page)["node"]) == (3, None)
    assert sent(page)["asked"] > before
    assert page.query_params["cycle"] == "4"


def test_the_node_picked_is_sent_to_the_view_and_the_last_option_is_the_cycles_end(
    opened: Callable[..., AppTest],
) -> None:
    trace = make_trace(cycles=6)
    page = opened(trace, cycle="2")
    options = page.selectbox(key="trace_node").options
    assert len(options) == trace.cycles[1].verified + 1
    assert options[-1].startswith("end ")
    page.selectbox(key="trace_node").set_value(2).run()
    assert (sent(page)["cycle"], sent(page)["node"]) == (1, 2)
    assert page.query_params["node"] == "2"
    page.selectbox(key="trace_node").set_value(trace.cycles[1].verified).run()
    assert sent(page)["node"] is None
    assert "node" not in page.query_params


def test_what_the_view_reports_moves_the_twins_and_sends_nothing_again(
    opened: Callable[..., AppTest],
) -> None:
    page = opened(make_trace(cycles=8))
    before = sent(page)
    select(page, 5, 1)
    assert page.number_input(key="trace_cycle").value == 6
    assert page.selectbox(key="trace_node").value == 1
    assert sent(page) == before
    assert "cycle=6&node=1" in texts(page)
    assert (page.query_params["cycle"], page.query_params["node"]) == ("6", "1")


def test_an_old_value_of_a_widget_that_comes_along_with_a_move_changes_nothing(
    opened: Callable[..., AppTest],
) -> None:
    page = opened(make_trace(cycles=8))
    before = sent(page)
    select(page, 5, 1, typed=Place(2), picked=Place(0, 3))
    assert page.number_input(key="trace_cycle").value == 6
    assert page.selectbox(key="trace_node").value == 1
    assert sent(page) == before


def test_an_old_address_that_comes_along_with_a_move_changes_nothing(
    opened: Callable[..., AppTest],
) -> None:
    page = opened(make_trace(cycles=8), cycle="2")
    before = sent(page)
    select(page, 5, 1)
    page.query_params["cycle"] = "2"
    select(page, 6, None)
    assert page.number_input(key="trace_cycle").value == 7
    assert sent(page) == before


def test_going_back_in_the_history_of_the_browser_shows_what_was_there(
    opened: Callable[..., AppTest],
) -> None:
    page = opened(make_trace(cycles=8), cycle="2")
    select(page, 5, None)
    page.query_params["cycle"] = "2"
    page.run()
    assert sent(page)["cycle"] == 1
    assert page.number_input(key="trace_cycle").value == 2


def test_the_same_cycle_typed_again_after_moving_in_the_view_is_asked_again(
    opened: Callable[..., AppTest],
) -> None:
    page = opened(make_trace(cycles=8))
    page.number_input(key="trace_cycle").set_value(3).run()
    first = sent(page)["asked"]
    select(page, 5, None)
    page.number_input(key="trace_cycle").set_value(3).run()
    assert sent(page)["cycle"] == 2 and sent(page)["asked"] > first


@pytest.mark.parametrize(
    "trace",
    [
        make_trace(cycles=0),
        make_trace(cycles=4, record="off"),
        make_trace(cycles=4, record="outcomes"),
        make_trace(cycles=4, method="ar"),
        make_trace(cycles=4, method="lookup"),
        make_trace(cycles=4, rule="sample", finish="eos"),
    ],
)
def test_every_kind_of_trace_opens(opened: Callable[..., AppTest], trace: Trace) -> None:
    page = opened(trace)
    assert len(unpacked(sent(page)["packed"])["cycles"]) == len(trace.cycles)
    assert len(page.number_input) == (1 if trace.cycles else 0)


def test_a_rule_that_changes_the_distribution_is_warned_of(
    opened: Callable[..., AppTest],
) -> None:
    page = opened(make_trace(cycles=2, rule="typical"))
    assert "changes the output distribution" in page.warning[0].value


def test_a_trace_that_is_not_there_is_said_in_a_sentence(library: Library) -> None:
    library.save(make_trace(cycles=1), "one")
    page = AppTest.from_file(str(PAGE), default_timeout=30)
    page.query_params["trace"] = "gone"
    page.run()
    assert not page.exception
    assert "'gone'" in texts(page) and not page.get("bidi_component")


def test_a_damaged_file_is_said_in_a_sentence(library: Library, tmp_path: Path) -> None:
    entry = library.save(make_trace(cycles=2), "one")
    whole = trace_file.to_bytes(make_trace(cycles=2))
    (tmp_path / "library" / f"{entry.id}.parquet").write_bytes(whole[: len(whole) // 2])
    page = AppTest.from_file(str(PAGE), default_timeout=30)
    page.query_params["trace"] = entry.id
    page.run()
    assert not page.exception and not page.get("bidi_component")


def stepped_once(engine: Engine) -> tuple[Job, AppTest]:
    """A run that is held after its first cycle, and the page, not drawn yet, of its tab."""
    job = engine.submit("tab", Request("hi", DecodeConfig(), "made-up"), step=True)
    eventually(lambda: job.status.still)
    page = AppTest.from_file(str(PAGE), default_timeout=30)
    page.session_state["live_state"] = live_state.View(job=job)
    return job, page


def test_a_run_that_ends_while_the_page_is_drawn_is_not_taken_for_one_that_had_ended(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(SyntheticBackend(cycles=6))
    monkeypatch.setattr(service, "shared_engine", lambda: engine)
    choose = trace_page.chosen_trace

    def end_once_chosen(prefix: str) -> Chosen | None:
        chosen = choose(prefix)
        engine.resume(job)
        eventually(lambda: job.status.ended)
        return chosen

    monkeypatch.setattr(trace_page, "chosen_trace", end_once_chosen)
    try:
        job, page = stepped_once(engine)
        page.run()
        assert cycles_sent(page) == 1 and "The run goes on: 1 cycle so far." in texts(page)
        next(button for button in page.button if button.label == "Refresh").click().run()
        assert cycles_sent(page) == 6 and "goes on" not in texts(page)
    finally:
        engine.close()


def test_a_run_that_goes_on_is_shown_as_far_as_it_has_come_until_refreshed(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(SyntheticBackend(cycles=6))
    monkeypatch.setattr(service, "shared_engine", lambda: engine)
    try:
        job, page = stepped_once(engine)
        page.run()
        assert not page.exception
        assert cycles_sent(page) == 1 and "The run goes on: 1 cycle so far." in texts(page)
        engine.step(job)
        eventually(lambda: len(job.trace.cycles) == 2 and job.status.still)
        page.run()
        assert cycles_sent(page) == 1
        next(button for button in page.button if button.label == "Refresh").click().run()
        assert cycles_sent(page) == 2
        engine.resume(job)
        eventually(lambda: job.status.ended)
        page.run()
        assert cycles_sent(page) == 6 and "goes on" not in texts(page)
    finally:
        engine.close()


def cycles_sent(page: AppTest) -> int:
    return len(unpacked(sent(page)["packed"])["cycles"])


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)


def test_a_growing_run_that_was_refreshed_keeps_its_length_and_another_run_its_own() -> None:
    view, long = trace_state.View(), make_trace(cycles=9, finish=None)
    short = Trace(long.header, long.prefill, long.cycles[:4], long.token_bytes)
    assert len(view.still("live", short, growing=True).cycles) == 4
    assert len(view.still("live", long, growing=True).cycles) == 4
    view.cycles = 0
    assert len(view.still("live", long, growing=True).cycles) == 9
    other = make_trace(cycles=2, seed=5, finish=None)
    assert len(view.still("live", other, growing=True).cycles) == 2
    assert len(view.still("live", long, growing=False).cycles) == 9
