"""The Lossless page in a real Chromium, in both themes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import ROOT, Tab, serving

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_dragging_p_changes_what_the_wrong_rules_commit_and_never_what_the_right_ones_do(
    app_url: str, open_tab: Callable[..., Tab], theme: str
) -> None:
    tab = open_tab(app_url, theme=theme)
    tab.page.get_by_role("link", name="Lossless").click()
    words = tab.key("lossless_words")
    expect(words).to_contain_text("ratio does not commit p: max |output - p| is 0.250")
    expect(words).to_contain_text("sample commits p")
    tab.key("lossless_outputs").locator(".js-plotly-plot").wait_for()
    tab.picture(f"lossless_{theme}")
    tab.key("lossless_p_1").locator("input[type=range]").press("ArrowLeft")
    expect(words).to_contain_text("ratio does not commit p: max |output - p| is 0.242")
    expect(words).to_contain_text("sample commits p")
    expect(words).to_contain_text("topk commits p")
    tab.key("lossless_preset").locator("button", has_text="p = q").click()
    newest = tab.key("lossless_proposal").first  # the chart before it fades behind it
    expect(newest).to_contain_text("Some child is always accepted")


def test_its_own_address_opens_it_in_the_app_on_a_server_that_nobody_visited(
    browser: Browser, tmp_path: Path
) -> None:
    with serving(ROOT / "app.py", tmp_path / "server.log") as url:
        page = browser.new_page()
        page.goto(f"{url}/lossless")
        Tab(page).key("lossless_words").wait_for()
        assert page.title() == "EAGLE-3 microscope"
        expect(page.get_by_role("link", name="Live")).to_be_visible()
        assert page.url == f"{url}/lossless"
        page.close()
