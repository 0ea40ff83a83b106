"""The tree control of the Live page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from eagle3_viz import service
from eagle3_viz.backend import Request
from eagle3_viz.config import TreeShape
from eagle3_viz.service import Engine
from eagle3_viz.tree_choice.choice import Misfit, TreeChoice, choose, words
from tests.fake_backend import SyntheticBackend
from tests.tree_choice.made_up import COST, KNOWN

PAGE = Path(__file__).resolve().parent.parent / "pages" / "live.py"
CHOICE = choose("eagle3", COST, KNOWN)
Open = Callable[..., AppTest]


@pytest.fixture
def backend() -> SyntheticBackend:
    return SyntheticBackend(cycles=3, chosen=(CHOICE,))


@pytest.fixture
def opened(backend: SyntheticBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    engine = Engine(backend)
    monkeypatch.setattr(service, "shared_engine", lambda: engine)

    def open_page(**address: str) -> AppTest:
        page = AppTest.from_file(str(PAGE), default_timeout=30)
        for name, value in address.items():
            page.query_params[name] = value
        return shown(page.run())

    yield open_page
    engine.close()


def shown(page: AppTest) -> AppTest:
    assert not page.exception
    return page


def ran(page: AppTest) -> Request:
    """Press Run, wait for the end; what was asked for."""
    shown(page.button(key="live_run").click().run())
    job = page.session_state["live_state"].job
    deadline = time.monotonic() + 30
    while not job.status.ended:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    shown(page.run())
    request = job.request
    assert isinstance(request, Request)
    return request


def sizes(page: AppTest) -> list[tuple[int, bool]]:
    """Depth, top-k and total as the sliders show them, and whether they cannot be moved."""
    shown = {slider.label: (slider.value, slider.disabled) for slider in page.slider}
    return [shown[label] for label in ("Depth", "Top-k", "Total")]


def captions(page: AppTest) -> list[str]:
    return [caption.value for caption in page.caption]


def test_the_fastest_tree_is_asked_for_unless_something_else_is_chosen(opened: Open) -> None:
    page = opened()
    assert page.toggle(key="live_fastest").value is True
    assert page.toggle(key="live_fastest").proto.default is True, "what a browser opens later"
    assert page.slider(key="live_total").disabled
    assert ran(page).fastest_tree is True


def test_an_address_that_names_a_size_asks_for_that_size(opened: Open) -> None:
    page = opened(live_total="7")
    assert page.toggle(key="live_fastest").value is False
    assert not page.slider(key="live_total").disabled
    request = ran(page)
    assert request.fastest_tree is False and request.config.shape == TreeShape(7, 2, 4)


def test_a_size_of_one_s_own_is_run_once_the_toggle_is_off(opened: Open) -> None:
    page = opened()
    shown(page.toggle(key="live_fastest").set_value(False).run())
    shown(page.slider(key="live_depth").set_value(1).run())
    request = ran(page)
    assert request.fastest_tree is False and request.config.shape == TreeShape(8, 1, 4)


def test_the_toggle_stays_off_when_a_size_goes_back_to_its_default(opened: Open) -> None:
    page = opened(live_total="7")
    shown(page.slider(key="live_total").set_value(8).run())
    shown(page.run())
    assert page.toggle(key="live_fastest").value is False


@pytest.mark.parametrize("method", ["lookup", "independent"])
def test_a_method_whose_tree_is_not_chosen_keeps_its_sliders(opened: Open, method: str) -> None:
    page = opened()
    shown(page.selectbox(key="live_method").set_value(method).run())
    assert page.toggle(key="live_fastest").disabled
    assert not page.slider(key="live_depth").disabled
    assert ran(page).fastest_tree is False


def test_the_choice_is_told_once_the_pair_is_loaded(opened: Open) -> None:
    page = opened()
    assert "Chosen when the pair is loaded, with the first run." in captions(page)
    ran(page)
    assert f"Chosen: {words(CHOICE)}." in captions(page)


def test_the_sliders_show_the_chosen_size_and_then_again_the_visitor_s_own(opened: Open) -> None:
    page = opened()
    ran(page)
    assert sizes(page) == [(size, True) for size in (1, 3, 4)], "those of the choice"
    ran(page)
    shown(page.toggle(key="live_fastest").set_value(False).run())
    assert sizes(page) == [(size, False) for size in (2, 4, 8)]
    shown(page.slider(key="live_total").set_value(7).run())
    shown(page.toggle(key="live_fastest").set_value(True).run())
    shown(page.run())
    shown(page.toggle(key="live_fastest").set_value(False).run())
    assert page.slider(key="live_total").value == 7
    assert ran(page).config.shape == TreeShape(7, 2, 4)


def test_a_tab_that_finds_the_pair_loaded_shows_the_choice_and_keeps_the_default_sizes(
    opened: Open,
) -> None:
    ran(opened())
    page = opened()
    assert sizes(page) == [(size, True) for size in (1, 3, 4)]
    assert ran(page).fastest_tree is True
    shown(page.toggle(key="live_fastest").set_value(False).run())
    assert sizes(page) == [(size, False) for size in (2, 4, 8)]


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (choose("eagle3", replace(COST, rounds=1), KNOWN), "1 time only"),
        (choose("eagle3", replace(COST, spread=0.5), KNOWN), "50%"),
        (replace(CHOICE, misfit=Misfit(27.0, 70.8)), "27.0 ms"),
    ],
)
def test_a_caveat_stands_beside_the_choice(
    choice: TreeChoice, reason: str, opened: Open, backend: SyntheticBackend
) -> None:
    backend.chosen = (choice,)
    page = opened()
    assert not page.warning
    ran(page)
    (told,) = page.warning
    assert told.value == choice.caveat and reason in told.value
    backend.chosen = (CHOICE,)
    shown(page.run())
    assert not page.warning


def test_a_draft_without_a_table_is_told_to_keep_the_default(
    opened: Open, backend: SyntheticBackend
) -> None:
    backend.chosen = ()
    page = opened()
    ran(page)
    (told,) = [text for text in captions(page) if text.startswith("Chosen: the default one")]
    assert "is not known" in told and "Verifies 8 nodes" in told
