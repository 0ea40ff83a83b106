"""Which trace, cycle and node a page shows, and how the address restores it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz import trace_file
from eagle3_viz.backend import Request
from eagle3_viz.config import DecodeConfig
from eagle3_viz.library import place
from eagle3_viz.library.store import Library
from eagle3_viz.service import Job, Phase, Status
from eagle3_viz.trace import Trace
from eagle3_viz.ui.live_state import View
from eagle3_viz.ui.trace_choice import EMPTY, NO_LIVE, address
from tests.altered_traces import put, with_nodes
from tests.synthetic import make_trace

CYCLES = 4


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Two shipped traces, none of anybody's own."""
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    for stem in ("eagle3-code", "eagle3-math"):
        trace_file.save(make_trace(cycles=CYCLES), shipped / f"{stem}.parquet")
    library = Library(tmp_path / "own", shipped)
    monkeypatch.setattr(place, "shared", lambda: library)
    return library


def script() -> None:
    import streamlit as st

    from eagle3_viz.ui import trace_choice

    found = trace_choice.chosen_trace("probe")
    if found is not None:
        trace_id, name, trace = found
        view = trace_choice.place_in(trace_id, trace)
        st.text(f"shown {trace_id} {name!r} {len(trace.cycles)} {view.cycle} {view.node}")


def page(**query: str) -> AppTest:
    made = AppTest.from_function(script, default_timeout=30)
    made.query_params.update(query)
    return made


def ran(page: AppTest) -> AppTest:
    page.run()
    assert not page.exception
    return page


def texts(page: AppTest) -> list[str]:
    return [element.value for element in page.text]


def shown(page: AppTest) -> str:
    (found,) = [text for text in texts(page) if text.startswith("shown ")]
    return found.removeprefix("shown ")


def live(page: AppTest, trace: Trace, phase: Phase = Phase.FINISHED) -> Job:
    """What the Live page leaves in the session of its browser tab."""
    request = Request(prompt="p", config=DecodeConfig(), pair="made-up", system=None)
    job = Job(request, "session", trace=trace, status=Status(phase))
    page.session_state["live_state"] = View(job=job)
    return job


def test_the_shipped_code_run_of_eagle3_is_shown_first_and_is_in_the_address(
    library: Library,
) -> None:
    opened = ran(page())
    assert shown(opened) == "shipped-eagle3-code 'EAGLE-3, code' 4 None None"
    assert opened.query_params == {"trace": "shipped-eagle3-code"}


def test_this_tabs_run_goes_first_then_own_traces_then_shipped_ones(library: Library) -> None:
    own = library.save(make_trace(cycles=2), "mine")
    opened = page()
    live(opened, make_trace(cycles=3))
    ran(opened)
    assert opened.selectbox(key="probe_trace").options == [
        "This tab's run, EAGLE-3",
        "mine",
        "EAGLE-3, code",
        "EAGLE-3, math",
    ]
    assert shown(opened).startswith("live ") and " 3 None None" in shown(opened)
    assert own.id in library.entries()[0].id


def test_an_address_restores_trace_cycle_and_node(library: Library) -> None:
    opened = ran(page(trace="shipped-eagle3-math", cycle="3", node="2"))
    assert shown(opened) == "shipped-eagle3-math 'EAGLE-3, math' 4 2 2"
    assert opened.query_params == address("shipped-eagle3-math", 2, 2)
    opened.query_params.clear()  # to another page and back
    assert shown(ran(opened)).endswith(" 4 2 2")


@pytest.mark.parametrize(("cycle", "node"), [("0", "1"), ("5", "0"), ("x", "0"), ("9" * 99, "0")])
def test_a_link_to_a_cycle_that_is_not_there_says_so_and_shows_the_trace(
    library: Library, cycle: str, node: str
) -> None:
    opened = ran(page(trace="shipped-eagle3-code", cycle=cycle, node=node))
    assert shown(opened).endswith(" 4 None None")
    assert any("the trace has 4 cycles, counted from 1" in text for text in texts(opened))


@pytest.mark.parametrize("node", ["999", "-1", "x", "9" * 99])
def test_a_link_to_a_node_that_is_not_there_blames_the_node_and_shows_the_cycle(
    library: Library, node: str
) -> None:
    opened = ran(page(trace="shipped-eagle3-code", cycle="2", node=node))
    assert shown(opened).endswith(" 4 1 None")
    (sentence,) = [text for text in texts(opened) if "The link names" in text]
    verified = library.open("shipped-eagle3-code").cycles[1].verified
    assert sentence.startswith(f"The link names node {node[:11]}")
    assert f"of cycle 2, which has {verified} nodes" in sentence and len(sentence) < 120


def test_a_link_to_an_unknown_trace_says_so_in_plain_bounded_text(library: Library) -> None:
    opened = ran(page(trace="<script>\u202e" + "x" * 5000))
    (sentence,) = texts(opened)
    assert "'<script>xxx" in sentence and len(sentence) < 200
    assert opened.selectbox(key="probe_trace").value is None
    opened.selectbox(key="probe_trace").set_value("shipped-eagle3-code").run()
    assert shown(opened).startswith("shipped-eagle3-code ")


