"""The Live page in a real Chromium: the embedded pair, and tokens that try to be markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from eagle3_viz import trace_file
from tests.browser.conftest import Tab

pytestmark = pytest.mark.browser

LONG = 120_000  # ms; the first run loads the pair
STOP_BOUND = 3_000  # ms; typical is far below, the machine may be busy
HOSTILE = ("<script>alert(1)</script>", '"><img', "**bold**", "$x$", "`code`", "[link](")

WATCH_STATUS = """(status, wanted) => {
    const button = document.querySelector('.st-key-live_stop button');
    window.shown = new Promise((resolve) => {
        button.addEventListener('click', () => {
            const start = performance.now();
            const look = () => {
                if (status.textContent.includes(wanted)) resolve(performance.now() - start);
                else requestAnimationFrame(look);
            };
            look();
        }, { once: true });
    });
}"""


def tokens_shown(tab: Tab) -> int:
    figure = tab.key("live_view").locator("dd").first.text_content() or "0"
    return int(figure) if figure.isdigit() else 0


def status(tab: Tab) -> Locator:
    """The line that says where the run is."""
    return tab.key("live_view").get_by_role("status")


def wait_for_run(tab: Tab, sentence: str) -> None:
    expect(status(tab)).to_contain_text(sentence, timeout=LONG)
    tab.key("live_download").wait_for(timeout=LONG)


def pick_node(tab: Tab, node: int) -> None:
    tab.key("live_view").locator(f"svg.tree [data-node='{node}']").click()


@pytest.mark.slow
def test_a_preset_runs_on_the_embedded_pair_and_its_tree_can_be_explored(
    app_url: str, open_tab: Callable[..., Tab]
) -> None:
    tab = open_tab(f"{app_url}/?live_max_tokens=512")
    tab.button("live_run").click()
    tab.key("live_view").locator("svg.tree [data-node='1']").wait_for(timeout=LONG)
    early = tokens_shown(tab)
    expect(status(tab)).to_contain_text("Running", timeout=LONG)
    growing = tab.key("live_view").locator("dd").first
    expect(growing).not_to_have_text(str(early))
    tab.picture("live_running_light")
    tab.button("live_pause").click()
    wait_for_run(tab, "Paused")
    assert tokens_shown(tab) > early
    tab.picture("live_paused_light")
    pick_node(tab, 1)
    expect(tab.key("live_node").locator("input")).to_have_value(re.compile(r"^1 "))
    tab.button("live_pause").click()
    wait_for_run(tab, "Finished")


@pytest.mark.slow
def test_stop_in_the_middle_of_a_run_is_shown_soon(
    app_url: str, open_tab: Callable[..., Tab]
) -> None:
    tab = open_tab(f"{app_url}/?live_max_tokens=512&live_domain=creative")
    tab.button("live_run").click()
    tab.key("live_view").locator("svg.tree [data-node='1']").wait_for(timeout=LONG)
    status(tab).evaluate(WATCH_STATUS, "Stopped")
    tab.button("live_stop").click()
    elapsed = tab.page.evaluate("window.shown")
    print(f"stop shown after {elapsed:.0f} ms")
    assert elapsed < STOP_BOUND
    expect(tab.button("live_run")).to_be_enabled()


def test_hostile_tokens_are_text_everywhere(hostile_url: str, open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(f"{hostile_url}/?live_temperature=0.7&live_total=33")
    tab.button("live_run").click()
    wait_for_run(tab, "Finished")
    view, page = tab.key("live_view"), tab.page
    for origin in ("accepted", "recovered", "bonus", "plain"):
        expect(view.locator(".legend")).to_contain_text(origin)
    strip = view.get_by_role("group", name="Generated tokens").text_content() or ""
    assert sum(text in strip for text in HOSTILE) >= 3
    cycle = tab.key("live_cycle").locator("input")
    seen = ""
    for number in range(1, 13):
        cycle.fill(str(number))
        cycle.press("Enter")
        expect(view.get_by_role("slider", name="Cycle")).to_have_attribute(
            "aria-valuenow", str(number)
        )
        expect(tab.key("live_nodes")).to_contain_text(f"Nodes of cycle {number}")
        seen += tab.key("live_distributions").text_content() or ""
    assert "$x$" in seen and "&amp;" in seen and "**bold**" in seen
    tab.key("live_node").scroll_into_view_if_needed()
    tab.key("live_node").get_by_role("button", name="Open").click()
    options = page.get_by_role("option")
    options.first.wait_for()
    listed = " ".join(options.all_text_contents())
    assert any(text in listed for text in HOSTILE)
    page.keyboard.press("Escape")
    tab.key("live_nodes").locator("summary").click()
    table = tab.key("live_nodes").get_by_test_id("stDataFrame")
    table.locator("canvas").first.wait_for()
    expect(table).to_contain_text(re.compile("|".join(map(re.escape, HOSTILE))))
    tab.picture("hostile_light")
    for selector in ("img[src='x']", "a[href*='example.org']", "mjx-container", ".katex", "strong"):
        assert page.locator(f".stMain {selector}").count() == 0
    assert page.locator("script", has_text="alert(1)").count() == 0


def test_clicks_scrubber_and_widgets_agree(hostile_url: str, open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(hostile_url)
    tab.button("live_run").click()
    wait_for_run(tab, "Finished")
    slider = tab.key("live_view").get_by_role("slider", name="Cycle")
    cycle = tab.key("live_cycle").locator("input")
    slider.focus()
    tab.page.keyboard.press("Home")
    expect(cycle).to_have_value("1")
    pick_node(tab, 1)
    expect(tab.key("live_node").locator("input")).to_have_value(re.compile(r"^1 "))
    cycle.fill("7")
    cycle.press("Enter")
    expect(slider).to_have_attribute("aria-valuenow", "7")
    slider.focus()
    tab.page.keyboard.press("ArrowRight")
    expect(cycle).to_have_value("8")


def test_the_download_is_the_trace_on_the_screen(
    hostile_url: str, open_tab: Callable[..., Tab], tmp_path: Path
) -> None:
    tab = open_tab(hostile_url)
    for _ in range(2):
        tab.button("live_step").click()
        tab.key("live_download").wait_for()
    expect(status(tab)).to_contain_text("Paused after 2 cycles")
    with tab.page.expect_download() as download:
        tab.button("live_download").click()
    download.value.save_as(tmp_path / "trace.parquet")
    trace = trace_file.load(tmp_path / "trace.parquet")
    assert len(trace.cycles) == 2
    assert trace.header.prompt == tab.key("live_prompt").locator("textarea").input_value()
    tab.button("live_stop").click()
    expect(status(tab)).to_contain_text("Stopped")


def test_step_pause_and_resume_drive_one_run(
    hostile_url: str, open_tab: Callable[..., Tab]
) -> None:
    tab = open_tab(hostile_url)
    tab.key("live_prompt").locator("textarea").fill("slow")  # long enough to be paused by hand
    for number in (1, 2):
        tab.button("live_step").click()
        expect(status(tab)).to_contain_text(f"Paused after {number} cycle")
        expect(tab.key("live_cycle").locator("input")).to_have_value(str(number))
    tab.button("live_pause").click()
    expect(status(tab)).to_contain_text("Running")
    tab.button("live_pause").click()
    wait_for_run(tab, "Paused")
    tab.button("live_stop").click()
    expect(status(tab)).to_contain_text("Stopped")
    expect(tab.button("live_run")).to_be_enabled()


def test_a_second_tab_waits_its_turn_and_a_closed_tab_gives_its_place_up(
    hostile_url: str, open_tab: Callable[..., Tab]
) -> None:
    first, second = open_tab(hostile_url), open_tab(hostile_url)
    first.button("live_step").click()
    expect(status(first)).to_contain_text("Paused")
    second.button("live_run").click()
    expect(status(second)).to_contain_text("Queued, position 1: a paused run holds the engine.")
    first.page.close()
    expect(status(second)).to_contain_text("Running", timeout=30_000)
    wait_for_run(second, "Finished")


def test_on_a_phone_every_domain_is_in_sight_and_nothing_is_wider_than_the_window(
    hostile_url: str, open_tab: Callable[..., Tab]
) -> None:
    tab = open_tab(f"{hostile_url}/?live_fastest=false&live_depth=7&live_total=60")
    tab.page.set_viewport_size({"width": 390, "height": 800})
    tab.button("live_run").click()
    wait_for_run(tab, "Finished")
    chips = tab.key("live_domain").get_by_role("radio").all()
    assert len(chips) > 4
    for chip in chips:
        box = chip.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert tab.page.evaluate("document.querySelector('.stMain').scrollWidth") <= 390
    tab.picture("live_phone_light")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_address_carries_the_controls_and_both_themes_draw(
    hostile_url: str, open_tab: Callable[..., Tab], theme: str
) -> None:
    address = f"{hostile_url}/?live_temperature=0.8&live_rule=sample&live_domain=code"
    tab = open_tab(address, theme=theme)
    expect(tab.key("live_rule").locator("input")).to_have_value("sample")
    tab.button("live_run").click()
    wait_for_run(tab, "Finished")
    assert "live_rule=sample" in tab.page.url
    background = tab.page.evaluate(
        "getComputedStyle(document.querySelector('.stApp')).backgroundColor"
    )
    assert (background == "rgb(255, 255, 255)") == (theme == "light")
    tab.picture(f"live_sample_{theme}")
    tab.page.locator(".stMain").evaluate("(main) => main.scrollTo(0, main.scrollHeight)")
    tab.key("live_timings").locator(".main-svg").first.wait_for()
    tab.picture(f"live_charts_{theme}")
