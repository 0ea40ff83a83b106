"""The Lossless page in a real Chromium, in both themes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tab

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