def test_a_link_to_the_run_of_another_tab_says_how_to_share_one(library: Library) -> None:
    assert texts(ran(page(trace="live"))) == [NO_LIVE]


def test_another_trace_in_the_select_box_is_in_the_address_without_the_old_cycle(
    library: Library,
) -> None:
    opened = ran(page(trace="shipped-eagle3-code", cycle="3", node="2"))
    opened.selectbox(key="probe_trace").set_value("shipped-eagle3-math").run()
    assert shown(opened).startswith("shipped-eagle3-math ") and " None None" in shown(opened)
    assert opened.query_params == {"trace": "shipped-eagle3-math"}


@pytest.mark.parametrize("by_link", [True, False])
def test_a_trace_is_kept_on_a_page_without_it_in_its_address_until_a_newer_run(
    library: Library, by_link: bool
) -> None:
    opened = ran(page(trace="shipped-eagle3-math") if by_link else page())
    if not by_link:
        opened.selectbox(key="probe_trace").set_value("shipped-eagle3-math").run()
    opened.query_params.clear()  # what the navigation bar does
    assert shown(ran(opened)).startswith("shipped-eagle3-math ")
    opened.query_params.clear()
    live(opened, make_trace(cycles=2))
    assert shown(ran(opened)).startswith("live ")


def test_a_pick_that_was_deleted_is_forgotten(library: Library) -> None:
    own = library.save(make_trace(cycles=2), "mine")
    opened = ran(page())
    opened.selectbox(key="probe_trace").set_value(own.id).run()
    library.delete(own.id)
    opened.query_params.clear()
    assert shown(ran(opened)).startswith("shipped-eagle3-code ")


def test_a_run_that_goes_on_is_shown_as_far_as_it_has_come(library: Library) -> None:
    opened = page()
    trace = make_trace(cycles=3, finish=None)
    later = trace.cycles.pop()
    live(opened, trace, Phase.RUNNING)
    assert " 2 None None" in shown(ran(opened))
    trace.cycles.append(later)
    assert " 3 None None" in shown(ran(opened))


def test_an_empty_library_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "shared", lambda: Library(tmp_path))
    assert texts(ran(page())) == [EMPTY]


def test_a_trace_that_is_damaged_on_disk_says_so(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as unchecked:
        unchecked.setattr(trace_file.trace_check, "check", lambda _: None)
        broken = with_nodes(make_trace(cycles=2), p_raw=put(1, math.nan))
        own = library.save(broken, "mine")
        assert own in library.entries()
    opened = ran(page(trace=own.id))
    (sentence,) = texts(opened)
    assert sentence.startswith("The trace cannot be opened: ") and "p_raw is NaN" in sentence


def test_traces_called_the_same_can_both_be_picked(library: Library) -> None:
    first, second = (library.save(make_trace(cycles=n), "same") for n in (1, 2))
    opened = ran(page())
    for entry, cycles in ((first, 1), (second, 2)):
        opened.selectbox(key="probe_trace").set_value(entry.id).run()
        assert shown(opened) == f"{entry.id} 'same ({entry.id})' {cycles} None None"


KEEPER = """
import streamlit as st
from eagle3_viz.ui import trace_choice
found = trace_choice.chosen_trace("keeper")
if found is not None:
    trace_id, name, trace = found
    if st.button("look", key="look"):
        trace_choice.keep_place(trace_id, trace_choice.Place(1, 2))
    view = trace_choice.place_in(trace_id, trace)
    st.text(f"shown {trace_id} {view.cycle} {view.node}")
"""


def test_what_is_looked_at_is_in_the_address_and_is_found_again(library: Library) -> None:
    opened = ran(AppTest.from_string(KEEPER, default_timeout=30))
    opened.button(key="look").click().run()
    assert opened.query_params == address("shipped-eagle3-code", 1, 2)
    assert shown(opened) == "shipped-eagle3-code 1 2"
    opened.query_params.clear()  # to another page and back
    assert shown(ran(opened)) == "shipped-eagle3-code 1 2"
    assert opened.query_params == address("shipped-eagle3-code", 1, 2)
    opened.query_params.clear()
    opened.selectbox(key="keeper_trace").set_value("shipped-eagle3-math").run()
    assert shown(opened) == "shipped-eagle3-math None None"


APP = """
import streamlit as st
st.navigation([st.Page("start.py", default=True), st.Page("pages/trace.py")]).run()
"""
START = """
import streamlit as st
from eagle3_viz.ui import trace_choice
if st.button("go", key="go"):
    trace_choice.open_in_trace_page("shipped-eagle3-math", 2, 1)
"""


def test_a_link_from_another_page_opens_the_trace_page_at_a_cycle_and_node(
    library: Library, tmp_path: Path
) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "start.py").write_text(START)
    (tmp_path / "pages" / "trace.py").write_text(KEEPER)
    opened = ran(AppTest.from_file(str(tmp_path / "app.py"), default_timeout=30))
    opened.button(key="go").click().run()
    assert not opened.exception
    assert shown(opened) == "shipped-eagle3-math 2 1"
    assert opened.query_params == address("shipped-eagle3-math", 2, 1)
