"""The Acceptance page in a real Chromium, with names and tokens that try to be markup."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from eagle3_viz.analysis.worst import worst_cycles
from eagle3_viz.library.store import Library
from eagle3_viz.trace import Trace
from tests.browser.conftest import ROOT, Tab, serving
from tests.synthetic import make_trace

pytestmark = pytest.mark.browser

NAME = "<img src=x onerror=alert(1)> **bold** $x$"
CHARTS = 8
ROW = 35  # px of a row of a data frame
FIRST_VISIT = 60_000  # ms; the server imports everything


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(cycles=40, rule="topk")


@pytest.fixture(scope="module")
def address(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of a trace in a library of its own."""
    folder: Path = tmp_path_factory.mktemp("library")
    entry = Library(folder).save(trace, NAME, ("<b>tag</b>",), "<i>code</i>")
    Library(folder).save(make_trace(cycles=20, rule="topk", method="eagle1"), NAME, (), "code")
    before = os.environ.get("EAGLE3_VIZ_LIBRARY")
    os.environ["EAGLE3_VIZ_LIBRARY"] = str(folder)
    with serving(ROOT / "app.py", tmp_path_factory.mktemp("log") / "server.log") as url:
        yield f"{url}/acceptance?trace={entry.id}"
    if before is None:
        del os.environ["EAGLE3_VIZ_LIBRARY"]
    else:
        os.environ["EAGLE3_VIZ_LIBRARY"] = before


WIDE, PHONE = ("light", 1280, 800), ("dark", 390, 844)


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A tab that may write no error to its console and open no dialog."""
    theme, width, height = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    made, errors = context.new_page(), []
    made.on("console", lambda m: errors.append(m.text) if _is_trouble(m) else None)
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.on("dialog", lambda dialog: errors.append(dialog.message))
    yield made
    context.close()
    assert errors == []


def fits(page: Page) -> None:
    """Nothing makes the page wider than the window."""
    assert page.viewport_size is not None
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]


def _is_trouble(message: ConsoleMessage) -> bool:
    """Opened by its own address, a page asks for Streamlit's own files below it first."""
    return message.type == "error" and "/_stcore/" not in message.location["url"]


def test_a_worst_cycle_opens_on_the_trace_page(address: str, page: Page, trace: Trace) -> None:
    page.goto(address)
    tab = Tab(page)
    expect(page.locator(".js-plotly-plot")).to_have_count(CHARTS, timeout=FIRST_VISIT)
    expect(tab.key("acceptance_headline")).to_contain_text("n 39 uncut cycles")
    assert page.locator("img[src=x]").count() == 0
    fits(page)
    tab.picture(f"acceptance_{page.viewport_size['width']}")  # type: ignore[index]
    second = worst_cycles(trace)[1].index
    tab.button(f"acceptance_worst_{second}").click()
    page.wait_for_url("**/trace?**")
    assert f"cycle={second + 1}" in page.url.split("?")[1].split("&")


@pytest.mark.parametrize("page", [PHONE], indirect=True, ids=["phone"])
def test_from_a_cell_of_the_matrix_to_its_prompts(address: str, page: Page) -> None:
    """What opens are traces that ship; the one with the hostile name is added."""
    page.goto(f"{address}&acceptance_of=Several+traces")
    tab = Tab(page)
    expect(tab.key("acceptance_b")).to_be_visible(timeout=FIRST_VISIT)
    matrix = tab.key("acceptance_matrix").locator(".dvn-scroller")
    matrix.scroll_into_view_if_needed()
    matrix.click(position={"x": 40, "y": 2.5 * ROW})  # the second row
    expect(tab.key("acceptance_setting").locator("input")).to_have_value("eagle1")
    tab.key("acceptance_traces").locator("input").fill("**bold**")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(tab.key("acceptance_traces")).to_contain_text(NAME)
    assert page.locator("img[src=x]").count() == 0
    fits(page)
    tab.picture(f"acceptance_several_{page.viewport_size['width']}")  # type: ignore[index]
