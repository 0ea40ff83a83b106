"""The Library page in a real Chromium: a file is uploaded, found and opened; names are text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from eagle3_viz import trace_file
from tests.browser.conftest import ROOT, Tab, serving
from tests.synthetic import make_trace

pytestmark = pytest.mark.browser

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> **bold** $x$"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("library")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("EAGLE3_VIZ_LIBRARY", str(folder / "own"))
        with serving(ROOT / "app.py", folder / "server.log") as served:
            yield served


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("upload") / "run.parquet"
    trace_file.save(make_trace(cycles=5, rule="topk"), path)
    return path


def open_library(tab: Tab) -> None:
    tab.page.get_by_role("link", name="Library").click()
    tab.key("library_upload").wait_for()


def test_an_uploaded_trace_is_found_and_opens_on_the_trace_page(
    url: str, open_tab: Callable[..., Tab], file: Path
) -> None:
    tab = open_tab(url)
    open_library(tab)
    second = {"x": 16, "y": 35 + 35 + 17}  # the mark of the second row, all rows 35 px high
    tab.key("library_table").locator(".dvn-scroller").click(position=second)  # type: ignore[arg-type]
    expect(tab.key("library_entry").locator("input")).to_have_value("EAGLE-3, code")
    tab.picture("library_light")
    tab.key("library_upload").locator("input[type=file]").set_input_files(file)
    tab.key("library_new_name_0").locator("input").fill(HOSTILE)
    tab.button("library_add").click()
    expect(tab.key("library_added")).to_contain_text(f"Added: {HOSTILE}")
    expect(tab.key("library_entry").locator("input")).to_have_value(HOSTILE)
    expect(tab.key("library_facts")).to_contain_text("in 5 cycles")
    tab.picture("library_added_light")
    for selector in ("img[src='x']", ".katex", "strong"):
        assert tab.page.locator(f".stMain {selector}").count() == 0
    assert tab.page.locator("script", has_text="alert(1)").count() == 0
    tab.button("library_open").click()
    expect(tab.page).to_have_url(re.compile(r"/trace\?trace=script-alert-1-[a-z0-9-]+"))
    expect(tab.key("trace_trace").locator("input")).to_have_value(HOSTILE)


def test_a_file_that_is_no_trace_is_refused_on_a_window_as_wide_as_a_phone(
    url: str, open_tab: Callable[..., Tab], tmp_path: Path
) -> None:
    other = tmp_path / "picture.parquet"
    other.write_bytes(b"\x89PNG renamed")
    tab = open_tab(url, theme="dark")
    open_library(tab)  # the links are in a menu where the window is narrow
    tab.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    tab.key("library_upload").locator("input[type=file]").set_input_files(other)
    tab.button("library_add").click()
    expect(tab.key("library_refused")).to_contain_text("Not added: expected a Parquet file")
    width = tab.page.evaluate("document.querySelector('.stMain').scrollWidth")
    assert width <= PHONE["width"]
    tab.picture("library_phone_dark")
