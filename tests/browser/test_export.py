"""The one-file page opened from a folder: it scrubs, it explains, it reaches for nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from eagle3_viz.component import node_sentence
from eagle3_viz.config import TreeShape
from eagle3_viz.export import html_file
from eagle3_viz.trace import Trace
from tests.browser.conftest import Tab
from tests.synthetic import make_trace

pytestmark = pytest.mark.browser

NAME = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE = ("<script>alert(1)</script>", '"><img', "**bold**", "[link](")


@dataclass
class Opened:
    """The page of a file, and everything it tried that it must not."""

    page: Page
    trouble: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def slider(self) -> Locator:
        return self.page.get_by_role("slider", name="Cycle")

    def tab(self, name: str) -> Locator:
        return self.page.get_by_role("tab", name=name)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(cycles=40, rule="topk", seed=3, shape=TreeShape(26, 4, 6))


@pytest.fixture(scope="module")
def file(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "run.html"
    path.write_text(html_file(trace, name=NAME), encoding="utf-8")
    return path


@pytest.fixture
def open_file(browser: Browser, file: Path) -> Iterator[Callable[..., Opened]]:
    """Opens the file in a window of its own, without a network."""
    opened = []

    def use(anchor: str = "", *, theme: str = "light", width: int = 1280) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=theme,  # type: ignore[arg-type]
            offline=True,
        )
        one = Opened(context.new_page())
        opened.append(one)
        page = one.page
        page.on("console", lambda m: one.trouble.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: one.trouble.append(str(error)))
        page.on("dialog", lambda dialog: one.trouble.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: one.requests.append(request.url))
        page.goto(file.as_uri() + anchor)
        expect(one.slider).to_have_attribute("aria-valuemax", "40")
        return one

    yield use
    for one in opened:
        one.page.context.close()
        assert one.trouble == []
        assert {url.partition("#")[0] for url in one.requests} == {file.as_uri()}


def test_it_scrubs_and_the_chosen_node_is_explained(
    trace: Trace, open_file: Callable[..., Opened]
) -> None:
    opened = open_file()
    page = opened.page
    opened.slider.press("Home")
    opened.slider.press("ArrowRight")
    expect(opened.slider).to_have_attribute("aria-valuenow", "2")
    page.locator("svg.tree [data-node='1']").click()
    expect(page.locator(".inspector")).to_contain_text(node_sentence(trace, 1, 1))
    expect(page).to_have_url(re.compile(r"#cycle=2&node=1$"))
    box = opened.slider.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 4, box["y"] + 20)
    expect(opened.slider).to_have_attribute("aria-valuenow", "1")
    expect(page).to_have_url(re.compile(r"#cycle=1$"))


def test_its_address_restores_a_cycle_and_a_node(
    trace: Trace, open_file: Callable[..., Opened]
) -> None:
    opened = open_file("#cycle=7&node=2")
    expect(opened.slider).to_have_attribute("aria-valuenow", "7")
    expect(opened.page.locator(".inspector")).to_contain_text(node_sentence(trace, 6, 2))
    opened.page.evaluate("location.hash = '#cycle=9'")
    expect(opened.slider).to_have_attribute("aria-valuenow", "9")
    opened.page.evaluate("location.hash = '#cycle=999&node=x'")
    expect(opened.slider).to_have_attribute("aria-valuenow", "40")


def test_hostile_tokens_and_a_hostile_name_are_text(open_file: Callable[..., Opened]) -> None:
    opened = open_file()
    page = opened.page
    expect(page).to_have_title(NAME)
    expect(page.locator("h1")).to_have_text(NAME)
    strip = page.get_by_role("group", name="Generated tokens").text_content() or ""
    assert sum(text in strip for text in HOSTILE) >= 3
    for name in ("Icicle", "Table", "Mask", "Tree"):
        opened.tab(name).click()
        opened.slider.press("ArrowRight")
    assert page.locator("main :is(img, a, strong, script, iframe)").count() == 0
    assert page.locator("script").count() == 2


def test_a_row_of_the_table_chooses_its_node_by_keyboard_and_heads_sort(
    trace: Trace, open_file: Callable[..., Opened]
) -> None:
    opened = open_file("#cycle=3")
    page = opened.page
    opened.tab("Table").click()
    grid = page.get_by_role("grid", name="Nodes of cycle 3")
    grid.get_by_role("button", name="q draft").click()
    head = grid.get_by_role("columnheader", name="q draft")
    expect(head).to_have_attribute("aria-sort", "descending")
    nodes = trace.cycles[2].nodes
    assert nodes is not None
    best = int(nodes.draft_logprob[1:].argmax()) + 1
    row = grid.locator(f"tr[data-node='{best}']")
    row.focus()
    row.press("Enter")
    expect(row).to_have_attribute("aria-selected", "true")
    expect(page.locator(".inspector")).to_contain_text(node_sentence(trace, 2, best))


def test_the_mask_says_which_node_sees_which(
    trace: Trace, open_file: Callable[..., Opened]
) -> None:
    opened = open_file("#cycle=3&node=0")
    page = opened.page
    opened.tab("Mask").click()
    mask = page.get_by_role("application", name="Attention mask of cycle 3")
    mask.focus()
    words = page.locator(".mask-area .tab-words")
    mask.press("ArrowDown")
    mask.press("ArrowLeft")
    position = trace.cycles[2].prefix_length + 1
    expect(words).to_contain_text(re.compile(rf"^Node 1 .+, position {position}, sees the root"))
    mask.press("Enter")
    expect(page.locator(".inspector")).to_contain_text(node_sentence(trace, 2, 1))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_follows_the_system_theme_and_can_be_switched(
    open_file: Callable[..., Opened], theme: str
) -> None:
    opened = open_file("#cycle=5&node=3", theme=theme)
    page, pictures = opened.page, Tab(opened.page)

    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    shown = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 18, 22)"}
    assert background() == shown[theme]
    expect(page.locator(".live")).to_have_attribute("data-theme", theme)
    for name in ("Tree", "Icicle", "Table", "Mask"):
        opened.tab(name).click()
        expect(opened.tab(name)).to_have_attribute("aria-selected", "true")
        pictures.picture(f"export_{name.lower()}_{theme}")
    other = "dark" if theme == "light" else "light"
    page.get_by_role("button", name=f"{other} theme").click()
    assert background() == shown[other]
    expect(opened.slider).to_have_attribute("aria-valuenow", "5")


def test_a_phone_wide_window_shows_every_view_without_scrolling_the_page_sideways(
    open_file: Callable[..., Opened],
) -> None:
    opened = open_file("#cycle=5&node=3", width=390)
    for name in ("Tree", "Icicle", "Table", "Mask"):
        opened.tab(name).click()
        wide = opened.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, name
        Tab(opened.page).picture(f"export_{name.lower()}_phone")
